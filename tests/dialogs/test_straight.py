"""What is sent and handed out without any look at rules: by which functions, and that it is what a turn would make of it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

import seriatim as sq
from seriatim.operations import invariants
from tests.dialogs.talking import begun, far_of, states, taken


@contextmanager
def calls(tx):
    """Which functions of the schema the statements of a block call, once it has ended."""
    tx.connection.execute("SET LOCAL track_functions = 'all'")
    before, found = counted(tx), {}
    yield found
    found |= {name: after - before.get(name, 0) for name, after in counted(tx).items() if after > before.get(name, 0)}


def counted(tx):
    """So often each function was called; also by transactions that the statistics haven't heard of yet."""
    return dict(tx.connection.execute("SELECT funcname, calls FROM pg_stat_xact_user_functions").fetchall())


def read_of(tx):
    """How many entries were read; also by transactions before."""
    sql = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'entries' AND schemaname = %s"
    return tx.connection.execute(sql, [tx.access.schema]).fetchone()[0]


def group_of(box, handle):
    """What is remembered of a side's group, but for the time."""
    with box.session() as tx:
        return tx.connection.execute(
            f"SELECT flags, first, next, mark, last, ordinal, since, reports, skipped, arrivals, decided, incarnation, "
            f"known.due_at, ready_rank FROM {box.schema}.known_groups AS known JOIN {box.schema}.endpoints AS own "
            f"ON own.queue_id = known.queue_id AND own.group_id::text = known.group_key WHERE own.handle = %s",
            [handle],
        ).fetchone()


def look(box, handle):
    """Have a turn look at the group of a side before anything of its queue is handed out."""
    with box.session() as tx:
        tx.connection.execute(
            f"INSERT INTO {box.schema}.requests (queue_id, group_key, action, rank) "
            f"SELECT queue_id, group_id::text, 'look', 0 FROM {box.schema}.endpoints WHERE handle = %s",
            [handle],
        )


@pytest.mark.parametrize("messages", [1, 3])
def test_what_nothing_stands_in_the_way_of_is_sent_straight_and_handed_out_without_a_turn(talk, messages):
    handle = begun(talk, b"0")
    assert taken(talk, "inventory") == [("AddItem", b"0")]
    with talk.session() as tx, calls(tx) as sent:
        tx.send_many([(handle, "AddItem", b"%d" % one) for one in range(messages)])
    assert sent["try_send_run"] == sent["send_straight"] == 1
    assert not {"try_send", "post"} & set(sent)
    with talk.session() as tx, calls(tx) as received:
        assert [one.body for one in tx.receive("inventory", limit=9)] == [b"%d" % one for one in range(messages)]
    assert received["hand_out_fifo"] == received["complete_one" if messages == 1 else "complete_entries"] == 1
    assert not {"turn_entries", "decide", "take_in_hand"} & set(received)


def test_a_turn_makes_the_same_of_it(talk):
    plain, looked = begun(talk, b"0"), begun(talk, b"0")
    found = {plain: [], looked: []}
    for sent, limit in ((3, 2), (0, 1), (2, 4), (1, 2), (4, 1), (0, 9), (0, 9)):
        for handle, kept in found.items():
            group = str(group_id(talk, far_of(talk, handle)))
            with talk.session() as tx:
                tx.send_many([(handle, "AddItem", b"%d" % one) for one in range(sent)])
            if handle == looked:
                look(talk, far_of(talk, handle))
            with talk.session() as tx, calls(tx) as called:
                delivery = tx.receive("inventory", limit=limit, group=group)
                kept.extend((one.body, one.ordinal, one.sequence) for one in delivery or ())
            assert (called.get("decide", 0) > 0) == (handle == looked)
    assert found[plain] == found[looked]
    assert [ordinal for _, ordinal, _ in found[plain]] == list(range(1, 12))
    assert group_of(talk, far_of(talk, plain)) == group_of(talk, far_of(talk, looked))
    assert set(states(talk).values()) == {"CO"}
    assert invariants.broken(talk) == []


def test_where_the_definitions_have_changed_a_turn_reads_them_first(talk):
    begun(talk, b"0", b"1", b"2")
    assert turns_for(talk) == (b"0", 0)
    with sq.MessageBox.open(talk.dsn, schema=talk.schema) as other:
        other.define(sq.Queue("more", policy=sq.Unordered()))
    assert turns_for(talk) == (b"1", 1)
    assert turns_for(talk) == (b"2", 0)


def turns_for(box):
    """The next message, and how many turns were judged for it."""
    with box.session() as tx, calls(tx) as called:
        (message,) = tx.receive("inventory")
    return message.body, called.get("decide", 0)


def test_what_is_put_back_comes_again_in_its_place(talk):
    handle = begun(talk, b"1", b"2", b"3")
    with talk.session() as tx:
        assert [one.body for one in tx.receive("inventory", limit=2).messages] == [b"1", b"2"]
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"4")
    with talk.session() as tx:
        delivery = tx.receive("inventory", limit=9)
        assert [(one.body, one.ordinal) for one in delivery] == [(b"1", 1), (b"2", 2), (b"3", 3), (b"4", 4)]
    assert invariants.broken(talk) == []


def test_where_much_waits_it_is_judged_at_once_and_not_read_again_for_each(talk):
    handle = begun(talk)
    with talk.session() as tx:
        tx.send_many([(handle, "AddItem", b"%d" % one) for one in range(30)])
    with talk.session() as tx, calls(tx) as first:
        assert [one.body for one in tx.receive("inventory")] == [b"0"]
    assert first["decide"] == 1
    with talk.session() as tx, calls(tx) as second:
        before = read_of(tx)
        assert [one.body for one in tx.receive("inventory")] == [b"1"]
        assert read_of(tx) - before < 10
    assert "decide" not in second
    assert taken(talk, "inventory") == [("AddItem", b"%d" % one) for one in range(2, 30)]


def test_what_waits_in_other_groups_is_not_read(talk):
    with talk.session() as tx:
        for _ in range(60):
            handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
            tx.send(handle, "AddItem", b"x")
    with talk.session() as tx:
        before = read_of(tx)
        assert tx.receive("inventory", limit=5).messages[0].body == b"x"
        assert read_of(tx) - before < 20


def group_id(box, handle):
    """The conversation group of a side."""
    with box.session() as tx:
        sql = f"SELECT group_id FROM {box.schema}.endpoints WHERE handle = %s"
        return tx.connection.execute(sql, [handle]).fetchone()[0]
