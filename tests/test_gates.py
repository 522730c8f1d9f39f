"""The gates refuse silent skips, keep together what shares a server, and say where time goes."""

import pytest

from tests.gates import over_budget, package_of

# The tests of a small project that uses what ours uses.
PROJECT = """
import pytest
@pytest.fixture
def control_plane(): return 1
@pytest.fixture
def head(): return 1
@pytest.fixture
def s3(): return 1
@pytest.mark.control_plane
def test_server(control_plane): pytest.skip("no server here")
@pytest.mark.ray
def test_joins(head): pass
@pytest.mark.ray
def test_ray(): pass
@pytest.mark.s3
def test_store(s3): pass
def test_pure(): pytest.skip("not on this machine")
@pytest.mark.ray
@pytest.mark.xfail(reason="known")
def test_known(): raise ValueError
"""
SETTINGS = """
[pytest]
asyncio_default_fixture_loop_scope = function
markers =
    ray
    control_plane
    s3
    e2e
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    # Folders are keywords to pytest: what a test starts is not to hang on where it lies.
    folder = pytester.mkpydir("e2e")
    (folder / "test_project.py").write_text(PROJECT, encoding="utf-8")
    pytester.makeini(SETTINGS)
    return pytester


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "tests.gates", *words)


def test_a_skip_is_a_skip_where_they_are_allowed(project: pytest.Pytester) -> None:
    run(project).assert_outcomes(passed=3, skipped=2, xfailed=1)


def test_a_skip_of_what_needs_a_server_fails_where_skips_are_refused(
    project: pytest.Pytester,
) -> None:
    result = run(project, "--no-skips")

    result.assert_outcomes(passed=3, failed=1, skipped=1, xfailed=1)
    assert "skips are refused (--no-skips): Skipped: no server here" in result.stdout.str()


def test_a_module_that_skips_itself_fails_where_skips_are_refused(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("import pytest; pytest.skip('no library', allow_module_level=True)")
    pytester.makeini(SETTINGS)

    run(pytester).assert_outcomes(skipped=1)
    run(pytester, "--no-skips").assert_outcomes(errors=1)


def test_the_table_counts_each_test_once_by_what_it_starts(project: pytest.Pytester) -> None:
    lines = run(project, "--packages").stdout.str().splitlines()

    table = [line.split()[1:3] for line in lines if line.endswith("e2e/test_project.py")]
    assert sorted(table) == [["1", "control_plane"], ["1", "nothing"], ["1", "s3"], ["3", "ray"]]


BUDGETS = """
| Package | Seconds |
|---|---|
| `e2e/other` | 7 |
| `tests/api` | 0 |
"""


@pytest.mark.parametrize(("slow_seconds", "failed"), [(-1, True), (60, False)])
def test_a_package_far_above_its_budget_fails_the_gate(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, slow_seconds: int, failed: bool
) -> None:
    monkeypatch.setattr("tests.gates.SLOW_SECONDS", slow_seconds)
    for name, text in (("docs/testing.md", BUDGETS), ("tests/api/test_a.py", "def test_a(): pass")):
        file = pytester.path / name
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    pytester.makeini(SETTINGS)

    result = run(pytester, "--packages")

    assert result.ret == int(failed)
    message = "tests/api: took 0 s; expected at most -1 s. Make its tests cheaper, or raise"
    assert (message in result.stdout.str()) == failed
    assert run(pytester).ret == 0


def test_a_slow_machine_is_within_its_budgets() -> None:
    assert over_budget({"tests/api": 159.0, "tests/chart": 500.0}, {"tests/api": 10}) == []
    assert len(over_budget({"tests/api": 161.0}, {"tests/api": 10})) == 1


def test_who_shares_a_server_or_a_ray_runs_in_one_process(project: pytest.Pytester) -> None:
    items, _ = project.inline_genitems("-p", "tests.gates")

    groups = {item.name: [m.args[0] for m in item.iter_markers("xdist_group")] for item in items}
    assert groups == {
        "test_server": ["API server"],
        "test_joins": ["kept head"],
        "test_ray": ["Ray"],
        "test_store": [],
        "test_known": ["Ray"],
        "test_pure": [],
    }


@pytest.mark.parametrize(
    ("nodeid", "package"),
    [
        ("tests/api/test_crd.py::test_a", "tests/api"),
        ("tests/app/test_recovery.py::test_a[x/y]", "tests/app"),
        ("tests/app/data/test_feeder.py::test_a", "tests/app/data"),
    ],
)
def test_a_room_is_a_folder_of_tests_and_in_the_app_a_package(nodeid: str, package: str) -> None:
    assert package_of(nodeid) == package
