"""Queues that say what their producers' numbers mean: declared, published into, received from, seen, and mended."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import events, groups, invariants, queues, set_aside
from seriatim.operations.grants import grant
from seriatim.operations.groups import Action
from seriatim.operations.links import transmit
from tests.box.links.pairs import carried, paired
from tests.box.shop import rows

BY = {"actor": "ann", "reason": "the feed says so"}
NUMBERS = ("first", "last", "life")
FILTERS = ("snapshot", "fill", "begins", "status")
TICK = sq.MessageType("tick", {"feed": "string", **dict.fromkeys(NUMBERS, "long"), **dict.fromkeys(FILTERS, "boolean")})
FEEDS = (
    sq.Queue("book", sq.Standard(start="told"), "feed", sq.Sequence("first", through="last", base="snapshot")),
    sq.Queue("rtp", sq.Standard(start="first", capacity=2), "feed", sq.Sequence("first", modulus=65536)),
    sq.Queue("births", sq.Standard(), "feed", sq.Sequence("first", epoch="life", modulus=256)),
    sq.Queue("fix", sq.Standard(late="suspend"), "feed", sq.Sequence("first", through="last", void="fill")),
    sq.Queue("hl7", sq.Standard(), "feed", sq.Sequence("first", restarts="begins", unnumbered="status")),
    sq.Queue("camera", sq.Standard(start="lowest", settle="1h"), "feed", "first"),
)


@pytest.fixture
def feeds(box):
    box.define(TICK, *FEEDS)
    yield box
    assert invariants.broken(box) == []


def tick(queue, first=None, last=None, life=None, **says):
    """A message; a pair covers several numbers."""
    return sq.Message(
        type="tick",
        body=f"{first} {last} {life} {says}".encode(),
        context={"to": queue, "feed": "f", "first": first, "last": last, "life": life, **says},
    )


def published(box, queue, *ticks):
    """Publish what is given: numbers, pairs of first and last, or messages."""
    made = (
        one if isinstance(one, sq.Message) else tick(queue, *(one if isinstance(one, tuple) else (one,)))
        for one in ticks
    )
    box.publish(list(made))


def messages(box, queue, limit=100):
    found = []
    while True:
        with box.session() as tx:
            if (delivery := tx.receive(queue, limit=limit)) is None:
                return found
            found += list(delivery)


def put_back(box, queue, limit):
    """A delivery that isn't completed, in a transaction that is."""
    with box.session() as tx:
        assert len(tx.receive(queue, limit=limit)) > 0


def left(box, queue, limit=100):
    """The producer's numbers of what is handed out."""
    return [one.context["first"] for one in messages(box, queue, limit)]


def aside(box):
    found = rows(box, "SELECT disposition, sequence FROM {schema}.aside ORDER BY entry_id")
    return [tuple(one) for one in found]


def view(box, queue):
    return groups.group_view(box, queue, "f")


def test_a_book_waits_for_the_base_and_says_so(feeds):
    published(feeds, "book", (150, 160), (161, 165))
    assert left(feeds, "book") == []
    found = view(feeds, "book")
    assert (found.state, found.next, found.held, found.gathers, found.hole_since) == ("waiting", None, 2, "base", None)
    assert found.reason == "waits for the base"
    assert not found.allows(Action.SKIP_HOLE)
    standing = groups.standing(feeds, "book", "f")
    assert standing.why == "it waits for the base: until then it doesn't know its first number"
    assert standing.helps == (Action.RESET,)
    published(feeds, "book", tick("book", 158, snapshot=True), (140, 149))
    got = messages(feeds, "book")
    assert [(one.sequence, one.overlaps) for one in got] == [(158, False), (150, True), (161, False)]
    assert aside(feeds) == [("duplicate", 140)]
    assert (view(feeds, "book").next, view(feeds, "book").reason) == (166, None)


def test_an_operator_says_where_it_begins(feeds):
    published(feeds, "book", 5, 3, 4)
    assert left(feeds, "book") == []
    done = groups.reset(feeds, "book", "f", next=4, **BY)
    assert (done.before, done.after) == ("waiting", "ready")
    assert left(feeds, "book") == [4, 5]
    assert aside(feeds) == [("late", 3)]


