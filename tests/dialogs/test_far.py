"""Dialogs between two boxes, in two databases of a server."""

from __future__ import annotations

import json
from concurrent import futures

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.dialogs.clock import forget_closed
from seriatim.box.pipelines.dialog_staging import DialogStaging, Speaker
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.pipelines.incoming import Incoming
from seriatim.operations import dialogs, identity, invariants, links
from seriatim.operations.doctor import State
from seriatim.operations.doctor.work_checks import CHECKS, Work
from seriatim.operations.trace import trace_message
from tests.box.links.backups import back_up, restore
from tests.dialogs.far_boxes import begun, exchange, received, two_boxes
from tests.dialogs.talking import let_expire, states

pytestmark = pytest.mark.dear


@pytest.fixture(params=["by PostgreSQL", "over HTTPS"])
def roads(databases, request, tmp_path):
    with two_boxes(databases, https=None if request.param == "by PostgreSQL" else tmp_path) as both:
        yield both
        for one in both:
            assert invariants.broken(one) == []


def forgotten(box):
    """How many sides are forgotten, the half hour being over."""
    with box.access.transaction() as transaction:
        return forget_closed(transaction, 0)


def side(box):
    """The only side of a dialog in a box: its handle and its state."""
    ((handle, state),) = states(box).items()
    return handle, state


def test_a_purchase_order_goes_both_ways_and_both_sides_are_forgotten(roads):
    north, south = roads
    handle = begun(north, "Header", "Line", "Footer")
    exchange(north)
    with south.session() as tx:
        delivery = tx.receive("sales", limit=10)
        assert [(one.type, one.dialog.sequence) for one in delivery] == [("Header", 0), ("Line", 1), ("Footer", 2)]
        first = delivery.messages[0].dialog
        assert (first.service, first.far_service, first.far_box) == ("Seller", "Buyer", north.id)
        assert first.principal
        tx.send(first.handle, "Answer", b"yes")
        tx.end(first.handle)
    exchange(north)
    assert received(north, "bought") == [("Answer", 0, b"yes"), ("EndDialog", 1, b"")]
    assert side(north) == (handle, "DI")
    with north.session() as tx:
        tx.end(handle)
    exchange(north)
    south.tick()
    assert (side(north)[1], side(south)[1]) == ("CD", "CD")
    for one in roads:
        assert forgotten(one) == 1
        assert states(one) == {}


def test_both_end_with_everything_said_whichever_is_first(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"Header")]
    own, state = side(south)
    assert state == "CO"
    for box, one in ((north, handle), (south, own)):
        with box.session() as tx:
            tx.send(one, "Note", b"last")
            tx.end(one)
    assert (side(north)[1], side(south)[1]) == ("DO", "DO")
    exchange(north)
    for one in boxes:
        one.tick()
    assert (side(north)[1], side(south)[1]) == ("CD", "CD")
    assert received(north, "bought") == received(south, "sales") == []


@pytest.mark.parametrize("who", ["north", "south"])
def test_an_end_with_an_error_overtakes_what_hasnt_left(boxes, who):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"Header")]
    own, _ = side(south)
    one, other, mine, queue = (north, south, handle, "sales") if who == "north" else (south, north, own, "bought")
    with one.session() as tx:
        tx.send(mine, "Note", b"never")
        tx.end(mine, error=(7, "no money"))
    exchange(north)
    ((kind, number, body),) = received(other, queue)
    assert (kind, number, json.loads(body)) == ("Error", None, {"code": 7, "text": "no money"})
    assert side(other)[1] == "ER"
    assert side(one)[1] == "DO"
    with other.session() as tx:
        tx.end(side(other)[0])
    exchange(north)
    one.tick()
    assert (side(north)[1], side(south)[1]) == ("CD", "CD")


