"""From a run and its settings to the RayJob of an attempt. Pure."""

from __future__ import annotations

import copy
import hashlib
import hmac
import math
from typing import TYPE_CHECKING

from trainshed_api.groups import NodeGroup
from trainshed_api.json_object import as_object, objects
from trainshed_api.names import NODE_GROUP_LABEL
from trainshed_api.rayjob import (
    KUEUE_QUEUE,
    RUN_LABEL,
    AttemptIdentity,
    OwnCluster,
    SharedCluster,
    owner_of,
    render_rayjob,
)
from trainshed_controller.admission import request_of
from trainshed_controller.capacity import read_groups
from trainshed_controller.packing import capacity_of, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from trainshed_api.json_object import JsonObject
    from trainshed_api.v1alpha1 import TrainingRunResource
    from trainshed_controller.model import ClusterClass, GroupView, RunView, Settings


def attempt_of(
    view: RunView, number: int, settings: Settings, key: bytes, groups: Sequence[GroupView]
) -> AttemptIdentity:
    """Return who an attempt is, with the address and the bearer token of its progress."""
    path = progress_path(view.namespace, view.name, view.uid, number)
    newest = view.status.attempts[-1] if view.status.attempts else None
    held = newest.reservation if newest and newest.number == number else None
    return AttemptIdentity(
        view.namespace,
        view.name,
        view.uid,
        number,
        f"{settings.progress_url}{path}" if settings.progress_url else "",
        progress_token(key, view.namespace, view.name, view.uid, number),
        tuple(_told(group) for group in groups if group.labelled),
        held.model_dump_json(by_alias=True, exclude_defaults=True) if held else "",
    )


def _told(group: GroupView) -> NodeGroup:
    room = group.room
    memory = None if math.isinf(room.memory) else room.memory
    return NodeGroup(room.group, group.wanted, room.cpu, room.gpu, memory)


def progress_path(namespace: str, name: str, uid: str, number: int | str) -> str:
    """Return where the attempt's driver posts."""
    return f"/v1/namespaces/{namespace}/trainingruns/{name}/{uid}/attempts/{number}/progress"


def progress_token(key: bytes, namespace: str, name: str, uid: str, number: int) -> str:
    """Return the bearer token of one attempt: nothing has to be kept to know it again."""
    return hmac.new(key, f"{namespace}/{name}/{uid}/{number}".encode(), hashlib.sha256).hexdigest()


def render_attempt(
    view: RunView, number: int, settings: Settings, key: bytes, shared: Sequence[GroupView]
) -> JsonObject:
    """Return the RayJob of an attempt of a run that is valid.

    shared: the groups of the cluster that it shares; none for a dedicated cluster.

    Raises ValueError for a run that is not acceptable here.
    """
    assert view.run
    if refusal := unacceptable(view.run, settings):
        raise ValueError(refusal[1])
    chosen = class_of(view.run, settings)
    if chosen is None:
        attempt = attempt_of(view, number, settings, key, shared)
        return render_rayjob(view.run, attempt, SharedCluster(shared_cluster(view.run, settings)))
    spec = sized_cluster(view.run, chosen)
    _set_image_and_environment(spec, view.run)
    if settings.isolates_clusters:  # only such a run has a policy that selects its Pods
        _label_pods(spec, view.name)
    attempt = attempt_of(view, number, settings, key, read_groups(spec))
    return render_rayjob(view.run, attempt, OwnCluster(spec))


def _set_image_and_environment(spec: JsonObject, run: TrainingRunResource) -> None:
    """Give the Ray containers of a RayClusterSpec what the run sets; the class's variables win."""
    own: list[JsonValue] = [
        source.model_dump(mode="json", by_alias=True, exclude_none=True)
        for source in run.spec.env_from
    ]
    containers = [
        container
        for template in _pod_templates(spec)
        # The first is Ray's; others are sidecars.
        for container in objects(as_object(template.get("spec")).get("containers"))[:1]
    ]
    if run.spec.image and spec.get("enableInTreeAutoscaling"):
        # Else KubeRay runs its autoscaler, which has a token for Kubernetes, in the head's image.
        options = as_object(spec.get("autoscalerOptions"))
        spec["autoscalerOptions"] = {"image": containers[0].get("image"), **options}
    for container in containers:
        if run.spec.image:
            container["image"] = run.spec.image
        if own:
            container["envFrom"] = [*own, *objects(container.get("envFrom"))]


def _label_pods(spec: JsonObject, run: str) -> None:
    """Add the label by which render_policy selects them to the Pods of a RayClusterSpec."""
    for template in _pod_templates(spec):
        metadata = as_object(template.setdefault("metadata", {}))
        as_object(metadata.setdefault("labels", {}))[RUN_LABEL] = run


def _pod_templates(spec: JsonObject) -> list[JsonObject]:
    groups = [as_object(spec["headGroupSpec"]), *objects(spec.get("workerGroupSpecs"))]
    return [as_object(group.setdefault("template", {})) for group in groups]