def test_a_group_settles_until_its_time_is_over(feeds):
    published(feeds, "camera", 7003, 7001)
    assert left(feeds, "camera") == []
    found = view(feeds, "camera")
    assert (found.state, found.gathers, found.next) == ("waiting", "settling", None)
    assert found.reason.startswith("settles until ")
    assert found.due_at is not None
    feeds.define(sq.Queue("camera", sq.Standard(start="lowest", settle="1us"), "feed", "first"))
    published(feeds, "camera", 7002)
    assert feeds.tick().groups == 1  # nobody's call: it looks at what is due
    assert left(feeds, "camera") == [7001, 7002, 7003]
    assert view(feeds, "camera").next == 7004


def test_a_hole_below_a_base_is_covered(feeds):
    feeds.define(sq.Queue("plain", sq.Standard(), "feed", sq.Sequence("first", base="snapshot")))
    published(feeds, "plain", 1, 4)
    assert left(feeds, "plain") == [1]
    published(feeds, "plain", tick("plain", 3, snapshot=True))
    assert left(feeds, "plain") == [3, 4]
    assert [(one.kind, one.first, one.last) for one in events.events(feeds, "plain")] == [("hole_covered", 2, 3)]


def test_numbers_turn_over_also_where_messages_are_put_back(feeds):
    published(feeds, "rtp", 65534, 0, 65535, 1)
    with feeds.session() as tx:
        assert [one.sequence for one in tx.receive("rtp", limit=4)] == [65534, 65535, 65536, 65537][:4]
        tx.connection.rollback()
    put_back(feeds, "rtp", limit=4)
    with feeds.session() as tx:  # as those that are queued
        delivery = tx.receive("rtp", limit=2)
        assert [(one.sequence, one.context["first"], one.ordinal) for one in delivery] == [
            (65534, 65534, 1),
            (65535, 65535, 2),
        ]
    assert [(one.sequence, one.context["first"]) for one in messages(feeds, "rtp", 1)] == [(65536, 0), (65537, 1)]
    assert (view(feeds, "rtp").next, view(feeds, "rtp").last_released) == (65538, 65537)


def test_what_was_rejected_is_judged_by_its_own_numbers_when_it_is_put_back(feeds):
    published(feeds, "rtp", 65535, 2, 3, 4)  # two of them fit
    assert left(feeds, "rtp") == [65535]
    assert aside(feeds) == [("rejected", 65540)]
    published(feeds, "rtp", 0, 1)
    assert left(feeds, "rtp") == [0, 1, 2, 3]
    (one,) = set_aside.set_aside(feeds, "rtp")
    assert len(list(set_aside.requeue_each(feeds, [one], **BY))) == 1
    assert [(one.sequence, one.context["first"]) for one in messages(feeds, "rtp")] == [(65540, 4)]


def test_an_epoch_ends_where_the_next_begins(feeds):
    published(feeds, "births", (1, None, 7), (3, None, 7), (1, None, 9), (2, None, 7), (2, None, 9))
    got = messages(feeds, "births", limit=2)
    assert [(one.sequence, one.epoch, one.ordinal) for one in got] == [(1, 7, 1), (3, 7, 2), (1, 9, 3), (2, 9, 4)]
    assert [one[0] for one in aside(feeds)] == ["late"]
    assert [(one.kind, one.first, one.last) for one in events.events(feeds, "births")] == [("hole_skipped", 2, 2)]


def test_a_late_message_of_the_epoch_before_stops_its_group_and_says_so(box):
    box.define(TICK, sq.Queue("lives", sq.Standard(late="suspend"), "feed", sq.Sequence("first", epoch="life")))
    published(box, "lives", (1, None, 1), (3, None, 1), (1, None, 2))
    assert left(box, "lives") == [1, 3, 1]
    published(box, "lives", (2, None, 1), (2, None, 2))
    assert left(box, "lives") == []
    found = view(box, "lives")
    assert (found.state, found.late, found.held) == ("suspended", 1, 2)
    assert found.reason == 'a late message, sequence 2 (late="suspend"): its number was skipped before'
    groups.skip_message(box, "lives", "f", **BY)
    assert left(box, "lives") == [2]
    assert aside(box) == [("dead", 2)]


