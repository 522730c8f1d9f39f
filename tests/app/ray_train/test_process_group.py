"""The workers' process group, as Ray Train's controller has it joined and left."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import pytest
import ray
from ray.train.backend import BackendConfig

from tests.app.ray_head import start_here
from trainshed.ray_train.gloo import GlooConfig
from trainshed.ray_train.nccl import NcclConfig

if TYPE_CHECKING:
    from ray.train._internal.base_worker_group import BaseWorkerGroup

pytestmark = pytest.mark.ray

SECONDS_UNTIL_THE_LOST_ANSWER = 30.0


@pytest.fixture(autouse=True, scope="module")
def session() -> Iterator[None]:
    with start_here(cpus=1):
        yield


@ray.remote(num_cpus=1)
def answer_late() -> None:
    """Answer when nobody waits any more."""
    time.sleep(SECONDS_UNTIL_THE_LOST_ANSWER)


class Group:
    """Two workers of which the second does not answer."""

    def __init__(self) -> None:
        self.lost = answer_late.remote()

    def __len__(self) -> int:
        """Return the number of workers."""
        return 2

    def execute_async(self, _: Callable[[], None], **__: object) -> list[object]:
        """Return the answers to come."""
        return [ray.put(None), self.lost]


@pytest.mark.parametrize("make_config", [GlooConfig, NcclConfig])
def test_a_lost_worker_s_goodbye_is_not_waited_for(
    make_config: Callable[[], BackendConfig],
) -> None:
    group, config = Group(), make_config()

    config.backend_cls().on_shutdown(cast("BaseWorkerGroup", group), config)

    answered, _ = ray.wait([group.lost], timeout=0)
    assert not answered
