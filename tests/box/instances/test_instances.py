"""Instances: started by the first message of a group, found by their values, kept with the transaction, and ended."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import seriatim as sq
from seriatim.box.definitions.correlation import InstanceMatch, key, key_of
from seriatim.box.definitions.route import router_of
from seriatim.cli.main import main
from seriatim.kernel.filters.filter import type_from
from seriatim.operations import groups, instances, subscriptions
from seriatim.operations import messages as message_operations
from seriatim.operations.grants import grant, revoke
from seriatim.operations.messages import resubmit
from seriatim.pipeline.types.property_columns import columns
from seriatim.pipeline.types.typed_message import MessageTypes
from tests.databases import box_with

BY = {"actor": "ann", "reason": "ticket 4711"}
TYPES = (
    sq.MessageType("order", properties={"order_id": "long", "shipment_id": "string"}),
    sq.MessageType("paid", properties={"order_id": "long"}),
    sq.MessageType("shipped", properties={"shipment_id": "string", "weight": "decimal(6,2)"}),
)
ACTIVATION = sq.Subscription(
    "new-orders", "type = 'order'", "work", starts="orders.work:handle", correlate=["order_id", "shipment_id", "weight"]
)


def with_work(box):
    """A box where an order starts an instance in the queue `work`, and payments follow it there."""
    box.define(
        *TYPES,
        sq.Queue("work", policy=sq.Fifo(), group="order_id"),
        ACTIVATION,
        sq.Subscription("payments", "type = 'paid'", "work"),
    )


work = box_with(with_work)


def message(kind, **context):
    return sq.Message(type=kind, context=context)


def publish(box, *messages):
    with box.session() as tx:
        tx.publish(messages)


def handle(box, does=lambda _: None, limit=1):
    """Work on the next message: its type, and the instance's id, or None where it is for none. None: there is none."""
    with box.session() as tx:
        delivery = tx.receive("work", limit=limit)
        if delivery is None:
            assert tx.instance is None
            return None
        one = delivery.messages[0]
        for _ in delivery:
            if tx.instance is not None:
                does(tx.instance)
        return one.type, None if tx.instance is None else tx.instance.id


def rows(box, table, columns="*"):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT {columns} FROM {box.schema}.{table}").fetchall()


def test_the_first_message_starts_one_and_the_others_find_it(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7), message("order", order_id=8))
    with work.session() as tx:
        assert tx.instance is None
        (one,) = tx.receive("work")
        first = tx.instance
        assert (one.type, first.is_new, first.state, first.group) == ("order", True, {}, "7")
        assert (first.queue, first.subscription, first.starts) == ("work", "new-orders", "orders.work:handle")
        first.state = {"steps": ["ordered"], "total": 1.5, "note": "é\0"}
    with work.session() as tx:
        (one,) = tx.receive("work")
        assert (one.type, tx.instance.is_new, tx.instance.id) == ("paid", False, first.id)
        assert tx.instance.state == {"steps": ["ordered"], "total": 1.5, "note": "é\0"}
        tx.instance.state["steps"].append("paid")
    with work.session() as tx:
        (one,) = tx.receive("work")
        assert (one.type, tx.instance.group) == ("order", "8")
        assert tx.instance.id != first.id
    view = instances.instance_view(work, first.id)
    assert (view.state["steps"], view.version, view.status, view.group) == (["ordered", "paid"], 2, "running", "7")
    assert [each.group for each in instances.instances(work)] == ["7", "8"]


def test_a_message_that_starts_nothing_is_for_none(work):
    publish(work, message("paid", order_id=7), message("order", order_id=7))
    assert handle(work) == ("paid", None)
    assert handle(work)[1] is not None


def test_one_message_at_a_time(work):
    publish(work, *[message("order", order_id=7)] * 1, message("paid", order_id=7), message("paid", order_id=7))
    with sq.MessageBox.open(work.dsn, schema=work.schema) as other:  # which doesn't know the definitions yet
        for kind in ("order", "paid", "paid"):
            with other.session() as tx:
                assert [one.type for one in tx.receive("work", limit=50)] == [kind]
        assert handle(other) is None


