"""Why a TrainingRun in Kubernetes did what it did, by its objects.

`read` is the only function with I/O; `explain` takes what it returns. The controller states the
cause in conditions and attempts; Pods and events say what is behind it.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.causes.chain import SLOW_DATA, Diagnosis, Link, broken_link, telling_lines
from trainshed.causes.pods import PodState, read_pod
from trainshed.display.formatting import say_duration, say_place
from trainshed.jobs.cluster_error import ClusterError
from trainshed_api.json_object import as_object, objects, text
from trainshed_api.pod_trouble import refused_pods
from trainshed_api.rayjob import CLUSTER_LABEL
from trainshed_api.start_times import StartTimes
from trainshed_api.status import Condition, StartSeconds, TrainingRunStatus, first_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed.causes.chain import LinkName, LinkState
    from trainshed.jobs.kubectl import Kubectl
    from trainshed_api.json_object import JsonObject
    from trainshed_api.status import AttemptStatus

WORKLOAD = "workloads.kueue.x-k8s.io"
_MOST_EVENTS, _MOST_LOG_LINES = 6, 300
# An object that is deleted for longer waits for a finalizer; a new run is handled sooner, and a Ray
# head that has just started answers sooner.
_SOON_SECONDS = 60.0
# Reasons of Progressing in the queue that do not pass by themselves, and of Pods that do not start.
_NEVER = ("ExceedsCluster", "NoSuchCluster", "ClusterNotShared", "NoSuchClass")
_OF_PODS = (
    "ImagePullFailed",
    "ContainerConfigError",
    "ContainerCrashes",
    "PodsRefused",
    "Unschedulable",
)
_OTHER_RELEASE = "the status of the run is of another release"
# Outcomes of which the driver, not a Pod, states the cause.
_OF_THE_PROGRAM = ("Application", "Invalid", "StoppedOutside")
# Reasons for which an attempt ended that name the link.
_REASONS: Mapping[str, LinkName] = {
    "HeadLost": "head",
    "HeadEvicted": "head",
    "Preempted": "head",
    "RayJobRefused": "RayJob",
    "RayJobDeleted": "RayJob",
    "JobStatusCheckTimeoutExceeded": "RayJob",
    "RuntimeEnvFailed": "file",
    "StoppedOutside": "RayJob",
    "ProvisioningDeadlineExceeded": "workers",
    "DriverKilled": "driver",
    "AttemptTaken": "driver",
    "Terminated": "driver",
    "Stalled": "training",
}


@dataclass(frozen=True)
class ClusterRun:
    """A TrainingRun and the objects that belong to it, as the API server returns them.

    Args:
        run: the TrainingRun.
        now: the present.
        job: the RayJob of its last attempt.
        cluster: the RayCluster.
        pods: of the RayCluster.
        events: of the namespace.
        workloads: of Kueue, for the RayJob.
        unread: why objects could not be read, by their kind.
        log: last lines of the container that ended.
    """

    run: JsonObject
    now: datetime
    job: JsonObject = field(default_factory=dict)
    cluster: JsonObject = field(default_factory=dict)
    pods: Sequence[JsonObject] = ()
    events: Sequence[JsonObject] = ()
    workloads: Sequence[JsonObject] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    log: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Return the run's name."""
        return text(as_object(self.run.get("metadata")), "name")

    @cached_property
    def status(self) -> TrainingRunStatus:
        """Return the status; an empty one if another release wrote it."""
        try:
            return TrainingRunStatus.model_validate(self.run.get("status") or {})
        except ValidationError:
            return TrainingRunStatus()

    @property
    def is_unread(self) -> bool:
        """Return whether another release wrote the status."""
        return bool(self.run.get("status")) and self.status == TrainingRunStatus()

    @property
    def attempt(self) -> AttemptStatus | None:
        """Return the last attempt."""
        attempts = self.status.attempts
        return attempts[-1] if attempts else None

    @property
    def progressing(self) -> Condition:
        """Return the condition of this type; an empty one if there is none."""
        empty = Condition(
            type="Progressing", status="Unknown", reason="", last_transition_time=self.now
        )
        return self.status.condition("Progressing") or empty

    @cached_property
    def states(self) -> list[PodState]:
        """Return the states of its Pods, without what was over before this attempt began."""
        created = text(as_object(self.job.get("metadata")), "creationTimestamp")
        began = datetime.fromisoformat(created).timestamp() if created else 0.0
        pods = [read_pod(raw, self.warnings, self.now) for raw in self.pods]
        # One that failed, and that no other one replaces, is why this attempt does not start.
        heads = [pod for pod in pods if pod.is_head and not pod.has_failed]
        workers = [pod for pod in pods if not pod.is_head and not pod.has_failed]
        head_starts = bool(heads) and not any(pod.is_ready for pod in heads)
        return [
            pod.healthy
            if (pod.was_over_by(began) and (heads if pod.is_head else workers))
            or (pod.waits_for_head and head_starts)
            else pod
            for pod in pods
        ]

    @cached_property
    def warnings(self) -> list[JsonObject]:
        """Return the events of its objects, the oldest first."""
        named = (self.run, self.job, self.cluster, *self.pods)
        uids = {text(as_object(each.get("metadata")), "uid") for each in named} - {""}
        mine = (
            event
            for event in self.events
            if text(as_object(event.get("involvedObject")), "uid") in uids
        )
        return sorted(mine, key=_last_time)


