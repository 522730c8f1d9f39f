"""Runs that an earlier release began go on after an upgrade.

One that trains meanwhile ends as if nobody had upgraded it. One that is suspended goes on from the
end of an epoch: this release gives the steps of an epoch other rows (docs/decisions/0025).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hack.images.image import version
from tests.e2e.bundle import RELEASE, prepare_chart
from tests.e2e.earlier import VERSION, release_of
from tests.e2e.running import NAME, wait_for
from tests.e2e.runs import STEPS_IN_EPOCH, USER_CODE, Runs, make_counting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from tests.e2e.bundle import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
# The last one whose runs were known by a hash of all fields (docs/decisions/0018).
COMMIT = "422d315"
EPOCHS = 4
# Of the names and the numbers of a model, whatever else is in the file.
DIGEST = """
import hashlib, sys, torch
state = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
whole = hashlib.sha256()
for name, value in sorted(state.items()):
    whole.update(name.encode() + value.contiguous().numpy().tobytes())
print(whole.hexdigest())
"""


@pytest.fixture(scope="module")
def runs(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The earlier release installed, with the user's code on its storage."""
    bundle.uninstall(RELEASE)
    with bundle.times.measure("images of the earlier release built and given to the node"):
        earlier = release_of(COMMIT, tmp_path_factory.mktemp("earlier"), NAME)
    chart = prepare_chart(tmp_path_factory.mktemp("earlier-chart"), earlier.chart)
    before = replace(bundle, chart=chart, values=earlier.values)
    try:
        before.install(RELEASE)
        before.wait_for_ray(RELEASE)
        before.wait_for_digits()
        made = Runs(bundle, RELEASE)
        made.forget_all()
        made.give_code(USER_CODE, USER_CODE.glob("*.py"))
        yield made
    finally:
        bundle.uninstall(RELEASE)


def test_runs_begun_before_an_upgrade_end_after_it(runs: Runs) -> None:
    bundle = runs.bundle
    assert images_of_ray(runs) == {VERSION}
    runs.apply(make_shuffled("plain", seconds_per_step=0.0))
    runs.wait_for("Complete", "plain")
    expected = digest(runs, "plain")

    # Checkpoints by steps would take the place of the one at the epoch's end while it stops.
    late = suspend_at(runs, "late", STEPS_IN_EPOCH, every_steps=0)
    early = suspend_at(runs, "early", 5, every_steps=5)
    assert early < STEPS_IN_EPOCH < late
    assert late % STEPS_IN_EPOCH, "in the middle of an epoch, or nothing is passed over"
    # What is left of it after ten steps has to outlast the upgrade.
    runs.apply(make_shuffled("live", seconds_per_step=1.5))
    runs.wait_for_step("live", 10)

    with bundle.times.measure("helm upgrade from the earlier release"):
        words = ("--reset-then-reuse-values", "--wait", "--timeout=10m")
        bundle.helm("upgrade", RELEASE, str(bundle.chart), *words)
    assert runs.status("live").phase == "Running", "it outlived the upgrade, or nothing was shown"
    runs.wait_for("Complete", "live")
    assert runs.starts("live") == [0, 0], "each of its workers was left alone"
    assert digest(runs, "live") == expected

    bundle.kubectl("delete", "pod", f"-lray.io/cluster={RELEASE}", "--timeout=3m")
    assert wait_for(lambda: images_of_ray(runs) == {version()}, 300)
    bundle.wait_for_ray(RELEASE)
    runs.patch("late", suspend=False)
    check_went_on_at_an_epochs_end(runs, "late", late)
    runs.patch("early", suspend=False)
    check_was_refused(runs, "early")


def suspend_at(runs: Runs, name: str, step: int, *, every_steps: int) -> int:
    """Suspend a run of the earlier release once it is so far; return the step that it kept."""
    runs.apply(make_shuffled(name, seconds_per_step=1.0, every_steps=every_steps))
    runs.wait_for_step(name, step)
    runs.patch(name, suspend=True)
    runs.wait_for("Suspended", name)
    kept = runs.status(name).checkpoint
    assert kept
    assert kept.step
    return kept.step


def check_went_on_at_an_epochs_end(runs: Runs, name: str, kept: int) -> None:
    """Hold that a run passed over the checkpoint of its last step, said so, and is complete."""
    runs.wait_for("Complete", name, minutes=10)
    first, second = runs.status(name).attempts
    assert (first.outcome, second.outcome) == ("Stopped", "Succeeded")
    assert second.resumed_from
    step = second.resumed_from.step
    assert step == kept // STEPS_IN_EPOCH * STEPS_IN_EPOCH
    result = runs.result(name)
    assert result.step == EPOCHS * STEPS_IN_EPOCH
    told = runs.status(name).result
    assert told
    attempt = f"{told.path.rpartition('/')[0]}/attempts/{second.number}"
    said = runs.read(f"{attempt}/metrics.jsonl")
    assert f"checkpoint_{kept:09d}" in said
    assert "by an earlier release, whose steps had other rows" in said


def check_was_refused(runs: Runs, name: str) -> None:
    """Hold that a run without an epoch's end is not begun anew unasked."""
    runs.wait_for("Failed", name)
    failed = runs.status(name).condition("Failed")
    assert failed
    assert failed.reason == "Invalid"
    assert "spec.checkpoint.resume: got latest; expected a checkpoint at an epoch's end" in (
        failed.message
    )


def make_shuffled(
    name: str, *, seconds_per_step: float, every_steps: int = 10
) -> dict[str, JsonValue]:
    """Return a run whose weights hang on the order of its rows."""
    read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["label"]}
    train: JsonValue = {"read": read, "shuffle": {"mode": "local", "bufferSize": 500}}
    return make_counting(
        name,
        epochs=EPOCHS,
        seconds_per_step=seconds_per_step,
        reproducible=True,
        data={"cpus": 1, "datasets": {"train": train}},
        workers={"count": 2, "resources": {"cpu": 1}},
        checkpoint={"everySteps": every_steps},
    )


def digest(runs: Runs, name: str) -> str:
    """Return a digest of the last weights of a finished run."""
    last = runs.status(name).checkpoint
    assert last
    return runs.in_head("python", "-c", DIGEST, f"{last.path}/model.pt").strip()


def images_of_ray(runs: Runs) -> set[str]:
    """Return the tags of the images that the Pods of the shared cluster run."""
    found = runs.bundle.kubectl("get", "pods", f"-lray.io/cluster={RELEASE}", "-ojson")
    return {
        container["image"].rpartition(":")[2]
        for pod in json.loads(found)["items"]
        for container in pod["spec"]["containers"]
    }
