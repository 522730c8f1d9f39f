"""What of Ray that is private to it the run stands on: names, hooks and what they are given.

Read off the sources, so that nothing of it is listed twice. `make seams RAY=<version>` says which
of these another release breaks.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import pytest

import trainshed
from trainshed_api.syntax import parse_python

SOURCES = Path(trainshed.__file__).parent
# Of Ray Train the second generation as a whole: its public names come without their modules.
PRIVATE = ("ray.train.v2", "ray.core.generated")
# Methods of ours, beside those that Ray calls.
OURS = {
    "DeferredStateManager": {"begin"},
    "PlannedShard": {"_bundles", "world_size"},
    "RestartPolicy": {"_is_spent"},
    "_Guard": {"_is_left", "_others_wait", "_may_end"},
}


@dataclass(frozen=True)
class Name:
    """A private name of Ray's, and who imports it."""

    module: str
    name: str
    importer: str

    def __str__(self) -> str:
        return f"{self.importer}: {self.module}.{self.name}"


def is_private(module: str) -> bool:
    """Say whether a module of Ray's is no part of its documented API."""
    parts = module.split(".")
    return parts[0] == "ray" and (
        any(part.startswith("_") for part in parts) or module.startswith(PRIVATE)
    )


def private_names() -> Iterator[Name]:
    """Find what the sources import of Ray's private modules, also for types alone."""
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(parse_python(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and is_private(node.module):
                for alias in node.names:
                    yield Name(node.module, alias.name, str(file.relative_to(SOURCES)))
            if isinstance(node, ast.ImportFrom) and node.module in ("ray", "ray.train"):
                for alias in node.names:
                    if alias.name.startswith("_"):
                        yield Name(node.module, alias.name, str(file.relative_to(SOURCES)))


def classes_on_ray(module: str) -> Iterator[type]:
    """Find the classes of a module that have a class of Ray's among their bases."""
    for item in vars(importlib.import_module(module)).values():
        is_there = isinstance(item, type) and item.__module__ == module
        if is_there and any(base.__module__.startswith("ray.") for base in item.__mro__[1:]):
            yield item


NAMES = list(private_names())
MODULES = [
    found.name
    for found in pkgutil.walk_packages([str(SOURCES)], "trainshed.")
    # TensorFlow, wandb and the trainers of other libraries are not installed here.
    if found.name
    not in (
        "trainshed.__main__",
        "trainshed.huggingface",
        "trainshed.lightning",
        "trainshed.tracking.on_wandb",
    )
    and not found.name.startswith(("trainshed.keras.", "trainshed.predict.keras_model"))
]


@pytest.mark.parametrize("wanted", NAMES, ids=str)
def test_a_private_name_is_there(wanted: Name) -> None:
    module = importlib.import_module(wanted.module)
    if not hasattr(module, wanted.name):
        importlib.import_module(f"{wanted.module}.{wanted.name}")


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_overrides_is_there_and_takes_what_ray_gives(module: str) -> None:
    for ours in classes_on_ray(module):
        theirs = [base for base in ours.__mro__[1:] if not base.__module__.startswith("trainshed")]
        own = OURS.get(ours.__name__, set())
        for name, method in vars(ours).items():
            if isinstance(method, FunctionType) and name != "__init__" and name not in own:
                base = next((vars(base)[name] for base in theirs if name in vars(base)), None)
                check_override(f"{ours.__name__}.{name}", method, base)


def check_override(name: str, method: FunctionType, base: object) -> None:
    """Say what is wrong with a method that Ray is to call."""
    assert base is not None, f"{name}: Ray has nothing of the name, so nobody calls it"
    if isinstance(base, FunctionType):
        taken, given = inspect.signature(method).parameters, inspect.signature(base).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in taken.values())
        assert takes_all or set(given) <= set(taken), f"{name}: Ray gives {list(given)}"


TRAIN = "ray.train.v2._internal"
EXECUTION = "ray.data._internal.execution"
USED = (
    f"{TRAIN}.callbacks.state_manager:TrainStateManager",
    f"{TRAIN}.callbacks.preemption_callback:PreemptionCallback._stop_watcher",
    f"{TRAIN}.constants:ENV_VARS_TO_PROPAGATE",
    f"{TRAIN}.constants:get_env_vars_to_propagate",
    f"{TRAIN}.constants:ENABLE_PREEMPTION_WATCHER_ENV_VAR",
    f"{TRAIN}.constants:HEALTH_CHECK_INTERVAL_S_ENV_VAR",
    f"{TRAIN}.constants:WORKER_GROUP_START_TIMEOUT_S_ENV_VAR",
    f"{TRAIN}.execution.controller.controller:CheckpointManager",
    f"{TRAIN}.execution.train_fn_utils:DistributedTrainFnUtils.get_all_reported_checkpoints",
    f"{TRAIN}.execution.train_fn_utils:DistributedTrainFnUtils.get_checkpoint",
    f"{EXECUTION}.interfaces.physical_operator:PhysicalOperator.num_active_tasks",
    f"{EXECUTION}.metadata_fetcher:_PREFETCH_ON_THREAD",
    f"{EXECUTION}.operators.map_operator:MapOperator.get_map_transformer",
    f"{EXECUTION}.operators.map_transformer:MapTransformer.get_transform_fns",
    f"{EXECUTION}.resource_manager:ResourceManager.get_global_limits",
    f"{EXECUTION}.resource_manager:ResourceManager.get_global_usage",
    f"{EXECUTION}.streaming_executor:StreamingExecutor.set_external_consumer_bytes",
    f"{EXECUTION}.streaming_executor_state:OpState.output_queue_bytes",
    f"{EXECUTION}.streaming_executor_state:OpState.total_enqueued_input_blocks",
    f"{EXECUTION}.streaming_executor_state:ray.wait",
    "ray.core.generated.gcs_service_pb2_grpc:NodeInfoGcsServiceStub",
)


@pytest.mark.parametrize("place", USED)
def test_what_is_used_without_an_import_is_there(place: str) -> None:
    find(place)


@pytest.mark.parametrize(
    ("place", "parameters"),
    [
        (f"{TRAIN}.execution.worker_group.state:_shutdown_workers", {"patience_s"}),
        (
            f"{TRAIN}.execution.controller.controller:TrainController.__init__",
            {"failure_policy", "train_fn_ref", "callbacks"},
        ),
        (
            "ray.data._internal.execution.operators.shuffle_operators.shuffle_reduce_operator:"
            "ShuffleReduceOp.__init__",
            {"reduce_ray_remote_args"},
        ),
        ("ray.data._internal.output_buffer:OutputBlockSizeOption.of", {"disable_block_shaping"}),
    ],
)
def test_what_is_called_takes_what_it_is_given(place: str, parameters: set[str]) -> None:
    function = find(place)

    assert callable(function)
    assert parameters <= set(inspect.signature(function).parameters)


def find(place: str) -> object:
    """Return what is called so. Raises AttributeError where it is not there."""
    module, _, path = place.partition(":")
    found: object = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def test_messages_of_the_gcs_have_the_fields_that_are_used() -> None:
    from ray.core.generated import gcs_pb2, gcs_service_pb2

    for message, fields in (
        (gcs_service_pb2.UnregisterNodeRequest, {"node_id", "node_death_info"}),
        (gcs_service_pb2.GetAllNodeInfoRequest, {"state_filter"}),
        (gcs_pb2.GcsNodeInfo, {"node_id", "instance_id"}),
    ):
        assert fields <= set(message.DESCRIPTOR.fields_by_name), message


def test_the_statistics_of_an_iteration_have_the_seconds_that_it_blocked() -> None:
    from ray.data._internal.stats import DatasetStats

    assert DatasetStats(metadata={}, parent=None).iter_total_blocked_s.get() == 0.0


def test_seams_are_found() -> None:
    # A test of nothing passes, too.
    assert len(NAMES) > 40
    found = {each.__name__ for module in MODULES for each in classes_on_ray(module)}
    assert {"Trainer", "DeferredStateExport", "ScriptRelay", "PlannedShard"} <= found
