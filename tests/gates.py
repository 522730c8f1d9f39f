"""What every gate has in common: shared processes, refused skips, budgets of packages."""

import re
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import PurePosixPath

import pytest

# Tests of one group run one after another in one process, and so share what its fixtures start.
GROUPS = {"control_plane": "API server", "renderer": "rendered chart"}
KEPT_HEAD, KEPT_HEAD_GROUP = "head", "kept head"
# What a test starts, by its marker; the first that it has counts.
STARTS = ("e2e", "control_plane", "ray", "s3")
NOTHING = "nothing"
_STARTS = "starts"
_over = pytest.StashKey[list[str]]()
# The package of the app holds a dozen others: these are looked at one by one.
DEEP_PACKAGES = frozenset({"app"})
_MOST_LISTED = 15
# A row of the budget table: | `tests/api` | 20 |
_BUDGET = re.compile(r"^\| `(tests/[\w/]+)` \| (\d+) \|", re.MULTILINE)
# A busy machine takes several times as long, and a process that imports Ray first takes a minute.
SLOW_FACTOR, SLOW_SECONDS = 4, 120


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the gates ask for."""
    group = parser.getgroup("gates")
    group.addoption(
        "--no-skips",
        action="store_true",
        help="a skipped test that would start Ray, a server or a cluster fails",
    )
    group.addoption(
        "--packages", action="store_true", help="print seconds by package; fail above a budget"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares an API server or a Ray."""
    for item in items:
        named = item.get_closest_marker("xdist_group")
        if not named and (group := _group_of(item)):
            item.add_marker(pytest.mark.xdist_group(group))


def _group_of(item: pytest.Item) -> str:
    asked = getattr(item, "fixturenames", ())
    if item.get_closest_marker("ray"):
        return KEPT_HEAD_GROUP if KEPT_HEAD in asked else "Ray"
    return next((group for fixture, group in GROUPS.items() if fixture in asked), "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what a test starts; a skip of what starts something fails where skips are refused."""
    report = yield
    # Not left to the report's keywords: those hold the names of folders, too.
    starts = next((name for name in STARTS if item.get_closest_marker(name)), NOTHING)
    report.user_properties.append((_STARTS, starts))
    is_expected_failure = hasattr(report, "wasxfail")
    if (
        report.skipped
        and not is_expected_failure
        and item.config.getoption("no_skips")
        and starts != NOTHING
    ):
        _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips itself hides its tests, whatever they start."""
    report = yield
    if report.skipped and collector.config.getoption("no_skips"):
        _refuse(report)
    return report


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"skipped where skips are refused (--no-skips): {reason}"


def what_it_starts(report: pytest.TestReport) -> str:
    """Return the most that a test starts: e2e, control_plane, ray, s3 or nothing."""
    return str(dict(report.user_properties).get(_STARTS, NOTHING))


def package_of(nodeid: str) -> str:
    """Return the package of a test, such as tests/api, or tests/app/data."""
    parts = PurePosixPath(nodeid.partition("::")[0]).parts
    depth = 3 if len(parts) > 3 and parts[1] in DEEP_PACKAGES else 2
    return "/".join(parts[:depth])


def read_budgets(page: str) -> dict[str, int]:
    """Return the seconds that each package may take, from the table of docs/testing.md."""
    return {package: int(seconds) for package, seconds in _BUDGET.findall(page)}


def over_budget(seconds: Mapping[str, float], budgets: Mapping[str, int]) -> list[str]:
    """Return a message for each package that took far longer than its budget."""
    return [
        f"{package}: took {spent:.0f} s; expected at most {limit} s. Make its tests cheaper, or "
        "raise its budget in docs/testing.md."
        for package, spent in seconds.items()
        if package in budgets and spent > (limit := SLOW_FACTOR * budgets[package] + SLOW_SECONDS)
    ]


def _reports(config: pytest.Config) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert isinstance(reporter, pytest.TerminalReporter)
    found = [report for reports in reporter.stats.values() for report in reports]
    return [report for report in found if isinstance(report, pytest.TestReport)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a package took far longer than its budget."""
    config = session.config
    page = config.rootpath / "docs" / "testing.md"
    if not config.getoption("packages") or hasattr(config, "workerinput") or not page.exists():
        return
    seconds: dict[str, float] = defaultdict(float)
    for report in _reports(config):
        seconds[package_of(report.nodeid)] += report.duration
    config.stash[_over] = over_budget(seconds, read_budgets(page.read_text(encoding="utf-8")))
    if config.stash[_over]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table of seconds by package, dearest first, and the dearest tests."""
    if not config.getoption("packages"):
        return
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    tests: dict[tuple[str, str], set[str]] = defaultdict(set)
    by_test: dict[str, float] = defaultdict(float)
    for report in _reports(config):
        key = package_of(report.nodeid), what_it_starts(report)
        seconds[key] += report.duration
        tests[key].add(report.nodeid)
        by_test[report.nodeid] += report.duration
    terminalreporter.section("seconds by package")
    terminalreporter.line(f"{'seconds':>8}  {'tests':>5}  {'starts':<14}package")
    for (package, starts), spent in sorted(seconds.items(), key=lambda item: -item[1]):
        count = len(tests[package, starts])
        terminalreporter.line(f"{spent:8.1f}  {count:5}  {starts:<14}{package}")
    terminalreporter.section("the longest tests")
    for nodeid, spent in sorted(by_test.items(), key=lambda item: -item[1])[:_MOST_LISTED]:
        terminalreporter.line(f"{spent:8.1f}  {nodeid}")
    for message in config.stash.get(_over, []):
        terminalreporter.line(message, red=True)
