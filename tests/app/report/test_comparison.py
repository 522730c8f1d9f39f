"""`trainshed compare` names what differs between runs, and draws their curves together."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.app.cli_here import trainshed_here
from tests.app.report.pages import ParsedPage
from tests.builders_run import make_ended_run
from trainshed.cli.main import cli
from trainshed.report.comparison import list_differences, overlay_curves
from trainshed.report.load import read_run
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import RunFolder
from trainshed_api.json_object import JsonObject, objects, text
from trainshed_api.names import EXIT_INVALID

WIDE = {"COLUMNS": "400"}


@pytest.fixture
def runs(tmp_path: Path) -> list[Folder]:
    """Two runs of one name, the second with another learning rate, file of code and result."""
    first = make_ended_run().write(Disk(tmp_path / "one"))
    second = make_ended_run().write(Disk(tmp_path / "two"))
    record = json.loads(second.read("run.json"))
    record["spec"]["config"] = {"learningRate": 0.5}
    record["code"] = {"train.py": "abcdef0123456789"}
    second.write("run.json", json.dumps(record).encode())
    result = json.loads(second.read("result.json"))
    result["metrics"]["valid.accuracy"] = 0.5
    second.write("result.json", json.dumps(result).encode())
    return [first, second]


def test_only_what_differs_is_listed_results_first(runs: list[Folder]) -> None:
    found = list_differences([read_run(each) for each in runs], ["Running"] * 2)
    facts = [(each.section, each.fact) for each in found]
    assert facts[0] == ("result", "valid.accuracy")
    assert ("file", "spec.config.learningRate") in facts
    assert ("code", "train.py") in facts
    assert ("result", "outcome") not in facts
    assert {each.section for each in found} == {"result", "file", "code"}


def test_a_run_whose_driver_was_killed_is_interrupted(runs: list[Folder]) -> None:
    runs[1].delete("result.json")
    RunFolder(runs[1]).claim("hash", fresh=False).close()

    found = compared(runs)

    outcomes = next(each["values"] for each in found if each["fact"] == "outcome")
    assert outcomes == ["Succeeded", "Interrupted"]


def test_secrets_are_not_shown(runs: list[Folder]) -> None:
    for number, run in enumerate(runs):
        record = json.loads(run.read("run.json"))
        config = {"hubToken": f"hidden{number}", "url": f"https://me:hidden@host{number}/a"}
        record["spec"] |= {"env": {"KEY": f"hidden{number}"}, "config": config}
        run.write("run.json", json.dumps(record).encode())

    found = {text(each, "fact"): each["values"] for each in compared(runs)}

    assert found["spec.env.KEY"] == found["spec.config.hubToken"] == ["differs"] * 2
    assert found["spec.config.url"] == ['"https://host0/a"', '"https://host1/a"']
    assert "hidden" not in str(found)


def compared(runs: list[Folder]) -> list[JsonObject]:
    said = CliRunner().invoke(cli, ["compare", *map(str, runs), "--output", "json"])
    return objects(json.loads(said.output)["differences"])


def test_one_run_is_not_compared(runs: list[Folder]) -> None:
    said = trainshed_here("compare", str(runs[0]))
    assert said.code == EXIT_INVALID
    assert "expected two or more runs" in said.stderr


def test_curves_of_one_metric_are_on_one_chart(runs: list[Folder]) -> None:
    charts = overlay_curves([read_run(each) for each in runs])
    assert len({chart.title for chart in charts}) == len(charts)
    loss = next(chart for chart in charts if chart.title == "loss")
    assert {series.colour for series in loss.series} == {0, 1}
    assert all(str(runs[series.colour]) in series.label for series in loss.series)


def test_the_command_prints_a_table_json_and_a_page(runs: list[Folder], tmp_path: Path) -> None:
    words, page = [str(each) for each in runs], tmp_path / "compare.html"
    assert "spec.config.learningRate" in trainshed_here("compare", *words, environment=WIDE).stdout

    said = CliRunner().invoke(cli, ["compare", *words, "--output", "json", "--to", str(page)])

    found = json.loads(said.output)
    assert found["runs"] == words
    assert [e["values"][1] for e in found["differences"] if e["fact"] == "train.py"] == ["abcdef01"]
    read = ParsedPage(page.read_text())
    assert read.unclosed == []
    assert "0.5" in read.text
    assert "svg" in read.tags


def test_equal_runs_do_not_differ(runs: list[Folder]) -> None:
    said = trainshed_here("compare", str(runs[0]), str(runs[0]))
    assert said.stdout == "the runs do not differ\n"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    said = trainshed_here("compare", str(tmp_path), str(tmp_path))
    assert said.code == EXIT_INVALID
    assert "is not the folder of a run" in said.stderr
