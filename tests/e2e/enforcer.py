"""Makes NetworkPolicies count on a node of processes, whose bridge ignores them. For tests only.

It reads Pods, Namespaces and NetworkPolicies a few times a second and writes one nftables table,
whole and at once. It speaks IPv4, numbered and named ports; what the node itself sends always
arrives, as with any other engine (probes). A new Pod is unguarded until the next reading.

python -m tests.e2e.enforcer KUBECONFIG, in the network namespace of the node.
"""

import base64
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Direction = Literal["ingress", "egress"]
_TABLE = "trainshed_policies"
_PAUSE_SECONDS = 0.3
# A busy node may not answer for a while; what is in force stays in force meanwhile.
_PATIENCE_SECONDS = 60.0
_PATHS = {
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
}
# Where a Pod's own address stands in what it sends and in what it receives.
_OWN_SIDE: dict[Direction, str] = {"egress": "saddr", "ingress": "daddr"}


class _Read(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class Requirement(_Read):
    """One line of matchExpressions."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = Field(default_factory=list)

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels are as it wants them."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None


class Selector(_Read):
    """A label selector; an empty one selects everything."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: list[Requirement] = Field(default_factory=list)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels are selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.holds(labels) for requirement in self.match_expressions
        )


class _Block(_Read):
    cidr: str
    excluded: list[str] = Field(default_factory=list, alias="except")


class Peer(_Read):
    """Who is at the other end."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: _Block | None = None


class Port(_Read):
    """A port of the one who is called; None: all."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class _Ingress(_Read):
    peers: list[Peer] = Field(default_factory=list, alias="from")
    ports: list[Port] = Field(default_factory=list)


class _Egress(_Read):
    peers: list[Peer] = Field(default_factory=list, alias="to")
    ports: list[Port] = Field(default_factory=list)


class _PolicySpec(_Read):
    pod_selector: Selector = Field(default_factory=Selector)
    policy_types: list[str] = Field(default_factory=list)
    ingress: list[_Ingress] = Field(default_factory=list)
    egress: list[_Egress] = Field(default_factory=list)


class _Metadata(_Read):
    name: str
    namespace: str = ""
    labels: dict[str, str] = Field(default_factory=dict)


class Policy(_Read):
    """A NetworkPolicy."""

    metadata: _Metadata
    spec: _PolicySpec

    def rules(self, direction: Direction) -> Sequence[_Ingress | _Egress] | None:
        """Return its rules, or None where it says nothing of a direction."""
        if direction.capitalize() not in self.spec.policy_types:
            return None
        return self.spec.ingress if direction == "ingress" else self.spec.egress


class _ContainerPort(_Read):
    name: str = ""
    container_port: int


class _Container(_Read):
    ports: list[_ContainerPort] = Field(default_factory=list)


class _PodSpec(_Read):
    host_network: bool = False
    containers: list[_Container] = Field(default_factory=list)


class _PodStatus(_Read):
    phase: str = ""
    pod_ip: str = Field(default="", alias="podIP")


class Pod(_Read):
    """A Pod, with an address of its own or without."""

    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus = Field(default_factory=_PodStatus)

    @property
    def address(self) -> str:
        """Return its own address, or nothing."""
        is_over = self.status.phase in ("Succeeded", "Failed")
        return "" if self.spec.host_network or is_over else self.status.pod_ip

    def numbers(self, port: str) -> Iterator[int]:
        """Yield what a port's name stands for in this Pod."""
        for container in self.spec.containers:
            yield from (one.container_port for one in container.ports if one.name == port)


@dataclass(frozen=True)
class World:
    """What there is, as far as policies are concerned."""

    pods: Sequence[Pod] = ()
    policies: Sequence[Policy] = ()
    # Labels of namespaces by name.
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_world(items: Sequence[Mapping[str, object]]) -> World:
    """Return the world that a list of objects describes."""
    kinds: dict[object, list[Mapping[str, object]]] = {}
    for item in items:
        kinds.setdefault(item["kind"], []).append(item)
    spaces = [_Metadata.model_validate(item["metadata"]) for item in kinds.get("Namespace", [])]
    return World(
        [Pod.model_validate(item) for item in kinds.get("Pod", [])],
        [Policy.model_validate(item) for item in kinds.get("NetworkPolicy", [])],
        {space.name: space.labels for space in spaces},
    )


def render_rules(world: World) -> str:
    """Return the nftables table that lets through what the policies allow, and nothing else."""
    chains: list[str] = []
    jumps: dict[Direction, list[str]] = {"egress": [], "ingress": []}
    for number, pod in enumerate(pod for pod in world.pods if pod.address):
        for direction, side in _OWN_SIDE.items():
            rules = _rules_of(world, pod, direction)
            if rules is None:
                continue
            name = f"{direction}_{number}"
            lines = "\n".join(f"    {rule} return" for rule in rules)
            chains.append(f"  chain {name} {{\n{lines}\n    drop\n  }}")
            jumps[direction].append(f"    ip {side} {pod.address} jump {name}")
    known = "    ct state established,related accept"
    # What a Pod sends to the node is input there, not forwarded; what the node sends is neither.
    hooks = {"forward": [*jumps["egress"], *jumps["ingress"]], "input": jumps["egress"]}
    for hook, lines_of in hooks.items():
        body = "\n".join([f"    type filter hook {hook} priority 10;", known, *lines_of])
        chains.append(f"  chain {hook} {{\n{body}\n  }}")
    table = f"table ip {_TABLE}"
    return f"{table}\ndelete {table}\n{table} {{\n" + "\n".join(chains) + "\n}\n"