def render_policy(view: RunView, settings: Settings) -> JsonObject | None:
    """Return the NetworkPolicy that lets the Pods of a run's own clusters reach each other.

    The chart's policies deny them everything else. None where there are no policies, or no cluster
    of the run's own.
    """
    if not settings.isolates_clusters or view.run is None or not class_of(view.run, settings):
        return None
    pods: JsonObject = {"matchLabels": {RUN_LABEL: view.name}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            # A run of the same name that came before may not be collected yet.
            "name": f"{view.name}-{view.uid[:8]}",
            "namespace": view.namespace,
            "labels": {"app.kubernetes.io/managed-by": "trainshed", RUN_LABEL: view.name},
            "ownerReferences": [owner_of(view.name, view.uid)],
        },
        "spec": {
            "podSelector": pods,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": pods}]}],
            "egress": [{"to": [{"podSelector": pods}]}],
        },
    }


def shared_cluster(run: TrainingRunResource, settings: Settings) -> str:
    """Return the name of the run's shared RayCluster; empty for a dedicated one."""
    cluster = run.spec.cluster
    if cluster is None:
        return settings.default_cluster
    return cluster.shared or ""


def class_of(run: TrainingRunResource, settings: Settings) -> ClusterClass | None:
    """Return the class of the run's own cluster; None for a shared one, or no such class."""
    cluster = run.spec.cluster
    if cluster is None or cluster.dedicated is None:
        return None
    return settings.classes.get(cluster.dedicated.cluster_class)


def unacceptable(run: TrainingRunResource, settings: Settings) -> tuple[str, str] | None:
    """Return reason and message of what makes the run impossible here, and no schema can say."""
    dedicated = run.spec.cluster.dedicated if run.spec.cluster else None
    if KUEUE_QUEUE in run.metadata.labels and dedicated is None:
        message = (
            f"label {KUEUE_QUEUE} needs spec.cluster.dedicated: Kueue cannot admit part of a "
            "shared cluster"
        )
        return "KueueNeedsOwnCluster", message
    if dedicated is None:
        return None
    chosen = class_of(run, settings)
    if chosen is None:
        there = ", ".join(sorted(settings.classes)) or "none"
        message = (
            f'spec.cluster.dedicated.class: got "{dedicated.cluster_class}"; expected one of the '
            f"classes that the chart was installed with: {there}"
        )
        return "NoSuchClass", message
    if message := _not_permitted(run, chosen):
        return "NotPermitted", message
    if pack(capacity_of(read_groups(sized_cluster(run, chosen))), request_of(run)) is None:
        workers = run.spec.workers
        gpus = f" and {workers.resources.gpu} GPUs" if workers.resources.gpu else ""
        message = (
            f"spec.workers: {workers.count} times {workers.resources.cpu} CPUs{gpus}, and the "
            f"data's CPUs, do not fit into class '{chosen.name}' at its largest"
        )
        return "ExceedsClass", message
    return None


def _not_permitted(run: TrainingRunResource, chosen: ClusterClass) -> str:
    """Return which image, Secret or ConfigMap the class does not permit; empty if there is none."""
    wanted = []
    if run.spec.image:
        folder, _, last = run.spec.image.partition("@")[0].rpartition("/")
        wanted.append(("image", "images", f"{folder}/{last.partition(':')[0]}"))
    for source in run.spec.env_from:
        if source.secret_ref:
            wanted.append(("envFrom", "secrets", source.secret_ref.name))
        if source.config_map_ref:
            wanted.append(("envFrom", "configMaps", source.config_map_ref.name))
    for field, kind, name in wanted:
        permitted = chosen.permissions.get(kind, ())
        is_below = kind == "images" and any(name.startswith(f"{each}/") for each in permitted)
        if not (is_below or name in permitted):
            return (
                f"spec.{field}: got \"{name}\"; expected one that class '{chosen.name}' permits: "
                f"{', '.join(permitted) or 'none'}. Add it to controller.classPermissions."
                f"{chosen.name}.{kind} of the chart"
            )
    return ""


def sized_cluster(run: TrainingRunResource, chosen: ClusterClass) -> JsonObject:
    """Return the RayClusterSpec of a class with as many workers as the run needs, and no more.

    A group grows up to its maxReplicas until the run fits, the group of the workers first.
    """
    spec, wanted = copy.deepcopy(chosen.spec), request_of(run)
    groups = objects(spec.get("workerGroupSpecs"))
    groups.sort(
        key=lambda group: as_object(group.get("labels")).get(NODE_GROUP_LABEL) != wanted.group
    )
    for group in groups:
        counts = (group.get(name) for name in ("replicas", "maxReplicas"))
        replicas, most = (count if isinstance(count, int) else 0 for count in counts)
        while replicas < most and pack(capacity_of(read_groups(spec)), wanted) is None:
            replicas += 1
            group["replicas"] = replicas
    return spec
