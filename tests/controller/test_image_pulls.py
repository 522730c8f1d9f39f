"""An image that cannot be pulled is named where people look: Pod, image, the registry's answer."""

import pytest

from tests.controller.builders_view import (
    SETTINGS,
    look,
    make_cluster,
    make_head,
    make_job,
    make_seen,
    make_view,
    make_worker,
    raw_pod,
)
from tests.controller.test_admission import PODS as READY_PODS
from tests.controller.test_admission import TWO_GPU_PODS, make_entry
from tests.controller.test_reconcile import begun
from trainshed_api.json_object import JsonObject, as_object
from trainshed_api.pod_trouble import PodTrouble
from trainshed_api.status import QueueStatus
from trainshed_controller.admission import admit, entry_of
from trainshed_controller.cache import Cache
from trainshed_controller.connection import PODS
from trainshed_controller.handlers import make_handlers
from trainshed_controller.model import Place, PodView
from trainshed_controller.views import read_pod

IMAGE = "ghcr.io/trainshed/app:0.1.0"
ANSWER = (
    f'failed to resolve reference "{IMAGE}": unexpected status from HEAD request to '
    "https://ghcr.io/v2/trainshed/app/manifests/0.1.0: 403 Forbidden"
)
POD = "trainshed-cpu-worker-0"
SAID = f"Pod {POD}: image {IMAGE} cannot be pulled: {ANSWER}"
BACK_OFF = f'Back-off pulling image "{IMAGE}"'


def waiting_pod(
    reason: str, message: str, *, version: int = 1, statuses: str = "containerStatuses"
) -> JsonObject:
    """Return a worker Pod with a container that waits, as the API server has it."""
    raw = raw_pod(make_worker(ready=False))
    state: JsonObject = {"waiting": {"reason": reason, "message": message}}
    container: JsonObject = {"name": "ray", "image": IMAGE, "state": state}
    status: JsonObject = {"phase": "Pending", statuses: [container]}
    metadata = as_object(raw["metadata"]) | {"namespace": "team", "resourceVersion": str(version)}
    return {**raw, "metadata": metadata, "status": status}


def unpulled(group: str = "cpu") -> PodView:
    """Return a worker Pod whose image cannot be pulled."""
    return make_worker(group, ready=False, trouble=PodTrouble("ImagePullFailed", SAID))