def _rules_of(world: World, pod: Pod, direction: Direction) -> list[str] | None:
    """Return matches of what a Pod may receive or send; None where no policy selects it."""
    found: list[str] | None = None
    for policy in world.policies:
        rules = policy.rules(direction)
        is_meant = policy.metadata.namespace == pod.metadata.namespace
        if (
            rules is None
            or not is_meant
            or not policy.spec.pod_selector.selects(pod.metadata.labels)
        ):
            continue
        found = found or []
        for rule in rules:
            found += _matches(world, policy.metadata.namespace, rule, direction, pod)
    return found


def _matches(
    world: World, namespace: str, rule: _Ingress | _Egress, direction: Direction, pod: Pod
) -> Iterator[str]:
    side = "saddr" if direction == "ingress" else "daddr"
    for address, other in _addresses(world, namespace, rule.peers):
        # A port belongs to the one who is called: this Pod, or the one at the other end.
        called = pod if direction == "ingress" else other
        for port in _ports(rule.ports, called):
            yield " ".join(filter(None, [address.format(side=side), port]))


def _addresses(
    world: World, namespace: str, peers: Sequence[Peer]
) -> Iterator[tuple[str, Pod | None]]:
    """Yield the match of each address that peers stand for, and the Pod that has it, if any."""
    if not peers:
        yield "", None
    for peer in peers:
        if peer.ip_block is not None:
            match = f"ip {{side}} {peer.ip_block.cidr}"
            if peer.ip_block.excluded:
                match += f" ip {{side}} != {{{{ {', '.join(peer.ip_block.excluded)} }}}}"
            yield match, None
            continue
        for other in world.pods:
            if other.address and _is_peer(world, namespace, peer, other):
                yield f"ip {{side}} {other.address}", other


def _is_peer(world: World, namespace: str, peer: Peer, pod: Pod) -> bool:
    if peer.namespace_selector is None:
        is_there = pod.metadata.namespace == namespace
    else:
        labels = world.namespaces.get(pod.metadata.namespace, {})
        is_there = peer.namespace_selector.selects(labels)
    return is_there and (peer.pod_selector or Selector()).selects(pod.metadata.labels)


def _ports(ports: Sequence[Port], called: Pod | None) -> Iterator[str]:
    if not ports:
        yield ""
    for port in ports:
        protocol = port.protocol.lower()
        match port.port:
            case None:
                yield f"meta l4proto {protocol}"
            case int() as first:
                last = "" if port.end_port is None else f"-{port.end_port}"
                yield f"{protocol} dport {first}{last}"
            case name:
                for number in called.numbers(name) if called else ():
                    yield f"{protocol} dport {number}"


def main(kubeconfig: Path) -> None:
    """Keep the table as the policies say, until it is ended."""
    access = json.loads(kubeconfig.read_text())
    server = _connect(access)
    written = ""
    heard = time.monotonic()
    while True:
        try:
            objects = _list_objects(server)
        except (OSError, HTTPException, KeyError, ValueError):  # a busy server, or none
            if time.monotonic() - heard > _PATIENCE_SECONDS:
                raise
            server = _connect(access)
        else:
            heard = time.monotonic()
            rules = render_rules(read_world(objects))
            if rules != written:
                subprocess.run(["nft", "--file", "-"], input=rules, text=True, check=True)
                written = rules
        time.sleep(_PAUSE_SECONDS)


def _connect(kubeconfig: Mapping[str, Any]) -> HTTPSConnection:
    [cluster], [user] = kubeconfig["clusters"], kubeconfig["users"]
    decoded = {
        key: base64.b64decode(value).decode()
        for key, value in {**cluster["cluster"], **user["user"]}.items()
        if key.endswith("-data")
    }
    context = ssl.create_default_context(cadata=decoded["certificate-authority-data"])
    with NamedTemporaryFile("w") as identity:
        identity.write(decoded["client-certificate-data"] + decoded["client-key-data"])
        identity.flush()
        context.load_cert_chain(identity.name)
    address = urlsplit(cluster["cluster"]["server"]).netloc
    return HTTPSConnection(address, context=context, timeout=30)


def _list_objects(server: HTTPSConnection) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for kind, path in _PATHS.items():
        # Version 0: what the server has at hand, which costs it next to nothing.
        server.request("GET", f"{path}?resourceVersion=0")
        answer = json.loads(server.getresponse().read())
        found += [{**item, "kind": kind} for item in answer["items"]]
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