def test_an_error_has_the_highest_code_and_stops_no_later_one(boxes):
    north, south = boxes
    handles = [begun(north, "Header") for _ in range(2)]
    exchange(north)
    for handle, code in zip(handles, (2**31 - 1, 8), strict=True):
        with north.session() as tx:
            tx.end(handle, error=(code, "no money"))
        exchange(north)
    told = received(south, "sales") + received(south, "sales")
    assert {json.loads(body)["code"] for kind, _, body in told if kind == "Error"} == {2**31 - 1, 8}


def test_an_error_before_anything_came_leaves_no_side_there(boxes):
    north, south = boxes
    exchange(north)  # Each box learns which version the other one speaks.
    handle = begun(north, "Header")
    with north.session() as tx:  # It is in its stream, and another one is faster.
        tx.connection.execute(
            f"SELECT {north.schema}.link_collect_dialogs(link_id, 9) FROM {north.schema}.known_links; "
            f"UPDATE {north.schema}.link_streams_out SET next_try_at = 'infinity' WHERE key NOT LIKE 'control%'"
        )
    with north.session() as tx:
        tx.end(handle, cleanup=True)
    links.transmit(north)
    south.tick()
    exchange(north)
    assert received(south, "sales") == []
    assert states(south) == {}
    exchange(north)
    assert forgotten(north) == 1


def test_a_clean_up_tells_the_other_side(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"Header")]
    with north.session() as tx:
        tx.end(handle, cleanup=True)
    exchange(north)
    ((kind, _, body),) = received(south, "sales")
    assert kind == "Error"
    assert json.loads(body)["code"] == -4


def test_a_lifetime_that_ends_is_told_once_to_each(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    let_expire(north, handle)
    north.tick()
    exchange(north)
    for box, queue in ((north, "bought"), (south, "sales")):
        found = received(box, queue)
        assert [json.loads(body)["code"] for kind, _, body in found if kind == "Error"] == [-1]


def test_an_error_that_comes_before_the_first_contact_can_be_received(boxes):
    north, _ = boxes
    let_expire(north, begun(north, "Header"))
    north.tick()
    ((kind, _, body),) = received(north, "bought")
    assert (kind, json.loads(body)["code"]) == ("Error", -1)


def test_a_verb_knows_what_has_come_before_it(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    with south.session() as tx:
        tx.end(tx.receive("sales").messages[0].dialog.handle)
    exchange(north)
    with north.session() as tx, pytest.raises(sq.ActionRefused, match="the other side has ended"):
        tx.send(handle, "Note", b"too late")


def test_a_full_queue_makes_the_sender_wait_and_says_so(databases):
    with two_boxes(databases, max_messages=2) as (north, south):
        first = begun(north, "Header", "Line")
        exchange(north)
        second = begun(north, "Header")
        exchange(north)
        assert first != second
        assert [one[0] for one in received(south, "sales")] == ["Header", "Line"]
        assert received(south, "sales") == []
        exchange(north)
        assert [one[0] for one in received(south, "sales")] == ["Header"]


def test_a_large_body_comes_whole(roads):
    north, south = roads
    body = bytes(range(256)) * 4096 * 5
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder")
        tx.send(handle, "Header", body)
        tx.end(handle)
    exchange(north, 6)
    found = received(south, "sales")
    assert [one[:2] for one in found] == [("Header", 0), ("EndDialog", 1)]
    assert found[0][2] == body


def test_a_service_that_may_not_speak_is_told_nothing(boxes):
    north, south = boxes
    north.define(sq.Service("Thief", queue="stolen"))
    with north.session() as tx:
        handle = tx.begin_dialog("Thief", "Seller", contract="PurchaseOrder")
        tx.send(handle, "Header", b"mine")
    exchange(north)
    assert received(south, "sales") == []
    assert states(south) == {}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"at": "south", "queue": "q"}, "queue"), ({"at": "south", "contracts": ["PurchaseOrder"]}, "contracts"),
        ({"at": ["south", "south"]}, "named twice"), ({}, "no queue"), ({"at": 7}, "at can't be 7"),
    ],
)  # fmt: skip
def test_a_service_elsewhere_has_a_name_and_links(given, why):
    with pytest.raises(sq.UsageError, match=why):
        sq.Service("Seller", **given)


