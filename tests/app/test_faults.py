"""The table of faults: of which kind an error is, and that docs/controller.md says the same."""

import errno
import os
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import ray.exceptions
import torch
from ray import cloudpickle
from ray.exceptions import RayTaskError
from ray.train.v2._internal.exceptions import (
    WorkerGroupStartupTimeoutError,
    WorkerHealthCheckFailedError,
)
from ray.train.v2._internal.util import construct_user_exception_with_traceback
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError
from torch import distributed
from xgboost.core import XGBoostError

from trainshed.attempt.result import AttemptResult
from trainshed.data.sources.errors import DataError, FunctionError
from trainshed.failures import (
    RULES,
    InfrastructureError,
    Kind,
    classify,
    is_passing,
    most_telling,
    told,
)
from trainshed.worker.process import summary
from trainshed.worker.user_failure import UserFailureError
from trainshed_api.names import INFRASTRUCTURE

DOCS = Path(__file__).parents[2] / "docs" / "controller.md"
PAIR = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] "
BUFFER = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] "


def failed(number: int) -> OSError:
    """Return what the operating system raises."""
    return OSError(number, os.strerror(number), "/data/part-0.parquet")


def through_ray(error: Exception) -> Exception:
    """Return an error as it comes out of one of Ray's tasks, in another process."""
    made: Any = RayTaskError  # whose arguments Ray has left without types
    wrapped = made("read", "Traceback (most recent call last):\n", error).as_instanceof_cause()
    arrived: Exception = cloudpickle.loads(cloudpickle.dumps(wrapped))  # type: ignore[no-untyped-call]
    return arrived


def caused(error: Exception, cause: Exception) -> Exception:
    """Return an error that was raised from another one."""
    error.__cause__ = cause
    return error


def while_handling(error: Exception, context: Exception) -> Exception:
    """Return an error that was raised while another one was handled."""
    error.__context__ = context
    return error


class OperationalError(Exception):
    """What drivers of databases raise, by the name that PEP 249 gives it."""


GPU_ERRORS = (
    "uncorrectable ECC error encountered",
    "uncorrectable NVLink error detected during the execution",
    "Invalid access of peer GPU memory over nvlink or a hardware error",
    "CUDA-capable device(s) is/are busy or unavailable",
    "no CUDA-capable device is detected",
    "unknown error",
    "system not yet initialized",
)
STORAGE_NUMBERS = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EREMOTEIO)
NETWORK_NUMBERS = (errno.ECONNREFUSED, errno.ECONNRESET, errno.ENETUNREACH, errno.EHOSTUNREACH)
USERS_NUMBERS = (errno.ENOENT, errno.EACCES, errno.EISDIR, errno.EMFILE, errno.EPIPE, errno.EFBIG)


def refused_by_batch_norm() -> ValueError:
    """Return what torch raises where a worker has one row of a step."""
    with pytest.raises(ValueError, match="more than 1 value") as caught:
        torch.nn.BatchNorm1d(3)(torch.ones(1, 3))
    return caught.value


