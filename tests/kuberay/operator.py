"""The stand-in as a whole: watches, queues and workers, until it is told to stop."""

import asyncio
from collections.abc import Callable

from aiohttp import ClientSession, ClientTimeout

from tests.kuberay.api import CLUSTERS, JOBS, PODS, SERVICES, Kind, KubeApi
from tests.kuberay.clusters import ClusterReconciler
from tests.kuberay.jobs import JobReconciler
from tests.kuberay.mirror import Mirror, key_of
from tests.kuberay.names import LABEL_CLUSTER, LABEL_CREATED_BY
from tests.kuberay.resources import Manifest, ObjectMeta
from tests.kuberay.settings import Settings
from tests.kuberay.workqueue import WorkQueue


async def run_operator(
    api: KubeApi, settings: Settings, *, started: asyncio.Event | None = None
) -> None:
    """Play KubeRay's operator until cancelled; `started` is set when all is known that is there."""
    timeout = ClientTimeout(total=settings.dashboard_timeout_seconds)
    async with ClientSession(timeout=timeout) as http, asyncio.TaskGroup() as tasks:

        def mirror(kind: Kind, changed: Callable[[Manifest], None], labels: str = "") -> Mirror:
            return Mirror(api, kind, settings.namespace, changed, labels=labels)

        def cluster_changed(manifest: Manifest) -> None:
            cluster_queue.add(key_of(manifest))
            _wake_owner(job_queue, manifest, "RayJob")

        made_by_us = f"{LABEL_CREATED_BY}=kuberay-operator"
        jobs = mirror(JOBS, lambda manifest: job_queue.add(key_of(manifest)))
        clusters = mirror(CLUSTERS, cluster_changed)
        pods = mirror(PODS, lambda manifest: _wake_cluster(cluster_queue, manifest), made_by_us)
        services = mirror(
            SERVICES, lambda manifest: _wake_cluster(cluster_queue, manifest), made_by_us
        )
        cluster_queue = WorkQueue(ClusterReconciler(api, clusters, settings).reconcile)
        job_queue = WorkQueue(JobReconciler(api, jobs, clusters, http, settings).reconcile)

        watches = (jobs, clusters, pods, services)
        for watch in watches:
            tasks.create_task(watch.run())
        for watch in watches:
            await watch.is_filled.wait()
        for queue in (cluster_queue, job_queue):
            for _ in range(settings.concurrency):
                tasks.create_task(queue.work())
        if started is not None:
            started.set()


def _wake_owner(queue: WorkQueue, manifest: Manifest, kind: str) -> None:
    metadata = ObjectMeta.model_validate(manifest.get("metadata"))
    for owner in metadata.owner_references:
        if owner.kind == kind and owner.controller:
            queue.add((metadata.namespace or "", owner.name))


def _wake_cluster(queue: WorkQueue, manifest: Manifest) -> None:
    metadata = ObjectMeta.model_validate(manifest.get("metadata"))
    if name := metadata.labels.get(LABEL_CLUSTER):
        queue.add((metadata.namespace or "", name))
