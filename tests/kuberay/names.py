"""Names that KubeRay 1.7 gives, and that others rely on."""

GROUP = "ray.io"
API_VERSION = "ray.io/v1"

LABEL_CLUSTER = "ray.io/cluster"
LABEL_NODE_TYPE = "ray.io/node-type"
LABEL_GROUP = "ray.io/group"
LABEL_IS_RAY_NODE = "ray.io/is-ray-node"
LABEL_IDENTIFIER = "ray.io/identifier"
LABEL_REPLICA_INDEX = "ray.io/worker-group-replica-index"
LABEL_ORIGIN_NAME = "ray.io/originated-from-cr-name"
LABEL_ORIGIN_KIND = "ray.io/originated-from-crd"
LABEL_SUBMISSION_MODE = "ray.io/job-submission-mode"
LABEL_APP = "app.kubernetes.io/name"
LABEL_CREATED_BY = "app.kubernetes.io/created-by"

ANNOTATION_KEEP_COMMAND = "ray.io/overwrite-container-cmd"
ANNOTATION_FAULT_TOLERANT = "ray.io/ft-enabled"
ANNOTATION_NO_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"

HEAD_GROUP = "headgroup"
FINALIZER = "ray.io/rayjob-finalizer"
TOKEN_KEY = "auth_token"
KUBERAY_VERSION = "v1.7.0"

MAX_CLUSTER_NAME = 53  # "-serve-svc" still fits into a label
MAX_JOB_NAME = 47  # and "-xxxxx", which makes the name of its cluster

GCS_PORT = 6379
DASHBOARD_PORT = 8265
METRICS_PORT = 8080
AGENT_PORT = 52365
DEFAULT_HEAD_PORTS = {
    "client": 10001,
    "gcs-server": GCS_PORT,
    "dashboard": DASHBOARD_PORT,
    "metrics": METRICS_PORT,
    "serve": 8000,
}


def head_service_name(cluster: str) -> str:
    """Return the name of the Service in front of a cluster's head."""
    return f"{cluster}-head-svc"


def service_host(service: str, namespace: str) -> str:
    """Return the full name of a Service in the cluster's DNS."""
    return f"{service}.{namespace}.svc.cluster.local"


def pod_name_prefix(prefix: str, node_type: str) -> str:
    """Return what a Pod's name begins with; the API server appends five characters."""
    return f"{prefix[:50]}-{node_type}-".lower()


def secret_name(cluster: str) -> str:
    """Return the name of the token's Secret: the cluster's, its end where that is too long."""
    return cluster[-50:]