def read(kubectl: Kubectl, name: str) -> ClusterRun:
    """Return a TrainingRun with its objects; one that cannot be read is left out.

    Raises:
        ClusterError: if there is no such run, or the cluster does not answer.
    """
    found = ClusterRun(kubectl.get("trainingrun", name)[0], datetime.now(UTC))
    attempt = found.attempt
    cluster = (attempt.ray_cluster or _cluster_of(kubectl, attempt.ray_job)) if attempt else ""
    wanted: dict[str, tuple[str, ...]] = {"events": ("events", "--field-selector", "type=Warning")}
    if attempt:
        wanted["job"] = ("rayjob", attempt.ray_job)
        wanted["workloads"] = (WORKLOAD,)
    if cluster:
        wanted["pods"] = ("pods", "-l", f"{CLUSTER_LABEL}={cluster}")
        wanted["cluster"] = ("raycluster", cluster)
    unread: dict[str, str] = {}

    def look(kind: str) -> list[JsonObject]:
        try:
            return kubectl.get(*wanted[kind])
        except ClusterError as error:
            unread[kind] = str(error).rpartition("\n")[2]
            return []

    with ThreadPoolExecutor(len(wanted)) as threads:
        looked = dict(zip(wanted, threads.map(look, wanted), strict=True))
    found = replace(
        found,
        job=next(iter(looked.get("job", [])), {}),
        cluster=next(iter(looked.get("cluster", [])), {}),
        pods=looked.get("pods", []),
        events=looked["events"],
        workloads=looked.get("workloads", []),
        unread=unread,
    )
    ended = next((pod for pod in found.states if pod.has_ended), None)
    if ended is None:
        return found
    try:
        return replace(found, log=kubectl.log(ended.name, ended.container, _MOST_LOG_LINES))
    except ClusterError:
        return found


def _cluster_of(kubectl: Kubectl, ray_job: str) -> str:
    """Return the name of a RayJob's RayCluster that the controller has not seen yet, or nothing."""
    try:
        job = next(iter(kubectl.get("rayjob", ray_job)), {})
    except ClusterError:
        return ""
    return text(as_object(job.get("status")), "rayClusterName")


def explain(found: ClusterRun, asked: str, options: str = "") -> Diagnosis:
    """Return the diagnosis of a run.

    Args:
        found: its facts.
        asked: its name, for commands.
        options: of kubectl, for commands.
    """
    attempt, phase = found.attempt, found.status.phase or "Unknown"
    kubectl = f"kubectl{options}"
    troubled = next((pod.name for pod in found.states if pod.trouble), "")
    describe = f"{kubectl} describe pod {troubled}" if troubled else f"{kubectl} get pods"
    diagnosis = Diagnosis(
        run=found.name,
        where=f"namespace {text(as_object(found.run.get('metadata')), 'namespace')}",
        state=phase,
        links=tuple(_links(found)),
        healthy=_healthy(found),
        is_over=phase in {"Succeeded", "Failed"},
        limit=_limit(found),
        start=_start(attempt),
        commands={
            "file": f"{kubectl} edit trainingrun {asked}",
            "admission": f"{kubectl} get trainingruns",
            "RayJob": f"{kubectl} describe rayjob {attempt.ray_job if attempt else ''}".rstrip(),
            "head": describe,
            "workers": describe,
            "": f"{kubectl} describe trainingrun {asked}",
        },
    )
    if not diagnosis.culprits:
        return diagnosis
    # The controller has the driver's traceback behind the message.
    lines = attempt.message.splitlines() if attempt else []
    log = telling_lines(lines if len(lines) > 1 else found.log)
    return replace(diagnosis, events=tuple(_events(found)), log=log)


