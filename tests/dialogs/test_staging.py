"""Batches of a pipeline go into dialogs: a dialog a key, in order, each message once, whatever is merged how often."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines import dialog_staging
from seriatim.box.pipelines.dialog_staging import DialogStaging, Speaker
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.publishing import batch as publish
from seriatim.operations import dialogs, invariants
from tests.dialogs.talking import states, taken

SPEAKER = Speaker("Orders", "Inventory", "AddItem")


@pytest.fixture
def staging(talk):
    with opened(talk) as found:
        yield found


def opened(box, speaker=SPEAKER, **incoming):
    return DialogStaging(box.dsn, box.schema, speaker=speaker, incoming=Incoming("AddItem", "customer", **incoming))


def rows(*messages, type="AddItem"):  # noqa: A002 -- as the column
    customers, bodies = zip(*messages, strict=True)
    return pa.RecordBatch.from_pydict(
        {"type": [type] * len(bodies), "customer": list(customers), "body": list(bodies), "amount": [1] * len(bodies)}
    )


def staged(staging, batch, *parts):
    return [staging.stage("w", batch, [part]) for part in parts]


def sent(staging, batch, *messages, **kinds):
    return staging.merge("w", batch, staged(staging, batch, rows(*messages, **kinds)))


def arrived(box, queue="inventory"):
    """By the conversation the messages that came, as (sequence, type, body)."""
    found = {}
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=1000)
            if delivery is None:
                return [found[one] for one in sorted(found, key=lambda one: found[one][0][2])]
            for one in delivery:
                line = (one.dialog.sequence, one.type, one.body)
                found.setdefault(one.dialog.conversation_id, []).append(line)


def items(*bodies, since=0):
    return [(number, "AddItem", body) for number, body in enumerate(bodies, since)]


def kept(box):
    with psycopg.connect(box.dsn) as connection:
        text = (
            f"SELECT stored.message_id, problem FROM {box.schema}.unrouted "
            f"JOIN {box.schema}.spool AS stored USING (arrival_id, position) ORDER BY stored.body"
        )
        return [problem for _, problem in connection.execute(text)]


def left(box):
    with psycopg.connect(box.dsn) as connection:
        return [
            connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()[0]
            for table in ("parts", "staged_messages", "staged_keys")
        ]


def test_each_key_has_a_dialog_which_goes_on_with_the_next_batch(talk, staging):
    assert sent(staging, 0, ("a", b"a1"), ("b", b"b1"), ("a", b"a2")) == 3
    assert sent(staging, 1, ("c", b"c1"), ("a", b"a3")) == 2
    assert arrived(talk) == [items(b"a1", b"a2", b"a3"), items(b"b1"), items(b"c1")]
    assert len(states(talk)) == 6
    assert left(talk) == [0, 0, 0]
    assert invariants.broken(talk) == []


def test_parts_are_sent_in_their_order(talk, staging):
    parts = staged(staging, 0, rows(("a", b"a2"), ("b", b"b1")), rows(("a", b"a1")))
    assert staging.merge("w", 0, parts[::-1]) == 3
    assert arrived(talk) == [items(b"a1", b"a2"), items(b"b1")]


def test_a_batch_that_comes_again_is_nothing(talk, staging):
    assert sent(staging, 3, ("a", b"a1")) == 1
    assert sent(staging, 3, ("a", b"a1")) == 0
    assert sent(staging, 2, ("a", b"a0")) == 0
    assert sent(staging, 4, ("a", b"a2")) == 1
    assert arrived(talk) == [items(b"a1", b"a2")]
    assert left(talk) == [0, 0, 0]
    assert invariants.broken(talk) == []


def test_writers_have_dialogs_of_their_own(talk, staging):
    sent(staging, 0, ("a", b"a1"))
    assert staging.merge("other", 0, [staging.stage("other", 0, [rows(("a", b"a2"))])]) == 1
    assert arrived(talk) == [items(b"a1"), items(b"a2")]


@pytest.mark.parametrize("ended", [1, 2, 3])
def test_a_batch_that_was_cut_off_goes_on_where_it_was(talk, staging, monkeypatch, ended):
    """It takes several transactions, and dies before the one or the other of them."""
    monkeypatch.setattr(dialog_staging, "_DIALOGS", 2)
    messages = [(key, f"{key}{number}".encode()) for number in (1, 2) for key in "dbaec"]
    send, calls = staging._send, []

    def dying(transaction, writer, batch, part_ids):
        calls.append(batch)
        if len(calls) == ended + 1:
            raise ConnectionAbortedError
        return send(transaction, writer, batch, part_ids)

    monkeypatch.setattr(staging, "_send", dying)
    if ended < 3:
        with pytest.raises(ConnectionAbortedError):
            sent(staging, 0, *messages)
        assert len(states(talk)) == 4 * ended
        # It is staged anew, and in the meantime somebody else staged it, too.
        staged(staging, 0, rows(*messages))
        assert sent(staging, 0, *messages) == 10 - 4 * ended
    else:
        assert sent(staging, 0, *messages) == 10
    assert sent(staging, 0, *messages) == 0
    assert arrived(talk) == [items(f"{key}1".encode(), f"{key}2".encode()) for key in "abcde"]
    assert left(talk) == [0, 0, 0]
    assert invariants.broken(talk) == []


@pytest.mark.parametrize(
    "end",
    [
        lambda tx, ours, theirs: tx.end(ours),
        lambda tx, ours, theirs: tx.end(theirs),
        lambda tx, ours, theirs: tx.end(theirs, error=(7, "sold out")),
        lambda tx, ours, theirs: tx.end(ours, cleanup=True),
    ],
)
def test_where_a_dialog_has_ended_a_new_one_begins(talk, staging, end):
    sent(staging, 0, ("a", b"a1"), ("b", b"b1"))
    with talk.session() as tx:
        (first,) = tx.receive("inventory")
        while first.body != b"a1":
            (first,) = tx.receive("inventory")
    (ours,) = (
        one.handle
        for one in dialogs.dialogs(talk)
        if one.conversation_id == first.dialog.conversation_id and one.is_initiator
    )
    with talk.session() as tx:
        end(tx, ours, first.dialog.handle)
    assert sent(staging, 1, ("a", b"a2"), ("b", b"b2"), ("a", b"a3")) == 3
    assert sent(staging, 2, ("a", b"a4")) == 1
    found = [[one for one in each if one[1] == "AddItem"] for each in arrived(talk)]
    assert items(b"a2", b"a3", b"a4") in found
    assert items(b"b2", since=1) in found or items(b"b1", b"b2") in found


def test_what_was_forgotten_is_begun_anew(talk, staging):
    sent(staging, 0, ("a", b"a1"), ("b", b"b1"))
    arrived(talk)
    with talk.session() as tx:
        for handle in states(talk):
            tx.end(handle, cleanup=True)
        tx.connection.execute(f"SELECT {talk.schema}.forget_closed('0 s')")
    with psycopg.connect(talk.dsn) as connection:
        assert connection.execute(f"SELECT count(*) FROM {talk.schema}.writer_dialogs").fetchone() == (0,)
    assert sent(staging, 0, ("a", b"a1"), ("b", b"b1")) == 0
    assert sent(staging, 1, ("a", b"a2")) == 1
    assert arrived(talk) == [items(b"a2")]


def test_other_services_have_other_dialogs(talk, staging):
    talk.define(sq.Service("Audit", queue="audit", contracts=["AddItem"]))
    sent(staging, 0, ("a", b"a1"))
    with opened(talk, Speaker("Orders", "Audit", "AddItem")) as other:
        assert sent(other, 1, ("a", b"a2")) == 1
    assert arrived(talk) == [items(b"a1")]
    assert arrived(talk, "audit") == [items(b"a2")]


def test_what_can_not_be_sent_is_kept_as_unrouted_and_stops_nothing(talk, staging):
    long = "k" * 2000
    assert sent(staging, 0, (None, b"1"), ("", b"2"), (long, b"3"), ("a\0", b"4"), ("a", b"a1")) == 5
    assert sent(staging, 1, ("a", b"5"), type="ItemAdded") == 1
    assert sent(staging, 2, ("a", b"6"), ("z", b"7"), type="EndDialog") == 2
    assert sent(staging, 3, ("a", b"a2")) == 1
    assert arrived(talk) == [items(b"a1", b"a2")]
    assert len(states(talk)) == 2
    assert kept(talk) == [
        "the group key is missing",
        "the group key is missing",
        "the group key is longer than 1 KiB",
        "the group key has a NUL in it",
        'only the target sends "ItemAdded" under the contract "AddItem"',
        'the contract "AddItem" has no message type "EndDialog"',
        'the contract "AddItem" has no message type "EndDialog"',
    ]
    assert left(talk) == [0, 0, 0]
    assert invariants.broken(talk) == []


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("context", "{nope", "column 'context': not JSON"),
        ("message_id", "a\0", "column 'message_id': 'a\\x00' can't be the message_id of a message"),
        ("type", "a\0", "column 'type': 'a\\x00' can't be the type of a message"),
        ("content_type", "", "column 'content_type': "),
        ("location", "l" * 129, "column 'location': 'lllll"),
    ],
)
def test_a_row_that_is_no_message_is_kept_as_unrouted_and_stops_no_dialog(talk, staging, column, value, reason):
    given = rows(("a", b"a1"), ("a", b"wrong"), ("a", b"a2")).to_pydict()
    usual = {"message_id": ["1", "2", "3"], "type": ["AddItem"] * 3}
    values = usual.get(column, [None] * 3)
    values[1] = value
    table = pa.RecordBatch.from_pydict(given | {column: pa.array(values, pa.string())})
    assert staging.merge("w", 0, [staging.stage("w", 0, [table])]) == 3
    assert staging.merge("w", 0, [staging.stage("w", 0, [table])]) == 0
    assert arrived(talk) == [items(b"a1", b"a2")]
    (problem,) = kept(talk)
    assert problem.startswith(reason)
    assert left(talk) == [0, 0, 0]
    assert invariants.broken(talk) == []


def test_what_is_too_large_to_be_kept_stops_no_dialog(talk, staging, monkeypatch):
    monkeypatch.setattr(publish, "MOST_BODY_BYTES", 64)
    monkeypatch.setattr(publish, "MOST_CONTEXT_BYTES", 256)
    given = rows(("a", b"a1"), ("a", b"w" * 65), ("a", b"w"), ("a", b"a2")).to_pydict()
    given["context"] = ['{"x": "%s"}' % ("c" * 300), None, "{" + "n" * 300, None]
    table = pa.RecordBatch.from_pydict(given)
    assert staging.merge("w", 0, [staging.stage("w", 0, [table])]) == 4
    assert arrived(talk) == [items(b"a1", b"a2")]  # properties aren't sent, whatever they are
    large, broken = kept(talk)
    assert large == "column 'body': 65 bytes, of which at most 64 can be kept: left out"
    assert broken.endswith("can be kept: left out 'context'")
    assert left(talk) == [0, 0, 0]
    assert invariants.broken(talk) == []


def test_keys_may_be_numbers(talk, staging):
    assert sent(staging, 0, (1, b"a1"), (2, b"b1"), (1, b"a2")) == 3
    assert arrived(talk) == [items(b"a1", b"a2"), items(b"b1")]


def test_what_a_full_queue_has_no_room_for_waits_in_the_transmission_queue(talk, staging):
    talk.define(sq.Queue("inventory", group="conversation_group", max_messages=2))
    sent(staging, 0, ("a", b"a1"), ("b", b"b1"))
    sent(staging, 1, ("a", b"a2"), ("b", b"b2"), ("c", b"c1"))
    assert sorted(one.waiting for one in dialogs.dialogs(talk) if one.is_initiator) == [1, 1, 1]
    assert arrived(talk) == [items(b"a1", b"a2"), items(b"b1", b"b2"), items(b"c1")]


def test_a_service_that_is_not_there_gets_all_of_it_later(talk):
    with opened(talk, Speaker("Orders", "Later", "AddItem")) as staging:
        sent(staging, 0, ("a", b"a1"))
        sent(staging, 1, ("a", b"a2"))
        talk.define(sq.Service("Later", queue="later", contracts=["AddItem"]))
        sent(staging, 2, ("a", b"a3"))
    assert arrived(talk, "later") == [items(b"a1", b"a2", b"a3")]


def test_many_messages_go_in_portions(talk, staging):
    messages = [(f"c{number % 3}", f"c{number % 3} {number:05d}".encode()) for number in range(11_000)]
    assert sent(staging, 0, *messages) == 11_000
    for each in arrived(talk):
        assert [number for number, _, _ in each] == list(range(len(each)))
        assert all(one[2] < other[2] for one, other in pairwise(each))


def test_staged_parts_that_are_gone_are_staged_anew(talk, staging):
    parts = staged(staging, 0, rows(("a", b"a1")))
    with psycopg.connect(talk.dsn) as connection:
        connection.execute(f"TRUNCATE {talk.schema}.staged_messages")
    with pytest.raises(sq.Unavailable, match="staged part"):
        staging.merge("w", 0, parts)
    assert sent(staging, 0, ("a", b"a1")) == 1
    staging.discard(staged(staging, 1, rows(("a", b"a2"))))
    assert arrived(talk) == [items(b"a1")]
    assert left(talk)[1:] == [0, 0]


def test_answers_come_to_the_queue_of_the_service_that_began(talk, staging):
    sent(staging, 0, ("a", b"a1"))
    with talk.session() as tx:
        (one,) = tx.receive("inventory")
        tx.send(one.dialog.handle, "ItemAdded", b"yes")
    assert taken(talk, "orders") == [("ItemAdded", b"yes")]


@pytest.mark.parametrize(
    ("speaker", "said"),
    [
        (("Order", "Inventory", "AddItem"), "there is no service 'Order'"),
        (("Orders", "Inventory", "addItem"), "there is no contract 'addItem'"),
    ],
)
def test_services_and_contracts_that_are_not_there(talk, speaker, said):
    with pytest.raises(sq.UsageError, match=said):
        opened(talk, Speaker(*speaker))


@pytest.mark.parametrize("names", [("", "b", "c"), ("a", "b" * 200, "c"), ("a", "b", "\0")])
def test_names_that_can_not_be(names):
    with pytest.raises(sq.UsageError, match="name"):
        Speaker(*names)


def test_a_key_has_to_be_named(talk):
    with pytest.raises(sq.UsageError, match="no key for the dialogs"):
        DialogStaging(talk.dsn, talk.schema, speaker=SPEAKER, incoming=Incoming("AddItem"))


def test_two_that_merge_one_batch_at_once_send_it_once(talk, staging, monkeypatch):
    monkeypatch.setattr(dialog_staging, "_DIALOGS", 2)
    messages = [(key, f"{key}{number}".encode()) for number in (1, 2) for key in "abcdefgh"]
    with opened(talk) as other, ThreadPoolExecutor(2) as threads:
        given = [(one, staged(one, 0, rows(*messages))) for one in (staging, other)]
        done = [threads.submit(one.merge, "w", 0, parts) for one, parts in given]
        assert sum(one.result(120) for one in done) == 16
    assert arrived(talk) == [items(f"{key}1".encode(), f"{key}2".encode()) for key in "abcdefgh"]
    assert left(talk) == [0, 0, 0]
