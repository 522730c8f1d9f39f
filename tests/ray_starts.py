"""The count of starts of Ray: what a session of tests may start, and what it did start.

Ray leaves a folder for each time it starts and a log for each driver that joins; what is counted is
what lies there at the end, whoever started it.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gates import what_it_starts

# A start takes 20 to 40 seconds of a core; a driver that joins, half of that.
MOST_OWN, MOST_JOINED, MOST_KEPT = 8, 22, 13
FOLDER = "RAY_TMPDIR"
_KEPT, _JOINED = "kept-", "joined"
_before = pytest.StashKey[str | None]()
_counted = pytest.StashKey["Starts"]()
_refused = pytest.StashKey[str]()


@dataclass(frozen=True)
class Starts:
    """How often Ray was started, and joined.

    Args:
        own: runs with a Ray of their own.
        joined: drivers that joined a kept head.
        kept: Rays that many tests share.
    """

    own: int
    joined: int
    kept: int

    @property
    def too_many(self) -> bool:
        """Say whether a limit was passed."""
        return self.own > MOST_OWN or self.joined > MOST_JOINED or self.kept > MOST_KEPT

    def __str__(self) -> str:
        return (
            f"Ray: {self.own} runs of their own (at most {MOST_OWN}), {self.joined} drivers joined "
            f"a kept head (at most {MOST_JOINED}), {self.kept} kept Rays (at most {MOST_KEPT})"
        )


def kept_folder() -> Path:
    """Return a folder for a Ray that tests share; paths of its sockets have to be short."""
    return Path(tempfile.mkdtemp(prefix=_KEPT, dir=os.environ[FOLDER]))


def note_joined(kept: Path) -> None:
    """Keep the number of drivers that joined a head, before the head is ended.

    What joined and still lives belongs to the head's dashboard, or to the tests themselves.
    """
    name = "session_*/logs/python-core-driver-*.log"
    logs = [*kept.glob(name), *kept.glob(f"*/{name}")]  # of the head and of other nodes
    drivers = {log.stem.rpartition("_")[2] for log in logs}
    ended = [driver for driver in drivers if not Path("/proc", driver).exists()]
    (kept / _JOINED).write_text(str(len(ended)), encoding="ascii")


def count(folder: Path) -> Starts:
    """Count what has started under the folder."""
    return Starts(
        own=sum(not session.is_symlink() for session in folder.glob("ray/session_*")),
        joined=sum(int(note.read_text(encoding="ascii")) for note in folder.glob(f"*/{_JOINED}")),
        kept=len(list(folder.glob(f"{_KEPT}*"))),
    )


def _is_in_charge(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput")  # with pytest-xdist its workers inherit the folder


def pytest_configure(config: pytest.Config) -> None:
    """Have every Ray leave its folder where it can be counted."""
    if _is_in_charge(config):
        config.stash[_before] = os.environ.get(FOLDER)
        # Paths of sockets have to be short; pytest's own folder is too deep.
        inside = config.stash[_before] or "/tmp"
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="rays-", dir=inside)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where too much was started; what takes minutes may start as much as it wants."""
    config = session.config
    if not _is_in_charge(config):
        return
    starts = config.stash[_counted] = count(Path(os.environ[FOLDER]))
    if refused := _reason_against(starts, _asked_for(config)):
        config.stash[_refused] = refused
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if session.exitstatus != pytest.ExitCode.TESTS_FAILED:
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)


def _asked_for(config: pytest.Config) -> frozenset[str]:
    """Return what the tests of the session say that they start."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert isinstance(reporter, pytest.TerminalReporter)
    found = [report for reports in reporter.stats.values() for report in reports]
    return frozenset(what_it_starts(r) for r in found if isinstance(r, pytest.TestReport))


def _reason_against(starts: Starts, asked: frozenset[str]) -> str:
    if starts.own + starts.kept > 0 and asked.isdisjoint({"ray", "e2e"}):
        return "a test without the marker `ray` started Ray"
    if starts.too_many and "e2e" not in asked:
        return f"Ray was started too often: {starts}"
    return ""


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the count."""
    starts = config.stash.get(_counted, None)
    if starts is None or starts == Starts(0, 0, 0):
        return
    terminalreporter.line(str(starts), red=starts.too_many, green=not starts.too_many)
    if (folder := Path(os.environ[FOLDER])).exists():
        terminalreporter.line(f"Ray's logs: {folder}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put back what was there before, and say last why a session failed whose tests all passed."""
    if not _is_in_charge(config):
        return
    if refused := config.stash.get(_refused, ""):
        print(f"FAILED: {refused}")
    if _counted not in config.stash:  # no session began: the words were wrong
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)
    before = config.stash[_before]
    if before is None:
        del os.environ[FOLDER]
    else:
        os.environ[FOLDER] = before
