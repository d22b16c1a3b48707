"""Defining, changing and dropping what is in a box, while others publish and receive."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

import seriatim as sq
from seriatim.box.definitions import define as defining
from seriatim.kernel.groups.policy import remembering
from seriatim.operations import messages, queues, subscriptions

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long", "amount": "decimal(12,2)"})
QUEUE = sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version")
ALL = sq.Subscription("all", where="type = 'order'", to="q")


def order(version, customer="a", **properties):
    context = {"customer": customer, "version": version, **properties}
    return sq.Message(type="order", context=context, body=str(version).encode())


def publish(box, *versions, customer="a"):
    with box.session() as tx:
        return tx.publish([order(one, customer) for one in versions])


def received(box, queue="q"):
    found = []
    with box.session() as tx:
        while delivery := tx.receive(queue, limit=100):
            found += [message.sequence for message in delivery]
    return found


def told(changes):
    return [str(one) for one in changes]


# ---- defining


def test_again_it_changes_nothing(box):
    everything = (sq.Location("crm", last_number=99), ORDER, QUEUE, ALL)
    added = ["added location crm", "added type order", "added queue q", "added subscription all"]
    assert told(box.define(*everything[::-1])) == added
    before = box.definitions().version
    assert box.define(*everything) == []
    assert box.definitions().version == before


def test_what_changed_is_told(box):
    box.define(ORDER, QUEUE, ALL)
    changes = box.define(replace(QUEUE, policy=sq.Standard(hole_timeout=5, on_hole="skip"), keep="everything"))
    assert told(changes) == ["changed queue q: hole_timeout, on_hole, keep"]


def test_what_a_queue_keeps_stays_where_a_definition_does_not_say(box):
    box.define(ORDER, replace(QUEUE, keep="nothing"), replace(QUEUE, name="new"))
    assert [box.definitions().queue(one).declared.keep.done for one in ("q", "new")] == ["nothing", "faults"]
    assert box.define(QUEUE) == []  # as an application that was written when the default was another
    assert told(box.define(replace(QUEUE, errors="continue"))) == ["changed queue q: errors"]
    assert box.definitions().queue("q").declared.keep.done == "nothing"
    assert told(box.define(replace(QUEUE, errors="continue", keep=sq.Keep(done_for="7d")))) == [
        "changed queue q: keep, keep.done_for"
    ]
    assert box.definitions().queue("q").declared.keep.done == "faults"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((QUEUE, QUEUE, replace(QUEUE, keep="faults")), "given twice"),
        ((sq.Subscription("s", where="TRUE", to="r"),), "there is no queue 'r'"),
        ((sq.Subscription("s", where="colour = 1", to="q"), QUEUE, ORDER), "colour"),
        ((ORDER, replace(QUEUE, sequence="customer")), "has to be long"),
        ((ORDER, replace(QUEUE, group="nobody")), "no message type declares 'nobody'"),
        ((ORDER, sq.MessageType("x", properties={"version": "string"})), "version"),
        (("q",), "str can't be defined"),
    ],
)
def test_what_does_not_go_together_is_refused_whole(box, wrong, said):
    before = box.definitions().version
    with pytest.raises(sq.UsageError, match=said):
        box.define(*wrong)
    found = box.definitions()
    assert (found.version, dict(found.types), dict(found.queues)) == (before, {}, {})


@pytest.mark.parametrize(
    ("field", "name"),
    [("group", "ticket"), ("priority", "ticket"), ("group", "epoch"), ("sequence", "epoch"), ("priority", "epoch")],
)
def test_a_ticket_is_not_known_when_a_message_is_routed(box, field, name):
    with pytest.raises(sq.UsageError, match="numbered when its transaction commits") as caught:
        box.define(ORDER, replace(QUEUE, **{field: name}))
    assert "Fifo" in caught.value.remedy


def test_nor_is_it_in_the_filter_of_a_set(box):
    queue = replace(QUEUE, policy=sq.UnitOfWork(last="ticket = 7"))
    with pytest.raises(sq.UsageError, match="numbered when its transaction commits"):
        box.define(ORDER, queue)


def test_two_who_define_at_once_come_one_after_another(box):
    """Nothing is lost, and no version is given twice."""
    boxes = [sq.MessageBox.open(box.dsn, schema=box.schema) for _ in range(4)]
    before = box.definitions().version
    box.define(ORDER)

    def run(number):
        for step in range(10):
            name = f"q{number}-{step}"
            boxes[number].define(replace(QUEUE, name=name), sq.Subscription(name, where="TRUE", to=name))
            boxes[number].define(replace(QUEUE, name="shared"))

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(run, number) for number in range(4)]:
            done.result()
    for one in boxes:
        assert len(one.definitions().queues) == 41
        assert len(one.definitions().subscriptions) == 40
        assert one.definitions().version == before + 42
        one.close()


def test_what_is_rolled_back_is_not_routed_by(box, monkeypatch):
    """A version may be given twice: first by a transaction that fails, then by another process."""
    box.define(ORDER, QUEUE, replace(ALL, where="type = 'other'"))
    publish(box, 1)  # so this process knows the version
    with monkeypatch.context() as patch:

        def failing(_):
            raise sq.UsageError("at the last moment")

        patch.setattr(defining, "check_fit", failing)
        with pytest.raises(sq.UsageError, match="last moment"):
            box.define(replace(ALL, where="FALSE"))
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other:
        other.define(ALL)
        assert other.definitions().version == box.definitions().version
    publish(box, 2)
    statuses = [one.status for one in messages.messages(box)]
    assert statuses == ["unrouted", "arrived"]


def test_a_dry_run_is_not_routed_by(box, tmp_path):
    box.define(ORDER, QUEUE, ALL)
    publish(box, 1)
    file = tmp_path / "box.yaml"
    file.write_text("subscriptions: {all: {where: 'FALSE', to: q}}\n")
    assert told(box.apply(file, dry_run=True)) == ["changed subscription all: where"]
    publish(box, 2)
    assert received(box) == [1, 2]


def test_the_next_publish_of_another_process_sees_it(box):
    box.define(ORDER, QUEUE)
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other:
        publish(other, 1)
        box.define(ALL)
        publish(other, 2)
        box.drop(subscription="all")
        publish(other, 3)
    assert [one.status for one in messages.messages(box)] == ["unrouted", "arrived", "unrouted"]


# ---- what may change on what is in use

USED_STANDARD = replace(QUEUE, policy=sq.Standard(hole_timeout=60))
USED_BEST = replace(QUEUE, policy=sq.BestEffort(window=1))
USED_SET = replace(QUEUE, policy=sq.UnitOfWork(size=3))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (USED_STANDARD, replace(QUEUE, policy=sq.Standard(start=5)), "start"),
        (USED_STANDARD, replace(QUEUE, policy=sq.Standard(start="first")), "start"),
        (USED_STANDARD, replace(QUEUE, policy=sq.Standard(increment=2)), "increment"),
        (USED_STANDARD, replace(QUEUE, policy=sq.Fifo(), sequence=None), "policy, sequence"),
        (USED_STANDARD, replace(QUEUE, group="version"), "group"),
        (USED_STANDARD, replace(QUEUE, sequence="other"), "sequence"),
        (USED_BEST, replace(QUEUE, policy=sq.BestEffort()), "window"),
        (USED_SET, replace(QUEUE, policy=sq.UnitOfWork(size=4)), "size"),
        (USED_SET, replace(QUEUE, policy=sq.UnitOfWork(last="version = 3")), "size, last"),
    ],
)
def test_what_groups_were_judged_by_stays(box, old, new, said):
    kind = replace(ORDER, properties={**ORDER.properties, "other": "long"})
    box.define(kind, old, ALL)
    publish(box, 2)
    with pytest.raises(sq.ActionRefused, match=f"^queue 'q': {said} can't change: it has groups"):
        box.define(new)
    received(box)  # now it is judged, and its group remembered
    with pytest.raises(sq.ActionRefused, match=said):
        box.define(new)
    assert box.define(old) == []


def test_an_unused_queue_may_become_anything(box):
    box.define(ORDER, QUEUE, ALL)
    changes = box.define(sq.Queue("q", policy=sq.Fifo(), group="version"))
    assert told(changes) == ["changed queue q: policy, group, sequence"]


LATER_STANDARD = sq.Standard(
    1, increment=1, hole_timeout=10, hole_retries=2, on_hole="skip", late="deliver", capacity=7
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (QUEUE, replace(QUEUE, policy=LATER_STANDARD)),
        (
            QUEUE,
            replace(
                QUEUE,
                errors="continue",
                priority="version",
                keep="faults",
                max_messages=9,
                group=sq.Group("customer", default="x"),
            ),
        ),
        (USED_BEST, replace(QUEUE, policy=sq.BestEffort(window=2, buffer=0, late="deliver"))),
        (USED_SET, replace(QUEUE, policy=sq.UnitOfWork(size=3, timeout=5))),
    ],
)
def test_what_concerns_only_what_comes_may_change(box, old, new):
    box.define(ORDER, old, ALL)
    publish(box, 2)
    received(box)
    assert [one.name for one in box.define(new)] == ["q"]
    assert box.definitions().queue("q").declared == replace(
        new, keep=replace(new.keep, done=new.keeps), policy=remembering(new.policy)
    )


def test_a_shorter_time_out_counts_for_holes_that_are_open(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, 2, 3)
    assert received(box) == []
    box.define(replace(QUEUE, policy=sq.Standard(hole_timeout=0.05, on_hole="skip")))
    with box.session() as tx:
        delivery = tx.receive("q", limit=10, wait=120)
        assert [message.sequence for message in delivery] == [2, 3]


def test_a_type_may_get_properties_and_lose_what_nobody_names(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, 1)
    wider = replace(ORDER, properties={**ORDER.properties, "urgent": "boolean"})
    assert told(box.define(wider)) == ["changed type order: properties"]
    box.define(replace(ALL, where="urgent"))
    with pytest.raises(sq.ActionRefused, match="'urgent' of type 'order' can't go: subscription 'all' names it"):
        box.define(ORDER)
    with pytest.raises(sq.ActionRefused, match="'customer' of type 'order' can't go: queue 'q' names it"):
        box.define(replace(ORDER, properties={"version": "long", "urgent": "boolean"}))
    less = {name: kind for name, kind in wider.properties.items() if name != "amount"}
    assert box.define(replace(wider, properties=less))


def test_a_property_that_a_queue_goes_by_keeps_its_type(box):
    number = replace(ORDER, properties={**ORDER.properties, "customer": "long"})
    box.define(ORDER, QUEUE, ALL)
    assert box.define(number)  # nothing has been judged by it
    box.define(ORDER)
    publish(box, 1)
    with pytest.raises(sq.ActionRefused, match="property 'customer' can't change: queue 'q' has groups"):
        box.define(number)


def test_the_last_number_of_a_location_that_has_given_some(box):
    box.define(sq.Location("crm", last_number=10))
    assert told(box.define(sq.Location("crm", last_number=20))) == ["changed location crm: last_number"]
    with box.session() as tx:
        tx.dispense("crm")
    with pytest.raises(sq.ActionRefused, match="last number of location crm can't become 10"):
        box.define(sq.Location("crm", last_number=10))


# ---- dropping


def test_what_is_not_there_or_has_another_word(box):
    box.define(ORDER, QUEUE)
    with pytest.raises(sq.UsageError, match="there is no queue 'qq'") as caught:
        box.drop(queue="qq")
    assert "did you mean 'q'?" in caught.value.remedy
    for wrong in ({"table": "q"}, {"queue": [1]}):
        with pytest.raises(sq.UsageError):
            box.drop(**wrong)
    with pytest.raises(sq.UsageError, match="there is no subscription"):
        box.drop(queue="q", subscription="s")
    assert "q" in box.definitions().queues


def test_a_queue_goes_when_nothing_uses_it(box):
    box.define(ORDER, QUEUE, replace(QUEUE, name="other"), ALL)
    with pytest.raises(sq.ActionRefused, match="queue 'q' can't be dropped: subscriptions lead to it: all"):
        box.drop(queue="q")
    publish(box, 1, 1, 3)
    with pytest.raises(sq.ActionRefused, match="it has messages: 3 to be handed out or held"):
        box.drop(queue="q", subscription="all")
    assert received(box) == [1]
    with pytest.raises(sq.ActionRefused, match="1 to be handed out or held, 1 set aside"):
        box.drop(queue="q", subscription="all")
    assert told(box.drop(queue="other")) == ["dropped queue other"]
    assert list(box.definitions().subscriptions) == ["all"]


def test_a_queue_with_history_stays_and_an_emptied_one_goes(box):
    box.define(ORDER, replace(QUEUE, keep="everything"), replace(QUEUE, name="r"), ALL, replace(ALL, name="r", to="r"))
    publish(box, 1)
    assert received(box) == received(box, "r") == [1]
    with pytest.raises(sq.ActionRefused, match="1 in its history"):
        box.drop(queue="q", subscription="all")
    assert told(box.drop(queue="r", subscription="r")) == ["dropped subscription r", "dropped queue r"]
    with box.session() as tx:
        left = tx.connection.execute(f"SELECT count(*) FROM {box.schema}.known_groups").fetchone()
    assert left == (1,)


def test_a_type_goes_when_nothing_names_its_properties(box):
    box.define(ORDER, sq.MessageType("note", properties={"text": "string"}), QUEUE)
    with pytest.raises(sq.ActionRefused, match="of type 'order' can't go: queue 'q' names it"):
        box.drop(type="order")
    assert told(box.drop(type="note")) == ["dropped type note"]
    assert told(box.drop(type="order", queue="q")) == ["dropped queue q", "dropped type order"]


def test_a_property_that_another_type_declares_stays_known(box):
    box.define(ORDER, replace(ORDER, name="copy"), QUEUE)
    assert told(box.drop(type="order")) == ["dropped type order"]


def test_a_location_goes_if_it_has_given_no_number(box):
    box.define(sq.Location("one"), sq.Location("two"))
    with box.session() as tx:
        tx.dispense("one")
    with pytest.raises(sq.ActionRefused, match="location 'one' can't be dropped: it has given numbers"):
        box.drop(location=["one", "two"])
    assert told(box.drop(location="two")) == ["dropped location two"]


def test_a_subscription_with_messages_that_only_it_collected(box):
    box.define(ORDER, QUEUE, replace(QUEUE, name="other"), replace(ALL, state="stopped"))
    publish(box, 1)
    with pytest.raises(sq.ActionRefused, match="is stopped and can't be dropped: collected messages wait: 1"):
        box.drop(subscription="all")
    with pytest.raises(sq.ActionRefused, match="can't lead elsewhere"):
        box.define(replace(ALL, to="other", state="stopped"))
    subscriptions.start(box, "all")
    box.drop(subscription="all")
    assert received(box) == [1]


def test_a_queue_that_somebody_is_publishing_to_stays(box, monkeypatch):
    """A message that isn't committed can't be seen; but whoever publishes can be waited for."""
    monkeypatch.setattr(defining, "_BRIEFLY_MS", 20)
    monkeypatch.setattr(defining, "_PATIENCE_S", 0.3)
    box.define(ORDER, QUEUE)
    with box.session() as tx:
        tx.publish(replace(order(1), context={**order(1).context, "to": "q"}))
        who = f'process {tx.connection.info.backend_pid} of the role "seriatim"'
        with pytest.raises(sq.Unavailable, match=f"transactions that publish didn't end .*: {who}"):
            box.drop(queue="q")
        box.define(ALL)  # which takes nothing away
    with pytest.raises(sq.ActionRefused, match="1 to be handed out"):
        box.drop(queue="q", subscription="all")
    assert received(box) == [1]


def test_a_drop_waits_for_publishers_and_those_after_it_route_anew(box):
    box.define(ORDER, QUEUE)
    dropped = []
    with box.session() as tx, ThreadPoolExecutor(1) as thread:
        tx.publish(replace(order(1), context={"version": 1}))  # unrouted
        done = thread.submit(lambda: dropped.append(box.drop(queue="q")))
        with psycopg.connect(box.dsn, autocommit=True) as watching:
            deadline = time.monotonic() + 120
            waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while watching.execute(waits).fetchone() == (0,):
                assert time.monotonic() < deadline
        tx.connection.commit()
        done.result()
    assert told(dropped[0]) == ["dropped queue q"]
    with box.session() as tx, pytest.raises(sq.UsageError, match="which is no queue"):
        tx.publish(sq.Message(type="order", context={"to": "q"}))


def publish_until(stop, again, box, taken, refused):
    """Publish to the queue one by one, each when told; `refused` where there is no queue just now."""
    while not stop.is_set():
        try:
            with box.session() as tx:
                (name,) = tx.publish(sq.Message(type="order", context={"customer": "a", "to": "q"}))
        except sq.UsageError:
            refused.append(None)
        else:
            taken.add(name)
        again.wait(1)


@pytest.mark.dear
def test_nothing_is_orphaned_while_queues_come_and_go(box):
    """Publishers address a queue that is made and dropped all the time: each message is handed out, or was refused."""
    box.define(ORDER)
    queue = sq.Queue("q", policy=sq.Fifo(), group="customer")
    stop, again, taken, refused, handed = threading.Event(), threading.Event(), set(), [], set()

    def receive():
        with box.session() as tx:
            while delivery := tx.receive("q", limit=100):
                handed.update(message.message_id for message in delivery)

    dropped = 0
    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(publish_until, stop, again, box, taken, refused) for _ in range(3)]
        deadline = time.monotonic() + 120
        while (dropped < 20 or len(taken) < 20 or not refused) and time.monotonic() < deadline:
            box.define(queue)
            receive()
            if dropped < len(taken):
                again.clear()  # so that it is empty now and then
            else:
                again.set()
            try:
                dropped += len(box.drop(queue="q"))
            except sq.ActionRefused:
                receive()
        stop.set()
        for one in running:
            one.result()
    box.define(queue)
    receive()
    assert dropped >= 20
    assert refused
    assert len(taken) >= 20
    assert handed == taken


def test_a_transaction_that_keeps_its_snapshot_does_not_publish_to_what_is_gone(box):
    box.define(ORDER, QUEUE)
    with psycopg.connect(box.dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        box.drop(queue="q")
        with box.session(connection=connection) as tx:
            message = sq.Message(type="order", context={"customer": "a", "version": 1, "to": "q"})
            with pytest.raises(sq.Unavailable):
                tx.publish(message)
        connection.rollback()


# ---- starting and stopping


@pytest.mark.parametrize("state", ["stopped", "enlisted"])
def test_stopped_it_collects_and_hands_out_in_order_after_the_start(box, state):
    box.define(ORDER, QUEUE, replace(ALL, state=state))
    publish(box, 3, 1)
    publish(box, 1, customer="b")
    assert received(box) == []  # and now they are judged
    publish(box, 2, 5)
    assert received(box) == []
    assert told(subscriptions.start(box, "all")) == ["started subscription all"]
    with box.session() as tx:
        found = {}
        while delivery := tx.receive("q", limit=2):
            found.setdefault(delivery.group, []).extend(message.sequence for message in delivery)
    assert found == {"a": [1, 2, 3], "b": [1]}
    assert subscriptions.start(box, "all") == []


def test_stopped_later_it_keeps_what_is_still_there(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, 1, 2, 3)
    with box.session() as tx:
        assert len(tx.receive("q", limit=1)) == 1
        tx.receive("q", limit=1).done()
        subscriptions.stop(box, "all")
    assert received(box) == []
    assert [one.waits for one in box.peek("q")] == [True, True]
    subscriptions.start(box, "all")
    assert received(box) == [2, 3]


def test_a_message_that_another_subscription_collected_is_handed_out(box):
    box.define(ORDER, QUEUE, replace(ALL, state="stopped"), sq.Subscription("large", where="amount > 9", to="q"))
    with box.session() as tx:
        tx.publish([order(1, amount=10), order(2, amount=1), order(3, amount=10)])
    assert received(box) == [1]  # the second keeps what is behind it
    subscriptions.start(box, "all")
    assert received(box) == [2, 3]


def test_what_is_addressed_is_handed_out(box):
    box.define(ORDER, QUEUE, replace(ALL, state="stopped"))
    with box.session() as tx:
        tx.publish(sq.Message(type="other", context={"customer": "a", "version": 1, "to": "q"}))
    assert received(box) == [1]


def test_unenlisted_it_does_not_collect(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, 1)
    subscriptions.unenlist(box, "all")
    publish(box, 2)
    assert received(box) == []
    subscriptions.start(box, "all")
    publish(box, 3)
    assert received(box) == [1]
    assert [(one.status, one.sequence) for one in messages.messages(box)] == [("unrouted", None), ("held", 3)]


def test_without_order_it_waits_as_well(box):
    box.define(ORDER, sq.Queue("q", policy=sq.Unordered()), replace(ALL, state="stopped"))
    ids = publish(box, 1, 2)
    with box.session() as tx:
        assert tx.receive("q", limit=10) is None
    subscriptions.start(box, "all")
    with box.session() as tx:
        assert [message.message_id for message in tx.receive("q", limit=10)] == ids
        assert tx.connection.execute(f"SELECT count(*) FROM {box.schema}.requests").fetchone() == (0,)


def test_a_start_while_a_turn_has_the_group_is_not_lost(box):
    """The turn has seen the subscription stopped, and commits after the start: what waits must move on all the same."""
    box.define(ORDER, QUEUE, replace(ALL, state="stopped"), sq.Subscription("large", where="amount > 9", to="q"))
    with box.session() as tx:
        tx.publish([order(1, amount=10), order(2, amount=1)])
    with box.session() as tx:
        delivery = tx.receive("q", limit=10)
        assert len(delivery) == 1
        subscriptions.start(box, "all")  # waits for nobody
        delivery.done()
    assert received(box) == [2]


def test_a_start_calls_who_waits(box):
    box.define(ORDER, QUEUE, replace(ALL, state="stopped"))
    publish(box, 1)
    assert received(box) == []

    def waiting():
        with box.session() as tx:
            return [message.sequence for message in tx.receive("q", wait=30)]

    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(waiting)
        with psycopg.connect(box.dsn, autocommit=True) as watching:
            deadline = time.monotonic() + 120
            while watching.execute(f"SELECT count(*) FROM {box.schema}.waiters").fetchone() == (0,):
                assert time.monotonic() < deadline
        subscriptions.start(box, "all")
        assert found.result() == [1]


def switch_until(stop, box):
    while not stop.is_set():
        subscriptions.stop(box, "all")
        subscriptions.start(box, "all")


def receive_all(box, count, found):
    """Receive until so many are found; of one group nobody else receives meanwhile."""
    deadline = time.monotonic() + 120
    while sum(map(len, found.copy().values())) < count:
        assert time.monotonic() < deadline
        with box.session() as tx:
            delivery = tx.receive("q", limit=3, wait=0.5)
            for message in delivery or ():
                found[delivery.group].append(message.sequence)


def test_starting_and_stopping_while_messages_come(box):
    """Whatever the interleaving: all is handed out, once and in order."""
    groups, each = 5, 30
    box.define(ORDER, QUEUE, ALL)
    stop, found = threading.Event(), defaultdict(list)

    def publishing(number):
        for version in range(1, each + 1):
            publish(box, version, customer=f"c{number}")

    with ThreadPoolExecutor(groups + 3) as threads:
        switch = threads.submit(switch_until, stop, box)
        others = [threads.submit(receive_all, box, groups * each, found) for _ in range(2)]
        others += [threads.submit(publishing, number) for number in range(groups)]
        try:
            for one in others[2:]:
                one.result()
        finally:
            stop.set()
        switch.result()
        for one in others:
            one.result()
    assert found == {f"c{number}": list(range(1, each + 1)) for number in range(groups)}


def test_what_an_operator_stopped_stays_so_until_its_declaration_changes(box):
    box.define(ORDER, QUEUE, ALL)
    subscriptions.stop(box, "all")
    queues.turn_off(box, "q")
    assert box.define(ORDER, QUEUE, ALL) == []
    box.define(replace(ALL, where="TRUE"), replace(QUEUE, keep="faults"))
    found = box.definitions()
    assert (found.subscriptions["all"].state, found.queues["q"].enabled) == ("stopped", False)
    publish(box, 1)
    box.define(replace(ALL, where="TRUE", state="enlisted"), replace(QUEUE, enabled=False))
    box.define(ALL, QUEUE)
    found = box.definitions()
    assert (found.subscriptions["all"].state, found.queues["q"].enabled) == ("started", True)
    assert received(box) == [1]


def test_a_queue_that_is_off_takes_in_and_hands_out_nothing(box):
    box.define(ORDER, QUEUE, ALL)
    assert told(queues.turn_off(box, "q")) == ["turned off queue q"]
    publish(box, 1)
    with pytest.raises(sq.ActionRefused, match="the queue is off"):
        received(box)
    assert told(queues.turn_on(box, "q", "q")) == ["turned on queue q"]
    assert queues.turn_on(box, "q") == []
    assert received(box) == [1]


@pytest.mark.parametrize(
    "doing",
    [subscriptions.start, subscriptions.stop, subscriptions.unenlist, queues.turn_on, queues.turn_off],
    ids=lambda doing: doing.__name__,
)
def test_none_of_that_name(box, doing):
    box.define(ORDER, QUEUE, ALL)
    with pytest.raises(sq.UsageError, match="there is no"):
        doing(box, "al")
