"""What a fresh node is given: DNS, storage that can be claimed, and GPUs to be asked for."""

import json
from pathlib import Path

from hack.cluster.client import Client
from hack.cluster.node import DNS_ADDRESS, NODE

DNS_IMAGE = "docker.io/local/coredns:1"
STORAGE_CLASS = "standard"
NUM_VOLUMES = 20
NUM_GPUS = 2

COREFILE = """\
.:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 5
    }
    cache 5
}
"""


def install(client: Client, volumes: Path) -> None:
    """Put DNS and storage on a cluster of processes, and GPUs on its node."""
    objects = [*_dns_objects(), *_storage_objects(volumes)]
    document = {"apiVersion": "v1", "kind": "List", "items": objects}
    # The server checks each object anyway; for kubectl to check them as well it would have to fetch
    # the schema of everything, half a minute on a busy machine.
    check = "--validate=false"
    client.kubectl("apply", "--server-side", check, "-f", "-", stdin=json.dumps(document))
    add_gpus(client, NODE)


def add_gpus(client: Client, node: str) -> None:
    """Let a node claim GPUs, which nothing stands behind: enough for scheduling and for Ray."""
    gpus = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(NUM_GPUS)}]
    patch = ("--subresource=status", "--type=json", f"--patch={json.dumps(gpus)}")
    client.kubectl("patch", "node", node, *patch)


def _storage_objects(volumes: Path) -> list[dict[str, object]]:
    """Return a default class with volumes that wait to be claimed; nothing makes more of them."""
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/no-provisioner",
            "reclaimPolicy": "Retain",
        },
        *(_volume(volumes, number) for number in range(NUM_VOLUMES)),
    ]


def _volume(volumes: Path, number: int) -> dict[str, object]:
    name = f"volume-{number:02}"
    path = volumes / name
    path.mkdir(parents=True, exist_ok=True)
    # Pods run as various users, and nothing changes the owner of a hostPath.
    path.chmod(0o777)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "hostPath": {"path": str(path), "type": "Directory"},
        },
    }


def _dns_objects() -> list[dict[str, object]]:
    labels = {"k8s-app": "kube-dns"}
    inside = {"name": "coredns", "namespace": "kube-system"}
    rules = [
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        },
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "coredns"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "coredns"},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "coredns"},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **inside}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": inside,
            "data": {"Corefile": COREFILE},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
            "spec": {
                "clusterIP": DNS_ADDRESS,
                "selector": labels,
                "ports": [
                    {"name": f"dns-{name}", "protocol": name.upper(), "port": 53}
                    for name in ("udp", "tcp")
                ],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**inside, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _dns_pod()},
            },
        },
    ]


def _dns_pod() -> dict[str, object]:
    ports = [
        {"name": "dns-udp", "containerPort": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
    ]
    return {
        "serviceAccountName": "coredns",
        # Its own name server would be itself.
        "dnsPolicy": "Default",
        # Port 53 without root: policies that let Pods ask DNS name the port that Pods listen on.
        "securityContext": {
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
        },
        "containers": [
            {
                "name": "coredns",
                "image": DNS_IMAGE,
                "imagePullPolicy": "Never",
                "args": ["-conf", "/etc/coredns/Corefile"],
                "ports": ports,
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": 8181},
                    "periodSeconds": 1,
                },
                "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                    "runAsNonRoot": True,
                    "runAsUser": 65534,
                },
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
