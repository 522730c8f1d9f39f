"""What the controller's account may do: the chart's Role, and not a verb more."""

from pathlib import Path

from tests.control_plane.plugin import ControlPlane

# Resource -> verbs, in the namespace that it watches; secrets: only the one of the key.
RIGHTS = {
    "trainingruns.trainshed.dev": {"list", "watch", "delete"},
    "trainingruns.trainshed.dev/status": {"patch"},
    "trainingruns.trainshed.dev/finalizers": {"update"},
    "rayjobs.ray.io": {"list", "watch", "create", "delete"},
    "rayclusters.ray.io": {"list", "watch"},
    "pods": {"list", "watch"},
    "events.events.k8s.io": {"create", "patch"},
    "secrets": {"get", "patch"},
    "leases.coordination.k8s.io": {"get", "patch", "create"},
    "networkpolicies.networking.k8s.io": {"create"},
}
# What every account may ask: who it is, and what it may do.
ALWAYS = {
    "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
}


def test_the_controller_may_do_what_the_role_says_and_no_more(
    control_plane: ControlPlane, trainingrun_crd: str, identity: Path, namespace: str
) -> None:
    listed = control_plane.kubectl(
        "--kubeconfig", str(identity), "--namespace", namespace, "auth", "can-i", "--list",
        "--no-headers",
    )  # fmt: skip
    found: dict[str, set[str]] = {}
    for line in listed.splitlines():
        resource, _, rest = line.partition(" ")
        if not resource or resource in ALWAYS or rest.strip().startswith("[/"):
            continue  # a line without a resource is about paths such as /healthz
        verbs = rest.rpartition("[")[2].rstrip("]").split()
        found.setdefault(resource, set()).update(verbs)
    assert found == RIGHTS
    secrets = next(line for line in listed.splitlines() if line.startswith("secrets"))
    assert "[trainshed-progress-key]" in secrets


def test_the_controller_may_do_nothing_elsewhere(
    control_plane: ControlPlane, trainingrun_crd: str, identity: Path
) -> None:
    listed = control_plane.kubectl(
        "--kubeconfig", str(identity), "--namespace", "default", "auth", "can-i", "--list",
        "--no-headers",
    )  # fmt: skip
    resources = {line.partition(" ")[0] for line in listed.splitlines()} - {""}
    assert resources == ALWAYS
