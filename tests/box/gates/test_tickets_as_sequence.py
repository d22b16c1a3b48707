"""A queue with the sequence ``ticket``: the messages of a location by the positions of their tickets, over all epochs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines.staging import Staging
from seriatim.operations import dead_letters, groups, invariants, messages
from tests.box.given_up import given_up
from tests.databases import box_with

TYPE = sq.MessageType("order", properties={"kept": "boolean", "customer": "string"})
BY_TICKET = sq.Queue("line", policy=sq.Standard(), group="location", sequence="ticket")
WHO = {"actor": "me", "reason": "test"}


def prepare(opened):
    opened.define(
        sq.Location("till", last_number=3),
        TYPE,
        BY_TICKET,
        sq.Queue("else", policy=sq.Unordered()),
        sq.Subscription("line", where="kept = TRUE", to="line"),
        sq.Subscription("else", where="kept = FALSE", to="else"),
    )


box = box_with(prepare)


def message(name, location="till", kept=True):
    where = {} if location is None else {"location": location}
    return sq.Message(type="order", message_id=name, context={**where, "kept": kept, "customer": "c"})


def received(box, limit=100, queue="line"):
    """(id, position, ticket) of what can be handed out, by groups."""
    found = []
    with box.session() as tx:
        while (delivery := tx.receive(queue, limit=limit)) is not None:
            found += [(one.message_id, one.sequence, tuple(one.ticket)) for one in delivery]
    return found


def test_positions_go_on_over_the_epochs_however_it_is_published(box):
    box.publish(message("a"))  # by itself, one
    box.publish([message("b"), message("x", "other"), message("c")])  # by itself, several
    with box.session() as tx:  # at the commit
        tx.publish(message("d"))
        tx.publish([message("e"), message("y", "other"), message("z", location=None)])
        tx.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        tx.publish(message("f"))
    with given_up(box.session()) as tx:
        tx.publish(message("g"))
    with box.session() as tx:
        tx.connection.execute(
            f"SELECT {box.schema}.publish('order', ''::bytea, '{{\"kept\": true, \"location\": \"till\"}}'::jsonb, 'i')"
        )
    box.tick()
    found = received(box, limit=3)
    assert [one for one in found if one[2][0] == "till"] == [
        (name, n, ("till", (n - 1) // 3, (n - 1) % 3 + 1)) for n, name in enumerate("abcdefi", 1)
    ]
    assert [one for one in found if one[2][0] == "other"] == [("x", 1, ("other", 0, 1)), ("y", 2, ("other", 0, 2))]
    assert [one for one in found if one[2][0] == "box"] == [("z", 1, ("box", 0, 1))]
    assert invariants.broken(box) == []


def test_a_number_that_went_elsewhere_is_a_hole(box):
    box.publish([message("a"), message("b", kept=False), message("c"), message("d")])
    assert [one[0] for one in received(box)] == ["a"]
    assert (groups.group_view(box, "line", "till").state, groups.group_view(box, "line", "till").held) == ("waiting", 2)
    groups.skip_hole(box, "line", "till", **WHO)
    assert [one[:2] for one in received(box)] == [("c", 3), ("d", 4)]


def test_put_back_or_routed_later_a_message_has_its_position(box):
    box.publish([message("a"), message("b"), message("c")])
    box.tick()
    messages.take_out(box, "b", queue="line", **WHO)
    (dead,) = dead_letters.dead_letters(box, "line")
    dead_letters.requeue(box, dead.entry_id, **WHO)
    box.drop(subscription="line")
    box.publish(message("d"))
    box.define(sq.Subscription("line", where="kept = TRUE", to="line"))
    assert messages.resubmit(box).routed == 1
    with Staging(box.dsn, box.schema) as staging:
        columns = {"message_id": ["e"], "type": ["order"], "body": [""], "location": ["till"], "kept": [True]}
        staging.merge("w", 0, [staging.stage("w", 0, [pa.RecordBatch.from_pydict(columns)], 0)])
    assert [one[:2] for one in received(box)] == list(zip("abcde", range(1, 6), strict=True))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"group": "customer"},
            "tickets are numbered by location, so they are a sequence of the groups of 'location' alone",
        ),
        (
            {"group": sq.Group("location", by_type=True)},
            "tickets are numbered by location, so they are a sequence of the groups of 'location' alone",
        ),
        ({"policy": sq.BestEffort()}, "'ticket' isn't known when a message is put into a queue"),
        ({"policy": sq.UnitOfWork(size=2)}, "'ticket' isn't known when a message is put into a queue"),
        ({"sequence": "epoch"}, "'epoch' isn't known when a message is put into a queue"),
        ({"priority": "ticket"}, "'ticket' isn't known when a message is put into a queue"),
    ],
)
def test_any_other_use_of_a_ticket_is_refused(box, changes, what):
    with pytest.raises(sq.UsageError, match=what):
        box.define(replace(BY_TICKET, name="wrong", **changes))
