"""Queues whose groups messages open and close: routed from Python and SQL, defined from a file, seen, and handed out."""

from __future__ import annotations

from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.operations import dead_letters, events, groups, invariants, set_aside
from seriatim.operations.groups import Action
from tests.box.shop import rows

BY = {"actor": "ann", "reason": "the quarter is over"}
STAY = sq.MessageType("stay", {"guest": "string", "what": "string", "number": "long"})
HOTEL = sq.Queue(
    "hotel",
    sq.Fifo(),
    group=sq.Group("guest", opens="what = 'check-in'", closes="what LIKE 'check-out%'", unopened_timeout="1h"),
)
ALL = sq.Subscription("hotel", where="type = 'stay'", to="hotel")
IN, OUT = "check-in", "check-out"


def publish(box, *stays, guest="anna"):
    """What a guest does, in this order; a pair has a number."""
    with box.session() as tx:
        tx.publish([sq.Message(type="stay", context=_context(guest, one)) for one in stays])


def _context(guest, one):
    what, number = one if isinstance(one, tuple) else (one, None)
    return {"guest": guest, "what": what, "number": number}


def received(box, limit=10, queue="hotel"):
    """What is handed out."""
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=limit)
            if delivery is None:
                return found
            found += [message.context["what"] for message in delivery]


def aside(box):
    """What was set aside, and why."""
    return [tuple(one) for one in rows(box, "SELECT disposition, reason FROM {schema}.aside ORDER BY entry_id")]


def view(box, guest="anna", queue="hotel"):
    return groups.group_view(box, queue, guest)


@pytest.fixture
def hotel(box):
    box.define(STAY, HOTEL, ALL)
    yield box
    assert invariants.broken(box) == []


def test_what_waits_for_its_opening_says_so(hotel):
    publish(hotel, "breakfast", "dinner")
    assert received(hotel) == []
    found = view(hotel)
    assert (found.state, found.unopened, found.held, found.reason) == ("waiting", True, 2, "not opened")
    assert not found.allows(Action.SKIP_HOLE)
    assert found.due_at is not None
    assert [one.group for one in groups.stopped(hotel)] == ["anna"]
    standing = groups.standing(hotel, "hotel", "anna")
    assert standing.why.startswith("it is not opened: it waits for a message that opens it; what waits is late at ")
    assert standing.helps == ()
    publish(hotel, IN)
    assert received(hotel) == [IN, "breakfast", "dinner"]
    assert (view(hotel).state, view(hotel).unopened) == ("ready", False)


def test_stays_follow_one_another_and_their_messages_are_in_line(hotel):
    publish(hotel, IN, OUT, "lost", IN, "breakfast", OUT + " by phone", IN)
    assert received(hotel, limit=2) == [IN, OUT, IN, "breakfast", OUT + " by phone", IN]
    assert aside(hotel) == [("late", "the group is closed")]
    assert (view(hotel).state, view(hotel).incarnation, view(hotel).ordinal) == ("ready", 2, 6)
    assert [one.kind for one in events.events(hotel, "hotel")] == ["closed", "closed"]


def test_a_batch_of_many_stays_of_many_guests(hotel):
    with hotel.session() as tx:
        guests = [f"guest {n}" for n in range(300)]
        tx.publish([sq.Message(type="stay", context=_context(one, what)) for what in (IN, OUT, "x") for one in guests])
    assert sorted(received(hotel, limit=100)) == [IN] * 300 + [OUT] * 300
    assert len(aside(hotel)) == 300


def test_published_through_sql(hotel):
    with hotel.session() as tx:
        for what in ("breakfast", IN, OUT, "late"):
            tx.connection.execute(
                f"SELECT {hotel.schema}.publish('stay', 'x', %s::jsonb)", [f'{{"guest": "anna", "what": "{what}"}}']
            )
    assert received(hotel) == [IN, "breakfast", OUT]
    assert aside(hotel) == [("late", "the group is closed")]