CASES: dict[str, tuple[Exception, Kind | None]] = {
    # ------------------------------------------------ the user's
    "a mistake": (KeyError("lable"), None),
    "a mistake in what torch is given": (RuntimeError("mat1 and mat2 cannot be multiplied"), None),
    "a shape that ranks disagree on": (
        RuntimeError(f"{PAIR}op.preamble.length"),
        None,
    ),
    "text that looks like gloo's": (ValueError(f"{PAIR}Connection closed by peer"), None),
    "a wait of the user's": (TimeoutError(), None),
    "an assert on the device": (
        torch.AcceleratorError("CUDA error: device-side assert triggered"),
        "code",
    ),
    "an illegal access": (RuntimeError("CUDA error: an illegal memory access occurred"), "code"),
    "NCCL called wrongly": (
        distributed.DistBackendError("NCCL error, ncclInvalidUsage: Duplicate GPU detected"),
        "code",
    ),
    "a transform": (FunctionError("spec.data: halve raised LookupError: no half"), "code"),
    "an environment": (ray.exceptions.RuntimeEnvSetupError("no matching version"), "code"),
    "what a worker said already": (UserFailureError("KeyError: 'lable'"), "code"),
    "a damaged row group": (DataError("a.parquet: row groups [1] are damaged"), "data"),
    "data through Ray": (through_ray(DataError("a.parquet: damaged")), "data"),
    "a slice of one row": (refused_by_batch_norm(), "slice"),
    # --------------------------------------------------- memory
    "a GPU that is full": (torch.OutOfMemoryError("CUDA out of memory."), "memory"),
    "NCCL without memory": (
        distributed.DistBackendError("unhandled cuda error, Cuda failure 2 'out of memory'"),
        "memory",
    ),
    "NCCL without shared memory": (
        distributed.DistBackendError(
            "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\nLast error:\n"
            "Error while creating shared memory segment /dev/shm/nccl-WU88OE (size 9637888)"
        ),
        "shared",
    ),
    "a DataLoader without shared memory": (
        RuntimeError(
            "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory."
        ),
        "shared",
    ),
    "NCCL that cannot extend a segment": (
        distributed.DistBackendError(
            "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\nLast error:\n"
            "Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes"
        ),
        "shared",
    ),
    "NCCL that does not find the segment of another rank": (
        distributed.DistBackendError(
            "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\nLast error:\n"
            "Error while attaching to shared memory segment /dev/shm/nccl-glnlGK (size 14156128), "
            "error: No such file or directory (2)"
        ),
        "peer",
    ),
    "a kernel that needs more shared memory than a GPU has": (
        RuntimeError("the kernel is out of shared memory"),
        None,
    ),
    "a tensor that is too large": (
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
        "memory",
    ),
    "an array that is too large": (MemoryError(), "memory"),
    "no memory for a call": (failed(errno.ENOMEM), "memory"),
    "the monitor ended it": (
        ray.exceptions.OutOfMemoryError("node is low"),  # type: ignore[no-untyped-call]
        "killed",
    ),
    "the monitor ended an actor": (
        ray.exceptions.RayActorError(error_msg="killed: the node running low on memory"),
        "killed",
    ),
    # ------------------------------------------------ XGBoost's
    "a parameter that XGBoost does not know": (
        XGBoostError("[01:44:49] /workspace/src/metric/metric.cc:49: Unknown metric function x"),
        None,
    ),
    "a peer of XGBoost's that was killed": (
        XGBoostError(
            "[01:44:49] /workspace/src/collective/result.cc:83: [histogram.h:197|01:44:49]:\n\n"
            "- [allreduce.cc:135|01:44:49]: Ring Allreduce failed.\n"
            "- [socket.h:79|01:44:49]: Poll error condition:Success code:0"
        ),
        "peer",
    ),
    "ranks of XGBoost's that waited in vain": (
        XGBoostError("[01:44:49] /workspace/src/collective/result.cc:83: Poll timed out"),
        "timeout",
    ),
    # ------------------------------------------------ the world's
    "an uninterruptible read": (
        InfrastructureError("a.parquet: row groups [1]", "storage"),
        "storage",
    ),
    "a name that cannot be looked up now": (
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        "network",
    ),
    "no such name": (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), None),
    "a full disk": (failed(errno.ENOSPC), "full"),
    "a spent quota": (failed(errno.EDQUOT), "full"),
    "a full disk of Ray's": (ray.exceptions.OutOfDiskError("no room"), "full"),
    "a worker that crashed": (ray.exceptions.WorkerCrashedError(), "node"),
    "an actor that died": (ray.exceptions.RayActorError(), "node"),
    "an object that is lost": (
        ray.exceptions.ObjectLostError("0" * 56, None, ""),
        "node",
    ),
    "a node that died": (
        ray.exceptions.NodeDiedError("lost"),  # type: ignore[no-untyped-call]
        "node",
    ),
    "a check of a worker's health": (
        WorkerHealthCheckFailedError("no answer", ray.exceptions.RayActorError()),
        "node",
    ),
    "workers that cannot start": (ControllerError(WorkerGroupStartupTimeoutError(2)), "node"),
    "a Ray that does not start in time": (
        Exception("The current node timed out during startup. This could happen because some"),
        "start",
    ),
    "a Ray whose object store does not start in time": (
        TimeoutError("Timed out after 30 seconds while waiting for node to startup. Did not find"),
        "start",
    ),
    # ----------------------------------------------------- databases
    "a database that somebody writes": (
        through_ray(sqlite3.OperationalError("database is locked")),
        "storage",
    ),
    "a mistake in SQL": (sqlite3.OperationalError("no such table: digits"), None),
    "a server of a database that is down": (
        OperationalError(
            'connection to server at "db" (10.0.0.7), port 5432 failed: Connection refused'
        ),
        "network",
    ),
    "a server of a database that starts": (
        OperationalError("FATAL:  the database system is starting up"),
        "network",
    ),
    "a server of a database that left": (
        OperationalError(2013, "Lost connection to MySQL server during query"),
        "network",
    ),
    "a password that is wrong": (
        OperationalError('FATAL:  password authentication failed for user "me"'),
        None,
    ),
    # -------------------------------------------------- collectives
    "a peer that died": (RuntimeError(f"{PAIR}Read error: Connection reset by peer."), "peer"),
    "a peer that was switched off": (
        RuntimeError(f"{PAIR}Read error: Connection timed out"),
        "peer",
    ),
    "a peer that left": (RuntimeError(f"{PAIR}Connection closed by peer [::1]"), "peer"),
    "NCCL's peer": (distributed.DistBackendError("NCCL communicator was aborted."), "peer"),
    "the store's host": (distributed.DistNetworkError("Failed to recv, got 0 bytes."), "peer"),
    "gloo's time-out": (
        RuntimeError(f"{BUFFER}Timed out waiting 1000ms for recv operation to complete"),
        "timeout",
    ),
    "gloo's time-out at its meeting": (RuntimeError("Wait timeout"), "timeout"),
    "the store's time-out": (distributed.DistStoreError("wait timeout after 1000ms"), "timeout"),
    "NCCL's time-out": (
        distributed.DistBackendError("WorkNCCL(OpType=ALLREDUCE) ran for 9 ms before timing out."),
        "timeout",
    ),
    # ----------------------------------------- what lies around it
    "storage, through Ray": (through_ray(failed(errno.EIO)), "storage"),
    "storage, from torch's loader": (
        OSError("Caught OSError in DataLoader worker process 0.\nOSError: [Errno 5] Input/output"),
        "storage",
    ),
    "storage, as a cause": (caused(RuntimeError("no picture"), failed(errno.ESTALE)), "storage"),
    "storage, handled badly": (while_handling(KeyError("x"), failed(errno.EIO)), "storage"),
    "a mistake that was handled": (while_handling(KeyError("x"), failed(errno.ENOENT)), None),
    "a GPU, from Ray Train": (
        construct_user_exception_with_traceback(RuntimeError(f"CUDA error: {GPU_ERRORS[0]}")),
        "gpu",
    ),
    **{
        f"GPU: {words}": (torch.AcceleratorError(f"CUDA error: {words}\nCompile with ..."), "gpu")
        for words in GPU_ERRORS
    },
    **{os.strerror(number): (failed(number), "storage") for number in STORAGE_NUMBERS},
    **{os.strerror(number): (failed(number), "network") for number in NETWORK_NUMBERS},
    **{os.strerror(number): (failed(number), None) for number in USERS_NUMBERS},
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_of_its_kind(case: str) -> None:
    error, want = CASES[case]
    assert classify(error) == want


