"""Faults of the world that befall a run while it trains, and what each comes to."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import trainshed
from tests.app import befalling
from tests.app.befalling import Scene
from tests.app.train_functions import make_network, regress_as
from trainshed.worker.current import Run
from trainshed_api.names import EXIT_APPLICATION, EXIT_SUCCEEDED, EXIT_TERMINATED, EXIT_TRY_AGAIN

# Blocks of fewer bytes than 100 kB Ray would keep where no node can lose them.
WIDTH, FILES = 2000, 12
ROWS, BATCH = 210, 20
NODE_LOST = "a node that holds cached blocks"


@dataclass(frozen=True)
class Fault:
    """What befalls a run, when, and what is wanted of it.

    Args:
        befall: does it, in a worker.
        at: the steps that are done then.
        starts: at which step each group of workers begins, by attempt.
        place: what is under way.
        ranks: the workers that do it.
        times: how often.
        lost: what is said of workers that start again, by a regular expression.
        warned: what is warned of.
        code: of the first attempt's driver.
        message: of the first attempt.
        cut: the step whose evaluation the first attempt does not make.
        mend: makes good what would spoil the next attempt.
    """

    befall: Callable[[Run, Scene], None]
    at: int
    starts: tuple[tuple[int, ...], ...]
    place: Literal["step", "evaluation"] = "step"
    ranks: tuple[int, ...] = (0,)
    times: int = 1
    lost: str = ""
    warned: str = ""
    code: int = EXIT_SUCCEEDED
    message: str = ""
    cut: int | None = None
    mend: Callable[[Scene], None] = lambda _: None


def run_beset(config: dict[str, object]) -> None:
    """Train while the fault befalls the run that the config names, in `home` and `run`."""
    run = trainshed.current()
    world = Path(os.environ["TRAINSHED_TEST_WORLD"])
    scene = Scene(world, Path(str(config["home"])), Path(str(config["run"])))
    fault = FAULTS.get(str(config["fault"]))
    if run.rank == 0:
        scene.pass_over()

    def befall(place: str) -> None:
        if fault and (fault.place, fault.at) == (place, run.step) and run.rank in fault.ranks:
            marks = scene.world.glob(f"befall-{run.rank}-*")
            if mark := next(marks, None):
                mark.unlink()
                fault.befall(run, scene)

    regress_as(run, make_network(WIDTH), lambda: befall("step"), lambda: befall("evaluation"))


# What docs/controller.md has in its table of faults, in the order of a run's parts. What befalls
# files after the first epoch is met in the third: the second one's rows were read ahead.
FAULTS: dict[str, Fault] = {
    "reads that fail twice with EIO": Fault(
        befalling.refuse_reads_twice, at=10, place="evaluation", starts=((0,),)
    ),
    "reads that fail with ESTALE until workers start again": Fault(
        befalling.lose_the_mount,
        at=10,
        place="evaluation",
        starts=((0, 20),),
        lost=r"the storage failed: .*rows/part-\d+\.parquet: row groups \[.*\] cannot be read: "
        r"\[Errno 116\] Stale file handle",
    ),
    "a data file that is gone until workers start again": Fault(
        befalling.take_a_file_away,
        at=10,
        place="evaluation",
        starts=((0, 20),),
        lost=r"the storage failed: .*rows/part-7\.parquet: row groups \[0.*\] cannot be read: .*"
        "No such file or directory",
    ),
    "a data file that somebody adds rows to": Fault(
        befalling.append_to_a_file, at=10, place="evaluation", starts=((0,),)
    ),
    "a damaged row group": Fault(
        befalling.damage_a_file,
        at=10,
        place="evaluation",
        starts=((0,), (20,)),
        code=EXIT_APPLICATION,
        message=r"DataError: .*rows/part-7\.parquet: row groups \[0\] cannot be read: .*"
        r"\(worker \d, step 20\)",
        mend=befalling.bring_the_file_back,
    ),
    "a checkpoint whose write fails with EIO": Fault(
        befalling.refuse_a_checkpoint,
        at=5,
        starts=((0,),),
        warned=r"no checkpoint at step 8: OSError: \[Errno 5\] Input/output error: .*; training "
        "continues",
    ),
    "a last checkpoint whose write fails with ESTALE": Fault(
        befalling.refuse_the_last_checkpoint,
        at=29,
        starts=((0, 28),),
        lost="the storage failed: LastCheckpointError: training is done but its checkpoint is not: "
        r"step 30: \[Errno 116\] Stale file handle",
    ),
    "a damaged checkpoint": Fault(
        befalling.damage_the_newest_checkpoint,
        at=10,
        starts=((0, 4),),
        warned="checkpoint refused, trying the one before it: .*checkpoint_000000008_epoch0000: "
        "model.pt has 1000 of",
        lost="lost worker 0: ",
    ),
    "a disk that is full": Fault(
        befalling.fill_the_disk,
        at=25,
        starts=((0,), (24,)),
        warned=r"no checkpoint at step 28: OSError: \[Errno 28\] No space left on device",
        code=EXIT_TRY_AGAIN,
        message="the storage is full: LastCheckpointError: training is done but its checkpoint is "
        r"not: step 30: \[Errno 28\] No space left on device",
        mend=befalling.make_room,
    ),
    "a worker that is killed in an evaluation": Fault(
        befalling.die, at=10, place="evaluation", starts=((0, 8),), lost="lost worker 0: "
    ),
    "workers that wait in vain for another one, twice": Fault(
        befalling.hang,
        at=10,
        ranks=(0, 1),
        times=2,
        starts=((0, 8), (8,)),
        lost="lost worker 0: workers timed out waiting for each other: RuntimeError: ",
        code=EXIT_TRY_AGAIN,
        message="workers timed out waiting for each other: RuntimeError: ",
    ),
    "a clock that is set back by an hour": Fault(
        befalling.set_clocks_back_and_die, at=10, starts=((0, 8),), lost="lost worker 0: "
    ),
    "a stop in an evaluation": Fault(
        befalling.stop,
        at=20,
        place="evaluation",
        starts=((0,), (20,)),
        code=EXIT_TERMINATED,
        message="Terminated: stopped after step 20",
        cut=20,
    ),
    NODE_LOST: Fault(befalling.hold_until_the_node_is_lost, at=1, starts=((0,),)),
}