def _start(attempt: AttemptStatus | None) -> dict[str, float]:
    """Return the seconds of each phase of the start that has ended."""
    known = attempt.start if attempt else None
    if known is None:
        return {}
    # A later release may have written phases that this one does not know.
    phases = known.model_dump(include=set(StartSeconds.model_fields))
    return StartTimes.model_validate(phases).by_name()


def _links(found: ClusterRun) -> Iterator[Link]:
    """Yield the links in the order in which a run needs them."""
    status, ending, lost = found.status, _ending(found), _lost_workers(found)
    accepted = status.condition("Accepted")
    is_refused = accepted is not None and accepted.status == "False"
    pods = [_in_view_of(pod, found, ending) for pod in found.states]
    trained = status.progress is not None and status.progress.step is not None
    links = (
        Link("file", "failed" if is_refused else "ok", accepted.message if accepted else ""),
        _admission(found),
        _job(found),
        _of_pods("head", [pod for pod in pods if pod.is_head], found),
        _of_pods("workers", [pod for pod in pods if not pod.is_head], found),
        _driver(found),
        Link("data", "ok" if trained else "unknown"),
        _training(status),
    )
    for link in links:
        known = next((each for each in (ending, lost) if each and each.name == link.name), None)
        if known is None:
            yield link
        elif link.state == "failed":
            # What a Pod says is behind what the controller says.
            behind = () if known.says == link.says else (known.says,)
            yield replace(link, evidence=(*link.evidence, *behind))
        else:
            evidence = (*known.evidence, *link.evidence, *filter(None, [link.says]))
            yield replace(known, evidence=evidence)


def _ending(found: ClusterRun) -> Link | None:
    """Return the link that ended the last attempt, as the controller states it."""
    attempt, status = found.attempt, found.status
    failed = status.condition("Failed") if status.holds("Failed") else None
    if attempt is None or attempt.outcome in {None, "Succeeded"} or status.phase == "Succeeded":
        return Link(broken_link(failed.message), "failed", failed.sentence) if failed else None
    if attempt.outcome == "Stopped" and status.phase != "Failed":
        return None
    said = first_sentence(attempt.message) or attempt.reason
    time = attempt.end_time.timestamp() if attempt.end_time else None
    earlier = tuple(
        f"attempt {each.number} ended earlier: {each.reason}: {first_sentence(each.message)}"
        for each in found.status.attempts[:-1]
        if each.outcome not in {"Succeeded", "Stopped"}
    )
    says = failed.sentence if failed else said
    return Link(_link_of(attempt, said, found.states), "failed", says, earlier, time)


def _link_of(attempt: AttemptStatus, says: str, pods: Sequence[PodState]) -> LinkName:
    if attempt.outcome == "OutOfMemory":
        named = next((pod for pod in pods if re.search(rf"\bPod {pod.name}[ :]", says)), None)
        return "head" if named and named.is_head else "workers"
    if attempt.reason in _REASONS:
        return _REASONS[attempt.reason]
    found = broken_link(says)
    return "file" if attempt.outcome == "Invalid" and found != "data" else found


def _in_view_of(pod: PodState, found: ClusterRun, ending: Link | None) -> PodState:
    """Return a Pod without its trouble if that cannot be why the run is where it is."""
    attempt = found.attempt
    # A shared cluster may have Pods that this run does not need; lost ones end the phase Running.
    needless = found.status.phase in {"Running", "Stopping", "Suspended", "Succeeded"}
    by_itself = ending is not None and attempt and attempt.outcome in _OF_THE_PROGRAM
    later = ending and ending.time and pod.time and pod.time > ending.time
    return pod.healthy if needless or by_itself or later else pod


