"""One replica acts at a time, and another one when it does not."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus

import pytest

from tests.controller.api_server import Answer, ApiServer, Request, refusal
from tests.simulation.clock import CLOCK
from tests.simulation.loop import run_virtually
from trainshed_api.json_object import as_object
from trainshed_controller.clock import Clock
from trainshed_controller.errors import RetryError
from trainshed_controller.lease import Lease

NOW = asyncio.Event()
NOW.set()


@dataclass
class Replicas:
    """Replicas that see one API server, at a time of the test's own.

    are_cut: identities of those whose requests are not answered.
    """

    server: ApiServer = field(default_factory=ApiServer)
    now: float = 0.0
    are_cut: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.server.put("leases", {"metadata": {"name": "controller", "namespace": "team"}})

    def start(self, identity: str) -> Lease:
        """Return the Lease as a replica has it."""

        async def answer(request: Request) -> Answer:
            if identity in self.are_cut:
                return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "etcdserver: no leader")
            return self.server.respond(request)

        clock = Clock(lambda: datetime.fromtimestamp(self.now, UTC), lambda: self.now)
        return Lease(self.server.connect(answer), "team", "controller", identity, clock)

    async def after(self, seconds: float, *leases: Lease) -> list[str]:
        """Have the replicas look every two seconds; return who may act then."""
        end = self.now + seconds
        while self.now < end:
            self.now += 2.0
            for lease in leases:
                await lease._try(lease._renew())
        return [lease.identity for lease in leases if lease.is_held()]

    @property
    def holder(self) -> object:
        """Return who holds the Lease, as it is written."""
        return as_object(as_object(self.server.get("leases", "controller"))["spec"])[
            "holderIdentity"
        ]


async def test_the_first_one_acts_and_the_other_waits() -> None:
    replicas = Replicas()
    first, second = replicas.start("first"), replicas.start("second")

    assert await replicas.after(60, first, second) == ["first"]
    assert second.holder == "first"


async def test_another_takes_over_within_15_seconds_and_never_two_act() -> None:
    replicas = Replicas()
    first, second = replicas.start("first"), replicas.start("second")
    await replicas.after(4, first, second)
    replicas.are_cut.add("first")

    acting = [await replicas.after(2, first, second) for _ in range(7)]

    assert acting[0] == ["first"]
    assert [] in acting  # the first one stops before the second one begins
    assert acting[-1] == ["second"]
    assert second.was_of_another

    replicas.are_cut.clear()
    assert await replicas.after(30, first, second) == ["second"]


async def test_a_holder_without_an_answer_stops_by_its_own_clock() -> None:
    replicas = Replicas()
    lease = replicas.start("first")
    await replicas.after(2, lease)

    replicas.now += 5.9
    assert lease.is_held()
    replicas.now += 0.2
    assert not lease.is_held()


async def test_a_lease_that_is_missing_is_created() -> None:
    replicas = Replicas()
    first, second = replicas.start("first"), replicas.start("second")
    replicas.server.drop("leases", "controller")

    assert await replicas.after(2, first, second) == ["first"]
    assert not first.was_of_another

    replicas.server.drop("leases", "controller")
    # The standby looks first: the holder may still act, so it does not take the Lease.
    assert await replicas.after(60, second, first) == ["first"]


async def test_a_standby_takes_a_deleted_lease_of_a_holder_that_is_lost() -> None:
    replicas = Replicas()
    first, second = replicas.start("first"), replicas.start("second")
    await replicas.after(2, first, second)
    replicas.are_cut.add("first")
    replicas.server.drop("leases", "controller")

    acting = [await replicas.after(2, first, second) for _ in range(7)]

    assert ["first", "second"] not in acting
    assert acting[-1] == ["second"]
    assert second.was_of_another


async def test_a_lease_that_somebody_emptied_is_not_given_back_by_its_holder() -> None:
    replicas = Replicas()
    first, second = replicas.start("first"), replicas.start("second")
    await replicas.after(2, first, second)
    replicas.server.put("leases", {"metadata": {"name": "controller", "namespace": "team"}})

    assert await replicas.after(60, second, first) == ["first"]


async def test_a_holder_that_reads_another_one_stops_at_once() -> None:
    replicas = Replicas()
    first = replicas.start("first")
    await replicas.after(2, first)
    replicas.server.put(
        "leases",
        {
            "metadata": {"name": "controller", "namespace": "team"},
            "spec": {"holderIdentity": "second"},
        },
    )

    assert await replicas.after(2, first) == []


def test_one_renewal_without_an_answer_does_not_end_the_term() -> None:
    async def play() -> float:
        """Return for how long the Lease was lost while one renewal got no answer."""
        server = ApiServer()
        hangs = asyncio.Event()

        async def answer(request: Request) -> Answer:
            if hangs.is_set():
                hangs.clear()
                await asyncio.sleep(60)
            await asyncio.sleep(0.3)
            return server.respond(request)

        lease = Lease(server.connect(answer), "team", "controller", "first", CLOCK)
        lost = 0
        async with lease.renewing(NOW):
            await lease.wait(until_held=True)
            await asyncio.sleep(1)
            hangs.set()
            for _ in range(100):
                await asyncio.sleep(0.1)
                lost += not lease.is_held()
        assert not hangs.is_set()
        return lost * 0.1

    assert run_virtually(play()) == 0


async def test_the_next_process_of_a_pod_takes_over_at_once() -> None:
    replicas = Replicas()
    await replicas.after(2, replicas.start("first"))

    assert await replicas.after(2, replicas.start("first")) == ["first"]


async def test_a_process_that_ends_gives_the_lease_to_others() -> None:
    replicas = Replicas()
    lease = replicas.start("first")
    async with lease.renewing(NOW):
        await lease.wait(until_held=True)

    assert replicas.holder == ""
    assert await replicas.after(2, replicas.start("second")) == ["second"]


async def test_a_process_that_does_not_know_all_leaves_the_lease_to_others() -> None:
    replicas = Replicas()
    await replicas.after(2, replicas.start("first"))
    asked = len(replicas.server.asked)
    is_complete = asyncio.Event()
    restarted = replicas.start("first")

    async with restarted.renewing(is_complete):
        await asyncio.sleep(0.01)
        assert len(replicas.server.asked) == asked
        is_complete.set()
        await restarted.wait(until_held=True)


async def test_an_error_of_ours_ends_what_the_lease_is_held_for() -> None:
    async def fail(_: Request) -> Answer:
        raise KeyError("a fault")

    lease = Lease(ApiServer().connect(fail), "team", "controller", "first")
    with pytest.raises(ExceptionGroup) as raised:
        async with lease.renewing(NOW), asyncio.timeout(5):
            await lease.wait(until_held=True)
    assert raised.group_contains(KeyError)


async def test_a_replica_that_may_not_act_sends_no_write() -> None:
    server = ApiServer()
    cluster = server.connect()
    cluster.may_write = lambda: False

    with pytest.raises(RetryError, match="another replica"):
        await cluster.create_job({"metadata": {"name": "digits-1", "namespace": "team"}})
    assert not server.asked
