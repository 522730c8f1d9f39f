"""Runs in the Pod of `helm test`: the Ray cluster is closed to strangers and has the nodes ordered.

Takes DASHBOARD (address of the head's dashboard), WANT (group -> least number of nodes, JSON),
RAY_AUTH_TOKEN, PODS (where the API server lists the release's Pods) and ACCOUNT (folder with the
token for it and its certificate) from its environment. The standard library alone: it starts in a
moment, in the controller's image as in Ray's.
"""

import collections
import json
import os
import pathlib
import ssl
import sys
import urllib.error
import urllib.request
from http import HTTPStatus

NODES = "/api/v0/nodes?detail=1&limit=10000"
TIMEOUT_SECONDS = 20
# Reasons for which a container waits for its image, as in trainshed_api.names.
NO_IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)


def ask(address: str, token: str | None) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(address, headers=headers), timeout=TIMEOUT_SECONDS
        ) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def count_nodes(body: bytes) -> dict[str, int]:
    """Return how many nodes of each group are alive."""
    nodes = json.loads(body)["data"]["result"]["result"]
    alive = [node for node in nodes if node["state"] == "ALIVE"]
    return dict(
        collections.Counter(node["labels"].get("trainshed.dev/group", "") for node in alive)
    )


def find_fault(dashboard: str, want: dict[str, int], token: str) -> str | None:
    """Return what is wrong with the cluster, or None."""
    address = dashboard + NODES
    try:
        stranger, _ = ask(address, None)
        status, body = ask(address, token)
    except OSError as error:
        return f"{dashboard} does not answer: {error}. Is the head's Pod ready?"
    if stranger != HTTPStatus.UNAUTHORIZED:
        return f"{dashboard} answers {stranger} to who has no token; expected 401"
    if status != HTTPStatus.OK:
        return f"{dashboard} answers {status} to the cluster's token; expected 200"
    have = count_nodes(body)
    missing = [
        f"group {group} has {have.get(group, 0)} nodes; expected {number}"
        for group, number in sorted(want.items())
        if have.get(group, 0) < number
    ]
    if missing:
        return "; ".join(missing) + ". Look at the Pods: kubectl get pods -l ray.io/is-ray-node=yes"
    print(f"{dashboard} has these nodes: {json.dumps(have, sort_keys=True)}")
    return None


def unpulled_images(pods: dict[str, list]) -> list[str]:
    """Return a line for each container of a PodList whose image cannot be pulled."""
    lines = []
    for pod in pods["items"]:
        status = pod.get("status", {})
        containers = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
        for container in containers:
            waiting = container.get("state", {}).get("waiting", {})
            if waiting.get("reason") in NO_IMAGE:
                name, image = pod["metadata"]["name"], container["image"]
                said = f"{waiting['reason']}: {waiting.get('message', '')}"
                lines.append(f"Pod {name}: image {image} cannot be pulled: {said}")
    return lines


def look_at_pods(address: str, account: pathlib.Path) -> list[str]:
    """Return what the release's Pods say of images, or why nobody knows."""
    try:
        token = (account / "token").read_text()
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        trusted = ssl.create_default_context(cafile=account / "ca.crt")
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=trusted) as answer:
            return unpulled_images(json.load(answer))
    except OSError as error:
        return [f"The API server does not list the Pods: {error}"]


def main() -> None:
    """Exit with what is wrong, an image that cannot be pulled before all else."""
    fault = find_fault(
        os.environ["DASHBOARD"], json.loads(os.environ["WANT"]), os.environ["RAY_AUTH_TOKEN"]
    )
    if fault is None:
        return
    said = look_at_pods(os.environ["PODS"], pathlib.Path(os.environ["ACCOUNT"]))
    sys.exit("\n".join([*said, fault]))


if __name__ == "__main__":
    main()