def _of_pods(name: LinkName, pods: Sequence[PodState], found: ClusterRun) -> Link:
    troubled = sorted(
        (pod for pod in pods if pod.trouble), key=lambda pod: (not pod.has_ended, pod.is_waiting)
    )
    ready = sum(pod.is_ready for pod in pods)
    if troubled:
        first = troubled[0]
        evidence = (
            f"{ready} of {len(pods)} Pods are ready",
            *(pod.trouble for pod in troubled[1:]),
        )
        state: LinkState = "waiting" if first.is_waiting else "failed"
        return Link(name, state, first.trouble, evidence, first.time)
    # KubeRay creates the Pod of the head before those of workers.
    is_first = "pods" not in found.unread and not any(pod.is_head for pod in found.states)
    if name == ("head" if is_first else "workers") and (says := _refused_pods(found)):
        return Link(name, "failed", says)
    if "pods" in found.unread:
        return Link(name, "unknown", found.unread["pods"])
    if not pods:
        return Link(name, "unknown", "no Pod exists" if found.status.attempts else "")
    return Link(name, "ok", f"{ready} of {len(pods)} Pods are ready")


def _refused_pods(found: ClusterRun) -> str:
    """Return why Pods do not exist or start, as KubeRay or the controller says it."""
    if refused := refused_pods(found.cluster):
        return refused.message
    waits = found.status.phase in {"Queued", "Starting", "Restarting"}
    return found.progressing.message if waits and found.progressing.reason in _OF_PODS else ""


def _admission(found: ClusterRun) -> Link:
    status, now = found.status, found.now
    if waits := _deleted(found.run, now):
        return Link("admission", "waiting", waits)
    error = status.condition("InternalError")
    if error and error.status == "True":
        return Link("admission", "failed", error.message)
    if status.phase is None:
        created = text(as_object(found.run.get("metadata")), "creationTimestamp")
        age = (now - _moment(created, now)).total_seconds()
        is_late = age > _SOON_SECONDS and not found.is_unread
        unhandled = f"no controller has handled the run for {say_duration(age)}"
        says = _OTHER_RELEASE if found.is_unread else unhandled
        return Link("admission", "waiting" if is_late else "unknown", says)
    if status.phase == "Suspended":
        suspended = status.condition("Suspended")
        why = suspended.message if suspended and suspended.message else "spec.suspend is true"
        return Link("admission", "waiting", f"the run is suspended: {why}")
    kueue, reason = tuple(_kueue(found)), found.progressing.reason
    if status.phase != "Queued":
        return Link("admission", "ok", evidence=kueue)
    says = ": ".join((found.progressing.message or reason or "the run is queued", *kueue[:1]))
    queue = status.queue
    facts = (
        f"position {queue.position}" if queue else "",
        f"missing: {queue.missing}" if queue and queue.missing else "",
        f"held by: {', '.join(queue.held_by)}" if queue and queue.held_by else "",
    )
    evidence = tuple(filter(None, facts))
    return Link("admission", "failed" if reason in _NEVER else "waiting", says, evidence)


def _kueue(found: ClusterRun) -> Iterator[str]:
    """Yield what Kueue says of the RayJob's Workload."""
    job = as_object(found.job.get("metadata"))
    for workload in found.workloads:
        metadata = as_object(workload.get("metadata"))
        owners = {text(each, "uid") for each in objects(metadata.get("ownerReferences"))}
        reserved = _condition(workload, "QuotaReserved")
        if text(job, "uid") in owners and text(reserved, "status") == "False":
            yield text(reserved, "message")


def _job(found: ClusterRun) -> Link:
    attempt, status = found.attempt, as_object(found.job.get("status"))
    if found.progressing.reason == "RayJobRefused":
        return Link("RayJob", "failed", found.progressing.message)
    if waits := _deleted(found.job, found.now) or _deleted(found.cluster, found.now):
        return Link("RayJob", "waiting", waits)
    if attempt and not attempt.start_time and (waits := _not_submitted(found)):
        return Link("RayJob", "waiting", waits)
    if not found.job:
        return Link("RayJob", "unknown", found.unread.get("job", ""))
    if text(status, "jobDeploymentStatus") == "ValidationFailed":
        return Link("RayJob", "failed", text(status, "message"))
    said = text(status, "jobStatus") or text(status, "jobDeploymentStatus") or "new"
    return Link("RayJob", "ok", said)


