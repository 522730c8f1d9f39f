"""What the controller sees and what it wants done: plain values that cross its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainshed_api.pod_trouble import IMAGE_PULL_FAILED
from trainshed_api.status import QueueStatus

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from trainshed_api.json_object import JsonObject
    from trainshed_api.pod_trouble import PodTrouble
    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import Reservation, TrainingRunStatus
    from trainshed_api.v1alpha1 import TrainingRunResource


# A driver posts every five seconds; one that is silent for so long may be gone.
SILENT_SECONDS = 60.0
_IN_NO_QUEUE = QueueStatus(position=0)


class Key(NamedTuple):
    """What is reconciled one at a time: a run, or the queue of a RayCluster."""

    kind: Literal["run", "cluster"]
    namespace: str
    name: str


@dataclass(frozen=True)
class KubeObject:
    """Which state of which object of Kubernetes something is about."""

    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True)
class RunView(KubeObject):
    """A TrainingRun as the API server has it.

    run: None where the model refuses the spec; under an open attempt what can be read of it.
    problem: why it is refused. unreadable: why its status cannot be read; nothing is done then.
    """

    generation: int
    created: datetime
    deleting: bool
    run: TrainingRunResource | None
    problem: str
    status: TrainingRunStatus
    unreadable: str = ""

    @property
    def path(self) -> str:
        """Return namespace and name, as logs have them."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class RayJobView(KubeObject):
    """A RayJob; owner: uid of the controller in its owner references."""

    owner: str = ""
    run: str = ""
    deleting: bool = False
    suspended: bool = False
    selector: str = ""
    job_id: str = ""
    reservation: Reservation | None = None
    job_status: str = ""
    deployment_status: str = ""
    reason: str = ""
    message: str = ""
    cluster: str = ""

    @property
    def is_over(self) -> bool:
        """Whether no driver of it runs for sure; behind KubeRay's own Failed one may go on."""
        never = self.reason == "PreRunningDeadlineExceeded"
        ended = self.job_status in {"SUCCEEDED", "FAILED", "STOPPED"}
        return never or ended or self.deployment_status in {"Complete", "ValidationFailed"}

    @property
    def is_terminal(self) -> bool:
        """Whether KubeRay does no more for it."""
        return self.is_over or self.deployment_status == "Failed"


@dataclass(frozen=True)
class Room:
    """What one worker Pod has for work."""

    group: str
    cpu: float
    gpu: float
    memory: float


@dataclass(frozen=True)
class PodView(KubeObject):
    """A Pod of a RayCluster.

    container: id of its Ray container while that runs. ended, how_ended: why that ended last, in a
    word and in a sentence. is_over: no container of it starts again.
    """

    cluster: str
    group: str
    is_head: bool
    node: str = ""
    ready: bool = False
    deleting: bool = False
    container: str = ""
    ended: str = ""
    how_ended: str = ""
    exit_code: int | None = None
    is_over: bool = False
    evicted: str = ""
    preempted: bool = False
    trouble: PodTrouble | None = None
    offer: Room | None = None

    @property
    def identity(self) -> str:
        """Return what changes when the Pod or its container is another one; empty: not running."""
        return f"{self.uid}/{self.container}" if self.container and not self.ended else ""


def running_head(pods: Iterable[PodView]) -> PodView | None:
    """Return the head that runs now; None while none does."""
    heads = (pod for pod in pods if pod.is_head and pod.identity)
    return next((head for head in heads if not head.deleting), None)


@dataclass(frozen=True)
class GroupView:
    """A worker group: what each of its Pods has, and how many it may have.

    labelled: whether its nodes say to Ray which group they are of. offer: of its template alone.
    """

    name: str
    room: Room
    wanted: int
    labelled: bool = False
    offer: Room | None = None


@dataclass(frozen=True)
class ClusterView(KubeObject):
    """A RayCluster.

    owner: uid of the controller in its owner references. trouble: why its Pods are not created.
    """

    owner: str = ""
    deleting: bool = False
    trouble: PodTrouble | None = None
    autoscaling: bool = False
    groups: tuple[GroupView, ...] = ()


def worst_trouble(pods: Iterable[PodView], cluster: ClusterView | None) -> PodTrouble | None:
    """Return why Pods of a RayCluster do not start; an image that cannot be pulled comes first."""
    troubles = [each.trouble for each in (*pods, cluster) if each and each.trouble]
    return min(troubles, key=lambda each: (each.reason != IMAGE_PULL_FAILED, each), default=None)


