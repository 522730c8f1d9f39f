"""A kubelet without a node: Pods run as far as the API shows, until a test loses one.

It also plays the scheduler, and it starts and ends the heads of `Dashboards` with the containers
of the head Pods: each container of a head is a head of its own, with a memory of its own.
"""

import asyncio
import base64
import itertools
import logging
import uuid
from datetime import UTC, datetime

from pydantic import JsonValue

from tests.kuberay.api import PODS, SECRETS, ApiError, KubeApi
from tests.kuberay.dashboards import Dashboards
from tests.kuberay.mirror import Key, Mirror
from tests.kuberay.names import LABEL_CLUSTER, LABEL_NODE_TYPE, TOKEN_KEY
from tests.kuberay.resources import Container, Manifest, Pod
from tests.kuberay.workqueue import WorkQueue

NODE = "node1"
_LOG = logging.getLogger(__name__)


class Kubelet:
    """Runs the Pods of one namespace, or of all."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str | None,
        dashboards: Dashboards | None = None,
        *,
        start_seconds: float = 0.0,
    ) -> None:
        self._api, self._dashboards = api, dashboards
        self._start_seconds = start_seconds
        self._held: tuple[str, str] | None = None
        self._addresses = itertools.count(1)
        self._due: dict[Key, float] = {}
        self._heads: dict[Key, tuple[str, str]] = {}  # Pod -> (cluster, identity)
        self._queue = WorkQueue(self._reconcile)
        self._pods = Mirror(api, PODS, namespace, self._changed)

    async def watch(self) -> None:
        """Follow the Pods until cancelled; `work` does the rest."""
        await self._pods.run()

    async def work(self) -> None:
        """Run Pods until cancelled."""
        await self._queue.work()

    def hold_back(self, why: str, *, named: str = "") -> None:
        """Schedule no new Pod whose name contains `named`, and say why."""
        self._held = named, why

    async def kill_pod(self, namespace: str, name: str) -> None:
        """Lose a Pod from one moment to the next, as with its node."""
        await self._end_head((namespace, name))
        await self._api.delete(PODS, namespace, name, grace_seconds=0)

    def _changed(self, manifest: Manifest) -> None:
        pod = Pod.model_validate(manifest)
        self._queue.add((pod.metadata.namespace or "", pod.name))

    async def _reconcile(self, key: Key) -> float | None:
        manifest = self._pods.get(key)
        if manifest is None:
            self._due.pop(key, None)
            await self._end_head(key)
            return None
        pod = Pod.model_validate(manifest)
        if pod.metadata.deletion_timestamp is not None:
            if pod.spec.node_name:
                await self.kill_pod(*key)
            return None
        if pod.status.phase != "Pending":
            return None
        if not pod.spec.node_name:
            await self._schedule(pod)
            return None
        now = asyncio.get_running_loop().time()
        due = self._due.setdefault(key, now + self._start_seconds)
        if now < due:
            return due - now
        await self._start(pod)
        return None

    async def _schedule(self, pod: Pod) -> None:
        namespace = pod.metadata.namespace or ""
        named, why = self._held or ("", "")
        if why and named in pod.name:
            refusal: Manifest = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": why,
                "lastTransitionTime": _now(),
            }
            if not any(c.message == why for c in pod.status.conditions):
                await self._patch(pod, {"conditions": [refusal]})
            return
        await self._api.bind(namespace, pod.name, NODE)

    async def _start(self, pod: Pod) -> None:
        statuses = [_container_status(container) for container in pod.spec.containers]
        address = f"10.244.{(number := next(self._addresses)) // 250}.{number % 250 + 1}"
        # The head answers before the Pod is seen to be ready, as behind a readiness probe.
        await self._start_head(pod, str(statuses[0]["containerID"]))
        listed: list[JsonValue] = [*statuses]
        await self._patch(
            pod,
            {
                "phase": "Running",
                "podIP": address,
                "podIPs": [{"ip": address}],
                "startTime": _now(),
                "conditions": _conditions(),
                "containerStatuses": listed,
            },
        )

    async def _start_head(self, pod: Pod, container_id: str) -> None:
        if self._dashboards is None or pod.metadata.labels.get(LABEL_NODE_TYPE) != "head":
            return
        namespace, cluster = pod.metadata.namespace or "", pod.metadata.labels[LABEL_CLUSTER]
        identity = f"{pod.metadata.uid}/{container_id}"
        await self._dashboards.end_head(namespace, cluster)
        token = await self._token(pod)
        self._dashboards.start_head(namespace, cluster, identity, token=token)
        self._heads[namespace, pod.name] = cluster, identity

    async def _end_head(self, key: Key) -> None:
        cluster, identity = self._heads.pop(key, (None, None))
        if self._dashboards is None or cluster is None:
            return
        # Another Pod may be the cluster's head by now.
        if self._dashboards.identity(key[0], cluster) == identity:
            await self._dashboards.end_head(key[0], cluster)

    async def _token(self, pod: Pod) -> str | None:
        for variable in pod.spec.containers[0].env:
            source = variable.value_from
            reference = source.get("secretKeyRef") if isinstance(source, dict) else None
            if variable.name == "RAY_AUTH_TOKEN" and isinstance(reference, dict):
                secret = await self._api.get(
                    SECRETS, pod.metadata.namespace or "", str(reference["name"])
                )
                data = secret.get("data") if secret else None
                if not isinstance(data, dict):
                    raise ApiError(404, f"no Secret {reference['name']} for {pod.name}")
                return base64.b64decode(str(data[TOKEN_KEY])).decode()
        return None

    async def _pod(self, namespace: str, name: str) -> Pod:
        found = await self._api.get(PODS, namespace, name)
        if found is None:
            raise ApiError(404, f"no Pod {namespace}/{name}")
        return Pod.model_validate(found)

    async def _patch(self, pod: Pod, status: Manifest) -> None:
        namespace = pod.metadata.namespace or ""
        try:
            written = await self._api.patch(
                PODS, namespace, pod.name, {"status": status}, part="status"
            )
        except ApiError as error:
            if error.status != 404:
                raise
            _LOG.info("Pod %s is gone", pod.name)
        else:
            self._pods.note(written)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _container_status(container: Container) -> Manifest:
    return {
        "name": container.name,
        "image": container.image or "",
        "imageID": f"{container.image}@sha256:{'0' * 64}",
        "containerID": f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": _now()}},
        "lastState": {},
    }


def _conditions() -> list[JsonValue]:
    return [
        {"type": kind, "status": "True", "reason": "", "lastTransitionTime": _now()}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
