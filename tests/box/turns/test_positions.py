"""Queues in order of positions: declared, published into, received from, seen, and mended. The rules themselves: `tests/conformance`."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import bulk, dead_letters, events, groups, invariants, set_aside, trace
from seriatim.operations.grants import grant
from seriatim.operations.groups import Action
from seriatim.operations.links import transmit
from tests.box.links.pairs import paired
from tests.box.shop import rows

BY = {"actor": "ann", "reason": "the log says so"}
CHANGE = sq.MessageType(
    "change",
    {"shard": "string", "ulid": "string", "lsn": "string", "nth": "long", "digits": "string", "wide": "decimal(38,0)"}
    | {"ratio": "double", "nothing": "boolean"},
)
QUEUES = (
    sq.Queue("ulids", sq.BestEffort(by="position"), "shard", "ulid", keep="everything"),
    sq.Queue("log", sq.BestEffort(by="position", window="1h", buffer=0), "shard", sq.Sequence(["lsn", "nth"])),
    sq.Queue("kinesis", sq.BestEffort(by="position"), "shard", sq.Sequence("digits", format="digits")),
    sq.Queue("wide", sq.BestEffort(by="position"), "shard", "wide"),
    sq.Queue("stopping", sq.BestEffort(by="position", late="suspend"), "shard", sq.Sequence("ulid", void="nothing")),
)


@pytest.fixture
def logs(box):
    box.define(CHANGE, *QUEUES)
    yield box
    assert invariants.broken(box) == []


def change(queue, of="a", **says):
    return sq.Message(
        type="change", body=repr(list(says.values())).encode(), context={"to": queue, "shard": of, **says}
    )


def publish(box, queue, *ulids, of="a"):
    box.publish([change(queue, of, ulid=ulid) for ulid in ulids])


def received(box, queue, limit=100):
    found = []
    while True:
        with box.session() as tx:
            if (delivery := tx.receive(queue, limit=limit)) is None:
                return found
            found += list(delivery)


def left(box, queue, name="ulid"):
    return [one.context[name] for one in received(box, queue)]


def aside(box):
    return [
        tuple(one)
        for one in rows(
            box,
            "SELECT disposition, reason, context ->> 'ulid' FROM {schema}.aside JOIN {schema}.spool"
            " USING (arrival_id, position) ORDER BY entry_id",
        )
    ]


def view(box, queue, of="a"):
    return groups.group_view(box, queue, of)


def test_text_is_in_order_of_its_bytes(logs):
    publish(logs, "ulids", "01ARZ3NDEKTSV4RRFFQ69G5FB0", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "z" * 64)
    got = received(logs, "ulids")
    assert [one.context["ulid"][-3:] for one in got] == ["FAV", "FB0", "zzz"]
    assert [(one.ordinal, one.sequence) for one in got] == [(1, None), (2, None), (3, None)]
    publish(logs, "ulids", "z", "z" * 64, "z" * 65)
    assert left(logs, "ulids") == ["z" * 64]
    assert [one[0] for one in aside(logs)] == ["late", "invalid"]
    assert aside(logs)[1][1].startswith("the sequence is no position: up to 64 bytes of text")
    assert view(logs, "ulids").last_released == "z" * 64


def test_several_parts_are_one_position(logs):
    logs.publish([change("log", lsn=lsn, nth=nth) for lsn, nth in [("0/A", 2), ("0/9", 10), ("0/A", -1), ("0/9", 9)]])
    assert received(logs, "log") == []
    found = view(logs, "log")
    assert (found.held, found.last_released, found.next) == (4, None, None)
    peeked = logs.peek("log")
    assert [(one.message.context["lsn"], one.message.context["nth"]) for one in peeked] == [
        ("0/9", 9),
        ("0/9", 10),
        ("0/A", -1),
        ("0/A", 2),
    ]
    logs.define(sq.Queue("log", sq.BestEffort(by="position", window="1us", buffer=0), "shard", QUEUES[1].sequence))
    logs.tick()
    assert left(logs, "log", "nth") == [9, 10, -1, 2]
    assert view(logs, "log").last_released == "0x" + "800000000000000a" + "8000000000000002"


def test_decimal_text_and_whole_numbers_are_in_order_of_their_values(logs):
    logs.publish([change("kinesis", digits=one) for one in ("1" * 56, "9", "0010", "x")])
    assert left(logs, "kinesis", "digits") == ["9", "0010", "1" * 56]
    logs.publish([change("wide", wide=one) for one in (10**37, 9, 10)])
    assert left(logs, "wide", "wide") == [9, 10, 10**37]
    assert view(logs, "wide").last_released == str(10**37)


def test_what_is_put_back_keeps_its_place(logs):
    publish(logs, "ulids", "b", "a")
    with logs.session() as tx:
        assert len(tx.receive("ulids", limit=1)) == 1  # and isn't completed
    publish(logs, "ulids", "c", "0")
    assert left(logs, "ulids") == ["a", "b", "c"]
    assert aside(logs) == [("late", "a higher sequence left in an earlier round", "0")]


def test_ranks_go_on_with_each_turn(logs):
    """What is held of a round, and the highest that has left, are the only positions that a group keeps."""
    for nth in range(5):
        publish(logs, "ulids", f"{nth}b", f"{nth}a")
        assert left(logs, "ulids") == [f"{nth}a", f"{nth}b"]
    assert [bytes(one[0]) for one in rows(logs, "SELECT remembered FROM {schema}.known_groups")] == [b"\x024b"]


def test_a_failed_handler_stops_its_group_and_a_retry_goes_on(logs):
    publish(logs, "ulids", "b", "a", "c")
    seen = []

    def handle(message, tx):
        if message.context["ulid"] == "b" and message.attempt == 1:
            raise sq.Business("no such shard")
        seen.append(message.context["ulid"])

    sq.Worker(logs, "ulids", handle).run(until_idle=True)
    assert (view(logs, "ulids").state, seen) == ("faulted", ["a"])
    assert groups.standing(logs, "ulids", "a").blocks.sequence is None
    groups.retry(logs, "ulids", "a", **BY)
    sq.Worker(logs, "ulids", handle).run(until_idle=True)
    assert seen == ["a", "b", "c"]


def test_a_late_one_suspends_its_group_and_says_so(logs):
    publish(logs, "stopping", "b")
    assert left(logs, "stopping") == ["b"]
    publish(logs, "stopping", "a", "c")
    assert left(logs, "stopping") == []
    found = view(logs, "stopping")
    why = 'a late message (late="suspend"): a higher sequence left in an earlier round'
    assert (found.state, found.suspended_because, found.late) == ("suspended", why, 1)
    assert rows(logs, "SELECT suspended_because, last_released FROM {schema}.groups WHERE queue = 'stopping'") == [
        (why, None)
    ]
    told = [one for one in events.events(logs, "stopping") if one.kind == "suspended"]
    assert [(one.first, one.last) for one in told] == [(None, None)]
    groups.resume(logs, "stopping", "a", **BY)
    assert [(one.context["ulid"], one.late) for one in received(logs, "stopping")] == [("a", True), ("c", False)]


def test_there_is_no_reset(logs):
    publish(logs, "ulids", "b")
    left(logs, "ulids")
    with pytest.raises(sq.ActionRefused, match="only the policy standard has a next number"):
        groups.reset(logs, "ulids", "a", next=1, **BY)


def test_operators_take_out_skip_and_put_back(logs):
    publish(logs, "stopping", "b")
    groups.suspend(logs, "stopping", "a", **BY)
    publish(logs, "stopping", "c", "e", "d")
    logs.tick()
    (held,) = [one for one in logs.peek("stopping") if one.message.context["ulid"] == "d"]
    groups.skip_message(logs, "stopping", "a", message=held.message.message_id, **BY)
    (done,) = bulk.each(logs, Action.RESUME, bulk.chosen(logs, Action.RESUME, groups.GroupFilter("stopping")), **BY)
    assert (done.before, done.after) == ("suspended", "ready")
    assert left(logs, "stopping") == ["b", "c", "e"]
    (dead,) = dead_letters.dead_letters(logs, "stopping")
    assert dead_letters.requeue(logs, dead.entry_id, **BY).place == "end"
    assert [(one.context["ulid"], one.late) for one in received(logs, "stopping")] == [("d", True)]


def test_what_was_taken_out_and_isnt_passed_arrives_again(logs):
    publish(logs, "stopping", "b")
    left(logs, "stopping")
    groups.suspend(logs, "stopping", "a", **BY)
    publish(logs, "stopping", "d", "c")
    logs.tick()
    (held,) = [one for one in logs.peek("stopping") if one.message.context["ulid"] == "d"]
    groups.skip_message(logs, "stopping", "a", message=held.message.message_id, **BY)
    (dead,) = dead_letters.dead_letters(logs, "stopping")
    assert dead_letters.requeue(logs, dead.entry_id, **BY).place == "arrival"
    groups.resume(logs, "stopping", "a", **BY)
    assert left(logs, "stopping") == ["c", "d"]


def test_a_late_one_that_is_put_back_leaves_at_the_end(logs):
    publish(logs, "ulids", "b")
    left(logs, "ulids")
    publish(logs, "ulids", "a")
    assert left(logs, "ulids") == []
    (late,) = set_aside.set_aside(logs, "ulids")
    assert (late.sequence, late.reason) == (None, "a higher sequence left in an earlier round")
    assert len(list(set_aside.requeue_each(logs, [late], **BY))) == 1
    assert [(one.context["ulid"], one.ordinal, one.late) for one in received(logs, "ulids")] == [("a", 2, True)]


def test_voids_are_set_aside(logs):
    logs.publish([change("stopping", ulid="a", nothing=True), change("stopping", ulid="b")])
    assert left(logs, "stopping") == ["b"]
    assert [one[0] for one in aside(logs)] == ["void"]


def test_a_forgotten_group_begins_anew(logs):
    publish(logs, "ulids", "b")
    left(logs, "ulids")
    groups.forget(logs, "ulids", "a", **BY)
    publish(logs, "ulids", "a")
    assert left(logs, "ulids") == ["a"]
    assert view(logs, "ulids").last_released == "a"


def test_a_message_is_traced(logs):
    publish(logs, "ulids", "b", "a")
    got = received(logs, "ulids")
    kinds = [one.kind for one in trace.trace_message(logs, got[0].message_id)]
    assert "released" in kinds
    assert len(trace.trace_group(logs, "ulids", "a")) >= 2 * len(kinds)


def test_published_through_sql_and_by_a_role(logs):
    with psycopg.connect(logs.dsn) as own:
        for ulid in ("b", "a"):
            own.execute(
                f"SELECT {logs.schema}.publish('change', ''::bytea, %s::jsonb)",
                [f'{{"ulid": "{ulid}", "shard": "a", "to": "ulids"}}'],
            )
    rows(logs, "CREATE ROLE feeder LOGIN")
    grant(logs, "feeder", publish=["ulids", "log"])
    with sq.MessageBox.open(logs.dsn.replace("seriatim@", "feeder@"), schema=logs.schema) as own:
        publish(own, "ulids", "0")
        own.publish([change("log", lsn="0/9", nth=1)])
    assert left(logs, "ulids") == ["0", "a", "b"]
    assert (view(logs, "log").arrived, received(logs, "log"), view(logs, "log").held) == (1, [], 1)


def test_types_have_policies_of_their_own(box):
    by_type = sq.Group("shard", by_type={"change": sq.BestEffort(by="position")})
    box.define(CHANGE, sq.Queue("feeds", sq.Standard(), by_type, "nth"))
    box.publish([change("feeds", nth=nth) for nth in (7, 3)])
    assert left(box, "feeds", "nth") == [3, 7]
    assert groups.group_view(box, "feeds", "change/a").last_released == "7"


def test_over_a_link(databases):
    with paired(databases) as pair:
        position = sq.BestEffort(by="position", max_rows=1)
        pair.far.define(sq.Queue("orders", position, "customer", sq.Sequence(["nth"]), keep="everything"))
        pair.send(7, 1, 2)
        assert transmit(pair.near)[0].error is None
        assert [one.context["nth"] for one in received(pair.far, "orders")] == [1, 2, 7]


WRONG = [
    ({"sequence": "ratio"}, r"'ratio' is double, but has to be string, long or decimal\(p,0\)"),
    ({"sequence": sq.Sequence(["lsn", "shards"])}, "no message type declares 'shards'"),
    (
        {"policy": sq.BestEffort(), "sequence": sq.Sequence(["lsn", "nth"])},
        'only BestEffort\\(by="position"\\) orders by',
    ),
    ({"gate": "log"}, "gate"),
]


@pytest.mark.parametrize(("fields", "what"), WRONG, ids=[what for _, what in WRONG])
def test_what_can_not_be_declared(box, fields, what):
    given = {"policy": sq.BestEffort(by="position"), "group": "shard", "sequence": "ulid", **fields}
    with pytest.raises(sq.UsageError, match=what):
        box.define(CHANGE, *QUEUES, sq.Queue("q", **given))


def test_a_queue_with_groups_keeps_what_orders_it(logs):
    publish(logs, "ulids", "a")
    with pytest.raises(sq.ActionRefused, match="can't change"):
        logs.define(sq.Queue("ulids", sq.BestEffort(), "shard", "nth"))
    with pytest.raises(sq.ActionRefused, match="sequence can't change"):
        logs.define(sq.Queue("ulids", sq.BestEffort(by="position"), "shard", "lsn"))
    assert Action.RESET not in groups.standing(logs, "ulids", "a").helps
    assert left(logs, "ulids") == ["a"]
