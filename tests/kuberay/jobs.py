"""Runs RayJobs in HTTPMode: one look at a time, in the order in which KubeRay looks."""

import logging
import random
import string

from aiohttp import ClientSession

from tests.kuberay.api import (
    CLUSTERS,
    JOBS,
    ApiError,
    KubeApi,
)
from tests.kuberay.events import tell
from tests.kuberay.jobclusters import JobClusters
from tests.kuberay.jobstate import (
    OVER,
    begin,
    count_outcome,
    fail_past_deadline,
    fail_unanswered,
    forget_attempt,
    is_worth_writing,
    refuse,
    suspend_if_asked,
    take_job_info,
)
from tests.kuberay.mirror import Key, Mirror
from tests.kuberay.names import (
    DASHBOARD_PORT,
    FINALIZER,
    head_service_name,
    service_host,
)
from tests.kuberay.raydashboard import TERMINAL, DashboardError
from tests.kuberay.rayresources import RayCluster, RayJob
from tests.kuberay.resources import Manifest
from tests.kuberay.settings import Settings
from tests.kuberay.validation import job_fault

_LOG = logging.getLogger(__name__)
_OURS = (None, "", "ray.io/kuberay-operator")


class JobReconciler:
    """Looks at RayJobs."""

    def __init__(
        self, api: KubeApi, jobs: Mirror, clusters: Mirror, http: ClientSession, settings: Settings
    ) -> None:
        self._api, self._jobs, self._settings = api, jobs, settings
        self._now = settings.now
        self._clusters = JobClusters(api, clusters, http, settings)

    async def reconcile(self, key: Key) -> float | None:
        """Do what a look at the job shows; return when to look again."""
        manifest = self._jobs.get(key)
        if manifest is None:
            return None
        job = RayJob.model_validate(manifest)
        if job.spec.managed_by not in _OURS:
            return None
        if job.metadata.deletion_timestamp is not None:
            return await self._let_go(job, manifest)
        old = job.status.model_copy(deep=True)
        fault = job_fault(job)
        if fault:
            await tell(self._api, job, fault[0], fault[1], self._now())
            refuse(job, fault[1])
        elif old.job_deployment_status in OVER:
            return await self._clean_up(job)
        elif old.job_deployment_status == "Suspended" and job.spec.suspend:
            return None
        else:
            if not old.job_deployment_status:
                manifest = await self._with_our_finalizer(job, manifest)
            await self._step(job, manifest)
            count_outcome(job)
        if is_worth_writing(old, job.status):
            await self._write_status(job, manifest)
        return None if fault else self._settings.poll_seconds

    async def _step(self, job: RayJob, manifest: Manifest) -> None:
        """Take the step that the job's state asks for."""
        match job.status.job_deployment_status:
            case "":
                begin(job, "".join(random.choices(string.ascii_lowercase, k=5)), self._now())
            case "Initializing":
                if not suspend_if_asked(job) and not fail_past_deadline(job, self._now()):
                    await self._initialize(job, manifest)
            case "Running":
                timeout = self._settings.status_check_timeout_seconds
                if not (
                    suspend_if_asked(job)
                    or fail_past_deadline(job, self._now())
                    or fail_unanswered(job, timeout, self._now())
                ):
                    await self._follow(job, manifest)
            case "Suspending":
                if await self._clusters.delete_cluster(job):
                    forget_attempt(job)
            case "Suspended":
                job.status.job_deployment_status = ""
            case state:
                _LOG.info("%s is %s, and nothing leads out of that", job.name, state)

    async def _initialize(self, job: RayJob, manifest: Manifest) -> None:
        cluster = await self._clusters.find_or_make_cluster(job, manifest)
        if cluster.status.state != "ready":
            job.status.ray_cluster_status = cluster.status
            return
        host = service_host(head_service_name(cluster.name), cluster.namespace)
        job.status.dashboard_url = f"{host}:{DASHBOARD_PORT}"
        job.status.job_deployment_status = "Running"

    async def _follow(self, job: RayJob, manifest: Manifest) -> None:
        """Ask for the job, and submit it where Ray does not know it.

        So a head that comes back with an empty memory gets the job a second time, and an id that
        Ray knows from an earlier job is taken for this one.
        """
        cluster = await self._clusters.find_or_make_cluster(job, manifest)
        if not job.selects_cluster:
            await self._clusters.ensure_service(job, cluster)
        dashboard = await self._clusters.dashboard(job, cluster)
        try:
            info = await dashboard.job_info(job.status.job_id)
            if info is None:
                await dashboard.submit(job)
                _LOG.info("submitted %s of %s", job.status.job_id, job.name)
                job.status.job_status_check_failure_start_time = None
        except DashboardError as error:
            _LOG.info("status check of %s: %s", job.name, error)
            if job.status.job_status_check_failure_start_time is None:
                job.status.job_status_check_failure_start_time = self._now()
            return
        if info is not None:
            take_job_info(job, info, cluster.status)

    async def _clean_up(self, job: RayJob) -> float | None:
        end = job.status.end_time
        if job.selects_cluster or not job.spec.shutdown_after_job_finishes or end is None:
            return None
        left = job.spec.ttl_seconds_after_finished - (self._now() - end).total_seconds()
        if left > 0:
            return left
        await self._clusters.delete_cluster(job)
        return None

    async def _let_go(self, job: RayJob, manifest: Manifest) -> float | None:
        """Stop the job once, then let its object go whatever the answer was."""
        if FINALIZER not in job.metadata.finalizers:
            return None
        if job.status.job_status not in TERMINAL:
            name = job.status.ray_cluster_name
            found = await self._api.get(CLUSTERS, job.namespace, name) if name else None
            cluster = RayCluster.model_validate(found) if found else None
            dashboard = await self._clusters.dashboard(job, cluster)
            try:
                await dashboard.stop(job.status.job_id)
            except DashboardError as error:
                _LOG.info("stop of %s: %s", job.name, error)
        rest = [name for name in job.metadata.finalizers if name != FINALIZER]
        await self._replace(job, _with_finalizers(manifest, rest))
        return None

    async def _with_our_finalizer(self, job: RayJob, manifest: Manifest) -> Manifest:
        if FINALIZER in job.metadata.finalizers:
            return manifest
        changed = _with_finalizers(manifest, [*job.metadata.finalizers, FINALIZER])
        written = await self._replace(job, changed)
        self._jobs.note(written)
        return written

    async def _replace(self, job: RayJob, manifest: Manifest) -> Manifest:
        return await self._api.replace(JOBS, job.namespace, job.name, manifest)

    async def _write_status(self, job: RayJob, manifest: Manifest) -> None:
        if job.status.job_deployment_status in OVER:
            job.status.end_time = self._now()
        body = {**manifest, "status": job.status.manifest()}
        written = await self._api.replace(JOBS, job.namespace, job.name, body, part="status")
        self._jobs.note(written)


def _with_finalizers(manifest: Manifest, finalizers: list[str]) -> Manifest:
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise ApiError(500, "an object without metadata")
    return {**manifest, "metadata": {**metadata, "finalizers": [*finalizers]}}
