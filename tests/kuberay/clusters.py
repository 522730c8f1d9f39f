"""Brings the objects of a RayCluster nearer to what it asks for, one look at a time."""

import base64
import secrets

from tests.kuberay.api import CLUSTERS, PODS, SECRETS, SERVICES, ApiError, KubeApi, TryAgainError
from tests.kuberay.clusterstatus import compute_status, is_worth_writing
from tests.kuberay.events import tell
from tests.kuberay.mirror import Key, Mirror
from tests.kuberay.names import LABEL_CLUSTER, LABEL_NODE_TYPE, head_service_name
from tests.kuberay.podplan import PodPlan, plan_pods
from tests.kuberay.rayresources import RayCluster
from tests.kuberay.resources import Manifest, Pod, Service
from tests.kuberay.services import render_head_service, render_token_secret
from tests.kuberay.settings import Settings
from tests.kuberay.validation import cluster_fault

_IDLE_SECONDS = 300.0
_OURS = (None, "", "ray.io/kuberay-operator")


class ClusterReconciler:
    """Looks at RayClusters."""

    def __init__(self, api: KubeApi, clusters: Mirror, settings: Settings) -> None:
        self._api, self._clusters, self._settings = api, clusters, settings
        self._now = settings.now

    async def reconcile(self, key: Key) -> float | None:
        """Do what a look at the cluster shows; return when to look again."""
        manifest = self._clusters.get(key)
        if manifest is None:
            return None
        cluster = RayCluster.model_validate(manifest)
        if cluster.spec.managed_by not in _OURS:
            return None
        if fault := cluster_fault(cluster):
            await tell(self._api, cluster, *fault, self._now())
            return None
        if cluster.metadata.deletion_timestamp is not None:
            return None  # its owner references do the rest
        failure = await self._act(cluster)
        wrote = await self._write_status(cluster, manifest, failed=bool(failure))
        if failure:
            raise TryAgainError(failure)
        return self._settings.cluster_retry_seconds if wrote else _IDLE_SECONDS

    async def _act(self, cluster: RayCluster) -> str:
        """Make and delete what the cluster needs; return what went wrong."""
        try:
            await self._ensure_secret(cluster)
            await self._ensure_service(cluster)
            return await self._execute(cluster, plan_pods(cluster, await self._pods(cluster)))
        except ApiError as error:
            return str(error)

    async def _ensure_secret(self, cluster: RayCluster) -> None:
        if not cluster.spec.wants_token or cluster.spec.auth_options.secret_name:
            return
        if await self._api.get(SECRETS, cluster.namespace, cluster.token_secret) is None:
            token = base64.b64encode(secrets.token_bytes(32)).decode()
            secret = render_token_secret(cluster, token)
            await self._api.create(SECRETS, cluster.namespace, secret)

    async def _ensure_service(self, cluster: RayCluster) -> None:
        name = head_service_name(cluster.name)
        if await self._api.get(SERVICES, cluster.namespace, name) is None:
            await self._api.create(SERVICES, cluster.namespace, render_head_service(cluster))
            await tell(self._api, cluster, "CreatedService", f"Created service {name}", self._now())

    async def _execute(self, cluster: RayCluster, plan: PodPlan) -> str:
        for pod, why in plan.delete:
            await self._api.delete(PODS, cluster.namespace, pod.name)
            await tell(self._api, cluster, f"Deleted{_kind(pod)}Pod", why, self._now())
        for pod in plan.create:
            made = await self._create(cluster, pod)
            text = f"Created {_kind(pod).lower()} Pod {cluster.namespace}/{made.name}"
            await tell(self._api, cluster, f"Created{_kind(pod)}Pod", text, self._now())
        return plan.failure

    async def _create(self, cluster: RayCluster, pod: Pod) -> Pod:
        try:
            made = await self._api.create(PODS, cluster.namespace, pod.manifest())
        except ApiError as error:
            text = f"Failed to create {_kind(pod).lower()} Pod, {error}"
            await tell(self._api, cluster, f"FailedToCreate{_kind(pod)}Pod", text, self._now())
            raise
        return Pod.model_validate(made)

    async def _pods(self, cluster: RayCluster) -> list[Pod]:
        labels = f"{LABEL_CLUSTER}={cluster.name}"
        found, _ = await self._api.list_all(PODS, cluster.namespace, labels=labels)
        return [Pod.model_validate(manifest) for manifest in found]

    async def _write_status(self, cluster: RayCluster, manifest: Manifest, *, failed: bool) -> bool:
        name = head_service_name(cluster.name)
        found = await self._api.get(SERVICES, cluster.namespace, name)
        service = Service.model_validate(found) if found else None
        pods = await self._pods(cluster)
        status = compute_status(cluster, pods, service, failed=failed, now=self._now())
        if not is_worth_writing(cluster.status, status):
            return False
        body = {**manifest, "status": status.manifest()}
        written = await self._api.replace(
            CLUSTERS, cluster.namespace, cluster.name, body, part="status"
        )
        self._clusters.note(written)
        return True


def _kind(pod: Pod) -> str:
    return pod.metadata.labels.get(LABEL_NODE_TYPE, "").capitalize()
