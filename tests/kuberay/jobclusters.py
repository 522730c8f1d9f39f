"""The cluster of a RayJob: found or made, asked and deleted."""

import base64

from aiohttp import ClientSession

from tests.kuberay.api import CLUSTERS, SECRETS, SERVICES, ApiError, KubeApi, TryAgainError
from tests.kuberay.events import tell
from tests.kuberay.mirror import Mirror
from tests.kuberay.names import (
    LABEL_ORIGIN_KIND,
    LABEL_ORIGIN_NAME,
    LABEL_SUBMISSION_MODE,
    TOKEN_KEY,
    head_service_name,
)
from tests.kuberay.raydashboard import Dashboard
from tests.kuberay.rayresources import RayCluster, RayJob
from tests.kuberay.resources import Manifest
from tests.kuberay.services import job_owner, render_job_service
from tests.kuberay.settings import Settings


class JobClusters:
    """Clusters as RayJobs need them."""

    def __init__(
        self, api: KubeApi, clusters: Mirror, http: ClientSession, settings: Settings
    ) -> None:
        self._api, self._clusters = api, clusters
        self._http, self._settings = http, settings
        self._now = settings.now

    async def find_or_make_cluster(self, job: RayJob, manifest: Manifest) -> RayCluster:
        """Return the cluster that the job runs on; one that is selected must be there."""
        name = job.status.ray_cluster_name
        found = self._clusters.get((job.namespace, name)) or await self._api.get(
            CLUSTERS, job.namespace, name
        )
        if found is not None:
            return RayCluster.model_validate(found)
        if job.selects_cluster:
            text = f"RayCluster {job.namespace}/{name} set in the clusterSelector is not found."
            text += " It must be created manually"
            await tell(self._api, job, "RayClusterNotFound", text, self._now())
            raise TryAgainError(text)
        made = await self._api.create(CLUSTERS, job.namespace, _cluster_manifest(job, manifest))
        self._clusters.note(made)
        text = f"Created RayCluster {job.namespace}/{name}"
        await tell(self._api, job, "CreatedRayCluster", text, self._now())
        return RayCluster.model_validate(made)

    async def ensure_service(self, job: RayJob, cluster: RayCluster) -> None:
        """Keep a Service of the job's own name in front of its cluster of the moment."""
        name, wanted = head_service_name(job.name), render_job_service(job, cluster)
        found = await self._api.get(SERVICES, job.namespace, name)
        if found is None:
            await self._api.create(SERVICES, job.namespace, wanted)
            text = f"Created the service {job.namespace}/{name}"
            await tell(self._api, job, "CreatedService", text, self._now())
            return
        here, there = found.get("spec"), wanted.get("spec")
        if not isinstance(here, dict) or not isinstance(there, dict):
            raise ApiError(500, f"Service {name} has no spec")
        if here.get("selector") != there.get("selector"):
            change: Manifest = {"spec": {"selector": there.get("selector")}}
            await self._api.patch(SERVICES, job.namespace, name, change)

    async def dashboard(self, job: RayJob, cluster: RayCluster | None) -> Dashboard:
        """Return the Jobs API of the job's cluster, with the token that it asks for."""
        token = None
        if cluster is not None and cluster.spec.wants_token:
            secret = await self._api.get(SECRETS, cluster.namespace, cluster.token_secret)
            data = secret.get("data") if secret else None
            encoded = data.get(TOKEN_KEY) if isinstance(data, dict) else None
            if not isinstance(encoded, str):
                text = f"no {TOKEN_KEY} in Secret {cluster.namespace}/{cluster.token_secret}"
                raise TryAgainError(text)
            token = base64.b64decode(encoded).decode()
        url = self._settings.dashboard_url.format(
            address=job.status.dashboard_url,
            namespace=job.namespace,
            cluster=job.status.ray_cluster_name,
        )
        return Dashboard(self._http, url, token)

    async def delete_cluster(self, job: RayJob) -> bool:
        """Delete the job's own cluster; return whether it is gone. Its Pods may not be."""
        if job.selects_cluster:
            return True
        name = job.status.ray_cluster_name
        found = await self._api.get(CLUSTERS, job.namespace, name) if name else None
        if found is None:
            return True
        if RayCluster.model_validate(found).metadata.deletion_timestamp is None:
            await self._api.delete(CLUSTERS, job.namespace, name)
            text = f"Deleted cluster {job.namespace}/{name}"
            await tell(self._api, job, "DeletedRayCluster", text, self._now())
        return False


def _cluster_manifest(job: RayJob, manifest: Manifest) -> Manifest:
    """Return the job's own cluster; its description is handed on as it was written."""
    spec = manifest.get("spec")
    origin = {LABEL_ORIGIN_NAME: job.name, LABEL_ORIGIN_KIND: "RayJob"}
    origin[LABEL_SUBMISSION_MODE] = job.spec.submission_mode
    return {
        "apiVersion": job.api_version,
        "kind": "RayCluster",
        "metadata": {
            "name": job.status.ray_cluster_name,
            "namespace": job.namespace,
            "labels": {**job.metadata.labels, **origin},
            "annotations": {**job.metadata.annotations},
            "ownerReferences": [job_owner(job).manifest()],
        },
        "spec": spec["rayClusterSpec"] if isinstance(spec, dict) else None,
    }
