"""Workers must fit on the machine; what it has is said."""

from dataclasses import dataclass, field

import pytest
from pydantic import JsonValue

from tests.builders import make_data, make_dataset, make_run
from trainshed.planning.machine import Machine, check_fits, machine_memory, this_machine
from trainshed_api.errors import SpecError

MACHINE = Machine(cpus=4, memory=8 * 2**30, gpus=1)


@dataclass(frozen=True)
class Case:
    """Workers, and what is wrong with them on MACHINE."""

    count: int
    resources: dict[str, JsonValue]
    want: list[str] = field(default_factory=list)


CASES: dict[str, Case] = {
    "as many CPUs as there are": Case(4, {"cpu": 1}),
    "half CPUs": Case(8, {"cpu": "500m"}),
    "the one GPU": Case(1, {"cpu": 1, "gpu": 1}),
    "all of the memory": Case(2, {"cpu": 1, "memory": "4Gi"}),
    "too many CPUs": Case(
        3,
        {"cpu": 2},
        [
            "spec.workers: got 3 workers x 2 CPUs = 6; expected at most the 4 CPUs of this machine "
            "(fewer workers, or a smaller cpu)"
        ],
    ),
    "too many GPUs": Case(
        2,
        {"cpu": 1, "gpu": 1},
        [
            "spec.workers.resources.gpu: got 2 workers x 1 GPUs = 2; expected at most the 1 GPUs "
            "of this machine; --cpu trains without"
        ],
    ),
    "too much memory": Case(
        2,
        {"cpu": 1, "memory": "5Gi"},
        [
            "spec.workers.resources.memory: got 2 workers x 5Gi; expected at most the 8.0Gi of "
            "this machine"
        ],
    ),
    "all at once": Case(9, {"cpu": 1, "gpu": 1, "memory": "1Gi"}, ["spec.workers", "gpu", "mem"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_workers_fit_or_it_is_said_why_not(case: Case) -> None:
    run = make_run(batchSize=64, workers={"count": case.count, "resources": case.resources})
    if not case.want:
        check_fits(run.spec, MACHINE)
        return
    with pytest.raises(SpecError) as caught:
        check_fits(run.spec, MACHINE)
    assert len(caught.value.problems) == len(case.want)
    for problem, want in zip(caught.value.problems, case.want, strict=True):
        assert want in str(problem)


def test_a_task_fits_or_it_is_said_why_not() -> None:
    data = make_data(make_dataset(task={"memory": "4Gi"}))
    check_fits(make_run(data=data).spec, MACHINE)

    data = make_data(make_dataset(task={"memory": "5Gi"}))
    with pytest.raises(SpecError) as caught:
        check_fits(make_run(data=data).spec, MACHINE)
    want = "task.memory: got 5Gi; expected at most 4.0Gi, half of this machine's"
    assert str(caught.value) == f"spec.data.datasets.train.{want}"


def test_this_machine_has_something() -> None:
    machine = this_machine(wants_gpus=False)

    assert machine.cpus >= 1
    assert machine.memory > 2**28
    assert machine.gpus == 0


def test_memory_of_a_worker_is_what_it_asks_for_or_its_share_beside_the_object_store() -> None:
    asks = make_run(workers={"count": 2, "resources": {"memory": "1Gi"}})
    does_not = make_run(workers={"count": 2})

    assert machine_memory(asks.spec, MACHINE).worker == 2**30
    assert machine_memory(does_not.spec, MACHINE).worker == pytest.approx(
        8 * 2**30 * 0.7 / 2, abs=1
    )
