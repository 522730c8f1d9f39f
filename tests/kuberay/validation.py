"""What KubeRay refuses, and what the stand-in does not imitate; each check returns the fault."""

import re
from functools import cache

import yaml

from tests.kuberay.names import LABEL_CLUSTER, LABEL_ORIGIN_KIND, MAX_CLUSTER_NAME, MAX_JOB_NAME
from tests.kuberay.rayresources import (
    HeadGroup,
    RayCluster,
    RayClusterSpec,
    RayJob,
    RayJobSpec,
    WorkerGroup,
)

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_TOKENS_SINCE = (2, 52, 0)
_OWN_RESOURCES = ("num-cpus", "num-gpus", "memory", "resources")
# The stand-in says so instead of doing half of it.
_NOT_IMITATED = "not imitated by this stand-in for KubeRay"


def metadata_fault(name: str, kind: str, longest: int) -> str | None:
    """Return what is wrong with the name of a RayCluster or RayJob."""
    if len(name) > longest:
        return f"{kind} name should be no more than {longest} characters"
    if not _DNS_1035.fullmatch(name):
        return f"{kind} name should be a valid DNS1035 label: {name}"
    return None


def cluster_fault(cluster: RayCluster) -> tuple[str, str] | None:
    """Return the reason of the event and the fault; such a cluster is left alone for ever."""
    if fault := metadata_fault(cluster.name, "RayCluster", MAX_CLUSTER_NAME):
        return "InvalidRayClusterMetadata", f"The RayCluster metadata is invalid: {fault}"
    fault = cluster_spec_fault(cluster.spec)
    is_job = cluster.metadata.labels.get(LABEL_ORIGIN_KIND) == "RayJob"
    if not fault and cluster.spec.upgrade_strategy and is_job:
        fault = "upgradeStrategy cannot be set when RayCluster is created by RayJob"
    return ("InvalidRayClusterSpec", f"The RayCluster spec is invalid: {fault}") if fault else None


def cluster_spec_fault(spec: RayClusterSpec) -> str | None:
    """Return what is wrong with the description of a cluster."""
    groups = spec.worker_group_specs
    faults = (
        _group_fault("Head", spec.head_group_spec),
        *(_worker_fault(group, autoscaled=spec.enable_in_tree_autoscaling) for group in groups),
        _restart_fault(spec),
        _token_fault(spec),
        _missing_feature(spec),
    )
    return next(filter(None, faults), None)


def _group_fault(name: str, group: HeadGroup | WorkerGroup) -> str | None:
    if not group.template.spec.containers:
        kind = "headGroupSpec" if name == "Head" else "workerGroupSpec"
        return f"{kind} should have at least one container"
    if group.resources and any(group.ray_start_params.get(key) for key in _OWN_RESOURCES):
        return (
            "resource fields should not be set in both rayStartParams and Resources "
            f"for {name} group; please use only one"
        )
    if "labels" in group.ray_start_params:
        return (
            f"rayStartParams['labels'] is not supported for {name} group; "
            "please use the top-level Labels field instead"
        )
    return None


def _worker_fault(group: WorkerGroup, *, autoscaled: bool) -> str | None:
    name, low, high = group.group_name, group.min_replicas, group.max_replicas
    if not autoscaled and (low is None or high is None):
        return (
            f"worker group {name} must set both minReplicas and maxReplicas "
            "when autoscaling is disabled"
        )
    for field, value in (("minReplicas", low), ("maxReplicas", high)):
        if value is not None and value < 0:
            return f"worker group {name} has negative {field} {value}"
    if low is not None and high is not None and low > high:
        return f"worker group {name} has minReplicas {low} greater than maxReplicas {high}"
    if group.num_of_hosts > 1:
        return f"numOfHosts {group.num_of_hosts} of worker group {name}: {_NOT_IMITATED}"
    if group.suspend:
        return f"suspend of worker group {name}: {_NOT_IMITATED}"
    return _group_fault(name, group)


def _restart_fault(spec: RayClusterSpec) -> str | None:
    options = spec.autoscaler_options
    if not spec.enable_in_tree_autoscaling or options is None or options.version != "v2":
        return None
    if spec.head_group_spec.template.spec.restart_policy not in (None, "", "Never"):
        return "restartPolicy for head Pod should be Never or unset when using autoscaler V2"
    for group in spec.worker_group_specs:
        if group.template.spec.restart_policy not in (None, "", "Never"):
            return (
                f"restartPolicy for worker group {group.group_name} should be Never or unset "
                "when using autoscaler V2"
            )
    return None