def test_numbers_begin_again(box):
    queue = replace(HOTEL, policy=sq.Standard(), sequence="number")
    box.define(STAY, queue, ALL)
    publish(box, (OUT, 3), ("b", 2), (IN, 1), ("late", 4), (IN, 1), ("c", 3), ("d", 2))
    assert received(box) == [IN, "b", OUT, IN, "d", "c"]
    assert (view(box).next, view(box).incarnation) == (4, 1)
    publish(box, ("e", 5))
    assert (view(box).state, view(box).held) == ("ready", 0)
    assert received(box) == []
    assert (view(box).state, view(box).hole_through) == ("waiting", 4)
    assert invariants.broken(box) == []


def test_a_long_stay_is_closed_in_the_middle(box):
    """More is held than a turn reads: what comes behind the closing message is late all the same."""
    box.define(
        STAY,
        replace(
            HOTEL,
            policy=sq.Standard(),
            sequence="number",
            group=replace(HOTEL.group, opens=None, unopened_timeout=None),
        ),
        ALL,
    )
    publish(box, *((OUT if number == 1500 else "x", number) for number in range(2, 3001)))
    assert received(box) == []
    publish(box, ("x", 1))
    assert len(received(box, limit=1000)) == 1500
    assert aside(box) == [("late", "the group is closed")] * 1500
    assert view(box).state == "closed"
    assert invariants.broken(box) == []


def test_what_is_not_opened_in_time_is_late(hotel):
    publish(hotel, "breakfast")
    assert received(hotel) == []
    rows(hotel, "UPDATE {schema}.known_groups SET since = since - 3600000000, due_at = due_at - 3600000000")
    hotel.tick()
    assert aside(hotel) == [("late", "its group was not opened in time")]
    (found,) = set_aside.set_aside(hotel, "hotel")
    assert found.reason == "its group was not opened in time"
    assert (view(hotel).unopened, view(hotel).held) == (True, 0)
    (put,) = set_aside.requeue_each(hotel, [found], **BY)
    assert put.status == "held"
    assert (received(hotel), view(hotel).held) == ([], 1)
    publish(hotel, IN)
    assert received(hotel) == [IN, "breakfast"]


def test_a_closing_group_keeps_the_next_stay(hotel):
    publish(hotel, IN)
    assert received(hotel) == [IN]
    groups.suspend(hotel, "hotel", "anna", **BY)
    publish(hotel, "dinner")
    assert received(hotel) == []
    groups.close(hotel, "hotel", "anna", **BY)
    publish(hotel, "late", IN, "breakfast")
    assert received(hotel) == []
    assert (view(hotel).state, view(hotel).closing, view(hotel).held) == ("suspended", True, 3)
    groups.resume(hotel, "hotel", "anna", **BY)
    assert received(hotel) == ["dinner", IN, "breakfast"]
    assert (view(hotel).state, view(hotel).closing, view(hotel).incarnation) == ("ready", False, 1)


def test_a_handler_closes_and_the_next_guest_opens(hotel):
    publish(hotel, IN, "dinner")
    with hotel.session() as tx:
        delivery = tx.receive("hotel", limit=2)
        tx.close_group()
        delivery.done()
    assert view(hotel).state == "closed"
    publish(hotel, "late", IN)
    assert received(hotel) == [IN]
    groups.close(hotel, "hotel", "anna", **BY)
    assert groups.forget(hotel, "hotel", "anna", **BY) == 2
    publish(hotel, "breakfast")
    assert (received(hotel), view(hotel).unopened) == ([], True)


def test_a_dead_letter_of_a_stay_keeps_what_it_says(hotel):
    publish(hotel, "breakfast", IN)
    assert received(hotel, limit=1) == [IN, "breakfast"]
    publish(hotel, OUT)
    with hotel.session() as tx:
        tx.receive("hotel").put_back()
    groups.abort(hotel, "hotel", "anna", **BY)
    assert [one.sequence for one in dead_letters.dead_letters(hotel, "hotel")] == [None]
    assert rows(hotel, "SELECT size FROM {schema}.aside") == [(2,)]


