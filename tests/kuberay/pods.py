"""Pods of a RayCluster, as KubeRay makes them from the templates of its groups."""

from tests.kuberay.names import (
    AGENT_PORT,
    ANNOTATION_FAULT_TOLERANT,
    ANNOTATION_KEEP_COMMAND,
    HEAD_GROUP,
    KUBERAY_VERSION,
    LABEL_APP,
    LABEL_CLUSTER,
    LABEL_CREATED_BY,
    LABEL_GROUP,
    LABEL_IDENTIFIER,
    LABEL_IS_RAY_NODE,
    LABEL_NODE_TYPE,
    LABEL_ORIGIN_KIND,
    LABEL_REPLICA_INDEX,
    METRICS_PORT,
    TOKEN_KEY,
    head_service_name,
    pod_name_prefix,
    service_host,
)
from tests.kuberay.rayresources import HeadGroup, RayCluster, WorkerGroup
from tests.kuberay.raystart import head_port, render_ray_start
from tests.kuberay.resources import (
    Container,
    ContainerPort,
    EnvVar,
    Manifest,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodTemplate,
    Volume,
    VolumeMount,
)

BASH = ["/bin/bash", "-c", "--"]
WAIT_FOR_GCS = "wait-gcs-ready"
_FIXED_LABELS = {LABEL_NODE_TYPE, LABEL_GROUP, LABEL_CLUSTER}


def render_head_pod(cluster: RayCluster) -> Pod:
    """Return the Pod of the head."""
    group = cluster.spec.head_group_spec
    template = group.template.model_copy(deep=True)
    _label(template, cluster, "head", HEAD_GROUP, group.labels)
    template.metadata.generate_name = pod_name_prefix(cluster.name, "head")
    template.metadata.annotations[ANNOTATION_FAULT_TOLERANT] = "false"
    return _finish(cluster, group, template, address=None)


def render_worker_pod(cluster: RayCluster, group: WorkerGroup, index: int) -> Pod:
    """Return the Pod of the worker with that index in its group."""
    template = group.template.model_copy(deep=True)
    address = f"{_head_host(cluster)}:{head_port(cluster.spec.head_group_spec.ray_start_params)}"
    template.spec.init_containers.append(_wait_for_gcs(template.spec.containers[0], address))
    _label(template, cluster, "worker", group.group_name, group.labels)
    template.metadata.labels[LABEL_REPLICA_INDEX] = str(index)
    template.metadata.generate_name = pod_name_prefix(
        f"{cluster.name}-{group.group_name}", "worker"
    )
    return _finish(cluster, group, template, address=address)


