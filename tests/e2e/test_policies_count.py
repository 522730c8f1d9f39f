"""Policies count on the node: what they forbid does not get through, and what they allow does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hack.cluster.bare import BareCluster
from tests.e2e.pods import make_pod
from tests.e2e.running import RunningCluster, wait_for

PORT = 8000
LISTEN = f"""
import socket
with socket.create_server(("", {PORT})) as server:
    print("listening", flush=True)
    while True:
        server.accept()[0].close()
"""
CALL = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"
# Asks the cluster's DNS for an address, as RFC 1035 wants it; the answer's last bytes are it.
RESOLVE = """
import socket, sys
labels = b"".join(bytes([len(part)]) + part.encode() for part in sys.argv[1].split("."))
query = bytes.fromhex("000101000001000000000000") + labels + bytes.fromhex("0000010001")
with socket.socket(type=socket.SOCK_DGRAM) as client:
    client.settimeout(2)
    client.sendto(query, ("10.96.0.10", 53))
    print(socket.inet_ntoa(client.recv(512)[-4:]))
"""


@pytest.fixture
def node(cluster: RunningCluster, enforced_policies: None) -> BareCluster:
    if not isinstance(cluster.cluster, BareCluster):
        pytest.skip("looks into the network of Pods, which only a node of processes lets it do")
    return cluster.cluster


def in_pod(node: BareCluster, address: str, program: str, *arguments: str) -> list[str]:
    """Return the command line that runs a Python program in the network of a Pod."""
    find = f"""for net in /run/netns/cni-*; do
      if nsenter --net=$net ip -o -4 address | grep -qF ' {address}/'; then
        exec nsenter --net=$net "$@"
      fi
    done; exit 9"""
    inside = [*node.enclosure.inside(), "sh", "-c", find, "sh"]
    return [*inside, sys.executable, "-c", program, *arguments]


def gets_through(node: BareCluster, source: str, target: str, port: int = PORT) -> bool:
    command = in_pod(node, source, CALL, target, str(port))
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode in (0, 1), outcome.stderr
    return outcome.returncode == 0


@contextmanager
def listening(node: BareCluster, address: str) -> Iterator[None]:
    with subprocess.Popen(in_pod(node, address, LISTEN), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        yield
        # nsenter waits for its child, which is number something else in there.
        subprocess.run(
            [*node.enclosure.inside(), "pkill", "-f", "create_server"], check=True, timeout=10
        )


@pytest.fixture
def addresses(cluster: RunningCluster, e2e_namespace: str) -> dict[str, str]:
    """Three Pods of the namespace and their addresses."""
    inside = ("--namespace", e2e_namespace)
    names = ("server", "friend", "stranger")
    for name in names:
        cluster.kubectl("create", "-f", "-", *inside, stdin=make_pod(name))
    targets = [f"pod/{name}" for name in names]
    cluster.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *targets, *inside)
    items = json.loads(cluster.kubectl("get", "pods", "--output=json", *inside))["items"]
    return {item["metadata"]["name"]: item["status"]["podIP"] for item in items}


def apply_policy(cluster: RunningCluster, namespace: str, name: str, **spec: object) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(policy))


def test_only_the_one_who_may_call_gets_through(
    cluster: RunningCluster, node: BareCluster, e2e_namespace: str, addresses: dict[str, str]
) -> None:
    server, friend, stranger = (addresses[name] for name in ("server", "friend", "stranger"))
    with listening(node, server):
        assert gets_through(node, friend, server)
        assert gets_through(node, stranger, server)

        apply_policy(cluster, e2e_namespace, "deny", podSelector={}, policyTypes=["Ingress"])
        assert wait_for(lambda: not gets_through(node, friend, server))

        apply_policy(
            cluster,
            e2e_namespace,
            "allow",
            podSelector={"matchLabels": {"app": "server"}},
            policyTypes=["Ingress"],
            ingress=[
                {
                    "from": [{"podSelector": {"matchLabels": {"app": "friend"}}}],
                    "ports": [{"port": PORT}],
                }
            ],
        )
        assert wait_for(lambda: gets_through(node, friend, server))
        assert not gets_through(node, stranger, server)


def test_a_pod_that_may_ask_dns_alone_cannot_reach_the_api_server(
    cluster: RunningCluster, node: BareCluster, e2e_namespace: str, addresses: dict[str, str]
) -> None:
    def resolves() -> bool:
        name = "kubernetes.default.svc.cluster.local"
        command = in_pod(node, addresses["friend"], RESOLVE, name)
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        return outcome.stdout.strip() == "10.96.0.1"

    assert gets_through(node, addresses["friend"], "10.96.0.1", 443)
    assert resolves()

    apply_policy(
        cluster,
        e2e_namespace,
        "dns-alone",
        podSelector={},
        policyTypes=["Egress"],
        egress=[
            {
                "to": [
                    {
                        "namespaceSelector": {
                            "matchLabels": {"kubernetes.io/metadata.name": "kube-system"}
                        },
                        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                    }
                ],
                "ports": [{"protocol": "UDP", "port": 53}],
            }
        ],
    )
    assert wait_for(lambda: not gets_through(node, addresses["friend"], "10.96.0.1", 443))
    assert resolves()