def _token_fault(spec: RayClusterSpec) -> str | None:
    prefix = "authOptions.mode is 'token' but"
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", spec.ray_version)
    fault = None
    if not spec.wants_token:
        if spec.auth_options.enable_k8s_token_auth:
            fault = "authOptions.enableK8sTokenAuth is enabled but authOptions.mode not 'token'"
    elif not spec.ray_version:
        fault = f"{prefix} RayVersion was not specified. Ray version 2.52.0 or later is required"
    elif found is None:
        fault = f"{prefix} RayVersion format is invalid: {spec.ray_version}"
    elif tuple(int(part or 0) for part in found.groups()) < _TOKENS_SINCE:
        fault = f"{prefix} minimum Ray version is 2.52.0, got {spec.ray_version}"
    elif spec.auth_options.enable_k8s_token_auth:
        fault = f"authOptions.enableK8sTokenAuth: {_NOT_IMITATED}"
    return fault


def _missing_feature(spec: RayClusterSpec) -> str | None:
    if spec.network_policy is not None:
        return "spec.networkPolicy requires the RayClusterNetworkPolicy feature gate to be enabled"
    if spec.tls_options is not None:
        return "spec.tlsOptions requires the RayClusterMTLS feature gate to be enabled"
    if spec.history_server_options is not None:
        return "RayClusterHistoryServer feature gate is not enabled"
    unknown = {
        "enableInTreeAutoscaling": spec.enable_in_tree_autoscaling,
        "gcsFaultToleranceOptions": spec.gcs_fault_tolerance_options,
        "headGroupSpec.headService": spec.head_group_spec.head_service,
        "suspend": spec.suspend,
    }
    field = next((name for name, value in unknown.items() if value), None)
    return f"{field}: {_NOT_IMITATED}" if field else None


def job_fault(job: RayJob) -> tuple[str, str] | None:
    """Return the reason of the event and the fault; the RayJob ends in ValidationFailed."""
    if fault := metadata_fault(job.name, "RayJob", MAX_JOB_NAME):
        return "InvalidRayJobMetadata", f"The RayJob metadata is invalid: {fault}"
    faults = (_reach_fault(job), _deadline_fault(job), _unsupported_fault(job))
    fault = next(filter(None, faults), None)
    return ("InvalidRayJobSpec", fault) if fault else None


def _reach_fault(job: RayJob) -> str | None:
    """Return what is wrong with where the job is to run."""
    spec, prefix = job.spec, "The RayJob spec is invalid:"
    if spec.suspend and not spec.shutdown_after_job_finishes:
        return (
            f"{prefix} a RayJob with shutdownAfterJobFinishes set to false "
            "is not allowed to be suspended"
        )
    if job.selects_cluster:
        return _selector_fault(spec)
    if spec.ray_cluster_spec is None:
        return f"{prefix} one of RayClusterSpec or ClusterSelector must be set"
    fault = cluster_spec_fault(spec.ray_cluster_spec)
    return f"{prefix} {fault}" if fault else None


def _selector_fault(spec: RayJobSpec) -> str | None:
    prefix = "The RayJob spec is invalid:"
    if spec.suspend:
        return f"{prefix} the ClusterSelector mode doesn't support the suspend operation"
    if not spec.cluster_selector.get(LABEL_CLUSTER):
        return "cluster name in ClusterSelector should not be empty"
    return None


def _deadline_fault(job: RayJob) -> str | None:
    spec, prefix = job.spec, "The RayJob spec is invalid:"
    if spec.ttl_seconds_after_finished < 0:
        return f"{prefix} TTLSecondsAfterFinished must be a non-negative integer"
    if not spec.shutdown_after_job_finishes and spec.ttl_seconds_after_finished > 0:
        return (
            f"{prefix} a RayJob with shutdownAfterJobFinishes set to false "
            "cannot have TTLSecondsAfterFinished"
        )
    if spec.active_deadline_seconds is not None and spec.active_deadline_seconds <= 0:
        return f"{prefix} activeDeadlineSeconds must be a positive integer"
    if spec.backoff_limit:
        return f"backoffLimit: {_NOT_IMITATED}"
    return None


# A job is looked at several times a second, and PyYAML takes longer than all else of a look.
@cache
def _environment_fault(runtime_env_yaml: str) -> str | None:
    try:
        runtime_env = yaml.safe_load(runtime_env_yaml or "{}")
    except yaml.YAMLError as error:
        return f"failed to unmarshal RuntimeEnvYAML: {runtime_env_yaml}: {error}"
    if not isinstance(runtime_env, dict):
        return f"failed to unmarshal RuntimeEnvYAML: {runtime_env_yaml}: no mapping"
    return None


def _unsupported_fault(job: RayJob) -> str | None:
    if fault := _environment_fault(job.spec.runtime_env_yaml):
        return fault
    if job.spec.submission_mode != "HTTPMode":
        return f"submissionMode {job.spec.submission_mode}: {_NOT_IMITATED}, use HTTPMode"
    if job.spec.deletion_strategy is not None:
        return f"deletionStrategy: {_NOT_IMITATED}"
    return None
