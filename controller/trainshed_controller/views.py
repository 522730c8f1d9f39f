"""From objects as the API server sends them to what decisions are made of. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import ValidationError

from trainshed_api.json_object import JsonObject, as_object, objects, text
from trainshed_api.pod_trouble import (
    IMAGE_PULL_FAILED,
    PodTrouble,
    how_ended,
    last_end,
    pod_title,
    refused_pods,
    start_trouble,
)
from trainshed_api.rayjob import CLUSTER_LABEL, RESERVATION_ANNOTATION, RUN_LABEL
from trainshed_api.status import Reservation, TrainingRunStatus
from trainshed_controller.capacity import START_COMMAND, read_groups, read_offer
from trainshed_controller.model import ClusterView, PodView, RayJobView, RunView
from trainshed_controller.spec import Asked, read_spec
from trainshed_controller.status import open_attempt

_HALF_MESSAGE = 2000


def identity_of(raw: JsonObject) -> tuple[str, str, str, str]:
    """Return namespace, name, uid and resource version of an object."""
    metadata = as_object(raw.get("metadata"))
    namespace, name, uid = (text(metadata, part) for part in ("namespace", "name", "uid"))
    return namespace, name, uid, text(metadata, "resourceVersion")


def read_run(raw: JsonObject, before: RunView | None = None) -> RunView:
    """Return a TrainingRun; where the model refuses it, with the reasons and without a run.

    before: an earlier state of it; what it was asked for is not looked at again if that is the same
    """
    metadata, status = as_object(raw.get("metadata")), as_object(raw.get("status"))
    known, unreadable = _read_status(status)
    if before and _asks_the_same(before, metadata):
        asked = Asked(before.run)
    else:
        under_way = open_attempt(known) is not None
        asked = read_spec(_without_server_words(raw), is_under_way=under_way)
    return RunView(
        *identity_of(raw),
        generation=_integer(metadata, "generation") or 0,
        created=_moment(text(metadata, "creationTimestamp")),
        deleting="deletionTimestamp" in metadata,
        run=asked.run,
        problem=asked.problem,
        status=known,
        unreadable=unreadable,
    )


def _asks_the_same(before: RunView, metadata: JsonObject) -> bool:
    # The API server counts changes of the spec in the generation.
    return (
        not before.problem
        and before.run is not None
        and before.uid == metadata.get("uid")
        and before.generation == metadata.get("generation")
        and before.run.metadata.labels == as_object(metadata.get("labels"))
    )


def _without_server_words(raw: JsonObject) -> JsonObject:
    """Return the object without what other tools may have put on it."""
    metadata = as_object(raw.get("metadata"))
    named: JsonObject = {
        name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata
    }
    kept: JsonObject = {name: raw[name] for name in ("apiVersion", "kind", "spec") if name in raw}
    return kept | {"metadata": named}


def _read_status(status: JsonObject) -> tuple[TrainingRunStatus, str]:
    """Return the status, and why it cannot be read: another release wrote it, or somebody else."""
    try:
        known = TrainingRunStatus.model_validate(status)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return TrainingRunStatus(), f"status.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    newest = known.attempts[-1].number if known.attempts else 0
    if known.attempt != newest:
        problem = f"status.attempt: got {known.attempt}; expected {newest}, that of status.attempts"
        return TrainingRunStatus(), problem
    return known, ""


def read_job(raw: JsonObject) -> RayJobView:
    """Return a RayJob."""
    metadata, spec, status = (as_object(raw.get(name)) for name in ("metadata", "spec", "status"))
    return RayJobView(
        *identity_of(raw),
        owner=_controller_of(metadata),
        run=text(as_object(metadata.get("labels")), RUN_LABEL),
        deleting="deletionTimestamp" in metadata,
        suspended=spec.get("suspend") is True,
        selector=text(as_object(spec.get("clusterSelector")), CLUSTER_LABEL),
        job_id=text(spec, "jobId"),
        reservation=_reservation(as_object(metadata.get("annotations"))),
        job_status=text(status, "jobStatus"),
        deployment_status=text(status, "jobDeploymentStatus"),
        reason=text(status, "reason"),
        message=_shortened(text(status, "message")),
        cluster=text(status, "rayClusterName"),
    )


def _reservation(annotations: JsonObject) -> Reservation | None:
    try:
        written = text(annotations, RESERVATION_ANNOTATION)
        return Reservation.model_validate_json(written, extra="ignore")
    except ValidationError:
        return None


def read_cluster(raw: JsonObject) -> ClusterView:
    """Return a RayCluster."""
    metadata, spec = as_object(raw.get("metadata")), as_object(raw.get("spec"))
    return ClusterView(
        *identity_of(raw),
        owner=_controller_of(metadata),
        deleting="deletionTimestamp" in metadata,
        trouble=refused_pods(raw),
        autoscaling=spec.get("enableInTreeAutoscaling") is True,
        groups=read_groups(spec),
    )


def read_pod(raw: JsonObject, before: PodView | None = None) -> PodView:
    """Return a Pod of a RayCluster, judged by its Ray container.

    before: an earlier state of it; where it said why an image cannot be pulled, that is kept
    """
    metadata, spec, status = (as_object(raw.get(name)) for name in ("metadata", "spec", "status"))
    labels = as_object(metadata.get("labels"))
    container = _ray_container(spec)
    ray = text(container, "name")
    statuses = objects(status.get("containerStatuses"))
    main = next((item for item in statuses if text(item, "name") == ray), {})
    state = as_object(main.get("state"))
    ended = {} if "running" in state else last_end(main)
    failed = text(status, "phase") in ("Failed", "Succeeded")
    conditions = _conditions(status)
    disruption = conditions.get("DisruptionTarget", {})
    reason = text(status, "reason")
    return PodView(
        *identity_of(raw),
        cluster=text(labels, CLUSTER_LABEL),
        group=text(labels, "ray.io/group"),
        is_head=text(labels, "ray.io/node-type") == "head",
        node=text(spec, "nodeName"),
        ready=text(conditions.get("Ready", {}), "status") == "True",
        deleting="deletionTimestamp" in metadata,
        container=text(main, "containerID"),
        ended=text(ended, "reason") or ("Failed" if failed else ""),
        how_ended=f"{pod_title(raw)}: {how_ended(raw, main)}" if ended else "",
        exit_code=_integer(ended, "exitCode"),
        is_over=failed,
        evicted=text(status, "message") or reason if reason == "Evicted" else "",
        # Pressure on the node may be the run's own doing; no other disruption is.
        preempted=text(disruption, "status") == "True" and reason != "Evicted",
        trouble=_trouble(raw, before),
        offer=read_offer(container, _start_command(container)),
    )


def _ray_container(spec: JsonObject) -> JsonObject:
    """Return the container that runs Ray; sidecars may be injected before it."""
    containers = objects(spec.get("containers"))
    marked = (container for container in containers if _start_command(container))
    return next(marked, containers[0] if containers else {})


def _start_command(container: JsonObject) -> str:
    """Return the command by which KubeRay starts Ray in a container; empty where it does not."""
    variables = objects(container.get("env"))
    return next((text(v, "value") for v in variables if text(v, "name") == START_COMMAND), "")


def _trouble(raw: JsonObject, before: PodView | None) -> PodTrouble | None:
    """Return why the Pod does not start; between two pulls with the registry's answer before."""
    trouble, known = start_trouble(raw), before.trouble if before else None
    is_same = before is not None and before.uid == text(as_object(raw.get("metadata")), "uid")
    if trouble and known and is_same and trouble.reason == IMAGE_PULL_FAILED:
        return known if known.message.startswith(f"{trouble.message}: ") else trouble
    return trouble


def _shortened(message: str) -> str:
    # Ray says first how a job ended, and then up to 20,000 characters of its log.
    if len(message) <= 2 * _HALF_MESSAGE:
        return message
    return f"{message[:_HALF_MESSAGE]}\n...\n{message[-_HALF_MESSAGE:]}"


def _controller_of(metadata: JsonObject) -> str:
    owners = objects(metadata.get("ownerReferences"))
    return next((text(owner, "uid") for owner in owners if owner.get("controller") is True), "")


def _conditions(status: JsonObject) -> dict[str, JsonObject]:
    """Return the conditions by type."""
    return {text(each, "type"): each for each in objects(status.get("conditions"))}


def _integer(value: JsonObject, name: str) -> int | None:
    found = value.get(name)
    return found if isinstance(found, int) else None


def _moment(said: str) -> datetime:
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