def test_state_outlives_the_process(feeds):
    published(feeds, "births", *((n, None, 1) for n in range(1, 251)), (252, None, 1))
    assert len(left(feeds, "births")) == 250
    with sq.MessageBox.open(feeds.dsn, schema=feeds.schema) as again:
        published(again, "births", *((n, None, 1) for n in (1, 0, 255, 254, 253, 251)))
        assert [one.sequence for one in messages(again, "births")] == [*range(251, 258)]


def test_a_gap_fill_waits_like_a_message_and_passes(feeds):
    published(feeds, "fix", 1, tick("fix", 3, 7, fill=True), 8)
    assert left(feeds, "fix") == [1]
    found = rows(feeds, "SELECT status::text, sequence FROM {schema}.entries ORDER BY sequence")
    assert [tuple(one) for one in found] == [("held", 3), ("held", 8)]
    (fill,) = [one for one in feeds.peek("fix") if one.message.context["first"] == 3]
    with pytest.raises(sq.ActionRefused, match="does not wait there"):
        groups.skip_message(feeds, "fix", "f", message=fill.message.message_id, **BY)
    published(feeds, "fix", 2)
    assert left(feeds, "fix") == [2, 8]
    assert aside(feeds) == [("void", 3)]
    account = invariants.account_within(feeds, 60)
    assert (account.received, account.released, account.void) == (4, 3, 1)


@pytest.fixture
def loose(box):
    box.define(TICK, sq.Queue("loose", sq.Unordered(), sequence=sq.Sequence(void="fill")))
    yield box
    assert invariants.broken(box) == []


def test_without_order_a_void_is_set_aside_when_it_comes(loose):
    told = loose.publish([tick("loose", 1), tick("loose", 2, fill=True), tick("loose", 3)])
    assert told.invalid == {}
    assert set(told.queues.values()) == {("loose",)}
    loose.publish(tick("loose", 4, fill=True), delay="1h")
    last = tick("loose", 5, fill=True)
    for _ in range(2):  # the second time it was published before
        loose.publish(last, unrouted="refuse")
    assert aside(loose) == [("void", None)] * 3
    assert sorted(left(loose, "loose")) == [1, 3]
    (counted,) = queues.queues(loose)
    assert (counted.arrived, counted.void, counted.invalid) == (0, 3, 0)
    found = set_aside.set_aside(loose, queue="loose", status="void")
    assert {one.reason for one in found} == {"a void: its number passes without a message"}


def test_without_order_a_void_needs_no_room(loose):
    limited = sq.Limit(1, when_full="refuse")
    loose.define(sq.Queue("loose", sq.Unordered(), sequence=sq.Sequence(void="fill"), max_messages=limited))
    loose.publish([tick("loose", 1), tick("loose", 2, fill=True)])
    loose.publish([tick("loose", 3, fill=True), tick("loose", 4, fill=True)])
    with pytest.raises(sq.QueueFull, match="1 more don't fit"):
        loose.publish([tick("loose", 5), tick("loose", 6, fill=True)])
    assert left(loose, "loose") == [1]
    assert aside(loose) == [("void", None)] * 3


def test_without_order_a_void_is_one_by_the_filter_of_its_time(loose):
    published(loose, "loose", tick("loose", 1, fill=True), tick("loose", 2, status=True))
    loose.define(sq.Queue("loose", sq.Unordered(), sequence=sq.Sequence(void="status")))
    published(loose, "loose", tick("loose", 3, fill=True), tick("loose", 4, status=True))
    assert sorted(left(loose, "loose")) == [2, 3]
    assert aside(loose) == [("void", None)] * 2


def test_without_order_a_void_through_sql(loose):
    with psycopg.connect(loose.dsn) as own:
        for number, fill in ((1, "false"), (2, "true")):
            context = f'{{"first": {number}, "fill": {fill}, "to": "loose"}}'
            own.execute(f"SELECT {loose.schema}.publish('tick', ''::bytea, %s::jsonb)", [context])
    assert left(loose, "loose") == [1]
    assert aside(loose) == [("void", None)]


