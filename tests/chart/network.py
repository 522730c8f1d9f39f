"""What NetworkPolicies allow, by the rules of networking.k8s.io/v1; named ports are left out."""

import ipaddress
from dataclasses import dataclass
from typing import Literal

from tests.chart.rendering import Object, at, of_kind, rows, table, text

Direction = Literal["ingress", "egress"]


@dataclass(frozen=True)
class Endpoint:
    """A Pod, or with `address` something outside.

    Args:
        labels: of the Pod.
        namespace: it is in; known by the label kubernetes.io/metadata.name.
        address: of what is no Pod.
    """

    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = "trainshed"
    address: str = ""


def is_allowed(objects: list[Object], source: Endpoint, target: Endpoint, port: int) -> bool:
    """Return whether TCP may go from one to the other: the one's egress and the other's ingress."""
    return _passes(objects, source, target, port, "egress") and _passes(
        objects, target, source, port, "ingress"
    )


def _passes(
    objects: list[Object], subject: Endpoint, peer: Endpoint, port: int, direction: Direction
) -> bool:
    policies = [
        policy
        for policy in of_kind(objects, "NetworkPolicy")
        if not subject.address
        and text(policy, "metadata", "namespace") == subject.namespace
        and _selects(table(policy, "spec", "podSelector"), subject.labels)
        and direction.capitalize() in (at(policy, "spec", "policyTypes") or [])  # type: ignore[operator]
    ]
    if not policies:
        return True
    return any(
        _rule_allows(rule, "to" if direction == "egress" else "from", peer, port, subject.namespace)
        for policy in policies
        for rule in rows(policy, "spec", direction)
    )


def _rule_allows(rule: Object, side: str, peer: Endpoint, port: int, namespace: str) -> bool:
    ports = rows(rule, "ports")
    port_fits = not ports or any(
        each.get("port") == port and each.get("protocol", "TCP") == "TCP" for each in ports
    )
    peers = rows(rule, side)
    return port_fits and (not peers or any(_is_peer(each, peer, namespace) for each in peers))


def _is_peer(selector: Object, peer: Endpoint, namespace: str) -> bool:
    if "ipBlock" in selector:
        return bool(peer.address) and _is_within(table(selector, "ipBlock"), peer.address)
    if peer.address:
        return False
    if "namespaceSelector" in selector:
        place = (("kubernetes.io/metadata.name", peer.namespace),)
        if not _selects(table(selector, "namespaceSelector"), place):
            return False
    elif peer.namespace != namespace:
        return False
    return "podSelector" not in selector or _selects(table(selector, "podSelector"), peer.labels)


def _is_within(block: Object, address: str) -> bool:
    where = ipaddress.ip_address(address)
    excluded = block.get("except") or []
    assert isinstance(excluded, list)
    return where in ipaddress.ip_network(text(block, "cidr")) and not any(
        where in ipaddress.ip_network(str(each)) for each in excluded
    )


def _selects(selector: Object, labels: tuple[tuple[str, str], ...]) -> bool:
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    return table(selector, "matchLabels").items() <= dict(labels).items() and all(
        _fits(expression, dict(labels)) for expression in rows(selector, "matchExpressions")
    )


def _fits(expression: Object, labels: dict[str, str]) -> bool:
    operator = expression["operator"]
    if operator == "DoesNotExist":
        return text(expression, "key") not in labels
    assert operator in {"In", "NotIn"}, "no other operator is understood here"
    values = expression["values"]
    assert isinstance(values, list)
    return (labels.get(text(expression, "key")) in values) is (operator == "In")