def test_what_is_rolled_back_leaves_none(work):
    publish(work, message("order", order_id=7, shipment_id="S1"))

    def fails(instance):
        instance.state["half"] = "done"
        instance.correlate(shipment_id="S1")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        handle(work, fails)
    assert instances.instances(work) == []
    assert rows(work, "correlations") == []
    assert handle(work)[0] == "order"
    assert [(one.state, one.correlations) for one in instances.instances(work)] == [({}, {})]


def test_what_is_put_back_leaves_it_as_it_was(work):
    publish(work, message("order", order_id=7))
    with work.session() as tx:
        tx.receive("work")  # and not worked on
        tx.instance.state["half"] = "done"
    assert instances.instances(work) == []
    handle(work, lambda instance: instance.state.update(step=1))
    publish(work, message("paid", order_id=7))
    with work.session() as tx:
        tx.receive("work")
        tx.instance.state["step"] = 2
        tx.instance.end()
    assert [one.state for one in instances.instances(work)] == [{"step": 1}]


def test_in_the_transaction_of_the_application(work):
    publish(work, message("order", order_id=7))
    with psycopg.connect(work.dsn) as connection:
        with work.session(connection=connection) as tx:
            list(tx.receive("work"))
            tx.instance.state["step"] = 1
        assert instances.instances(work) == []
        connection.commit()
    assert [one.state for one in instances.instances(work)] == [{"step": 1}]


def states(box):
    return {one.group: one.state for one in instances.instances(box)}


def count(instance):
    instance.state["n"] = instance.state.get("n", 0) + 1


def test_a_commit_within_a_session_has_the_state_of_the_message_that_is_done(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7))
    with work.session() as tx:
        delivery = tx.receive("work")
        count(tx.instance)
        delivery.done()
        tx.instance.state["late"] = True
        tx.connection.commit()
        assert states(work) == {"7": {"n": 1, "late": True}}
        assert handle(work, count)[0] == "paid"  # by another receiver, before the first session ends
    assert states(work) == {"7": {"n": 2, "late": True}}


def test_a_block_of_the_driver_within_a_session_commits_the_state_too(work):
    publish(work, message("order", order_id=7))
    with work.session() as tx:
        with tx.connection.transaction():
            tx.receive("work").done()
            count(tx.instance)
        assert states(work) == {"7": {"n": 1}}


def test_a_commit_is_refused_whose_state_cannot_be_saved(work):
    publish(work, message("order", order_id=7), message("order", order_id=8))
    handle(work, lambda instance: instance.correlate(shipment_id="S1"))
    with work.session() as tx:
        tx.receive("work").done()
        tx.instance.correlate(shipment_id="S1")
        with pytest.raises(sq.ActionRefused, match="shipment_id = S1 leads to another instance"):
            tx.connection.commit()
        tx.connection.rollback()
    assert list(states(work)) == ["7"]
    assert handle(work)[0] == "order"  # it was rolled back


@pytest.mark.parametrize("then", [message("paid", order_id=7), message("order", order_id=8)])
def test_a_receive_that_is_rolled_back_leaves_the_state_of_the_message_that_was_done_before(work, then):
    publish(work, message("order", order_id=7), then)
    with work.session() as tx:
        tx.receive("work").done()
        first = tx.instance
        count(first)
        with suppress(ZeroDivisionError), tx.connection.transaction():
            assert tx.receive("work").messages[0].type == then.type
            count(tx.instance)
            raise ZeroDivisionError
        assert tx.instance is first
    assert states(work) == {"7": {"n": 1}}
    handle(work, count)
    assert sum(state["n"] for state in states(work).values()) == 2


