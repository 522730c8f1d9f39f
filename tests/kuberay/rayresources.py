"""RayCluster and RayJob as the stand-in reads them."""

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from tests.kuberay.names import API_VERSION, secret_name
from tests.kuberay.resources import Condition, Named, PodTemplate, Resource

JobMode = Literal["HTTPMode", "K8sJobMode", "SidecarMode", "InteractiveMode"]


class AuthOptions(Resource):
    """Whether Ray asks for a token."""

    mode: str = "disabled"
    secret_name: str = ""
    enable_k8s_token_auth: bool = Field(default=False, alias="enableK8sTokenAuth")


class AutoscalerOptions(Resource):
    """How Ray's autoscaler runs."""

    version: str | None = None


class HeadGroup(Resource):
    """The head of a cluster."""

    template: PodTemplate
    ray_start_params: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    service_type: str | None = None
    head_service: JsonValue = None


class WorkerGroup(Resource):
    """A group of equal workers."""

    group_name: str
    template: PodTemplate
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int = 1
    idle_timeout_seconds: int | None = None
    suspend: bool = False
    ray_start_params: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def desired(self) -> int:
        """The number of Pods to have: replicas, held between minimum and maximum."""
        if self.suspend:
            return 0
        low, high = self.min_replicas or 0, self.max_replicas
        wanted = max(self.replicas or 0, low)
        return (wanted if high is None else min(wanted, high)) * self.num_of_hosts


class RayClusterSpec(Resource):
    """What a Ray cluster is to be."""

    head_group_spec: HeadGroup
    worker_group_specs: list[WorkerGroup] = Field(default_factory=list)
    ray_version: str = ""
    enable_in_tree_autoscaling: bool = False
    autoscaler_options: AutoscalerOptions | None = None
    auth_options: AuthOptions = Field(default_factory=AuthOptions)
    head_service_annotations: dict[str, str] = Field(default_factory=dict)
    gcs_fault_tolerance_options: JsonValue = None
    network_policy: JsonValue = None
    tls_options: JsonValue = None
    history_server_options: JsonValue = None
    upgrade_strategy: JsonValue = None
    managed_by: str | None = None
    suspend: bool = False

    @property
    def wants_token(self) -> bool:
        """Whether Ray asks for a token."""
        return self.auth_options.mode == "token"


class HeadInfo(Resource):
    """Where the head is."""

    pod_ip: str = Field(default="", alias="podIP")
    pod_name: str = ""
    service_ip: str = Field(default="", alias="serviceIP")
    service_name: str = ""


class RayClusterStatus(Resource):
    """What has become of a Ray cluster."""

    state: str | None = None
    reason: str | None = None
    observed_generation: int | None = None
    desired_worker_replicas: int | None = None
    ready_worker_replicas: int | None = None
    available_worker_replicas: int | None = None
    min_worker_replicas: int | None = None
    max_worker_replicas: int | None = None
    endpoints: dict[str, str] = Field(default_factory=dict)
    head: HeadInfo = Field(default_factory=HeadInfo)
    conditions: list[Condition] = Field(default_factory=list)
    last_update_time: datetime | None = None
    state_transition_times: dict[str, datetime] = Field(default_factory=dict)

    def holds(self, condition: str) -> bool:
        """Return whether the condition is True."""
        return any(c.type == condition and c.status == "True" for c in self.conditions)


class RayCluster(Named):
    """A RayCluster."""

    api_version: str = API_VERSION
    kind: str = "RayCluster"
    spec: RayClusterSpec
    status: RayClusterStatus = Field(default_factory=RayClusterStatus)

    @property
    def token_secret(self) -> str:
        """The name of the Secret that holds the token."""
        return self.spec.auth_options.secret_name or secret_name(self.name)


class RayJobSpec(Resource):
    """What a RayJob is to run, and where."""

    entrypoint: str = ""
    runtime_env_yaml: str = Field(default="", alias="runtimeEnvYAML")
    metadata: dict[str, str] = Field(default_factory=dict)
    entrypoint_num_cpus: float = 0
    entrypoint_num_gpus: float = 0
    entrypoint_resources: str = ""
    job_id: str = ""
    submission_mode: JobMode = "K8sJobMode"
    ray_cluster_spec: RayClusterSpec | None = None
    cluster_selector: dict[str, str] = Field(default_factory=dict)
    backoff_limit: int = 0
    active_deadline_seconds: int | None = None
    pre_running_deadline_seconds: int | None = None
    shutdown_after_job_finishes: bool = False
    ttl_seconds_after_finished: int = 0
    deletion_strategy: JsonValue = None
    suspend: bool = False
    managed_by: str | None = None


class RayJobInfo(Resource):
    """When Ray says that the job ran."""

    start_time: datetime | None = None
    end_time: datetime | None = None


class RayJobStatus(Resource):
    """What has become of a RayJob; an empty jobDeploymentStatus is what KubeRay calls New."""

    job_id: str = ""
    ray_cluster_name: str = ""
    dashboard_url: str = Field(default="", alias="dashboardURL")
    job_status: str = ""
    job_deployment_status: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    end_time: datetime | None = None
    succeeded: int | None = None
    failed: int | None = None
    ray_job_info: RayJobInfo = Field(default_factory=RayJobInfo)
    ray_cluster_status: RayClusterStatus = Field(default_factory=RayClusterStatus)
    job_status_check_failure_start_time: datetime | None = None


class RayJob(Named):
    """A RayJob."""

    api_version: str = API_VERSION
    kind: str = "RayJob"
    spec: RayJobSpec
    status: RayJobStatus = Field(default_factory=RayJobStatus)

    @property
    def selects_cluster(self) -> bool:
        """Whether the job runs on a cluster that is there already."""
        return bool(self.spec.cluster_selector)
