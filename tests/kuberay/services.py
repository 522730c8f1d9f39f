"""Services and the token's Secret of a RayCluster."""

from tests.kuberay.names import (
    DEFAULT_HEAD_PORTS,
    LABEL_APP,
    LABEL_CLUSTER,
    LABEL_IDENTIFIER,
    LABEL_NODE_TYPE,
    LABEL_ORIGIN_KIND,
    LABEL_ORIGIN_NAME,
    METRICS_PORT,
    TOKEN_KEY,
    head_service_name,
)
from tests.kuberay.pods import cluster_labels, owner
from tests.kuberay.rayresources import RayCluster, RayJob
from tests.kuberay.resources import Manifest, OwnerReference


def render_head_service(cluster: RayCluster) -> Manifest:
    """Return the Service in front of the head: headless, and there before the head is ready."""
    group = cluster.spec.head_group_spec
    selector = cluster_labels(cluster.name, "head")
    if LABEL_APP in group.template.metadata.labels:
        selector[LABEL_APP] = group.template.metadata.labels[LABEL_APP]
    spec: Manifest = {
        "selector": {**selector},
        "ports": [
            {"name": name, "port": port, "appProtocol": "tcp"}
            for name, port in sorted(_head_ports(cluster).items())
        ],
    }
    if group.service_type in (None, "", "ClusterIP"):
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    else:
        spec["type"] = group.service_type
    metadata: Manifest = {
        "name": head_service_name(cluster.name),
        "namespace": cluster.namespace,
        "labels": {**selector},
        "annotations": {**cluster.spec.head_service_annotations},
        "ownerReferences": [owner(cluster).manifest()],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def render_job_service(job: RayJob, cluster: RayCluster) -> Manifest:
    """Return the Service of the job's own name, in front of the head of its own cluster."""
    service = render_head_service(cluster)
    service["metadata"] = {
        "name": head_service_name(job.name),
        "namespace": job.namespace,
        "labels": {
            LABEL_ORIGIN_NAME: job.name,
            LABEL_ORIGIN_KIND: "RayJob",
            LABEL_NODE_TYPE: "head",
            LABEL_IDENTIFIER: f"{job.name}-head"[-63:],
        },
        "ownerReferences": [job_owner(job).manifest()],
    }
    return service


def job_owner(job: RayJob) -> OwnerReference:
    """Return the reference that makes an object go with its RayJob."""
    return OwnerReference(
        api_version=job.api_version,
        kind=job.kind,
        name=job.name,
        uid=job.metadata.uid or "",
        controller=True,
        block_owner_deletion=True,
    )


def render_token_secret(cluster: RayCluster, token: str) -> Manifest:
    """Return the Secret that all Pods of the cluster read the token from."""
    metadata: Manifest = {
        "name": cluster.token_secret,
        "namespace": cluster.namespace,
        "labels": {LABEL_CLUSTER: cluster.name},
        "ownerReferences": [owner(cluster).manifest()],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "stringData": {TOKEN_KEY: token},
    }


def _head_ports(cluster: RayCluster) -> dict[str, int]:
    ray = cluster.spec.head_group_spec.template.spec.containers[0]
    named = {port.name or f"{port.container_port}-port": port.container_port for port in ray.ports}
    return {"metrics": METRICS_PORT, **(named or DEFAULT_HEAD_PORTS)}
