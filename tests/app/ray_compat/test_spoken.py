"""What Ray Data warns of is told where it matters, once and in our words; the rest stays muted."""

import inspect
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from ray.data._internal.execution import resource_manager, streaming_executor_state
from ray.data._internal.issue_detection.detectors import hanging_detector
from ray.data._internal.issue_detection.detectors.high_memory_detector import (
    HIGH_MEMORY_PERIODIC_WARNING,
)

from trainshed.ray_compat.logs import heed

LIBRARY = "ray.data.of_these_tests"


@pytest.fixture
def told() -> Iterator[list[str]]:
    said: list[str] = []
    heed(LIBRARY, said.append)
    yield said
    logging.getLogger(LIBRARY).handlers.clear()


@dataclass(frozen=True)
class Case:
    """What Ray says and what is told of it."""

    said: str
    want: str


CASES = {
    "no CPU": Case(
        "Cluster resources are not enough to run any task from TaskPoolMapOperator[train]. The "
        "job may hang forever unless the cluster scales up.",
        "no task of TaskPoolMapOperator[train] found a free CPU or its task.memory for a minute",
    ),
    "no output": Case(
        "Operator TaskPoolMapOperator[train] is running but has no outputs for 61.5 seconds. "
        "Execution may be slower than expected.\nIgnore this",
        "a task of TaskPoolMapOperator[train] has run for 61 s without a row",
    ),
    "memory": Case(
        HIGH_MEMORY_PERIODIC_WARNING.format(
            op_name="train->decode",
            memory_per_task="7.5GiB",
            max_memory="9.0GiB",
            initial_memory_request="0.0B",
            recommended_memory="9.0GiB",
            recommended_memory_bytes=9 * 2**30,
            detection_time_interval_s=30,
        ),
        "a task of train->decode takes 7.5GiB of memory, up to 9.0GiB",
    ),
    "a task that hangs": Case(
        "A task (task_id=ab12) of operator train->decode (pid=7, node_id=c3, attempt=0) has been "
        "running or stuck in scheduling for 95.25s, which is longer than the average task "
        "duration",
        "a task of train->decode has run for 95 s, far longer than others",
    ),
    "a task that hangs somewhere": Case(
        "A task (task_id=ab12) of operator train->decode has been running or stuck in scheduling "
        "for 95.25s, which",
        "a task of train->decode has run for 95 s, far longer than others",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_matters_is_told_once_in_our_words(told: list[str], case: Case) -> None:
    logger = logging.getLogger(LIBRARY)
    for _ in range(3):
        logger.warning(case.said)

    assert len(told) == 1
    assert told[0].startswith(case.want)


def test_the_rest_stays_muted(told: list[str]) -> None:
    logger = logging.getLogger(LIBRARY)
    logger.warning("Timed out (1s) waiting for metadata from operator 'train'")
    logger.info(CASES["no CPU"].said)

    assert told == []


PHRASES = {
    "Cluster resources are not enough to run any task from": resource_manager,
    "is running but has no outputs for": streaming_executor_state,
    "has been running or stuck in scheduling for": hanging_detector,
}


@pytest.mark.parametrize("phrase", PHRASES)
def test_ray_still_says_it_so(phrase: str) -> None:
    assert phrase in inspect.getsource(PHRASES[phrase])