def test_a_service_elsewhere_needs_its_link(box):
    with pytest.raises(sq.NotFound, match="there is no link 'west'"):
        box.define(sq.Service("Seller", at="west"))


def outcome(box, queue):
    """What comes of a queue now: type and number of messages, whether each is marked as replayed, the code of an Error."""
    box.tick()
    with box.session() as tx:
        found = []
        while (delivery := tx.receive(queue, limit=100)) is not None:
            found += [
                (one.type, json.loads(one.body)["code"] if one.type == "Error" else one.dialog.sequence, one.replayed)
                for one in delivery
            ]
            delivery.done()
        return found


def test_a_restored_receiver_gets_again_what_was_kept_and_the_dialog_goes_on(databases):
    with two_boxes(databases, keep_sent="1d") as (north, south):
        handle = begun(north, "Header")
        exchange(north)
        assert outcome(south, "sales") == [("Header", 0, False)]
        back_up(south)
        with north.session() as tx:
            tx.send_many([(handle, "Line", b"1"), (handle, "Line", b"2")])
        exchange(north)
        assert [one[:2] for one in outcome(south, "sales")] == [("Line", 1), ("Line", 2)]
        restore(south)
        exchange(north, 4)  # Nothing waits: what was acknowledged last is asked for.
        assert outcome(south, "sales") == [("Line", 1, True), ("Line", 2, True)]
        with north.session() as tx:
            tx.end(handle)
        exchange(north)
        assert outcome(south, "sales") == [("EndDialog", 3, False)]
        with south.session() as tx:
            for own, state in states(south).items():
                if state == "DI":
                    tx.end(own)
        exchange(north)
        north.tick()
        assert states(north)[handle] == "CD"


@pytest.mark.parametrize("first", ["the sender speaks", "nobody speaks"])
def test_a_restored_receiver_that_lacks_something_fails_the_dialog_on_both_sides(boxes, first):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    assert outcome(south, "sales") == [("Header", 0, False)]
    back_up(south)
    with north.session() as tx:
        tx.send(handle, "Line", b"lost")
    exchange(north)
    assert outcome(south, "sales") == [("Line", 1, False)]
    restore(south)
    if first == "the sender speaks":
        with north.session() as tx:
            tx.send(handle, "Line", b"next")
    exchange(north, 5)
    assert outcome(south, "sales") == [("Error", -4, False)]
    exchange(north, 2)
    assert outcome(north, "bought") == [("Error", -4, False)]
    for box in boxes:
        ((own, state),) = states(box).items()
        assert state == "ER"
        with box.session() as tx:
            tx.end(own)
    exchange(north, 2)
    for box in boxes:
        box.tick()
        assert forgotten(box) == 1


