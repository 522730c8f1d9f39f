"""`trainshed` in this process, for commands to which a process of their own would add nothing."""

import contextlib
import io
import os
import sys
from collections.abc import Mapping
from unittest import mock

from tests.app.ray_run import Output, read_output
from trainshed.cli.main import main
from trainshed_api.names import EXIT_SUCCEEDED


def trainshed_here(*words: str, environment: Mapping[str, str] | None = None) -> Output:
    """Return what `trainshed WORDS` says, and its exit code."""
    code, stdout, stderr = EXIT_SUCCEEDED, io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment or {}),
        mock.patch.object(sys, "argv", ["trainshed", *words]),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as ending:
            code = int(ending.code or 0)
    return read_output(code, stdout.getvalue(), stderr.getvalue())