def test_a_late_span_stops_its_group(feeds):
    published(feeds, "fix", 1, (6, 7))
    assert left(feeds, "fix") == [1]
    groups.skip_hole(feeds, "fix", "f", **BY)
    assert left(feeds, "fix") == [6]
    published(feeds, "fix", (3, 4))
    assert left(feeds, "fix") == []
    assert (view(feeds, "fix").state, view(feeds, "fix").late) == ("suspended", 1)
    groups.resume(feeds, "fix", "f", **BY)
    published(feeds, "fix", 3, 2)
    groups.resume(feeds, "fix", "f", **BY)
    assert [(one.sequence, one.late) for one in messages(feeds, "fix")] == [(3, True), (2, True)]
    assert aside(feeds) == [("duplicate", 3)]


def test_the_producer_begins_anew_in_a_suspended_group(feeds):
    published(feeds, "hl7", 1, 2)
    assert left(feeds, "hl7") == [1, 2]
    groups.suspend(feeds, "hl7", "f", **BY)
    published(feeds, "hl7", tick("hl7", -1, begins=True), 1, 2, tick("hl7", 0, status=True))
    feeds.tick()
    assert view(feeds, "hl7").held == 4
    groups.resume(feeds, "hl7", "f", **BY)
    got = messages(feeds, "hl7")
    assert [(one.context["first"], one.sequence, one.ordinal) for one in got] == [
        (-1, None, 3),
        (1, 1, 4),
        (2, 2, 5),
        (0, None, 6),
    ]


def test_a_failed_handler_stops_its_group_and_a_retry_goes_on(feeds):
    published(feeds, "book", tick("book", 10, snapshot=True), (11, 15), (14, 20))

    def handle(message, tx):
        if message.sequence == 11:
            raise sq.Business("no such book")

    sq.Worker(feeds, "book", handle).run(until_idle=True)
    assert view(feeds, "book").state == "faulted"
    groups.retry(feeds, "book", "f", **BY)
    assert [(one.sequence, one.overlaps, one.attempt) for one in messages(feeds, "book")] == [
        (11, False, 2),
        (14, True, 1),
    ]


def test_published_through_sql(feeds):
    with psycopg.connect(feeds.dsn) as own:
        for context in ('{"first": 1, "last": 3}', '{"first": 9}', '{"first": 4, "last": 8, "fill": true}'):
            own.execute(
                f"SELECT {feeds.schema}.publish('tick', ''::bytea, %s::jsonb)",
                [context[:-1] + ', "feed": "f", "to": "fix"}'],
            )
    assert left(feeds, "fix") == [1, 9]
    assert [one[0] for one in aside(feeds)] == ["void"]


def test_a_role_that_publishes(feeds):
    rows(feeds, "CREATE ROLE feeder LOGIN")
    grant(feeds, "feeder", publish=["fix", "hl7"])
    with sq.MessageBox.open(feeds.dsn.replace("seriatim@", "feeder@"), schema=feeds.schema) as own:
        published(own, "fix", (1, 3), (5, 6))
        published(own, "fix", (4, 4))
        published(own, "hl7", 1, tick("hl7", 0, status=True))
        published(own, "hl7", tick("hl7", -1, begins=True))
    assert left(feeds, "fix") == [1, 4, 5]
    assert left(feeds, "hl7") == [1, 0, -1]


def test_types_have_policies_of_their_own(box):
    by_type = sq.Group("feed", by_type={"tick": sq.Standard(start="first")})
    box.define(TICK, sq.Queue("feeds", sq.Standard(), by_type, sq.Sequence("first", through="last")))
    published(box, "feeds", (7, 9), (11, 12), (10, 10))
    assert left(box, "feeds") == [7, 10, 11]
    assert groups.group_view(box, "feeds", "tick/f").next == 13


def test_over_a_link(databases):
    with paired(databases) as pair:
        counter = sq.Sequence("nth", modulus=8)
        pair.far.define(sq.Queue("orders", sq.Standard(start="first"), "customer", counter, keep="everything"))
        pair.send(7, 1, 0, 2)
        assert transmit(pair.near)[0].error is None
        assert carried(pair.far) == [("c1", nth, False) for nth in (7, 0, 1, 2)]