@pytest.mark.parametrize("ends", [False, True])
def test_what_is_saved_in_a_part_that_is_rolled_back_is_saved_again(work, ends):
    publish(work, message("order", order_id=7), message("paid", order_id=7))
    handle(work, count)
    with work.session() as tx:
        delivery = tx.receive("work")
        count(tx.instance)
        if ends:
            tx.instance.end()
        with suppress(ZeroDivisionError), tx.connection.transaction():
            tx.instance.correlate(shipment_id="S1")
            tx.save_instance()
            raise ZeroDivisionError
        delivery.done()
    assert states(work) == ({} if ends else {"7": {"n": 2}})
    assert [one.correlations for one in instances.instances(work)] == ([] if ends else [{"shipment_id": ["S1"]}])


def test_changes_after_a_save_are_saved_too(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7))
    handle(work, count)
    with work.session() as tx:
        delivery = tx.receive("work")
        tx.instance.correlate(shipment_id="S1")
        tx.save_instance()
        count(tx.instance)
        tx.instance.correlate(shipment_id="S2")
        delivery.done()
    (one,) = instances.instances(work)
    assert (one.state, one.correlations) == ({"n": 2}, {"shipment_id": ["S1", "S2"]})
    publish(work, message("shipped", shipment_id="S2"))
    with work.session() as tx:
        tx.receive("work").done()
        tx.save_instance()
        tx.instance.end()
    assert states(work) == {}


def test_the_application_commits_the_state_with_the_message_that_is_done(work):
    publish(work, message("order", order_id=7), message("order", order_id=8))
    with psycopg.connect(work.dsn) as connection, work.session(connection=connection) as tx:
        for _ in tx.receive("work"):
            count(tx.instance)
        with suppress(ZeroDivisionError), connection.transaction():
            assert tx.receive("work").group == "8"
            raise ZeroDivisionError
        connection.commit()
        assert states(work) == {"7": {"n": 1}}
    assert handle(work)[0] == "order"


def test_two_first_messages_at_once_make_one(work):
    for order_id in range(5):
        both = threading.Barrier(2)

        def publishes(order_id=order_id, both=both):
            with work.session() as tx:
                tx.publish(message("order", order_id=order_id))
                both.wait(120)  # neither has committed, and neither waits for the other

        def receives(order_id=order_id, both=both):
            both.wait(120)
            found = []
            while (
                done := handle(work, lambda instance: instance.state.update(n=instance.state.get("n", 0) + 1))
            ) is not None:
                found.append(done)
            return found

        with ThreadPoolExecutor(2) as threads:
            for one in [threads.submit(publishes) for _ in range(2)]:
                one.result()
            done = [threads.submit(receives) for _ in range(2)]
            kinds = [kind for each in done for kind, _ in each.result()]
        # A receiver that finds the group locked sees no message, and the other one takes both.
        assert kinds == ["order", "order"]
    assert [(one.group, one.state) for one in instances.instances(work)] == [(str(n), {"n": 2}) for n in range(5)]


def test_another_that_has_the_first_message_keeps_it_to_itself(work):
    publish(work, message("order", order_id=7), message("order", order_id=7))
    with work.session() as tx:
        list(tx.receive("work"))
        assert handle(work) is None
        made = tx.instance.id
    assert handle(work) == ("order", made)


def test_ended_the_next_one_starts_another(work):
    publish(work, message("order", order_id=7), message("order", order_id=7), message("paid", order_id=7))
    first = handle(work, lambda instance: instance.end())
    assert instances.instances(work) == []
    second = handle(work)
    assert second[0] == "order"
    assert second[1] > first[1]
    assert handle(work) == ("paid", second[1])


def test_ended_later_within_one_session(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7), message("order", order_id=7))
    with work.session() as tx:
        list(tx.receive("work"))
        first = tx.instance.id
        tx.instance.state["step"] = 1
        list(tx.receive("work"))
        assert (tx.instance.id, tx.instance.state) == (first, {"step": 1})
        tx.instance.end()
        list(tx.receive("work"))
        assert tx.instance.id != first
        assert tx.instance.state == {}
        second = tx.instance.id
    assert [one.instance_id for one in instances.instances(work)] == [second]


