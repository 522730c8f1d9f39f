"""Whose fault an error is, and what follows: the one place that tells faults apart.

Pure, and light: Ray Train's controller imports this, and torch would cost it two seconds. So what
torch and Ray raise is known by the names of its types, which work for both.

What is known of nothing here is the user's own where their code raised it. A fault of the world
that is taken for the user's ends a run for nothing; the other way round costs the restarts below
and `failurePolicy.maxInfrastructureFailures` attempts. So in doubt it is the user's.
"""

from __future__ import annotations

import errno
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainshed_api.names import APPLICATION, INFRASTRUCTURE, OUT_OF_MEMORY, FailureCause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal[
    "code",
    "data",
    "slice",
    "memory",
    "shared",
    "killed",
    "full",
    "scratch",
    "damaged",
    "gpu",
    "storage",
    "network",
    "node",
    "start",
    "timeout",
    "peer",
]


@dataclass(frozen=True)
class FailureHandling:
    """What follows a fault.

    Args:
        cause: of a failed attempt, by which the controller decides on another one.
        restarts: how often the workers start again for it inside an attempt; None for as often as
            for any lost worker.
        says: what is said before the error's own words; nothing where those are the user's.
    """

    cause: FailureCause
    restarts: int | None
    says: str = ""


# Where several workers failed the first kind of this order counts: what the others say follows it.
RULES: Mapping[Kind, FailureHandling] = {
    "code": FailureHandling(APPLICATION, 0),
    "data": FailureHandling(APPLICATION, 0),
    "slice": FailureHandling(
        APPLICATION,
        0,
        "BatchNorm cannot train on a single row of a worker (feed.lastBatch: drop leaves a smaller "
        "last step out)",
    ),
    # The same allocation would only fail again; another attempt may find another neighbour.
    "memory": FailureHandling(OUT_OF_MEMORY, 0),
    "shared": FailureHandling(OUT_OF_MEMORY, 0, "shared memory ran out"),
    "killed": FailureHandling(OUT_OF_MEMORY, None, "a node ran out of memory"),
    # Room comes in minutes, if at all: the pauses between attempts are for that.
    "full": FailureHandling(INFRASTRUCTURE, 0, "the storage is full"),
    "scratch": FailureHandling(INFRASTRUCTURE, 0, "the disk of a node is full"),
    # The next attempt resumes from the checkpoint before it.
    "damaged": FailureHandling(INFRASTRUCTURE, 0, "a checkpoint is damaged"),
    # A worker that starts again mostly gets the same GPU.
    "gpu": FailureHandling(INFRASTRUCTURE, 2, "a GPU is broken"),
    "storage": FailureHandling(INFRASTRUCTURE, None, "the storage failed"),
    "network": FailureHandling(INFRASTRUCTURE, None, "the network failed"),
    "node": FailureHandling(INFRASTRUCTURE, None, "a node or one of its processes was lost"),
    "start": FailureHandling(
        INFRASTRUCTURE,
        0,
        "Ray did not start on this machine in time. Run the same command again when the machine "
        "has free CPUs and memory, or raise RAY_raylet_start_wait_time_s (30)",
    ),
    # Ranks that disagree on what to do next hang for ever, and each time-out may take half an hour.
    "timeout": FailureHandling(INFRASTRUCTURE, 1, "workers timed out waiting for each other"),
    "peer": FailureHandling(INFRASTRUCTURE, None, "another worker was lost"),
}


class InfrastructureError(Exception):
    """A fault of the world, told from the user's where it was seen.

    Args:
        message: what failed and how, on one line.
        kind: of the fault.
    """

    def __init__(self, message: str, kind: Kind) -> None:
        # Both are arguments of the exception, or the kind would be lost between processes.
        super().__init__(message, kind)

    @property
    def kind(self) -> Kind:
        """Return the kind of the fault."""
        kind: Kind = self.args[1]
        return kind

    def __str__(self) -> str:
        return str(self.args[0])


def classify(error: BaseException) -> Kind | None:
    """Return the kind of an error; None where neither it nor its causes are known here."""
    return next((kind for each in causes(most_telling(error)) if (kind := _kind(each))), None)