def test_from_a_file(box, tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(
        """
types:
  stay: {properties: {guest: string, what: string, number: long}}
queues:
  hotel:
    policy: fifo
    group:
      by: guest
      opens: "what = 'check-in'"
      closes: "what LIKE 'check-out%'"
      unopened_timeout: 1h
subscriptions:
  hotel: {where: "type = 'stay'", to: hotel}
""",
        encoding="utf-8",
    )
    assert [str(one) for one in box.apply(file)] == [
        "added type stay", "added queue hotel", "added subscription hotel",
    ]  # fmt: skip
    assert box.define(HOTEL) == []
    found = box.definitions().queue("hotel").declared
    assert found.group == HOTEL.group
    file.write_text(file.read_text(encoding="utf-8").replace("what = ", "whut = "), encoding="utf-8")
    with pytest.raises(sq.SeriatimError, match="opens") as refused:
        box.apply(file)
    assert "whut" in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"policy": sq.BestEffort(), "sequence": "number"},
            "opens and closes are for Fifo and Standard, not for BestEffort",
        ),
        ({"policy": sq.UnitOfWork(size=3), "sequence": "number"}, "not for UnitOfWork"),
        ({"policy": sq.Unordered()}, "not for Unordered"),
        ({"group": replace(HOTEL.group, opens=None)}, "unopened_timeout is for groups that a message opens"),
        (
            {"group": replace(HOTEL.group, by_type={"stay": sq.BestEffort()}), "sequence": "number"},
            "not for BestEffort",
        ),
    ],
)
def test_what_is_refused(wrong, said):
    with pytest.raises(sq.UsageError, match="queue 'hotel'") as refused:
        replace(HOTEL, **wrong)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"opens": " "}, "opens can't be ' '"),
        ({"closes": 3}, "closes can't be 3"),
        ({"unopened_timeout": -1}, "unopened_timeout can't be -1"),
    ],
)
def test_what_no_group_can_have_is_refused(wrong, said):
    with pytest.raises(sq.UsageError, match=f"Group: {said}"):
        sq.Group("guest", **wrong)


def test_a_filter_that_does_not_fit_is_refused(box):
    with pytest.raises(sq.UsageError, match="opens"):
        box.define(STAY, replace(HOTEL, group=replace(HOTEL.group, opens="whut = 1")))
    with pytest.raises(sq.UsageError, match="numbered when its transaction commits"):
        box.define(STAY, replace(HOTEL, group=replace(HOTEL.group, closes="ticket = 7")))


def test_what_groups_were_judged_by_stays(hotel):
    publish(hotel, IN)
    with pytest.raises(sq.ActionRefused, match=r"queue 'hotel': group\.opens can't change: it has groups"):
        hotel.define(replace(HOTEL, group=replace(HOTEL.group, opens=None, unopened_timeout=None)))
    assert [str(one) for one in hotel.define(replace(HOTEL, group=replace(HOTEL.group, closes="what = 'gone'")))] == [
        "changed queue hotel: group.closes"
    ]
    publish(hotel, OUT, "gone", "late")
    assert received(hotel) == [IN, OUT, "gone"]


def test_by_type(box):
    """Each type of a queue has its own groups, which its own messages open."""
    ride = sq.MessageType("ride", {"guest": "string", "what": "string"})
    queue = replace(
        HOTEL,
        group=replace(
            HOTEL.group, by_type=True, opens="type = 'ride' AND what = 'check-in' OR type = 'stay'", closes=None
        ),
    )
    box.define(STAY, ride, queue, replace(ALL, where="type IN ('stay', 'ride')"))
    publish(box, "breakfast")
    with box.session() as tx:
        tx.publish(sq.Message(type="ride", context={"guest": "anna", "what": "lobby"}))
    assert received(box) == ["breakfast"]
    assert (view(box, "stay/anna").unopened, view(box, "ride/anna").unopened) == (False, True)