def test_a_message_of_another_type_is_led_by_a_value(work):
    publish(work, message("order", order_id=7), message("shipped", shipment_id="S1"))
    assert message_operations.messages(work, status="unrouted")[0].type == "shipped"  # nobody wants it yet
    made = handle(work, lambda instance: instance.correlate(shipment_id="S1", weight=Decimal("1.5")))
    publish(
        work,
        message("shipped", shipment_id="S2"),
        message("shipped", shipment_id="S1"),
        message("shipped", weight=Decimal("1.50")),
        message("paid", order_id=8),
    )
    assert instances.instance_view(work, made[1]).correlations == {"shipment_id": ["S1"], "weight": ["1.50"]}
    assert [handle(work) for _ in range(4)] == [("shipped", made[1]), ("shipped", made[1]), ("paid", None), None]
    assert resubmit(work).routed == 1  # the one that came too early
    assert handle(work, lambda instance: instance.end()) == ("shipped", made[1])
    publish(work, message("shipped", shipment_id="S1"))
    assert [one.type for one in message_operations.messages(work, status="unrouted")] == ["shipped", "shipped"]
    assert rows(work, "correlations") == []


def test_a_message_with_a_group_of_its_own_goes_by_that(work):
    publish(work, message("order", order_id=7))
    seven = handle(work, lambda instance: instance.correlate(shipment_id="S1"))[1]
    publish(work, message("order", order_id=8, shipment_id="S1"), message("order", shipment_id="S1"))
    eight = handle(work)
    assert eight[0] == "order"
    assert eight[1] != seven
    assert handle(work) == ("order", seven)  # without a group it is the value's


def test_led_to_one_that_ends_before_it_is_there(work):
    publish(work, message("order", order_id=7))
    handle(work, lambda instance: instance.correlate(shipment_id="S1"))
    publish(work, message("paid", order_id=7), message("shipped", shipment_id="S1"), message("order", order_id=7))
    handle(work, lambda instance: instance.end())
    assert handle(work)[0] == "order"  # the stray is passed over
    assert rows(work, "aside", "disposition, reason, group_key") == [("dead", "its instance has ended", "7")]
    assert rows(work, "entries") == []
    # One that another instance of the group would have had is not given to the next.
    publish(work, message("shipped", shipment_id="S1"))
    assert handle(work) is None


def test_several_values_of_a_property_and_one_only_one_has(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7), message("order", order_id=8))
    seven = handle(work, lambda instance: instance.correlate(shipment_id="S1"))[1]
    handle(work, lambda instance: (instance.correlate(shipment_id="S1"), instance.correlate(shipment_id="S2")))
    assert instances.instance_view(work, seven).correlations == {"shipment_id": ["S1", "S2"]}
    with pytest.raises(sq.ActionRefused, match="shipment_id = S2 leads to another instance of queue 'work'"):
        handle(work, lambda instance: instance.correlate(shipment_id="S2"))
    assert [one.instance_id for one in instances.instances(work)] == [seven]
    assert handle(work)[0] == "order"  # it was rolled back, and is there again


def test_what_cannot_be_a_value_or_a_state(work):
    publish(work, message("order", order_id=7))

    def wrong(instance):
        with pytest.raises(
            sq.UsageError, match=r"an instance of 'new-orders' can't add 'order_id'.*shipment_id, weight"
        ):
            instance.correlate(order_id=8)
        with pytest.raises(sq.UsageError, match="weight can't be 'heavy': it isn't a decimal"):
            instance.correlate(weight="heavy")
        for value in (None, "x" * 2000, ""):
            with pytest.raises(sq.UsageError, match="shipment_id can't be"):
                instance.correlate(shipment_id=value)
        with pytest.raises(sq.UsageError, match="can't be list"):
            instance.state = [1]
        instance.state = {"when": datetime(2026, 1, 1, tzinfo=UTC)}

    with pytest.raises(sq.UsageError, match="can't be kept as JSON: Object of type datetime"):
        handle(work, wrong)
    with pytest.raises(sq.UsageError, match="can't be kept as JSON: Out of range"):
        handle(work, lambda instance: instance.state.update(x=float("nan")))
    assert instances.instances(work) == []


