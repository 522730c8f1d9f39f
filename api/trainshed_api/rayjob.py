"""The RayJob of one attempt: what the controller creates, and `trainshed render` shows.

It is created once and never changed. KubeRay's own retries are off: an attempt is one RayJob, one
driver, and the next one has another name and another submission id, because Ray remembers ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from trainshed_api import names
from trainshed_api.groups import NodeGroup, encode_groups
from trainshed_api.job import render_runtime_env

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed_api.json_object import JsonObject
    from trainshed_api.v1alpha1 import TrainingRunResource

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_LABELS = (KUEUE_QUEUE, "kueue.x-k8s.io/priority-class")
CLUSTER_LABEL = "ray.io/cluster"
RUN_LABEL = f"{names.GROUP}/run"
ATTEMPT_LABEL = f"{names.GROUP}/attempt"
RESERVATION_ANNOTATION = f"{names.GROUP}/reservation"
# KubeRay's own deadlines only end what we failed to end.
_BACKSTOP_SECONDS = 300


@dataclass(frozen=True)
class AttemptIdentity:
    """Which attempt of which run; progress_url and token are empty where no controller listens.

    groups: of the whole cluster, as far as they are known. reservation: as JSON, for controllers
    that find the RayJob without its run.
    """

    namespace: str
    name: str
    uid: str
    number: int
    progress_url: str = ""
    progress_token: str = field(default="", repr=False)
    groups: tuple[NodeGroup, ...] = ()
    reservation: str = ""

    @property
    def ray_job(self) -> str:
        """Return the name of its RayJob; KubeRay takes at most 47 characters."""
        return f"{self.name}-{self.number}"

    @property
    def job_id(self) -> str:
        """Return its submission id: another one when a run is made again under its old name."""
        return f"{self.name}-{self.uid[:8]}-{self.number}"


@dataclass(frozen=True)
class SharedCluster:
    """An existing RayCluster."""

    name: str


@dataclass(frozen=True)
class OwnCluster:
    """A RayCluster that is made for the attempt, from the spec of a class."""

    spec: JsonObject


def render_rayjob(
    run: TrainingRunResource, attempt: AttemptIdentity, cluster: SharedCluster | OwnCluster
) -> JsonObject:
    """Return the RayJob. Raises SpecError for a run too large for an environment variable."""
    spec: JsonObject = {
        "entrypoint": names.JOB_ENTRYPOINT,
        "entrypointNumCpus": 0,
        "jobId": attempt.job_id,
        "submissionMode": "HTTPMode",
        "backoffLimit": 0,
        # libyaml's, which PyYAML's wheels hold: a seventh of the time, and it is all of a RayJob.
        # In quotes: a namespace called `y` or `1e3` is a text to PyYAML and none to others.
        "runtimeEnvYAML": yaml.dump(
            render_runtime_env(run, _environment(attempt)),
            Dumper=yaml.CSafeDumper,
            default_style="'",
            sort_keys=True,
            allow_unicode=True,
        ),
        "metadata": {"trainshed_run": attempt.name, "trainshed_attempt": str(attempt.number)},
    }
    metadata: JsonObject = {
        "name": attempt.ray_job,
        "namespace": attempt.namespace,
        "labels": _labels(run, attempt),
        "ownerReferences": [owner_of(attempt.name, attempt.uid)],
    }
    if isinstance(cluster, SharedCluster):
        spec["clusterSelector"] = {CLUSTER_LABEL: cluster.name}
        if attempt.reservation:
            metadata["annotations"] = {RESERVATION_ANNOTATION: attempt.reservation}
    else:
        spec |= _own_cluster(run, cluster)
        # A head that comes back would be given the same job again.
        metadata["annotations"] = {"ray.io/disable-provisioned-head-restart": "true"}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def owner_of(name: str, uid: str) -> JsonObject:
    """Return the owner reference to a TrainingRun, with which an object goes."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _environment(attempt: AttemptIdentity) -> Mapping[str, str]:
    told = {
        names.ENV_NAMESPACE: attempt.namespace,
        names.ENV_UID: attempt.uid,
        names.ENV_ATTEMPT: str(attempt.number),
    }
    if attempt.groups:
        told[names.ENV_GROUPS] = encode_groups(attempt.groups)
    if attempt.progress_url:
        told[names.ENV_PROGRESS_URL] = attempt.progress_url
        told[names.ENV_PROGRESS_TOKEN] = attempt.progress_token
    return told


def _labels(run: TrainingRunResource, attempt: AttemptIdentity) -> JsonObject:
    asked = run.metadata.labels
    return {
        "app.kubernetes.io/managed-by": "trainshed",
        RUN_LABEL: attempt.name,
        ATTEMPT_LABEL: str(attempt.number),
        **{name: asked[name] for name in _KUEUE_LABELS if asked.get(name)},
    }


def _own_cluster(run: TrainingRunResource, cluster: OwnCluster) -> JsonObject:
    spec: JsonObject = {
        "rayClusterSpec": cluster.spec,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 0,
    }
    if KUEUE_QUEUE in run.metadata.labels:
        spec["suspend"] = True  # Kueue starts it
    provisioning = run.spec.provisioning_deadline_seconds
    if provisioning:
        spec["preRunningDeadlineSeconds"] = provisioning + _BACKSTOP_SECONDS
    if run.spec.active_deadline_seconds:
        total = run.spec.active_deadline_seconds + provisioning + run.spec.grace_period_seconds
        spec["activeDeadlineSeconds"] = total + _BACKSTOP_SECONDS
    return spec
