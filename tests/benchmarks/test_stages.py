"""The stages of a loss, from the events of its watches."""

from benchmarks.stages import Stages
from tests.e2e.runs import Watch

LINES = [
    (1.0, "ADDED head True"),
    (1.0, "ADDED old True"),
    (3.0, "MODIFIED old False"),
    (4.0, "ADDED new"),  # without a condition; kubectl strips the space
    (4.5, "error: unable to decode an event from the watch stream: http2: client connection lost"),
    (5.0, "DELETED old True"),
    (8.0, "MODIFIED new True"),
]


def test_the_stages_of_a_lost_pod_are_events_of_the_watch() -> None:
    stages = Stages(Watch(LINES), Watch())
    assert stages.ready() == {"head", "new"}
    assert stages.deleted_at(frozenset({"old"})) == 5.0
    assert stages.deleted_at(frozenset({"old", "head"})) is None
    assert stages.ready_at(1, frozenset({"head", "old"})) == 8.0
    assert stages.ready_at(2, frozenset({"head", "old"})) is None


def test_a_phase_before_the_loss_does_not_count() -> None:
    stages = Stages(Watch(), Watch([(1.0, "Restarting"), (6.0, "Restarting")]))
    assert stages.phase_at("Restarting", 2.0) == 6.0
    assert stages.phase_at("Failed", 2.0) is None