def test_changed_by_somebody_who_has_not_the_lock(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7))
    handle(work)

    def meddled(instance):
        with work.session() as tx:
            tx.connection.execute(f"UPDATE {work.schema}.known_instances SET version = version + 1")
        instance.state["step"] = 1

    with pytest.raises(sq.Unavailable, match="changed or ended by somebody else"):
        handle(work, meddled)


def test_what_is_published_through_sql_finds_it_too(work):
    publish(work, message("order", order_id=7))
    made = handle(work, lambda instance: instance.correlate(shipment_id="S1"))[1]
    with psycopg.connect(work.dsn) as connection:
        statement = f"SELECT {work.schema}.publish(type => 'shipped', body => 'x'::bytea, context => %s)"
        connection.execute(statement, [json.dumps({"shipment_id": "S1"})])
    assert handle(work) == ("shipped", made)


def test_stopped_the_activation_collects(work):
    publish(work, message("order", order_id=7))
    made = handle(work, lambda instance: instance.correlate(shipment_id="S1"))[1]
    subscriptions.stop(work, "new-orders")
    publish(work, message("shipped", shipment_id="S1"))
    assert handle(work) is None
    subscriptions.start(work, "new-orders")
    assert handle(work) == ("shipped", made)
    subscriptions.unenlist(work, "new-orders")
    publish(work, message("shipped", shipment_id="S1"))
    assert [one.type for one in message_operations.messages(work, status="unrouted")] == ["shipped"]


def test_suspended_its_messages_wait(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7), message("order", order_id=8))
    made = handle(work)[1]
    view = instances.suspend(work, made, **BY)
    assert (view.status, view.waiting) == ("suspended", 1)
    assert handle(work)[0] == "order"  # others go on
    assert handle(work) is None
    assert [one.instance_id for one in instances.instances(work, status="suspended")] == [made]
    assert instances.resume(work, made, **BY).status == "running"
    assert handle(work) == ("paid", made)
    log = rows(work, "operator_log", "actor, action, queue, group_key, reason")
    assert log == [("ann", action, "work", "7", "ticket 4711") for action in ("suspend", "resume")]


def test_terminated_what_waits_follows_the_activations(work):
    publish(work, message("order", order_id=7))
    made = handle(work, lambda instance: instance.correlate(shipment_id="S1"))[1]
    publish(work, message("order", order_id=7), message("shipped", shipment_id="S1"))
    instances.suspend(work, made, **BY)
    was = instances.terminate(work, made, **BY)
    assert (was.instance_id, was.status) == (made, "suspended")
    assert instances.instances(work) == []
    again = handle(work)
    assert again[0] == "order"
    assert again[1] != made
    assert handle(work) is None  # what was led to the old one is dead
    assert rows(work, "aside", "disposition, reason") == [("dead", "its instance has ended")]
    assert rows(work, "operator_log", "action, details ->> 'instance_id'")[1] == ("terminate", str(made))
    with pytest.raises(sq.UsageError, match=f"there is no instance {made}"):
        instances.terminate(work, made, **BY)


def test_terminated_while_somebody_works_on_it(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7))
    made = handle(work)[1]
    with work.session() as tx:
        list(tx.receive("work"))
        with pytest.raises(
            sq.Unavailable, match=r"another session works on a message of the instance.*suspend the instance"
        ):
            instances.terminate(work, made, **BY)
        tx.instance.state["step"] = 1
    assert instances.instance_view(work, made).state == {"step": 1}
    assert instances.terminate(work, made, **BY).state == {"step": 1}


def test_its_group_is_not_forgotten_while_it_runs(work):
    publish(work, message("order", order_id=7))
    made = handle(work)[1]
    with pytest.raises(sq.ActionRefused, match=f"its instance {made} runs") as refused:
        groups.forget(work, "work", "7", **BY)
    assert refused.value.remedy == f"terminate it first: seriatim instances terminate {made}"
    assert instances.instance_view(work, made).status == "running"
    instances.terminate(work, made, **BY)
    assert groups.forget(work, "work", "7", **BY) == 1


