"""What the stand-in reads and writes of Kubernetes objects; other fields pass through untouched."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

Manifest = dict[str, JsonValue]
Quantity = str | int | float


class Resource(BaseModel):
    """A part of a Kubernetes object."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    def manifest(self) -> Manifest:
        """Return the object as JSON, without what is not set."""
        dumped: Manifest = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped


class OwnerReference(Resource):
    """Who owns an object: deleted with its owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Resource):
    """Metadata of an object."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: list[OwnerReference] = Field(default_factory=list)
    finalizers: list[str] = Field(default_factory=list)


class Named(Resource):
    """An object with metadata."""

    metadata: ObjectMeta

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name or ""

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return self.metadata.namespace or ""


class EnvVar(Resource):
    """An environment variable of a container."""

    name: str
    value: str | None = None
    value_from: JsonValue = None


class ContainerPort(Resource):
    """A port of a container."""

    container_port: int
    name: str | None = None


class VolumeMount(Resource):
    """Where a container sees a volume."""

    name: str
    mount_path: str


class Requirements(Resource):
    """Resources that a container asks for."""

    limits: dict[str, Quantity] = Field(default_factory=dict)
    requests: dict[str, Quantity] = Field(default_factory=dict)


class Container(Resource):
    """A container of a Pod."""

    name: str
    image: str | None = None
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] = Field(default_factory=list)
    ports: list[ContainerPort] = Field(default_factory=list)
    resources: Requirements = Field(default_factory=Requirements)
    volume_mounts: list[VolumeMount] = Field(default_factory=list)
    security_context: JsonValue = None
    liveness_probe: JsonValue = None
    readiness_probe: JsonValue = None


class Volume(Resource):
    """A volume of a Pod."""

    name: str


class PodSpec(Resource):
    """What a Pod runs; the Ray container is the first one."""

    containers: list[Container] = Field(default_factory=list)
    init_containers: list[Container] = Field(default_factory=list)
    volumes: list[Volume] = Field(default_factory=list)
    restart_policy: str | None = None
    node_name: str | None = None


class PodTemplate(Resource):
    """What Pods of a group are made from."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PodSpec = Field(default_factory=PodSpec)


class Condition(Resource):
    """A condition of a Pod or of a RayCluster."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerStateEnded(Resource):
    """How a container ended."""

    exit_code: int
    reason: str | None = None
    message: str | None = None


class ContainerState(Resource):
    """What a container does now."""

    running: JsonValue = None
    waiting: JsonValue = None
    terminated: ContainerStateEnded | None = None


class ContainerStatus(Resource):
    """What the kubelet says of a container."""

    name: str
    state: ContainerState = Field(default_factory=ContainerState)
    container_id: str | None = Field(default=None, alias="containerID")
    restart_count: int = 0


class PodStatus(Resource):
    """What the kubelet says of a Pod."""

    phase: str = ""
    pod_ip: str = Field(default="", alias="podIP")
    conditions: list[Condition] = Field(default_factory=list)
    container_statuses: list[ContainerStatus] = Field(default_factory=list)


class Pod(Named):
    """A Pod."""

    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec
    status: PodStatus = Field(default_factory=PodStatus, exclude_if=lambda status: not status.phase)

    @property
    def is_ready(self) -> bool:
        """Whether the Pod runs and its Ready condition holds."""
        ready = any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
        return self.status.phase == "Running" and ready


class ServicePort(Resource):
    """A port of a Service."""

    name: str = ""
    port: int
    target_port: int | str | None = None


class ServiceSpec(Resource):
    """Which Pods a Service stands for."""

    ports: list[ServicePort] = Field(default_factory=list)
    selector: dict[str, str] = Field(default_factory=dict)


class Service(Named):
    """A Service."""

    spec: ServiceSpec = Field(default_factory=ServiceSpec)
