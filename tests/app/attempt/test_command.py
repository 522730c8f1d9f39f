"""The command of an entrypoint: what is executed, and how it lives and ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainshed.attempt.command import Command
from trainshed.attempt.signals import Stop
from trainshed.planning.executable import find_command
from trainshed_api.errors import SpecError

PYTHON = sys.executable


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders, that of the user with mine.py and that of the file with other.py; the latter."""
    user, beside = tmp_path / "user", tmp_path / "beside"
    for folder, name in ((user, "mine.py"), (beside, "other.py"), (beside, "run.sh")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (beside / "run.sh").chmod(0o755)
    monkeypatch.chdir(user)
    return beside


FOUND: dict[str, tuple[list[str], list[str]]] = {
    "a script from where the user is": (["python", "mine.py", "--x"], [PYTHON, "mine.py", "--x"]),
    "a script beside the file": (["python3", "other.py"], [PYTHON, "BESIDE/other.py"]),
    "python's own options come first": (
        ["python", "-u", "-W", "error", "other.py"],
        [PYTHON, "-u", "-W", "error", "BESIDE/other.py"],
    ),
    "a module is python's to find": (["python", "-m", "other.py"], [PYTHON, "-m", "other.py"]),
    "a line of code is no file": (["python", "-c", "pass", "x"], [PYTHON, "-c", "pass", "x"]),
    "python alone": (["python"], [PYTHON]),
    "a script of a shell": (["sh", "other.py"], ["WHICH:sh", "BESIDE/other.py"]),
    "a program beside the file": (["./run.sh", "other.py"], ["BESIDE/./run.sh", "other.py"]),
    "another program's words are its own": (["ls", "other.py"], ["WHICH:ls", "other.py"]),
}


@pytest.mark.parametrize(("words", "want"), FOUND.values(), ids=FOUND.keys())
def test_command_is_found(here: Path, words: list[str], want: list[str]) -> None:
    found = list(find_command(words, here))
    assert Path(found[0]).is_absolute()
    want = [word.replace("BESIDE", str(here)) for word in want]
    if want[0].startswith("WHICH:"):
        assert Path(found[0]).name == want[0].removeprefix("WHICH:")
    else:
        assert Path(found[0]) == Path(want[0])
    assert found[1:] == want[1:]


@dataclass(frozen=True)
class Missing:
    """Words that cannot be executed, and what the error says."""

    words: list[str]
    want: list[str]


MISSING = {
    "a script that is nowhere": Missing(
        ["python", "-u", "gone.py"], ['spec.entrypoint[2]: got "gone.py"', "beside", "user"]
    ),
    "a program that is not on PATH": Missing(
        ["no-such-program"], ['spec.entrypoint[0]: got "no-such-program"', "a program on PATH"]
    ),
    "a path that is no program": Missing(["./other.py"], ['spec.entrypoint[0]: got "./other.py"']),
}


@pytest.mark.parametrize("case", MISSING.values(), ids=MISSING.keys())
def test_what_is_not_there_is_named(here: Path, case: Missing) -> None:
    with pytest.raises(SpecError) as caught:
        find_command(case.words, here)
    for word in case.want:
        assert word in str(caught.value)


@contextmanager
def running(code: str, stop: Stop) -> Iterator[Command]:
    """Run a line of Python; it is there once it has said `ready`."""
    command = Command([PYTHON, "-uc", code], dict(os.environ), stop)
    try:
        deadline = time.monotonic() + 60
        while not command.last_words and time.monotonic() < deadline:
            time.sleep(0.02)
        yield command
    finally:
        command.close()


SIGNALS = {
    "Ctrl-C arrives as SIGINT": (signal.SIGINT, "Interrupted"),
    "SIGTERM arrives as itself": (signal.SIGTERM, "Terminated"),
}


@pytest.mark.parametrize(("number", "reason"), SIGNALS.values(), ids=SIGNALS.keys())
def test_stop_reaches_the_command(
    number: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import signal, time, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit('told'))\n"
        "print('ready'); time.sleep(60)"
    )
    stop = Stop()
    with running(code, stop) as command:
        assert command.is_alive()
        stop.ask(number)
        command.join(30)
        assert (command.told, command.code) == (reason, 1)
    assert command.last_words == "told"
    assert capsys.readouterr().err == "ready\ntold\n"


def test_last_words_are_the_commands_own(capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('ready'); print('ValueError: no'); print(); print('(Worker pid=12) a line')"
    with running(code, Stop()) as command:
        command.join(30)
    assert command.last_words == "ValueError: no"
    assert "(Worker pid=12) a line" in capsys.readouterr().err


def test_what_does_not_listen_is_killed_with_its_children(tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "print('ready'); time.sleep(60)"
    )
    stop = Stop()
    with running(code, stop) as command:
        stop.ask(signal.SIGTERM)
        command.join(0.2)
        assert command.is_alive()
    assert command.code == -signal.SIGKILL
    child = int((tmp_path / "child").read_text())
    assert is_gone(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_command_dies_with_its_driver() -> None:
    code = (
        "import os, sys\n"
        "from trainshed.attempt.command import Command\n"
        "from trainshed.attempt.signals import Stop\n"
        "words = [sys.executable, '-c', 'import os, time; print(os.getpid()); time.sleep(60)']\n"
        "command = Command(words, dict(os.environ) | {'PYTHONUNBUFFERED': '1'}, Stop())\n"
        "command.join(60)"
    )
    path = os.pathsep.join(sys.path)
    driver = subprocess.Popen(
        [PYTHON, "-c", code], env=dict(os.environ) | {"PYTHONPATH": path}, stderr=subprocess.PIPE
    )
    assert driver.stderr
    with driver.stderr:
        child = int(driver.stderr.readline())
        driver.kill()
        driver.wait()
        assert is_gone(child)


def is_gone(process: int, timeout_seconds: float = 30) -> bool:
    """Say whether a process ends within the time; one that nobody waits for has ended too."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        try:
            status = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return True
        if status.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