def owner(resource: RayCluster) -> OwnerReference:
    """Return the reference that makes an object go with its RayCluster."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=resource.name,
        uid=resource.metadata.uid or "",
        controller=True,
        block_owner_deletion=True,
    )


def cluster_labels(cluster: str, node_type: str) -> dict[str, str]:
    """Return the labels that the Pods of one kind of node share with its Service."""
    return {
        LABEL_CLUSTER: cluster,
        LABEL_NODE_TYPE: node_type,
        LABEL_IDENTIFIER: f"{cluster}-{node_type}"[-63:],
        LABEL_APP: "kuberay",
        LABEL_CREATED_BY: "kuberay-operator",
    }


def _head_host(cluster: RayCluster) -> str:
    return service_host(head_service_name(cluster.name), cluster.namespace)


def _label(
    template: PodTemplate, cluster: RayCluster, node_type: str, group: str, extra: dict[str, str]
) -> None:
    labels = cluster_labels(cluster.name, node_type)
    labels |= {LABEL_IS_RAY_NODE: "yes", LABEL_GROUP: group}
    wished = template.metadata.labels | extra
    labels |= {key: value for key, value in wished.items() if key not in _FIXED_LABELS}
    template.metadata = ObjectMeta(
        namespace=cluster.namespace, labels=labels, annotations=template.metadata.annotations
    )
    if cluster.metadata.annotations.get(ANNOTATION_KEEP_COMMAND, "").lower() == "true":
        template.metadata.annotations[ANNOTATION_KEEP_COMMAND] = "true"


def _wait_for_gcs(ray: Container, address: str) -> Container:
    small: Manifest = {"cpu": "200m", "memory": "256Mi"}
    wait = f"until ray health-check --address {address}; do echo waiting for GCS; sleep 5; done"
    container = Container(
        name=WAIT_FOR_GCS,
        image=ray.image,
        image_pull_policy=ray.image_pull_policy,
        command=list(BASH),
        args=[wait],
        env=[variable.model_copy(deep=True) for variable in ray.env],
        volume_mounts=[mount.model_copy(deep=True) for mount in ray.volume_mounts],
        security_context=ray.security_context,
    )
    container.resources = container.resources.model_validate({"limits": small, "requests": small})
    return container


def _finish(
    cluster: RayCluster,
    group: HeadGroup | WorkerGroup,
    template: PodTemplate,
    *,
    address: str | None,
) -> Pod:
    """Return the Pod; a head has no address to join."""
    ray = template.spec.containers[0]
    if not any(port.name == "metrics" for port in ray.ports):
        ray.ports.append(ContainerPort(name="metrics", container_port=METRICS_PORT))
    if cluster.spec.wants_token:
        for container in (ray, *template.spec.init_containers):
            if container is ray or container.name == WAIT_FOR_GCS:
                _add(container, *_token_env(cluster))
    if "plasma-directory" not in group.ray_start_params:
        _share_memory(template, ray)
    start = render_ray_start(
        group.ray_start_params,
        ray.resources,
        resources=group.resources,
        labels=group.labels,
        address=address,
    )
    _set_command(ray, start, keep=_keeps_command(template))
    host = _head_host(cluster)
    for container in template.spec.init_containers:
        container.env += _head_env(host)
    _set_env(cluster, ray, start, is_head=address is None)
    _set_probes(ray, group, is_head=address is None)
    template.metadata.owner_references = [owner(cluster)]
    return Pod(metadata=template.metadata, spec=template.spec)


def _keeps_command(template: PodTemplate) -> bool:
    return template.metadata.annotations.get(ANNOTATION_KEEP_COMMAND, "").lower() == "true"


def _set_command(ray: Container, start: str, *, keep: bool) -> None:
    own = "".join(f" {word} " for word in (ray.command or []) + (ray.args or []))
    if keep or "ray start" in own:
        return
    generated = f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {start}"
    ray.command = list(BASH)
    ray.args = [f"{own} && {generated}" if own else generated]


def _token_env(cluster: RayCluster) -> list[EnvVar]:
    secret: Manifest = {"name": cluster.token_secret, "key": TOKEN_KEY}
    return [
        EnvVar(name="RAY_AUTH_MODE", value="token"),
        EnvVar(name="RAY_AUTH_TOKEN", value_from={"secretKeyRef": secret}),
    ]


def _head_env(host: str) -> list[EnvVar]:
    service, _, _ = host.partition(".")
    return [EnvVar(name="FQ_RAY_IP", value=host), EnvVar(name="RAY_IP", value=service)]


def _from_field(name: str, path: str) -> EnvVar:
    return EnvVar(name=name, value_from={"fieldRef": {"fieldPath": path}})


def _add(container: Container, *variables: EnvVar) -> None:
    """Add the variables that the user has not set."""
    known = {variable.name for variable in container.env}
    container.env += [variable for variable in variables if variable.name not in known]


def _set_env(cluster: RayCluster, ray: Container, start: str, *, is_head: bool) -> None:
    port = head_port(cluster.spec.head_group_spec.ray_start_params)
    host = "127.0.0.1" if is_head else _head_host(cluster)
    if not is_head:
        ray.env += _head_env(host)
    ray.env += [
        _from_field("RAY_CLUSTER_NAME", f"metadata.labels['{LABEL_CLUSTER}']"),
        _from_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _from_field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
        _from_field("RAY_NODE_TYPE_NAME", f"metadata.labels['{LABEL_GROUP}']"),
        EnvVar(name="KUBERAY_GEN_RAY_START_CMD", value=start),
    ]
    _add(
        ray,
        EnvVar(name="RAY_PORT", value=port),
        EnvVar(name="RAY_ADDRESS", value=f"{host}:{port}"),
        EnvVar(name="RAY_USAGE_STATS_KUBERAY_IN_USE", value="1"),
    )
    if is_head:
        origin = cluster.metadata.labels.get(LABEL_ORIGIN_KIND, "RayCluster")
        tags = f"kuberay_version={KUBERAY_VERSION};kuberay_crd={origin}"
        ray.env.append(EnvVar(name="RAY_USAGE_STATS_EXTRA_TAGS", value=tags))
    _add(ray, EnvVar(name="RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", value="1"))


def _share_memory(template: PodTemplate, ray: Container) -> None:
    if any(mount.mount_path == "/dev/shm" for mount in ray.volume_mounts):
        return
    if not any(volume.name == "shared-mem" for volume in template.spec.volumes):
        empty: Manifest = {"medium": "Memory"}
        size = ray.resources.limits.get("memory", ray.resources.requests.get("memory"))
        if size is not None:
            empty["sizeLimit"] = size
        template.spec.volumes.append(
            Volume.model_validate({"name": "shared-mem", "emptyDir": empty})
        )
    ray.volume_mounts.append(VolumeMount(name="shared-mem", mount_path="/dev/shm"))


def _set_probes(ray: Container, group: HeadGroup | WorkerGroup, *, is_head: bool) -> None:
    agent = int(group.ray_start_params.get("dashboard-agent-listen-port", AGENT_PORT))
    check: Manifest = {"httpGet": {"path": "/api/healthz", "port": agent}}
    # The head answers for GCS too, so it gets longer.
    times: Manifest = {
        "timeoutSeconds": 5 if is_head else 2,
        "periodSeconds": 5,
        "successThreshold": 1,
    }
    alive: Manifest = {"initialDelaySeconds": 30, "failureThreshold": 120}
    ready: Manifest = {"initialDelaySeconds": 10, "failureThreshold": 10}
    ray.liveness_probe = ray.liveness_probe or {**check, **times, **alive}
    ray.readiness_probe = ray.readiness_probe or {**check, **times, **ready}