def test_a_suspended_group_is_not_forgotten(work):
    publish(work, message("paid", order_id=7))
    handle(work)
    groups.suspend(work, "work", "7", **BY)
    with pytest.raises(sq.ActionRefused, match="it is suspended") as refused:
        groups.forget(work, "work", "7", **BY)
    assert refused.value.remedy == "resume it first"
    groups.resume(work, "work", "7", **BY)
    assert groups.forget(work, "work", "7", **BY) == 1


def test_who_and_why_are_asked_for(work):
    publish(work, message("order", order_id=7))
    made = handle(work)[1]
    for action in (instances.suspend, instances.resume, instances.terminate):
        with pytest.raises(sq.UsageError, match="'' is not reason"):
            action(work, made, actor="ann", reason="")
        with pytest.raises(sq.UsageError, match="'7' is not the number of an instance"):
            action(work, "7", **BY)
    assert [one.instance_id for one in instances.instances(work)] == [made]


class _RolledBackError(Exception):
    """Raised to have a transaction rolled back."""


def turn(box, *, back):
    """Work on the next message and write it down, in one transaction; False where none comes. A payment ends what runs."""
    with box.session() as tx:
        delivery = tx.receive("work", wait=0.5)
        if delivery is None:
            return False
        for one in delivery:
            instance = tx.instance
            instance.state["n"] = instance.state.get("n", 0) + 1
            instance.correlate(shipment_id=f"S{instance.id}")
            row = [one.ticket.number, one.context["order_id"], one.type, instance.id]
            tx.connection.execute(f"INSERT INTO {box.schema}.seen VALUES (%s, %s, %s, %s)", row)
            if one.type == "paid":
                assert instance.state["n"] == 3
                instance.end()
        if back:
            raise _RolledBackError
    return True


def turns(box):
    """Turns until nothing is left, of which every third is rolled back."""
    count = 0
    while True:
        count += 1
        try:
            if not turn(box, back=count % 3 == 0) and not rows(box, "entries", "1"):
                return
        except _RolledBackError:
            pass


def test_many_at_once_with_rollbacks(work):
    """Six receivers: each message once, and an instance from one end to the next."""
    with work.session() as tx:
        tx.connection.execute(f"CREATE TABLE {work.schema}.seen (place bigint, key bigint, type text, instance bigint)")
    kinds = ["order", "order", "paid"] * 2 + ["order"]
    publish(work, *[message(kind, order_id=n) for kind in kinds for n in range(8)])
    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(turns, work) for _ in range(6)]:
            done.result()
    seen = sorted(rows(work, "seen"))
    assert len(seen) == len(kinds) * 8
    for n in range(8):
        of_group = [(kind, instance) for _, key, kind, instance in seen if key == n]
        assert [kind for kind, _ in of_group] == kinds
        ids = [instance for _, instance in of_group]
        assert [len(set(part)) for part in (ids[:3], ids[3:6], ids[6:], ids)] == [1, 1, 1, 3]
    assert len({instance for *_, instance in seen}) == 24
    left = instances.instances(work)
    assert len(left) == 8
    assert all(one.correlations == {"shipment_id": [f"S{one.instance_id}"]} for one in left)
    assert all(one.state == {"n": 1} for one in left)


def test_a_batch_asks_once_and_an_earlier_property_goes_first(work):
    router = router_of(work.definitions())
    asked = []

    def look(wanted):
        asked.append([(one.property, one.value) for one in wanted])
        number = work.definitions().subscriptions["new-orders"].subscription_id
        return [InstanceMatch(f"by {one.property}", number) if one.value != "S0" else None for one in wanted]

    batch = [
        message("order", order_id=7, shipment_id="S1"),
        message("shipped", shipment_id="S1", weight=Decimal("1.5")),
        message("shipped", shipment_id="S0", weight=Decimal(2)),
        message("shipped", shipment_id="S0"),
        message("paid"),
    ]
    entries = router.route(batch, look=look).entries
    assert asked == [
        [("shipment_id", "S1"), ("shipment_id", "S0"), ("shipment_id", "S0"), ("weight", "1.50"), ("weight", "2.00")]
    ]
    assert list(zip(entries.places, entries.groups, entries.problems, strict=True)) == [
        (0, "7", None), (1, "by shipment_id", None), (2, "by weight", None), (4, None, "the group key is missing"),
    ]  # fmt: skip
    router.route(batch[:1], look=look)
    assert len(asked) == 1  # nothing to ask for