def test_a_restored_sender_that_sends_first_is_found(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    back_up(north)
    with north.session() as tx:
        tx.send(handle, "Line", b"old")
    exchange(north)
    assert [one[:2] for one in outcome(south, "sales")] == [("Header", 0), ("Line", 1)]
    restore(north)
    with north.session() as tx:
        tx.send(handle, "Line", b"another")
    exchange(north, 5)
    assert outcome(south, "sales") == [("Error", -4, False)]
    exchange(north, 2)
    assert outcome(north, "bought") == [("Error", -4, False)]


def test_a_begin_that_is_repeated_after_the_forgetting_begins_nothing(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    assert outcome(south, "sales") == [("Header", 0, False)]
    with south.session() as tx:
        tx.end(side(south)[0])
    exchange(north)
    with north.session() as tx:
        assert [one.type for one in tx.receive("bought")] == ["EndDialog"]
        tx.end(handle)
    exchange(north)
    south.tick()
    assert forgotten(south) == 1
    begin_again(north, south, handle)
    assert outcome(south, "sales") == []
    assert states(south) == {}


def test_a_service_stays_until_the_other_box_has_all_and_its_dialogs_begin_no_second_time(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    with north.session() as tx:
        tx.end(handle)
    exchange(north)
    assert [one[:2] for one in outcome(south, "sales")] == [("Header", 0), ("EndDialog", 1)]
    with south.session() as tx:
        tx.end(side(south)[0])
    elsewhere = sq.Service("Seller", queue="sales2", contracts=["PurchaseOrder"])
    for change in (lambda: south.drop(service="Seller"), lambda: south.define(elsewhere)):
        with pytest.raises(sq.ActionRefused, match="the other box hasn't acknowledged all"):
            change()
    exchange(north)
    north.tick()
    assert states(north) == {handle: "CD"}
    south.define(elsewhere)
    assert states(south) == {}
    begin_again(north, south, handle)
    assert outcome(south, "sales2") == []
    assert states(south) == {}


def begin_again(north, south, handle):
    """The south takes the first message of a dialog of the north once more."""
    with north.session() as tx:
        number = tx.connection.execute(
            f"SELECT opened_in, number FROM {north.schema}.endpoints WHERE handle = %s", [handle]
        ).fetchone()
    record = {
        "kind": "number", "conversation": str(conversation_of(north, handle)), "initiator": True, "number": number, "service": "Buyer",
        "far_service": "Seller", "contract": "PurchaseOrder", "types": "", "priority": 5, "lifetime": None, "sealed": False, "sequence": 0,
        "chain": 64 * "0", "got": 0, "type": "Header", "content_type": None,
    }  # fmt: skip
    with south.access.transaction() as transaction:
        transaction.connection.execute(
            f"SELECT {south.schema}.link_take_record(link_id, %s, '', FALSE) FROM {south.schema}.known_links",
            [json.dumps(record)],
        )


def conversation_of(box, handle):
    with box.session() as tx:
        (found,) = tx.connection.execute(
            f"SELECT conversation_id FROM {box.schema}.dialogs WHERE handle = %s", [handle]
        ).fetchone()
    return found


def test_a_peer_of_version_1_makes_dialogs_wait_and_they_say_why(boxes):
    north, _ = boxes
    exchange(north)
    handle = begun(north, "Header")
    with north.access.transaction() as transaction:
        transaction.connection.execute(f"UPDATE {north.schema}.known_links SET version = 1")
    (view,) = dialogs.dialogs(north, handle=handle)
    assert view.waiting == 1
    assert "speaks version 1 of the protocol" in view.transmission_status


def test_what_waits_says_why_on_the_side_that_can_mend_it(boxes):
    north, south = boxes
    north.define(sq.Contract("Other", {"Header": "any"}))
    south.define(
        sq.Contract("Other", {"Header": "initiator"}),
        sq.Service("Seller", queue="sales", contracts=["PurchaseOrder", "Other"]),
    )
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", "Seller", contract="Other")
        tx.send(handle, "Header", b"1")
    exchange(north)
    (view,) = dialogs.dialogs(north, handle=handle)
    assert (view.waiting, view.far_box) == (1, south.id)
    assert "has other types in the two boxes" in view.transmission_status


def test_a_copy_of_a_box_leaves_its_dialogs_to_the_original(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    with north.access.transaction() as transaction:
        transaction.value("drop_link_pairs")
    assert outcome(north, "bought") == [("Error", -3, False)]
    assert [one[:2] for one in outcome(south, "sales")] == [("Header", 0)]
    with north.session() as tx:
        tx.end(handle)
    assert forgotten(north) == 1


def test_a_link_that_services_lead_over_stays(boxes):
    north, _ = boxes
    with pytest.raises(sq.ActionRefused, match="queues lead over it: service Seller"):
        north.drop(link="south")


def test_several_boxes_get_dialogs_by_turns_and_not_those_that_are_down(boxes):
    north, _ = boxes
    north.define(sq.Link("west", dsn="host=127.0.0.1 port=1 dbname=none"), sq.Service("Seller", at=["south", "west"]))
    handles = [begun(north, "Header") for _ in range(4)]
    with north.session() as tx:
        rows = tx.connection.execute(f"SELECT link_id, count(*) FROM {north.schema}.endpoints GROUP BY 1").fetchall()
    assert [count for _, count in rows] == [2, 2]
    with north.access.transaction() as transaction:
        transaction.do("note_link_failed", name="west", error="it is down")
    with north.session() as tx:
        more = [tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder") for _ in range(3)]
        rows = tx.connection.execute(
            f"SELECT DISTINCT link FROM {north.schema}.endpoints JOIN {north.schema}.known_links USING (link_id) WHERE handle = ANY (%s)",
            [more],
        ).fetchall()
    assert rows == [("south",)]
    assert len(handles) == 4


def test_all_dialogs_of_a_restored_box_go_on_or_fail_though_nobody_speaks(databases):
    with two_boxes(databases, keep_sent="1d") as (north, south):
        handles = [begun(north, "Header") for _ in range(6)]
        exchange(north)
        assert len(outcome(south, "sales")) == 6
        back_up(south)
        for handle in handles[:4]:
            with north.session() as tx:
                tx.send(handle, "Line", b"1")
        exchange(north)
        assert len(outcome(south, "sales")) == 4
        restore(south)
        exchange(north, 4)
        assert outcome(south, "sales") == 4 * [("Line", 1, True)]
        assert set(states(north).values()) == {"CO"}
        assert set(states(south).values()) == {"CO"}


def test_who_waits_for_a_message_gets_what_comes_from_the_other_box(boxes):
    north, south = boxes
    exchange(north)
    with futures.ThreadPoolExecutor() as pool:
        waits = pool.submit(received, south, "sales", wait=60)
        with south.access.transaction() as transaction:
            while not transaction.connection.execute(f"SELECT FROM {south.schema}.waiters").fetchall():
                transaction.commit()
        begun(north, "Header")
        exchange(north)
        assert waits.result(120) == [("Header", 0, b"Header")]


def test_a_pipeline_sends_to_the_other_box(boxes):
    north, south = boxes
    batch = pa.RecordBatch.from_pydict(
        {"type": 3 * ["Header"], "customer": ["a", "b", "a"], "body": [b"1", b"2", b"3"]}
    )
    speaker = Speaker("Buyer", "Seller", "PurchaseOrder")
    with DialogStaging(north.dsn, north.schema, speaker=speaker, incoming=Incoming("Header", "customer")) as staging:
        staging.merge("w", 1, [staging.stage("w", 1, [batch])])
    exchange(north)
    assert sorted(received(south, "sales") + received(south, "sales")) == [
        ("Header", 0, b"1"),
        ("Header", 0, b"2"),
        ("Header", 1, b"3"),
    ]


def test_a_monolog_has_no_listener_in_another_box(boxes):
    north, _ = boxes
    with north.session() as tx, pytest.raises(sq.UsageError, match="can't have a listener in another box"):
        tx.begin_monolog("Buyer", ["Seller"], contract="PurchaseOrder")


def test_a_pipeline_receives_what_another_box_sends(boxes):
    north, south = boxes
    handle = begun(north, "Header", "Line")
    exchange(north)
    with PipelineFeed(south.dsn, south.schema, service="Seller", pipeline="p") as feed:
        name, batch, _ = feed.next("", 0, None)
        tables = [one for part in feed.parts(name, 0, batch) for one in feed.read(0, batch, part, feed.properties())]
        rows = [row for table in tables for row in table.to_pylist()]
        feed.done(name, batch)
    assert [(row["type"], row["dialog_sequence"], row["far_service"]) for row in rows] == [
        ("Header", 0, "Buyer"),
        ("Line", 1, "Buyer"),
    ]
    assert {row["conversation_id"] for row in rows} == {str(conversation_of(north, handle))}


def test_what_cant_be_obeyed_stops_no_other_side_and_the_doctor_names_it(boxes):
    north, south = boxes
    broken, good = begun(north, "Header"), begun(north, "Header")
    exchange(north)
    assert len(outcome(south, "sales")) == 2
    with south.access.transaction() as transaction:
        transaction.connection.execute(
            f"SELECT {south.schema}.link_take_record(link_id, %s, '', FALSE) FROM {south.schema}.known_links",
            [
                json.dumps(
                    {
                        "kind": "number",
                        "conversation": str(conversation_of(north, broken)),
                        "initiator": True,
                        "sequence": "none",
                    }
                )
            ],
        )
    with north.session() as tx:
        tx.send(good, "Line", b"1")
    exchange(north)
    assert outcome(south, "sales") == [("Line", 1, False)]
    found = CHECKS["far dialogs"](Work(south))
    assert found.state is State.WRONG
    assert "invalid input syntax" in found.found
    assert CHECKS["far dialogs"](Work(north)).state is State.OK


def test_who_doesnt_answer_is_told_by_the_doctor_and_a_metric(boxes):
    north, _ = boxes
    exchange(north)
    begun(north, "Header")
    with north.session() as tx:
        tx.connection.execute(f"UPDATE {north.schema}.known_transmission SET sent_at = now() - interval '2 hours'")
    found = CHECKS["far dialogs"](Work(north))
    assert found.state is State.WARNING
    assert "link 'south': 1 side" in found.found
    with north.access.transaction() as transaction:
        rows = transaction.rows("figures", most=1000)
    told = {one.figure: one.value for one in rows if one.figure.startswith("unanswered")}
    assert told["unanswered_dialogs"] == 1
    assert told["unanswered_seconds"] >= 7200


def test_a_clean_up_by_an_operator_tells_the_other_box(boxes):
    north, south = boxes
    begun(north, "Header")
    exchange(north)
    assert outcome(south, "sales") == [("Header", 0, False)]
    assert len(dialogs.clean_up_dialogs(north, state="CO", older_than=0)) == 1
    exchange(north)
    assert outcome(south, "sales") == [("Error", -4, False)]
    assert dialogs.dialogs(north, unanswered=0) == []


def test_a_disabled_box_takes_nothing_and_the_sender_waits(boxes):
    north, south = boxes
    exchange(north)
    handle = begun(north, "Header")
    move = "UPDATE {}.box_identity SET system_identifier = system_identifier {} 1"
    with psycopg.connect(south.dsn, autocommit=True) as owner:
        owner.execute(move.format(south.schema, "+"))
        links.transmit(north, at_once=True)
        (view,) = dialogs.dialogs(north, handle=handle)
        assert view.waiting == 1
        assert "disabled" in view.transmission_status
        owner.execute(move.format(south.schema, "-"))
    exchange(north)
    assert outcome(south, "sales") == [("Header", 0, False)]


def test_a_box_with_a_new_id_leaves_its_dialogs_to_the_original(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    identity.new_id(north, actor="ann", reason="it is a copy")
    assert outcome(north, "bought") == [("Error", -3, False)]
    with north.session() as tx:
        tx.end(handle)
    assert forgotten(north) == 1
    assert [one[:2] for one in outcome(south, "sales")] == [("Header", 0)]


def test_a_trace_says_from_which_side_a_message_of_a_dialog_came(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    south.tick()
    with south.session() as tx:
        ((message_id,),) = tx.connection.execute(f"SELECT message_id FROM {south.schema}.spool").fetchall()
    (step, *_) = trace_message(south, message_id)
    assert (
        f"from service Buyer of box {north.id} in conversation {conversation_of(north, handle)} as its number 0"
        in step.text
    )