@dataclass(frozen=True)
class Place:
    """What the queue of a cluster says of a run; admitted: it may begin an attempt now.

    queue: where the run stands, as its status has it. exceeds: the cluster is too small for it.
    lacks_pods: it would fit if all declared Pods were ready. trouble: why they do not start.
    """

    admitted: bool
    queue: QueueStatus = _IN_NO_QUEUE
    exceeds: bool = False
    trouble: PodTrouble | None = None
    lacks_pods: bool = False


@dataclass(frozen=True)
class Heard:
    """How well this process itself hears the newest attempt's driver, by a clock that only goes on.

    num_snapshots: that came. still_seconds: between the newest and the first of those before it
    that told of training and of the same step; what nobody told in between does not count.
    first_step_seconds: the same of what told that the first step is expected, and of none.
    silent_seconds: since the newest came, else since this process listens or the attempt is known.
    first_step: a step was told of, and this process has written none of the attempt yet.
    """

    num_snapshots: int = 0
    still_seconds: float = 0.0
    silent_seconds: float = 0.0
    first_step: bool = False
    first_step_seconds: float = 0.0


@dataclass(frozen=True)
class Refusal:
    """The API server's word why it does not take a RayJob, and when it was asked last."""

    attempt: int
    message: str
    time: datetime


class EarlierDriver(NamedTuple):
    """What Ray says of an attempt that was released by a time-out; over: None if nobody answers."""

    number: int
    over: bool | None
    asking: bool


@dataclass(frozen=True)
class Observed:
    """All that a decision about a run rests on, besides the run itself.

    ray_job: of the newest attempt; None only if the API server says that there is none.
    gone: Pods of the cluster in which nothing runs any more, as far as this process saw them.
    next_taken: an object of somebody else has the name of the next attempt's RayJob.
    over: Ray's own word on whether the newest attempt's job has ended, asked for after its end and
    while its driver is silent; None if nobody asked or nobody answered.
    asking: a head was asked and nobody knows yet what it says: what it would tell is not missing.
    refusal: of the RayJob of the newest attempt, if it was refused.
    """

    ray_job: RayJobView | None = None
    strays: tuple[RayJobView, ...] = ()
    cluster: ClusterView | None = None
    head: PodView | None = None
    pods: tuple[PodView, ...] = ()
    gone: tuple[PodView, ...] = ()
    snapshot: Snapshot | None = None
    place: Place | None = None
    next_taken: RayJobView | None = None
    over: bool | None = None
    heard: Heard = Heard()
    asking: bool = False
    refusal: Refusal | None = None
    earlier: EarlierDriver | None = None

    @property
    def jobs(self) -> tuple[RayJobView, ...]:
        """Return all RayJobs of the run."""
        return (*self.strays, *((self.ray_job,) if self.ray_job else ()))

    @property
    def is_heard(self) -> bool:
        """Return whether the newest attempt's driver posts, and has not posted its end."""
        heard = self.heard.num_snapshots > 0 and self.heard.silent_seconds < SILENT_SECONDS
        return heard and self.snapshot is not None and self.snapshot.state != "Ended"


@dataclass(frozen=True)
class ClusterClass:
    """A kind of cluster that runs may have for themselves, and what they may set in it.

    permissions: names by kind: `secrets`, `configMaps`, and `images`, which are repositories with
    all that are below them.
    """

    name: str
    spec: JsonObject
    permissions: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What the platform decides; read once from the environment.

    shared_clusters: RayClusters that a run may name; the default one is always among them.
    dashboard_url: of a RayCluster, with {namespace} and {cluster}.
    isolates_clusters: whether each run's own clusters have a NetworkPolicy.
    """

    default_cluster: str = "trainshed"
    shared_clusters: frozenset[str] = frozenset()
    progress_url: str = ""
    dashboard_url: str = ""
    classes: dict[str, ClusterClass] = field(default_factory=dict)
    progress_interval_seconds: float = 10.0
    isolates_clusters: bool = False

    def __post_init__(self) -> None:
        shared = self.shared_clusters | {self.default_cluster}
        object.__setattr__(self, "shared_clusters", shared)


class Note(NamedTuple):
    """An Event to be posted."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class Plan:
    """What is to be done: the status first, then the rest in this order.

    begin: number of an attempt whose RayJob is to be created. urgent: more than progress changed.
    again_after: seconds after which to look again even if nothing happens.
    """

    status: TrainingRunStatus
    begin: int | None = None
    delete_jobs: tuple[RayJobView, ...] = ()
    delete_run: bool = False
    notes: tuple[Note, ...] = ()
    urgent: bool = False
    again_after: float | None = None