@pytest.fixture
def worker(work):
    """The DSN of a role that may receive from `work` and publish to it, and nothing else."""
    role = f"{work.schema}_worker"
    with work.session() as tx:
        tx.connection.execute(f"CREATE ROLE {role} LOGIN")
    work.define(sq.Queue("vault", policy=sq.Fifo(), group="order_id"))
    grant(work, role, receive=["work"], publish=["work"])
    yield work.dsn.replace("seriatim@", f"{role}@")
    revoke(work, role)
    with work.session() as tx:
        tx.connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_role_that_may_work_on_them(work, worker):
    publish(work, message("order", order_id=7), message("order", order_id=7))
    with sq.MessageBox.open(worker, schema=work.schema) as own:
        made = handle(own, lambda instance: (instance.state.update(a=1), instance.correlate(shipment_id="S1")))[1]
        publish(own, message("shipped", shipment_id="S1"))
        assert handle(own) == ("order", made)
        assert handle(own, lambda instance: instance.end()) == ("shipped", made)
        with pytest.raises(sq.EnvironmentProblem, match="may not see any queue"):
            instances.instances(own)
    with work.session() as tx:
        (vault,) = tx.connection.execute(f"SELECT queue_id FROM {work.schema}.queues WHERE queue = 'vault'").fetchone()
    calls = (
        f"find_instance({vault}, '7')",
        f"keep_instance(1, {vault}, '7', 1, NULL, '{{}}', '{{}}', '{{}}')",
        f"end_instance(1, {vault}, 1)",
        f"set_stray_aside({vault}, '7', 'm', 1, 'x')",
        "running_of(1)",
    )
    with psycopg.connect(worker, autocommit=True) as connection:
        for call in calls:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT {work.schema}.{call}")


@pytest.mark.parametrize(
    ("queue", "correlate", "told"),
    [
        (sq.Queue("q", sq.Unordered()), ["order_id"], "instances can't be in queue 'q', which is Unordered"),
        (sq.Queue("q", sq.UnitOfWork(size=2), "order_id", "part"), ["order_id"], "which is UnitOfWork"),
        (sq.Queue("q", sq.Fifo(), sq.Group("order_id", default="x")), ["order_id"], "has a default group"),
        (
            sq.Queue("q", sq.Fifo(), "order_id"),
            ["shipment_id"],
            "it correlates by 'shipment_id', and the group of queue",
        ),
        (
            sq.Queue("q", sq.Fifo(), "order_id"),
            ["order_id", "shipmnt_id"],
            "can't be found by 'shipmnt_id'.*shipment_id",
        ),
        (sq.Queue("q", sq.Fifo(), "order_id"), ["order_id", "ticket"], "can't be found by 'ticket'"),
    ],
)
def test_what_does_not_fit(box, queue, correlate, told):
    with pytest.raises(sq.UsageError, match=f"(?s)subscription 's'.*{told}|{told}") as caught:
        box.define(*TYPES, queue, sq.Subscription("s", "TRUE", "q", starts="a:b", correlate=correlate))
    assert "subscription 's'" in str(caught.value)