def _not_submitted(found: ClusterRun) -> str:
    """Return why KubeRay cannot make the RayCluster, or give the job to its head; else nothing."""
    refused = [
        text(event, "message")
        for event in found.warnings
        if text(event, "reason") == "FailedToCreateRayCluster"
    ]
    if refused and not found.cluster:
        return refused[-1]
    since = text(as_object(found.job.get("status")), "jobStatusCheckFailureStartTime")
    seconds = (found.now - _moment(since, found.now)).total_seconds()
    if seconds < _SOON_SECONDS or not any(pod.is_head and pod.is_ready for pod in found.states):
        return ""
    # KubeRay has no more in its status than since when, and no event.
    return (
        f"KubeRay cannot ask Ray for the job for {say_duration(seconds)}: Ray refuses its token, "
        "or port 8265 of the Ray head does not answer"
    )


def _driver(found: ClusterRun) -> Link:
    attempt = found.attempt
    if found.progressing.message.startswith("no heartbeat from the driver"):
        return Link("driver", "waiting", found.progressing.message)
    if attempt is None or attempt.start_time is None:
        return Link("driver", "unknown")
    return Link("driver", "ok", f"attempt {attempt.number}")


def _training(status: TrainingRunStatus) -> Link:
    progress = status.progress
    if progress is None or progress.step is None:
        return Link("training", "unknown")
    steps = f" of {progress.steps:,}" if progress.steps else ""
    return Link("training", "ok", say_place(progress.epoch, progress.step) + steps)


def _lost_workers(found: ClusterRun) -> Link | None:
    attempt = found.attempt
    if found.status.phase != "Restarting" or attempt is None or attempt.outcome is not None:
        return None
    return Link("workers", "waiting", found.progressing.message or "workers start again")


def _healthy(found: ClusterRun) -> str:
    phase, said = found.status.phase or "new", found.progressing.message
    if found.is_unread:
        return f"unknown: {_OTHER_RELEASE}"
    if phase == "Succeeded":
        return "Nothing failed: the run ended as Succeeded"
    return f"Nothing is wrong: the run is {phase}{f' ({said})' if said else ''}"


def _limit(found: ClusterRun) -> str:
    """Return what slows a run down, as its driver says it."""
    said = found.progressing.message
    is_slow = found.status.phase == "Running" and SLOW_DATA.search(said)
    return f"Nothing is wrong, but {said}" if is_slow else ""


def _last_time(event: JsonObject) -> str:
    """Return when an event was seen last; those of the newer API have other fields."""
    repeated = text(as_object(event.get("series")), "lastObservedTime")
    return repeated or text(event, "lastTimestamp") or text(event, "eventTime")


def _events(found: ClusterRun) -> Iterator[str]:
    for event in found.warnings[-_MOST_EVENTS:]:
        about = as_object(event.get("involvedObject"))
        said = " ".join(text(event, "message").split())
        yield f"{text(about, 'kind')} {text(about, 'name')}: {text(event, 'reason')}: {said}"


def _deleted(raw: JsonObject, now: datetime) -> str:
    """Return that an object is deleted for too long, and what it waits for; else nothing."""
    metadata = as_object(raw.get("metadata"))
    since, finalizers = text(metadata, "deletionTimestamp"), metadata.get("finalizers")
    seconds = (now - _moment(since, now)).total_seconds()
    if not isinstance(finalizers, list) or seconds < _SOON_SECONDS:
        return ""
    return (
        f"{text(raw, 'kind')} {text(metadata, 'name')} is being deleted for "
        f"{say_duration(seconds)} and waits for its finalizer {', '.join(map(str, finalizers))}"
    )


def _condition(raw: JsonObject, kind: str) -> JsonObject:
    conditions = objects(as_object(raw.get("status")).get("conditions"))
    return next((each for each in conditions if text(each, "type") == kind), {})


def _moment(written: str, otherwise: datetime) -> datetime:
    return datetime.fromisoformat(written) if written else otherwise
