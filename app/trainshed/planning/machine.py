"""What this machine has, and whether a run fits it and finds its framework installed."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from importlib.metadata import requires, version
from typing import TYPE_CHECKING

from trainshed.data.sampler.sizes import CacheMemory, WorkerNode
from trainshed_api.errors import Problem, SpecError
from trainshed_api.frameworks import RULES, FrameworkName
from trainshed_api.quantity import parse_bytes, parse_cores

if TYPE_CHECKING:
    from trainshed_api.v1alpha1 import TrainingRunSpec

# Ray's own default: the share of memory that its object store takes.
OBJECT_STORE_SHARE = 0.3
# Ray gives away what is free when it starts, less its object store: a task that asks for more would
# wait for ever.
TASK_SHARE = 0.5


@dataclass(frozen=True)
class Machine:
    """CPUs, memory in bytes, GPUs."""

    cpus: int
    memory: int
    gpus: int


def this_machine(wants_gpus: bool) -> Machine:
    """Return what this machine has; GPUs are only looked for when somebody wants them."""
    gpus = 0
    if wants_gpus:
        import torch

        gpus = torch.cuda.device_count()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(len(os.sched_getaffinity(0)), pages, gpus)


def gpu_capabilities() -> list[tuple[int, int]]:
    """Return the compute capability of each of this machine's GPUs; takes a second of a start."""
    import torch

    return [torch.cuda.get_device_capability(gpu) for gpu in range(torch.cuda.device_count())]


def check_fits(spec: TrainingRunSpec, machine: Machine) -> None:
    """Refuse workers that this machine cannot hold.

    Raises:
        SpecError: with what the machine has.
    """
    workers, resources = spec.workers, spec.workers.resources
    problems = []
    cpus = workers.count * parse_cores(resources.cpu)
    if cpus > machine.cpus:
        expected = (
            f"at most the {machine.cpus} CPUs of this machine (fewer workers, or a smaller cpu)"
        )
        got = f"{workers.count} workers x {resources.cpu} CPUs = {cpus:g}"
        problems.append(Problem("spec.workers", got, expected))
    gpus = workers.count * resources.gpu
    if gpus > machine.gpus:
        expected = f"at most the {machine.gpus} GPUs of this machine; --cpu trains without"
        got = f"{workers.count} workers x {resources.gpu} GPUs = {gpus}"
        problems.append(Problem("spec.workers.resources.gpu", got, expected))
    if resources.memory:
        memory = workers.count * parse_bytes(resources.memory)
        if memory > machine.memory:
            expected = f"at most the {machine.memory / 2**30:.1f}Gi of this machine"
            got = f"{workers.count} workers x {resources.memory}"
            problems.append(Problem("spec.workers.resources.memory", got, expected))
    for name, dataset in spec.data.datasets.items():
        memory = parse_bytes(dataset.task.memory) if dataset.task.memory else 0
        if memory > TASK_SHARE * machine.memory:
            expected = (
                f"at most {TASK_SHARE * machine.memory / 2**30:.1f}Gi, half of this machine's"
            )
            field = f"spec.data.datasets.{name}.task.memory"
            problems.append(Problem(field, dataset.task.memory, expected))
    if problems:
        raise SpecError(problems)


def machine_memory(spec: TrainingRunSpec, machine: Machine) -> CacheMemory:
    """Return the memory that caches may count on."""
    store = int(machine.memory * OBJECT_STORE_SHARE)
    rest, count = machine.memory - store, spec.workers.count
    asked = spec.workers.resources.memory
    worker = parse_bytes(asked) if asked else rest // count
    return CacheMemory(worker, store, (WorkerNode(count, rest, store),))


def check_framework(name: FrameworkName, in_cluster: bool) -> None:
    """Refuse a framework that is not here, before anything of the user's is imported.

    Args:
        name: as the spec has it.
        in_cluster: whether this is a node of a cluster, which has what its image has.

    Raises:
        SpecError: saying what has it.
    """
    module = RULES[name].module
    if importlib.util.find_spec(module) is None:
        extra = [each.split(";") for each in requires("trainshed") or () if f'"{name}"' in each]
        how = "run pip install " + " ".join(f'"{package.strip()}"' for package, _ in extra)
        if in_cluster:
            how = (
                f"an image with the tag {version('trainshed')}-{name} has it: set the chart's "
                "image.tag, or name a class of controller.classImages in "
                "spec.cluster.dedicated.class"
            )
        expected = f"an installed framework: {module} is missing; {how}"
        raise SpecError([Problem("spec.framework", name, expected)])


def use_keras_2() -> None:
    """Choose Keras 2, before TensorFlow is imported, as Ray does.

    Keras 3 does not train by the strategy of several workers.
    """
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