def most_telling(error: BaseException) -> BaseException:
    """Return what failed first of several workers, as far as kinds tell; else the error itself."""
    failures = getattr(error, "worker_failures", None)  # of Ray Train's WorkerGroupError
    if not failures:
        return error
    order: list[Kind | None] = [*RULES, None]
    first: BaseException = min(failures.values(), key=lambda each: order.index(classify(each)))
    return first


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, from the outside in, without what Ray puts around them."""
    inner: BaseException | None = error
    seen: set[int] = set()
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        wrapped = next((found for name in _WRAPPED if (found := _held(inner, name))), None)
        if wrapped is None:
            yield inner
        context = None if inner.__suppress_context__ else inner.__context__
        inner = wrapped or inner.__cause__ or context


def as_world_error(error: BaseException) -> InfrastructureError | None:
    """Return the fault of the world that an error carries from where it was seen."""
    return next((each for each in causes(error) if isinstance(each, InfrastructureError)), None)


def is_passing(error: BaseException) -> bool:
    """Say whether an error of a read may be gone when the same is read again."""
    return classify(error) in ("storage", "network")


def told(kind: Kind, words: str) -> str:
    """Return an error's own words with what its kind means before them."""
    return f"{RULES[kind].says}: {words}" if RULES[kind].says else words


# Attributes by which Ray's errors hold the one that they are about.
_WRAPPED = ("cause", "health_check_failure", "controller_failure", "_base_exc")

_TYPES: Mapping[str, Kind] = {
    "builtins.MemoryError": "memory",
    "torch.OutOfMemoryError": "memory",
    "torch.distributed.DistNetworkError": "peer",
    "torch.distributed.DistStoreError": "timeout",
    "tensorflow.python.framework.errors_impl.UnavailableError": "peer",
    "tensorflow.python.framework.errors_impl.AbortedError": "peer",
    "tensorflow.python.framework.errors_impl.DeadlineExceededError": "timeout",
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError": "memory",
    "trainshed.data.sources.errors.UsersError": "code",
    "trainshed.data.sources.errors.DataError": "data",
    "trainshed.worker.user_failure.UserFailureError": "code",
    "trainshed.storage.scratch.NoRoomError": "scratch",
    "ray.exceptions.OutOfMemoryError": "killed",
    "ray.exceptions.ObjectStoreFullError": "memory",
    "ray.exceptions.OutOfDiskError": "full",
    "ray.exceptions.RpcError": "network",
    "ray.exceptions.WorkerCrashedError": "node",
    "ray.exceptions.NodeDiedError": "node",
    "ray.exceptions.LocalRayletDiedError": "node",
    "ray.exceptions.RayActorError": "node",
    "ray.exceptions.ObjectLostError": "node",
    "ray.exceptions.PlasmaObjectNotAvailable": "node",
    # Such as a task that is run again and hands out other blocks.
    "ray.exceptions.RaySystemError": "node",
    "ray.exceptions.RuntimeEnvSetupError": "code",
    "ray.train.v2._internal.exceptions.WorkerHealthCheckTimeoutError": "node",
    "ray.train.v2._internal.exceptions.WorkerGroupStartupFailedError": "node",
    "ray.train.v2._internal.exceptions.WorkerGroupStartupTimeoutError": "node",
    "ray.train.v2._internal.exceptions.CollectiveTimeoutError": "timeout",
}

_STORAGE = {errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EREMOTEIO}
_NETWORK = {
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    socket.EAI_AGAIN,
}
# What torch's DataLoader raises again from its workers has lost its number.
_NUMBER = re.compile(r"\[Errno (-?\d+)\]")