WRONG = [
    ({"sequence": sq.Sequence("first", through="nothing")}, "no message type declares 'nothing'"),
    ({"sequence": sq.Sequence("first", epoch="feed")}, "'feed' is string, but has to be long"),
    ({"sequence": sq.Sequence("first", base="first + ")}, "of the filter"),
    ({"sequence": sq.Sequence("first", base=lambda value: True)}, "functions of a value are for a Sequencer"),
    ({"sequence": sq.Sequence("first", modulus=16), "gate": "out"}, "can't be said together with gate"),
    ({"sequence": sq.Sequence("first", void="fill"), "gate": "out"}, "can't be said together with a gate"),
    (
        {"sequence": sq.Sequence("first", epoch="life"), "group": sq.Group("feed", opens="begins")},
        "can't be said together with opens",
    ),
    ({"policy": sq.Fifo(), "sequence": sq.Sequence("first", through="last")}, "through is for the policy standard"),
    (
        {"policy": sq.Unordered(), "group": None, "sequence": sq.Sequence(base="fill")},
        "base is for the policy standard",
    ),
    ({"sequence": sq.Sequence("ticket", modulus=16)}, "tickets turn over"),
]


@pytest.mark.parametrize(("fields", "what"), WRONG, ids=[what for _, what in WRONG])
def test_what_can_not_be_declared(box, fields, what):
    with pytest.raises(sq.UsageError, match=what):
        box.define(TICK, sq.Queue("q", **{"policy": sq.Standard(), "group": "feed", **fields}))


def test_what_may_change_while_there_are_groups(feeds):
    published(feeds, "book", 1)
    left(feeds, "book")
    for says in (
        sq.Sequence("first"),
        sq.Sequence("first", through="last"),
        sq.Sequence("last", through="last", base="snapshot"),
    ):
        with pytest.raises(sq.ActionRefused, match="sequence can't change"):
            feeds.define(sq.Queue("book", sq.Standard(start="told"), "feed", says))
    feeds.define(
        sq.Queue(
            "book", sq.Standard(start="told"), "feed", sq.Sequence("first", through="last", base="snapshot OR begins")
        )
    )
    published(feeds, "book", tick("book", 0, begins=True))
    assert left(feeds, "book") == [0, 1]


def test_declared_in_a_file(box, tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(
        "types: {tick: {properties: {feed: string, first: long, last: long, snapshot: boolean}}}\n"
        "queues:\n"
        "  book:\n"
        "    policy: standard\n"
        "    start: told\n"
        "    group: feed\n"
        "    sequence: {by: first, through: last, base: snapshot}\n"
    )
    assert [str(one) for one in box.apply(file)] == ["added type tick", "added queue book"]
    assert box.apply(file) == []
    declared = box.definitions().queue("book").declared
    assert declared.sequence == sq.Sequence("first", through="last", base="snapshot")


def test_the_group_shows_the_producers_number_beside(feeds):
    published(feeds, "rtp", 65535, 1)
    assert left(feeds, "rtp") == [65535]
    standing = groups.standing(feeds, "rtp", "f")
    assert (standing.why, standing.following.sequence, standing.following.given) == ("65536 is missing", 65537, 1)


def test_faults_in_a_file_name_their_line(box, tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(
        "types: {tick: {properties: {feed: string, first: long, last: long}}}\n"
        "queues:\n"
        "  a: {policy: standard, group: feed, sequence: {by: first, through: lst}}\n"
        "  b: {policy: standard, group: feed, sequence: {by: first, base: 'last +'}}\n"
        "  c: {policy: standard, group: feed, sequence: {by: first, epoch: feed}}\n"
    )
    with pytest.raises(sq.SeriatimError) as raised:
        box.apply(file)
    for place in (
        "3:69: queues.a.sequence.through: no message type declares 'lst'",
        "4:66: queues.b.sequence.base: 1:7 of the filter",
        "5:67: queues.c.sequence.epoch: 'feed' is string, but has to be long",
    ):
        assert f"box.yaml:{place}" in str(raised.value)
