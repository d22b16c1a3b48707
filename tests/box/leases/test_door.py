"""The door: a run of one group under a lease, and the calls on it, from any process."""

import asyncio

import pytest

import seriatim as sq
from seriatim.operations.grants import grant


def defined(box, **given):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.Queue("orders", group="customer", **({"policy": sq.Fifo()} | given)),
        sq.Queue("results", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("results", where="type = 'result'", to="results"),
    )
    return box


def order(customer, n):
    return sq.Message(type="order", context={"customer": customer, "n": n}, message_id=f"{customer}-{n}")


def result(customer, n):
    return sq.Message(type="result", context={"customer": customer, "n": n})


def test_a_run_is_completed_in_parts_and_results_are_published(box):
    defined(box)
    box.publish([order("a", n) for n in range(5)])
    lease = box.lease("orders", limit=3)
    assert [(m.position, m.attempt, m.late, m.message_id) for m in lease.messages] == [
        (1, 1, False, "a-0"), (2, 1, False, "a-1"), (3, 1, False, "a-2"),
    ]  # fmt: skip
    assert box.lease("orders") is None
    answer = lease.complete(2, publish=[result("a", 1)])
    assert (answer.done, answer.over, len(answer.published)) == (2, False, 1)
    again = box.leased(lease.id).complete(2, publish=[result("a", 1)])
    assert again.repeated
    assert again.published == answer.published
    assert lease.complete().over
    with box.session() as tx:
        assert [m.context["n"] for m in tx.receive("results", limit=9)] == [1]
    rest = box.lease("orders")
    assert [m.message_id for m in rest.messages] == ["a-3", "a-4"]
    assert rest.token > lease.token
    assert box.leased(lease.id).complete(3).repeated
    with pytest.raises(sq.LeaseLost):
        lease.renew()


def test_what_ends_a_lease(box):
    defined(box, retry=sq.Retry(attempts=3, delay="0s"))
    box.publish([order("a", n) for n in range(4)])
    lease = box.lease("orders")
    failed = lease.fail(2, "transient", "away", retry_after=0)
    assert (failed.done, failed.over, failed.then) == (1, True, "retry")
    assert box.leased(lease.id).fail(2, "transient", "away", retry_after=0).repeated
    with pytest.raises(sq.LeaseLost):
        lease.complete()
    lease = box.lease("orders")
    assert [(m.message_id, m.attempt) for m in lease.messages] == [
        ("a-1", 2)
    ]  # a message that failed before comes alone
    dead = lease.dead_letter(1, "not ours")
    assert dead.then == "dead"
    lease = box.lease("orders")
    assert [m.message_id for m in lease.messages] == ["a-2", "a-3"]
    assert lease.give_back().over
    assert lease.give_back().repeated
    lease = box.lease("orders")
    assert [(m.message_id, m.attempt) for m in lease.messages] == [("a-2", 1), ("a-3", 1)]
    assert lease.postpone(2, "1h").done == 1
    assert box.lease("orders") is None


def test_an_attempt_finds_its_lease_again(box):
    defined(box)
    box.publish([order(customer, n) for customer in "ab" for n in range(3)])
    first = box.lease("orders", attempt_id="x")
    first.complete(1)
    again = box.lease("orders", attempt_id="x")
    assert (again.id, again.token, again.until, again.done) == (first.id, first.token, first.until, 1)
    assert [m.position for m in again.messages] == [2, 3]
    other = box.lease("orders", attempt_id="y")
    assert other.group != first.group
    again.complete()
    with pytest.raises(sq.LeaseLost):
        box.lease("orders", attempt_id="x")
    assert box.lease("orders", attempt_id="z") is None


def test_another_principal_has_no_part_in_it(box):
    defined(box)
    box.publish([order("a", 1)])
    mine, other = sq.Principal("ann"), sq.Principal("bob")
    lease = box.lease("orders", attempt_id="x", principal=mine)
    with pytest.raises(sq.LeaseLost):
        box.leased(lease.id, principal=other).complete()
    with pytest.raises(sq.LeaseLost):
        box.leased(lease.id).give_back()
    assert box.lease("orders", attempt_id="x", principal=other) is None
    box.leased(lease.id, principal=mine).complete()


def test_what_is_said_otherwise_is_refused(box):
    defined(box)
    box.publish([order("a", n) for n in range(3)])
    lease = box.lease("orders")
    lease.complete(2, publish=[result("a", 1)])
    for call in (
        lambda: lease.complete(1, publish=[result("a", 1)]),
        lambda: lease.complete(2, publish=[result("a", 2)]),
        lambda: lease.fail(2),
    ):
        with pytest.raises(sq.ActionRefused):
            call()
    for call in (
        lambda: lease.complete(4), lambda: lease.complete(0), lambda: lease.complete(10**30), lambda: lease.fail(9),
        lambda: lease.fail(10**30), lambda: lease.fail(3, kind=[]), lambda: lease.renew(0),
        lambda: lease.complete(3, publish=None), lambda: lease.complete(3, publish=5),
    ):  # fmt: skip
        with pytest.raises(sq.UsageError):
            call()
    assert lease.complete(1).done == 2


def test_a_lease_that_runs_out_counts_as_an_attempt(box):
    defined(box)
    box.publish([order("a", n) for n in range(2)])
    lease = box.lease("orders", lease="1s")
    again = box.lease("orders", wait="120s")
    assert [(m.message_id, m.attempt) for m in again.messages] == [("a-0", 2)]
    with pytest.raises(sq.LeaseLost):
        lease.complete()


