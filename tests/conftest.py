"""Settings that every test runs under."""

import signal

from hypothesis import settings

# A deadline in milliseconds measures the machine's load, not the code. The same examples
# everywhere: a failure on another machine can be seen on this one.
settings.register_profile("trainshed", deadline=None, derandomize=True)
settings.load_profile("trainshed")

# Rooms share the API server and the S3 server, so their fixtures are not those of one folder; gates
# are of all.
pytest_plugins = [
    "pytester",
    "tests.control_plane.plugin",
    "tests.gates",
    "tests.ray_starts",
    "tests.app.ray_head",  # imports the count of starts
    "tests.s3",
    "tests.azure",
    "tests.web",
    "tests.faulty_s3",  # imports the S3 server
]

# A shell that starts the tests in the background has them ignore Ctrl-C, and programs that tests
# start would inherit that (POSIX sh, asynchronous lists): tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