CASES = {
    "the first tries have the registry's answer": ("ErrImagePull", ANSWER, SAID),
    "between tries Kubernetes repeats it from 1.32 on": (
        "ImagePullBackOff",
        f"{BACK_OFF}: ErrImagePull: {ANSWER}",
        SAID,
    ),
    "between tries Kubernetes before 1.32 has none": (
        "ImagePullBackOff",
        BACK_OFF,
        f"Pod {POD}: image {IMAGE} cannot be pulled",
    ),
    "a name that is none": (
        "InvalidImageName",
        "couldn't parse image name: invalid reference format",
        f"Pod {POD}: image {IMAGE} cannot be pulled: couldn't parse image name: invalid reference "
        "format",
    ),
    "a node that may not pull": (
        "ErrImageNeverPull",
        f'Container image "{IMAGE}" is not present with pull policy of Never',
        f'Pod {POD}: image {IMAGE} cannot be pulled: Container image "{IMAGE}" is not present with '
        "pull policy of Never",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("statuses", ["containerStatuses", "initContainerStatuses"])
def test_a_pod_says_which_image_it_waits_for(name: str, statuses: str) -> None:
    """KubeRay's init container of a worker has the same image, and is pulled first."""
    reason, message, want = CASES[name]

    pod = read_pod(waiting_pod(reason, message, statuses=statuses))

    assert pod.trouble == PodTrouble("ImagePullFailed", want)


def test_a_pod_that_starts_has_no_trouble() -> None:
    assert read_pod(waiting_pod("ContainerCreating", "")).trouble is None
    assert read_pod(raw_pod(make_worker())).trouble is None


@pytest.mark.parametrize("uid", [POD, "another"])
def test_the_registrys_answer_is_kept_between_tries_of_the_same_pod(uid: str) -> None:
    cache = Cache(SETTINGS)
    handler = make_handlers(cache, lambda _: None, lambda _: None, print)[PODS]
    first = waiting_pod("ErrImagePull", ANSWER, version=1)
    second = waiting_pod("ImagePullBackOff", BACK_OFF, version=2)
    second["metadata"] = as_object(second["metadata"]) | {"uid": uid}

    for raw in (first, second):
        handler.take(raw)

    known = cache.pods.get("team", POD)
    assert known
    assert known.trouble
    assert (known.trouble.message == SAID) == (uid == POD)


@pytest.mark.parametrize("deployment_status", ["Initializing", "Running"])
def test_a_run_that_starts_says_which_image_cannot_be_pulled(deployment_status: str) -> None:
    job = make_job(deployment_status=deployment_status)
    seen = make_seen(ray_job=job, pods=(make_head(), unpulled()))

    view, _ = look(begun(), seen, 30)

    said = view.status.condition("Progressing")
    assert said
    assert (said.status, said.reason, said.message) == ("False", "ImagePullFailed", SAID)

    view, _ = look(view, make_seen(ray_job=job, pods=(make_head(), make_worker())), 60)

    said = view.status.condition("Progressing")
    assert said
    assert (said.status, said.reason) == ("True", "Starting")


def test_a_pod_that_no_node_takes_is_told_of_a_cluster_of_the_runs_own_alone() -> None:
    """On a shared cluster it may be of a group that the run does not use."""
    trouble = PodTrouble("Unschedulable", f"Pod {POD}: 0/1 nodes are available")
    pods = (make_head(), make_worker(ready=False, trouble=trouble))
    reasons = []
    for cluster in (None, {"dedicated": {"class": "default"}}):
        view = begun(cluster=cluster) if cluster else begun()
        seen = make_seen(ray_job=make_job(deployment_status="Initializing"), pods=pods)
        said = look(view, seen, 30)[0].status.condition("Progressing")
        assert said
        reasons.append(said.reason)

    assert reasons == ["Starting", "Unschedulable"]


def test_a_queued_run_says_which_image_keeps_its_pods_away() -> None:
    view = make_view()
    entry = entry_of(view)
    assert entry
    cluster = make_cluster()

    place = admit(cluster, (make_head(), unpulled()), (), (entry,))[view.uid]
    view, _ = look(view, make_seen(place=place, cluster=cluster))

    said, queue = view.status.condition("Progressing"), view.status.queue
    assert said
    assert queue
    assert (said.status, said.reason) == ("False", "ImagePullFailed")
    assert said.message == queue.reason
    assert queue.reason.startswith("needs ")
    assert queue.reason.endswith(f"0 free on trainshed; {SAID}")


def test_workers_that_wait_for_a_head_without_its_image_count_as_kept_away() -> None:
    view = make_view()
    entry = entry_of(view)
    assert entry
    trouble = PodTrouble("ImagePullFailed", "the head's image")
    pods = (make_head(container="", ready=False, trouble=trouble), make_worker(ready=False))

    place = admit(make_cluster(), pods, (), (entry,))[view.uid]

    assert place.trouble == trouble


def test_a_queued_run_has_the_words_of_a_quota_that_refuses_pods_of_its_cluster() -> None:
    view = make_view()
    entry = entry_of(view)
    assert entry
    trouble = PodTrouble("PodsRefused", "exceeded quota: team")
    cluster = make_cluster(trouble=trouble)

    place = admit(cluster, (make_head(),), (), (entry,))[view.uid]

    assert place.trouble == trouble
    assert place.queue.reason.endswith("0 free on trainshed; exceeded quota: team")


@pytest.mark.parametrize("at", [30, 4_000])
def test_a_dedicated_run_has_the_words_of_a_quota_that_refuses_its_pods(at: float) -> None:
    cluster = make_cluster(trouble=PodTrouble("PodsRefused", "exceeded quota: team"))
    seen = make_seen(ray_job=make_job(deployment_status="Initializing"), cluster=cluster, pods=())

    view, _ = look(begun(cluster={"dedicated": {}}), seen, at)

    said = view.status.condition("Progressing")
    assert said
    assert said.message.endswith("exceeded quota: team")


def test_a_run_that_waits_for_others_is_told_of_no_image() -> None:
    """It would wait as well if all Pods were there."""
    pods = (make_head(), READY_PODS[0], unpulled(group="gpu"), READY_PODS[2])
    holding, waiting = make_entry("holds"), make_entry("waits", count=2)

    place = admit(TWO_GPU_PODS, pods, (holding,), (waiting,))["waits"]

    assert not place.admitted
    assert place.trouble is None


@pytest.mark.parametrize(
    ("exceeds", "reason"),
    [
        (False, "Queued"),
        (True, "ExceedsCluster"),
    ],
)
def test_a_queued_run_says_why_in_the_column_of_kubectl(exceeds: bool, reason: str) -> None:
    queue = QueueStatus(position=1, reason="needs 2 CPUs, 0 free")
    place = Place(admitted=False, queue=queue, exceeds=exceeds)
    view, _ = look(make_view(), make_seen(place=place))

    said = view.status.condition("Progressing")
    assert said
    assert (said.reason, said.message) == (reason, queue.reason)