def test_what_is_running_keeps_its_activation(work):
    publish(work, message("order", order_id=7))
    made = handle(work)[1]
    for change in (
        lambda: work.drop(subscription="new-orders"),
        lambda: work.define(sq.Subscription("new-orders", "type = 'order'", "work")),
        lambda: work.define(
            sq.Queue("other", sq.Fifo(), group="order_id"),
            sq.Subscription("new-orders", "type = 'order'", "other", starts="a:b", correlate=["order_id"]),
        ),
        lambda: work.define(sq.MessageType("shipped", properties={"shipment_id": "string", "weight": "long"})),
    ):
        with pytest.raises(sq.ActionRefused, match="1 instance of it runs"):
            change()
    work.define(sq.Subscription("new-orders", "type = 'order'", "work", starts="a:b", correlate=["order_id"]))
    assert instances.instance_view(work, made).starts == "a:b"
    instances.terminate(work, made, **BY)
    work.drop(subscription="new-orders")


def test_a_property_stays_while_instances_have_values_of_it(work):
    narrower = sq.Subscription("new-orders", "type = 'order'", "work", starts="a:b", correlate=["order_id", "weight"])
    publish(work, message("order", order_id=7), message("order", order_id=8))
    made = handle(work, lambda instance: instance.correlate(shipment_id="S1"))[1]
    handle(work)
    publish(work, message("shipped", shipment_id="S1"))
    told = "'new-orders' can't correlate by 'shipment_id' no longer: 1 instance of it runs with a value of it"
    with pytest.raises(sq.ActionRefused, match=told):
        work.define(narrower)
    with pytest.raises(sq.ActionRefused, match=told):
        work.define(narrower, sq.MessageType("shipped", properties={"weight": "decimal(6,2)"}))
    assert handle(work) == ("shipped", made)
    instances.terminate(work, made, **BY)
    work.define(narrower)


def test_a_value_of_a_property_that_nobody_knows_leads_nothing(work):
    publish(work, message("order", order_id=7))
    handle(work, lambda instance: instance.correlate(shipment_id="S1", weight=2))
    publish(work, message("shipped", shipment_id="S1"), message("shipped", weight=2))
    with work.session() as tx:  # as of a definition that was changed while a handler added the value
        tx.connection.execute(f"UPDATE {work.schema}.correlations SET property = 'gone' WHERE property = 'shipment_id'")
    assert handle(work)[0] == "shipped"  # the one of a weight; the other one is dead
    assert handle(work) is None
    assert rows(work, "aside", "disposition, reason") == [("dead", "its instance has ended")]


def test_the_command(work):
    publish(work, message("order", order_id=7), message("paid", order_id=7))
    made = handle(work, lambda instance: (instance.correlate(shipment_id="S1"), instance.state.update(a=1)))[1]

    def run(*words):
        found = CliRunner().invoke(main, ["instances", *words, "--dsn", work.dsn, "--schema", work.schema])
        assert found.exit_code == 0, found.output
        return found.output

    assert "work" in run("list")
    (listed,) = json.loads(run("list", "--json", "--queue", "work", "--group", "7", "--status", "running"))
    assert (listed["instance_id"], listed["state"], listed["correlations"]) == (made, {"a": 1}, {"shipment_id": ["S1"]})
    assert "shipment_id: S1" in run("show", str(made))
    assert json.loads(run("show", str(made), "--json")) == listed
    assert json.loads(run("suspend", str(made), "--reason", "x", "--json"))["status"] == "suspended"
    assert "group 7: running" in run("resume", str(made), "--reason", "x", "--actor", "bob")
    assert "group 7: terminated" in run("terminate", str(made), "--reason", "x")
    assert json.loads(run("list", "--json")) == []


_VALUES = st.one_of(
    st.tuples(
        st.just("string"), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    ),
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("double"), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just("decimal(12,2)"), st.decimals("-9999999999", "9999999999", places=2)),
    st.tuples(st.just("timestamp"), st.datetimes(timezones=st.just(UTC))),
)


@given(_VALUES)
def test_a_value_is_written_as_a_column_of_it(case):
    kind, value = case
    types = MessageTypes([sq.MessageType("t", properties={"x": kind})])
    found = columns(types.typed([message("t", x=value)]), {"x": type_from(kind)})["x"]
    assert key_of(value, type_from(kind)) == key(found.values[0], type_from(kind))
