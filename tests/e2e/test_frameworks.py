"""Each framework's sample on the image that has it: it trains, and goes on after a lost head."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from pydantic import JsonValue

from hack.images.image import OTHER_FRAMEWORKS, version
from tests.e2e.bundle import RELEASE, Bundle, give_images
from tests.e2e.running import NAME, ROOT
from tests.e2e.runs import Runs

pytestmark = pytest.mark.timeout(1800)

SAMPLES = ROOT / "manifests" / "samples"


@dataclass(frozen=True)
class Case:
    """A sample that goes on long enough to lose its head.

    Args:
        sample: its file.
        changes: of its spec, so that it takes a minute.
        steps: after which the head is killed.
        metric: that it must reach.
        best: and at least, where it is an accuracy, else at most.
        model: the file of the model.
    """

    sample: str
    changes: dict[str, JsonValue]
    config: dict[str, JsonValue]
    steps: int
    metric: str
    best: float
    model: str


CASES = {
    "xgboost": Case(
        "boosted-trees.yaml",
        {"checkpoint": {"everySteps": 50}},
        {"numBoostRound": 2500, "earlyStoppingRounds": 0},
        200,
        "valid.merror",
        0.05,
        "model.ubj",
    ),
    "tensorflow": Case(
        "keras.yaml", {"epochs": 120}, {}, 100, "valid.accuracy", 0.95, "model.keras"
    ),
}


@pytest.fixture(scope="module")
def runs(bundle: Bundle) -> Iterator[Runs]:
    """The chart with a class for each image."""
    give_images(bundle.cluster, NAME, *(f"app-{name}" for name in OTHER_FRAMEWORKS))
    bundle.uninstall(RELEASE)
    tags = [
        f"--set-string=controller.classImages.{name}.tag={version()}-{name}"
        for name in OTHER_FRAMEWORKS
    ]
    try:
        bundle.install(RELEASE, *tags)
        bundle.wait_for_ray(RELEASE)
        bundle.wait_for_digits()
        yield Runs(bundle, RELEASE)
    finally:
        bundle.kubectl("delete", "trun", "--all", "--timeout=3m")
        bundle.uninstall(RELEASE)


@pytest.mark.parametrize("name", CASES)
def test_its_sample_trains_and_goes_on_after_a_lost_head(runs: Runs, name: str) -> None:
    case = CASES[name]
    run = yaml.safe_load(Path(SAMPLES, case.sample).read_text())
    run["spec"]["config"].update(case.config)
    run["spec"].update(case.changes, cluster={"dedicated": {"class": name}})
    run_name = run["metadata"]["name"]

    runs.apply(run)
    runs.wait_for_step(run_name, case.steps, seconds=600)
    (cluster,) = set(runs.clusters()) - {RELEASE}
    runs.kill_pod(runs.bundle.ready_pod("headgroup", cluster))
    runs.wait_for("Complete", run_name, minutes=12)

    status = runs.status(run_name)
    assert status.attempt == 2
    result = runs.result(run_name)
    reached = result.metrics[case.metric] or 0.0
    assert reached >= case.best if case.metric.endswith("accuracy") else reached <= case.best
    assert result.checkpoint
    assert case.model in runs.in_head("ls", result.checkpoint.path).split()


def test_a_framework_that_the_image_lacks_is_said_with_the_tag_that_has_it(runs: Runs) -> None:
    run = yaml.safe_load(Path(SAMPLES, "boosted-trees.yaml").read_text())
    run["metadata"]["name"] = "lacks-it"

    runs.apply(run)
    runs.wait_for("Failed", "lacks-it")

    said = runs.bundle.kubectl("get", "trun", "lacks-it", "-ojson")
    assert "xgboost is not" in said
    assert f"an image with the tag {version()}-xgboost has it" in said