# The words of the CUDA runtime (cudaGetErrorString) and of NVIDIA's driver (Xid).
_USERS_KERNEL = re.compile(r"device-side assert|illegal memory access|misaligned address")
_GPU = re.compile(
    r"uncorrectable (ECC|NVLink) error|or a hardware error|GPU is lost|fallen off the bus|\bXid\b"
    r"|CUDA-capable device|CUDA error: (unknown error|system not yet init)|CUDA unknown error"
)
_MEMORY = re.compile(
    r"CUDA( error:|)? out of memory|Cuda failure \d* ?'out of memory'|CUBLAS_STATUS_ALLOC_FAILED"
    r"|DefaultCPUAllocator: (can't allocate|not enough) memory"
)
# The words of NCCL and of PyTorch's DataLoader when /dev/shm is full. NCCL also fails to attach
# to a segment, as where the rank that made it is gone: https://github.com/NVIDIA/nccl/issues/1589
_SHARED = re.compile(
    r"creating shared memory segment|failed to extend /dev/shm|workers are out of shared memory"
)
# How Ray says that its memory monitor ended a process.
_KILLED = re.compile(r"ray\.exceptions\.OutOfMemoryError|running low on memory")
# A connection that timed out is that of a machine that is gone; a wait that did may be anybody's.
_LATE = re.compile(r"(?<!Connection )[Tt]imed out|(Connect|Application) timeout|before timing out")
_WRONG_CALL = re.compile(r"ncclInvalid(Usage|Argument)")
# The words of SQLite, of libpq and PostgreSQL's server, and of MySQL and its clients.
_OF_DATABASES: Mapping[Kind, re.Pattern[str]] = {
    "storage": re.compile(r"is locked|[Dd]eadlock (detected|found)|Lock wait timeout exceeded"),
    "network": re.compile(
        r"Connection (refused|reset|timed out)|connection unexpectedly|gone away|Lost connection"
        r"|terminating connection|database system is|[Tt]oo many (clients|connections)"
    ),
}
# F.batch_norm of torch, of what a worker has of a step.
_ONE_ROW = "Expected more than 1 value per channel when training"
# Node.__init__ in ray/_private/node.py, wait_for_node in services.py, and C++: each waits 30 s.
_NOT_STARTED = re.compile(r"node timed out during startup|while waiting for node to startup")
_GONE = re.compile(r"Connection|connectFullMesh|Socket closed|Broken pipe")


def _kind(error: BaseException) -> Kind | None:
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    if isinstance(error, InfrastructureError):
        found: Kind | None = error.kind
    elif "ray.exceptions.RayError" in names and _KILLED.search(str(error)):
        found = "killed"
    elif _NOT_STARTED.search(str(error)):
        found = "start"
    elif any(name.endswith(".OperationalError") for name in names):
        # PEP 249's name in all drivers, which have mistakes of users among these.
        found = next(
            (kind for kind, said in _OF_DATABASES.items() if said.search(str(error))), None
        )
    else:
        found = next((_TYPES[name] for name in names if name in _TYPES), None)
    if found:
        return found
    if "xgboost.core.XGBoostError" in names:
        return _kind_in_xgboost(str(error))
    if "tensorflow.python.framework.errors_impl.UnknownError" in names:
        # Another program took the port after it was announced as free.
        return "network" if "Could not start gRPC server" in str(error) else None
    if isinstance(error, OSError):
        return _kind_of_call(error)
    if isinstance(error, RuntimeError):
        return _kind_of_words(str(error), "torch.distributed.DistBackendError" in names)
    is_slice = isinstance(error, ValueError) and str(error).startswith(_ONE_ROW)
    return "slice" if is_slice else None


def _kind_in_xgboost(text: str) -> Kind | None:
    """Return the kind of what XGBoost says: the C++ places of its collective, one in another."""
    if "/collective/" not in text:
        return None
    return "timeout" if _LATE.search(text) else "peer"


def _kind_of_call(error: OSError) -> Kind | None:
    """Return the kind of what the operating system refused; a missing file is a mistake."""
    number = error.errno
    if number is None and (written := _NUMBER.search(str(error))):
        number = int(written[1])
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "full"
    if number == errno.ENOMEM:
        return "memory"
    if number in _STORAGE:
        return "storage"
    return "network" if number in _NETWORK else None


def _kind_of_words(text: str, is_of_nccl: bool) -> Kind | None:
    """Return the kind of a plain RuntimeError, which C++ raises for most errors."""
    for kind, pattern in _WORDS.items():
        if pattern.search(text):
            return kind
    # Gloo begins with the C++ file that it comes from, but for the time-out of its meeting.
    if text == "Wait timeout" or ((is_of_nccl or "gloo" in text) and _LATE.search(text)):
        return "timeout"
    if is_of_nccl:
        return "code" if _WRONG_CALL.search(text) else "peer"
    return "peer" if "gloo" in text and _GONE.search(text) else None


_WORDS: Mapping[Kind, re.Pattern[str]] = {
    "code": _USERS_KERNEL,
    "gpu": _GPU,
    "memory": _MEMORY,
    "shared": _SHARED,
    "killed": _KILLED,
}


def _held(error: BaseException, name: str) -> BaseException | None:
    held = getattr(error, name, None)
    return held if isinstance(held, BaseException) else None
