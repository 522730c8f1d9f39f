"""Has Ray drop nodes at once whose Pods are gone, as Kubernetes knows.

By itself Ray waits for missed health checks, half a minute with those of 2.60, because from inside
a lost node looks like a busy one. Who is asked for workers meanwhile may choose the lost node.

Private to Ray 2.60, the pinned release: NodeInfoGcsService of src/ray/protobuf/gcs_service.proto.
tests/app/ray_compat/test_lost_nodes.py holds the seams.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Set

log = logging.getLogger("trainshed.ray_compat.lost_nodes")

# For a node that is dead already there is no answer (HandleUnregisterNode, gcs_node_manager.cc).
_SECONDS = 2.0


class LostNodes:
    """The nodes of the cluster that this process has joined, by the names of their Pods."""

    def __init__(self) -> None:
        self._dropped: set[str] = set()

    def drop(self, pods: Collection[str]) -> None:
        """Have the nodes of Pods that are gone declared dead, each once; those not there are.

        What fails is tried again with the next call: it must not end who tells of a run.
        """
        new = set(pods) - self._dropped
        if not new:
            return
        import ray

        if not ray.is_initialized():
            return
        import grpc

        try:
            self._dropped |= drop_nodes(ray.get_runtime_context().gcs_address, new)
        except grpc.RpcError as error:
            log.warning("cannot tell Ray that %s are gone: %s", ", ".join(sorted(new)), error)


def drop_nodes(gcs_address: str, pods: Set[str]) -> Set[str]:
    """Have Ray declare the nodes of these Pods dead; return those that are not alive now.

    Takes a few seconds at most, however many they are. Raises grpc.RpcError.
    """
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import common_pb2, gcs_pb2, gcs_service_pb2, gcs_service_pb2_grpc

    death = common_pb2.NodeDeathInfo(
        reason=common_pb2.NodeDeathInfo.UNEXPECTED_TERMINATION,
        reason_message="Kubernetes has its Pod no more",
    )
    alive = gcs_service_pb2.GetAllNodeInfoRequest(state_filter=gcs_pb2.GcsNodeInfo.ALIVE)
    with init_grpc_channel(gcs_address) as channel:
        service = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        # KubeRay gives each Pod RAY_CLOUD_INSTANCE_ID, its name.
        asked = {
            node.instance_id: service.UnregisterNode.future(
                gcs_service_pb2.UnregisterNodeRequest(node_id=node.node_id, node_death_info=death),
                timeout=_SECONDS,
            )
            for node in service.GetAllNodeInfo(alive, timeout=_SECONDS).node_info_list
            if node.instance_id in pods
        }
        unheard = {pod for pod, answer in asked.items() if answer.exception() is not None}
    return pods - unheard
