"""Where Ray ran what, as Ray says itself."""

import json
from dataclasses import dataclass
from typing import Any

from tests.e2e.bundle import Dashboard
from tests.e2e.user_code.rows import NODE_DIGITS
from trainshed_api.names import NODE_GROUP_LABEL


@dataclass(frozen=True)
class Nodes:
    """The nodes of a RayCluster, by id: the group of each."""

    groups: dict[str, str]

    def group_of(self, number: int) -> str:
        """Return the group of the node that a row is marked with."""
        (group,) = (
            group for node, group in self.groups.items() if int(node[:NODE_DIGITS], 16) == number
        )
        return group


@dataclass(frozen=True)
class Ran:
    """A task or an actor's creation: its kind, what was called, and the group of its node."""

    kind: str
    name: str
    group: str


def nodes_of(dashboard: Dashboard) -> Nodes:
    """Return the nodes that Ray knows, lost ones too."""
    nodes = _listed(dashboard, "/api/v0/nodes?limit=1000&detail=true")
    return Nodes({node["node_id"]: node["labels"].get(NODE_GROUP_LABEL, "") for node in nodes})


def tasks_of(dashboard: Dashboard, submission: str) -> set[Ran]:
    """Return what ran of a job."""
    job = json.loads(dashboard.ask("GET", f"/api/jobs/{submission}").body)["job_id"]
    groups = nodes_of(dashboard).groups
    # Of other jobs events may be lost: their workers were killed.
    its_own = f"filter_keys=job_id&filter_predicates=%3D&filter_values={job}"
    return {
        Ran(task["type"], task["func_or_class_name"], groups[task["node_id"]])
        for task in _listed(dashboard, f"/api/v0/tasks?limit=10000&detail=true&{its_own}")
        if task["node_id"]
    }


def _listed(dashboard: Dashboard, path: str) -> list[dict[str, Any]]:
    answer = dashboard.ask("GET", path)
    assert answer.status == 200, answer.body
    listed = json.loads(answer.body)["data"]["result"]
    assert listed["num_after_truncation"] == listed["total"], "Ray does not tell of all"
    found: list[dict[str, Any]] = listed["result"]
    return found