def test_sets_and_queues_without_groups(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size=3), group="customer", sequence="n"),
        sq.Queue("any", policy=sq.Unordered()),
        sq.Subscription("sets", where="type = 'order'", to="sets"),
        sq.Subscription("any", where="type = 'order'", to="any"),
    )
    box.publish([order("a", n) for n in (2, 3, 1)])
    lease = box.lease("sets", limit=1)
    assert [m.sequence for m in lease.messages] == [1, 2, 3]
    with pytest.raises(sq.UsageError):
        lease.complete(2)
    assert lease.complete().over
    lease = box.lease("any", limit=2)
    assert (lease.group, len(lease)) == (None, 2)
    assert box.lease("any").complete().done == 1
    lease.complete(1)
    lease.give_back()
    assert len(box.lease("any")) == 1


def test_results_take_the_places_of_their_causes_at_a_gate(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.MessageType("result", properties={"customer": "string", "n": "long"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer", gate="results"),
        sq.Queue("results", policy=sq.Standard(), group="origin_group", sequence="origin_ordinal"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("results", where="type = 'result'", to="results"),
    )
    box.publish([order("a", n) for n in range(3)])
    lease = box.lease("orders")
    with pytest.raises(sq.UsageError, match="doesn't say from which"):
        lease.complete(publish=[result("a", 0)])
    with pytest.raises(sq.UsageError, match="position 3"):
        lease.complete(2, publish=[(3, result("a", 2))])
    lease.complete(2, publish=[(2, result("a", 1)), sq.Answer(lease.messages[0], result("a", 0))])
    lease.complete(3, publish=[result("a", 2)])
    with box.session() as tx:
        found = [(m.context["n"], m.context["correlation_id"]) for m in tx.receive("results", limit=9)]
    assert found == [(0, "a-0"), (1, "a-1"), (2, "a-2")]


def test_results_belong_to_what_their_causes_belong_to(box):
    """Without a gate, too; of several that are completed at once a result names its cause."""
    defined(box)
    box.publish([order("a", n) for n in range(5)])
    lease = box.lease("orders")
    lease.complete(1, publish=[result("a", 0)])
    own = sq.Message(type="result", context={"customer": "a", "n": 1, "correlation_id": "own"})
    lease.complete(4, publish=[(2, own), sq.Answer(lease.messages[2], result("a", 2)), result("a", 3)])
    lease.complete(publish=[(5, result("a", 4))])
    with box.session() as tx:
        found = [(m.context.get("correlation_id"), m.context.get("parent_id")) for m in tx.receive("results", limit=9)]
    assert found == [("a-0", "a-0"), ("own", "a-1"), ("a-2", "a-2"), (None, None), ("a-4", "a-4")]


def test_a_later_call_of_the_same_attempt_takes_the_place_of_the_first(box):
    defined(box)

    async def both(asynchronous):
        first = asyncio.create_task(asynchronous.lease("orders", wait="30s", attempt_id="x"))
        await asyncio.sleep(0)
        while not box.access.attempts:  # noqa: ASYNC110 -- until it waits
            await asyncio.sleep(0.01)
        second = asyncio.create_task(asynchronous.lease("orders", wait="30s", attempt_id="x"))
        assert await first is None
        await asynchronous.publish(order("a", 1))
        lease = await second
        assert [m.message_id for m in lease.messages] == ["a-1"]
        assert (await lease.complete()).over
        with pytest.raises(sq.LeaseLost):
            await asynchronous.leased(lease.id).renew()

    async def run():
        async with sq.AsyncMessageBox(box) as asynchronous:
            await asyncio.wait_for(both(asynchronous), 60)

    asyncio.run(run())
    assert not box.access.attempts


def test_a_role_receives_by_its_rights_and_sees_no_other_roles_leases(box):
    defined(box)
    box.publish([order(customer, 1) for customer in "ab"])
    with box.session() as tx:
        tx.connection.execute("CREATE ROLE lease_holder")
    grant(box, "lease_holder", receive=["orders"])
    with box.as_role("lease_holder") as theirs:
        lease = theirs.lease("orders", attempt_id="x")
        with pytest.raises(sq.LeaseLost):
            box.leased(lease.id).complete()
        assert box.lease("orders", attempt_id="x").group != lease.group
        assert theirs.leased(lease.id).complete().over
        with pytest.raises(sq.EnvironmentProblem):
            theirs.lease("results")


def test_what_isnt_leased(box):
    defined(box)
    for given in (
        {"lease": 0},
        {"lease": "2d"},
        {"attempt_id": ""},
        {"attempt_id": "x" * 257},
        {"max_bytes": 0},
        {"limit": 0},
        {"queue": ["orders"]},
        {"principal": "web"},
    ):
        with pytest.raises(sq.UsageError):
            box.lease(**{"queue": "orders"} | given)
    for name in (None, [], "a\0"):
        with pytest.raises(sq.UsageError):
            sq.Principal(name)
    with pytest.raises(sq.UsageError):
        box.leased("no id")
    box.publish([sq.Message(type="order", body=bytes(1000), context={"customer": "a", "n": n}) for n in range(5)])
    assert len(box.lease("orders", max_bytes=2500)) == 2
