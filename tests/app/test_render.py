"""`trainshed render` shows the RayJob of the controller, or what stands in its way."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pydantic import JsonValue

from tests.app.ray_run import write_run
from trainshed.cli.main import cli
from trainshed_api.errors import SpecError
from trainshed_api.loading import load_file
from trainshed_api.rayjob import AttemptIdentity, SharedCluster, render_rayjob


def test_it_is_the_rayjob_of_the_first_attempt(tmp_path: Path) -> None:
    file = write_run(tmp_path, "digits", env={"A": "1"})
    printed = CliRunner().invoke(cli, ["render", str(file), "--set", "spec.seed=3"])

    attempt = AttemptIdentity("default", "digits", "00000000-0000-0000-0000-000000000000", 1)
    run = load_file(file, ["spec.seed=3"])
    assert printed.output.startswith("# The first attempt of digits, as the controller creates it")
    assert yaml.safe_load(printed.output) == render_rayjob(run, attempt, SharedCluster("trainshed"))


def test_the_file_names_namespace_and_cluster(tmp_path: Path) -> None:
    file = write_run(tmp_path, "digits", cluster={"shared": "big"})
    words = ["render", str(file), "--cluster", "small", "--set", "metadata.namespace=team-a"]
    rendered = yaml.safe_load(CliRunner().invoke(cli, words).output)

    assert rendered["metadata"]["namespace"] == "team-a"
    assert rendered["spec"]["clusterSelector"] == {"ray.io/cluster": "big"}


REFUSED: dict[str, tuple[dict[str, JsonValue], str]] = {
    "a folder of this machine": (
        {"code": {"workingDir": "src"}},
        'spec.code.workingDir: got "src"; expected an address. Only `trainshed submit` and '
        "`trainshed apply` upload a folder",
    ),
    "a cluster of its own": (
        {"cluster": {"dedicated": {"class": "default"}}},
        "spec.cluster: got dedicated; expected shared, because classes are defined in "
        "the values of the chart",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_file_alone_cannot_become_is_said(case: str, tmp_path: Path) -> None:
    spec, want = REFUSED[case]
    file = write_run(tmp_path, "digits", **spec)

    done = CliRunner().invoke(cli, ["render", str(file)])

    assert isinstance(done.exception, SpecError)
    assert str(done.exception) == f"{file}:1: {want}"