def test_a_slice_of_one_row_is_told_with_the_field_that_leaves_it_out() -> None:
    said = told("slice", summary(refused_by_batch_norm()))

    assert "(feed.lastBatch: drop leaves a smaller last step out): ValueError: Expected" in said


def test_of_several_workers_the_one_counts_that_the_others_follow() -> None:
    gone = RuntimeError(f"{PAIR}Connection closed by peer")
    late = RuntimeError(f"{BUFFER}Timed out waiting 1000ms for recv operation to complete")
    lost = ray.exceptions.RayActorError()
    broken = failed(errno.EIO)
    group = WorkerGroupError("failed", {0: gone, 1: late, 2: lost, 3: broken})

    assert (classify(group), most_telling(group)) == ("storage", broken)
    assert classify(WorkerGroupError("failed", {0: gone, 1: late, 2: lost})) == "node"
    assert classify(WorkerGroupError("failed", {0: gone, 1: late})) == "timeout"
    assert classify(WorkerGroupError("failed", {0: gone, 1: ValueError("odd")})) == "peer"


def test_only_reads_that_may_succeed_are_worth_another_try() -> None:
    passing = {number: is_passing(failed(number)) for number in (*STORAGE_NUMBERS, *USERS_NUMBERS)}
    assert passing == dict.fromkeys(STORAGE_NUMBERS, True) | dict.fromkeys(USERS_NUMBERS, False)
    assert not is_passing(failed(errno.ENOSPC))


def test_a_fault_of_the_world_survives_the_way_through_processes() -> None:
    error = InfrastructureError("a.parquet: row groups [3]: Input/output error", "storage")
    arrived = cloudpickle.loads(cloudpickle.dumps(error))  # type: ignore[no-untyped-call]
    assert (str(arrived), arrived.kind) == (str(error), "storage")
    assert classify(through_ray(error)) == "storage"


def test_a_ray_that_does_not_start_in_time_is_explained_with_what_to_do() -> None:
    ended = AttemptResult.crashed(Exception("The current node timed out during startup. This"))
    assert ended.cause == INFRASTRUCTURE
    assert ended.message.startswith("Ray did not start on this machine in time. Run the")


def test_the_docs_have_the_table_as_it_is() -> None:
    text = DOCS.read_text()
    section = text.partition("## Error kinds\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    written = {name.strip(" `"): (again.strip(), cause.strip()) for name, _, again, cause in rows}
    said = {None: "as for any lost worker", 0: "no", 1: "once", 2: "twice"}
    assert written == {kind: (said[rule.restarts], rule.cause) for kind, rule in RULES.items()}
