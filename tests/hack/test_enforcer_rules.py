"""The rules that stand for policies, without a cluster: who may call whom."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.e2e.enforcer import read_world, render_rules

HEAD, WORKER, OTHER = "10.244.0.2", "10.244.0.3", "10.244.0.4"


def make_pod(
    name: str, address: str, *, namespace: str = "ray", **labels: str
) -> dict[str, object]:
    port = {"name": "dashboard", "containerPort": 8265}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "ports": [port]}]},
        "status": {"phase": "Running", "podIP": address},
    }


def make_namespace(name: str) -> dict[str, object]:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": {"name": name}}}


def make_policy(types: list[str], **spec: object) -> dict[str, object]:
    return {
        "kind": "NetworkPolicy",
        "metadata": {"name": "one", "namespace": "ray"},
        "spec": {"podSelector": {"matchLabels": {"app": "ray"}}, "policyTypes": types, **spec},
    }


WORLD = [
    make_namespace("ray"),
    make_namespace("other"),
    make_pod("head", HEAD, app="ray", role="head"),
    make_pod("worker", WORKER, app="ray", role="worker"),
    make_pod("stranger", OTHER, namespace="other", app="ray"),
]


def chain_of(rules: str, name: str) -> list[str]:
    """Return the lines of a chain."""
    body = rules.partition(f"chain {name} {{\n")[2].partition("\n  }")[0]
    return [line.strip() for line in body.splitlines() if line.strip()]


def rules_for(policy: Mapping[str, object], direction: str) -> list[str]:
    """Return what is let through to or from the head."""
    return chain_of(render_rules(read_world([*WORLD, policy])), f"{direction}_0")


@dataclass(frozen=True)
class Case:
    policy: dict[str, object]
    want: list[str] = field(default_factory=list)
    direction: str = "ingress"


CASES = {
    "nothing may come in": Case(make_policy(["Ingress"]), ["drop"]),
    "everything may come in": Case(make_policy(["Ingress"], ingress=[{}]), ["return", "drop"]),
    "Pods of the same namespace by label": Case(
        make_policy(
            ["Ingress"], ingress=[{"from": [{"podSelector": {"matchLabels": {"role": "worker"}}}]}]
        ),
        [f"ip saddr {WORKER} return", "drop"],
    ),
    "all Pods of a namespace by its label": Case(
        make_policy(
            ["Ingress"],
            ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"name": "other"}}}]}],
        ),
        [f"ip saddr {OTHER} return", "drop"],
    ),
    "both selectors of one peer have to hold": Case(
        make_policy(
            ["Ingress"],
            ingress=[
                {
                    "from": [
                        {
                            "namespaceSelector": {},
                            "podSelector": {
                                "matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]
                            },
                        }
                    ]
                }
            ],
        ),
        [f"ip saddr {OTHER} return", "drop"],
    ),
    "a port by number and a range": Case(
        make_policy(
            ["Ingress"],
            ingress=[
                {"ports": [{"port": 6379}, {"protocol": "UDP", "port": 10002, "endPort": 19999}]}
            ],
        ),
        ["tcp dport 6379 return", "udp dport 10002-19999 return", "drop"],
    ),
    "a port by the name it has in the Pod": Case(
        make_policy(["Ingress"], ingress=[{"ports": [{"port": "dashboard"}]}]),
        ["tcp dport 8265 return", "drop"],
    ),
    "addresses but for some": Case(
        make_policy(
            ["Egress"],
            egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}]}],
        ),
        ["ip daddr 0.0.0.0/0 ip daddr != { 169.254.169.254/32 } return", "drop"],
        direction="egress",
    ),
    "a policy of the other direction says nothing": Case(make_policy(["Egress"]), []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rules_let_through_what_a_policy_allows(case: Case) -> None:
    assert rules_for(case.policy, case.direction) == case.want


def test_a_pod_that_no_policy_selects_is_left_alone() -> None:
    rules = render_rules(read_world([*WORLD, make_policy(["Ingress", "Egress"])]))
    assert OTHER not in rules


def test_what_two_policies_allow_adds_up() -> None:
    worker = make_policy(
        ["Ingress"], ingress=[{"from": [{"podSelector": {"matchLabels": {"role": "worker"}}}]}]
    )
    rules = render_rules(read_world([*WORLD, make_policy(["Ingress"]), worker]))
    assert chain_of(rules, "ingress_0") == [f"ip saddr {WORKER} return", "drop"]


def test_what_a_pod_sends_to_the_node_counts_too() -> None:
    rules = render_rules(read_world([*WORLD, make_policy(["Egress"])]))
    jump = f"ip saddr {HEAD} jump egress_0"
    assert jump in chain_of(rules, "input")
    assert jump in chain_of(rules, "forward")


def test_the_table_replaces_the_one_before_it() -> None:
    assert render_rules(read_world([])).startswith(
        "table ip trainshed_policies\ndelete table ip trainshed_policies\n"
    )
