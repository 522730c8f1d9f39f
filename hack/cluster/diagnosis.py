"""Which Pods are not well, why, and what to do: read from what Kubernetes says about them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from hack.cluster.client import Client
from hack.cluster.failure import ClusterError

NUM_LOG_LINES = 8
_NUM_EVENTS = 4
# What to do, by the reason that Kubernetes gives.
_LOAD = "the node lacks the image, and nothing is pulled: make cluster-load IMAGE=..."
ADVICE = {
    "ErrImageNeverPull": _LOAD,
    "ErrImagePull": _LOAD,
    "ImagePullBackOff": _LOAD,
    "CreateContainerConfigError": "a Secret or ConfigMap that it names is not there",
    "RunContainerError": "the command or a mount cannot be: see the message",
    "OOMKilled": "it took more memory than its limit: raise the limit or let it hold less",
    "CrashLoopBackOff": "it ends by itself again and again: its last lines say why",
    "Error": "it ended by itself: its last lines say why",
    "FailedScheduling": "no node fits: ask for less CPU, memory or GPU, or free some",
    "FailedMount": "a volume cannot be mounted: see the message",
    "FailedCreatePodSandBox": "the node could not make the Pod's network: see logs/containerd.log",
    "Evicted": "the node was short of something: see the message",
    "Unhealthy": "a probe fails: its last lines and the message say why",
}


class _Read(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class _State(_Read):
    reason: str = ""
    message: str = ""
    exit_code: int | None = None


class _Container(_Read):
    name: str
    ready: bool = False
    state: dict[str, _State] = Field(default_factory=dict)
    last_state: dict[str, _State] = Field(default_factory=dict)


class _Metadata(_Read):
    name: str
    namespace: str = ""


class _PodStatus(_Read):
    phase: str = ""
    reason: str = ""
    message: str = ""
    init_container_statuses: list[_Container] = Field(default_factory=list)
    container_statuses: list[_Container] = Field(default_factory=list)


class _Pod(_Read):
    metadata: _Metadata
    status: _PodStatus


class _Object(_Read):
    kind: str = ""
    name: str = ""


class _Event(_Read):
    involved_object: _Object
    type: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Finding:
    """One Pod that is not well."""

    pod: str
    reasons: tuple[str, ...]
    # The container whose log may say more, and whether it is the run before that counts.
    container: str = ""
    is_previous: bool = False
    log: str = field(default="", compare=False)

    def __str__(self) -> str:
        words = {word.strip(":,;") for reason in self.reasons for word in reason.split()}
        advice = [ADVICE[word] for word in ADVICE if word in words]
        lines = [f"Pod {self.pod}", *(f"  why: {reason}" for reason in self.reasons)]
        lines += [f"  log: {line}" for line in self.log.splitlines()]
        lines += [f"  do:  {step}" for step in dict.fromkeys(advice)]
        return "\n".join(lines)


def diagnose(client: Client, namespace: str) -> str:
    """Return what is wrong in a namespace, in words; one line when every Pod is well."""
    pods, events = (
        json.loads(client.kubectl("get", kind, "--namespace", namespace, "--output=json"))["items"]
        for kind in ("pods", "events")
    )
    findings = [_with_log(client, namespace, finding) for finding in find_unwell(pods, events)]
    if not findings:
        return f"namespace {namespace}: all {len(pods)} Pods are well"
    return f"namespace {namespace}:\n" + "\n".join(map(str, findings))


def find_unwell(
    pods: Sequence[Mapping[str, object]], events: Sequence[Mapping[str, object]]
) -> list[Finding]:
    """Return the Pods that neither run ready nor ended well, with what is said about them."""
    warnings = [
        event
        for event in map(_Event.model_validate, events)
        if event.type == "Warning" and event.involved_object.kind == "Pod"
    ]
    found = []
    for pod in map(_Pod.model_validate, pods):
        if _is_well(pod):
            continue
        own = [event for event in warnings if event.involved_object.name == pod.metadata.name]
        said = [f"{event.reason}: {event.message}" for event in own[-_NUM_EVENTS:]]
        troubles = list(_troubles(pod))
        status = [f"{pod.status.reason} {pod.status.message}".strip()]
        reasons = dict.fromkeys(
            filter(None, [*status, *(reason for _, reason, _ in troubles), *said])
        )
        container, _, is_previous = troubles[0] if troubles else ("", "", False)
        found.append(
            Finding(
                pod.metadata.name,
                tuple(reasons) or (f"phase {pod.status.phase}, nothing else is said",),
                container,
                is_previous,
            )
        )
    return found


def _is_well(pod: _Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    containers = pod.status.container_statuses
    return pod.status.phase == "Running" and all(container.ready for container in containers)


def _troubles(pod: _Pod) -> Iterator[tuple[str, str, bool]]:
    """Yield container, reason, and whether its last run is the one that tells."""
    for container in [*pod.status.init_container_statuses, *pod.status.container_statuses]:
        for kind, state in container.state.items():
            if container.ready or (kind == "terminated" and state.exit_code == 0):
                continue
            last = container.last_state.get("terminated")
            told = f"container {container.name}: {kind} {_words(state)}".rstrip()
            if kind == "running":
                told += ", but is not ready"
            if last is not None:
                told += f"; the run before: {_words(last)}"
            yield container.name, told, kind == "waiting" and last is not None


def _words(state: _State) -> str:
    code = "" if state.exit_code is None else f"exit code {state.exit_code}"
    return " ".join(filter(None, [state.reason, code, state.message.strip()]))


def _with_log(client: Client, namespace: str, finding: Finding) -> Finding:
    if not finding.container:
        return finding
    which = [f"--container={finding.container}", f"--tail={NUM_LOG_LINES}"]
    which += ["--previous"] if finding.is_previous else []
    try:
        log = client.kubectl("logs", finding.pod, "--namespace", namespace, *which)
    except ClusterError:
        return finding  # it never started, so it said nothing
    return Finding(finding.pod, finding.reasons, finding.container, finding.is_previous, log)
