"""Bodies are written once: straight into the spool, where nobody sees them before their part is merged."""

from __future__ import annotations

import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.definitions.route import router_of
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.plain_rows import plain_columns
from seriatim.box.pipelines.staging import Staging
from seriatim.operations import invariants, retention
from tests.box import fed

TEXT = ["a", 'with "quotes" and \\', "größer", "x\ty", None]


@pytest.fixture
def shop(box):
    box.define(
        sq.MessageType(
            "order", properties={"customer": "string", "version": "long", "paid": "boolean", "note": "string"}
        ),
        sq.MessageType("return", properties={"customer": "string", "version": "long"}),
        sq.MessageType("read", properties={"customer": {"type": "string", "path": "$.customer"}}),
        sq.Queue("fifo", policy=sq.Fifo(), group="customer"),
        sq.Queue("ordered", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("loose", policy=sq.Unordered()),
        sq.Subscription("fifo", where="type = 'order' AND customer IS NOT NULL", to="fifo"),
        sq.Subscription("ordered", where="version > 2", to="ordered"),
        sq.Subscription("loose", where="paid OR note LIKE 'with%'", to="loose"),
    )
    return box


def batch(**columns):
    n = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({"type": ["order"] * n, **columns})


def query(box, sql, *parameters):
    with box.session() as tx:
        return tx.connection.execute(sql.replace("{}", box.schema), parameters or None).fetchall()


def stored(box, prefix):
    """What the box has of the messages whose ids begin so."""
    messages = query(
        box,
        "SELECT substr(message_id, 3), type, content_type, context, property_types, body, destinations FROM {}.spool "
        "WHERE message_id LIKE %s ORDER BY message_id",
        f"{prefix}-%",
    )
    entries = query(
        box,
        "SELECT substr(stored.message_id, 3), entry.queue_id, entry.group_key, entry.sequence, entry.size, entry.priority, "
        "entry.subscription_ids, entry.meaning FROM {}.entries AS entry JOIN {}.spool AS stored USING (arrival_id, position) "
        "WHERE stored.message_id LIKE %s ORDER BY 1, 2",
        f"{prefix}-%",
    )
    unrouted = query(
        box,
        "SELECT substr(stored.message_id, 3), problem FROM {}.unrouted JOIN {}.spool AS stored USING (arrival_id, position) "
        "WHERE stored.message_id LIKE %s ORDER BY 1",
        f"{prefix}-%",
    )
    return messages, entries, unrouted


PLAIN = {
    "text of all kinds": {"customer": ["c", "c", "ö", "c", "d"], "note": TEXT, "body": [b"1", b"2", None, b"\0", b"5"]},
    "numbers and booleans": {"customer": ["c"] * 3, "version": [1, 2, 3], "paid": [True, None, False]},
    "nothing but a body": {"body": ["text", "as", "body"]},
    "several locations": {"customer": ["c"] * 4, "location": ["east", None, "west", "east"]},
    "several types": {"type": ["order", "return", "order"], "customer": ["c"] * 3, "version": [3, 4, 5]},
    "media types": {"customer": ["c"] * 2, "content_type": ["text/plain", None]},
}
ODD = {
    "a context": {"customer": ["c"], "context": ['{"note": "n"}']},
    "NUL": {"customer": ["c\0"]},
    "an undeclared property": {"color": ["red"]},
    "an undeclared type": {"type": ["unknown"]},
    "a property of another type": {"version": ["1"]},
    "a body that is read": {"type": ["read"]},
    "an id too long": {"message_id": ["x" * 1025]},
    "no key": {"version": [7]},
    "an empty key": {"customer": [""]},
    "an address": {"to": ["fifo"]},
    "a box's own property": {"ticket": [7]},
    "no location's name": {"customer": ["c"], "location": ["x" * 200]},
    "a type without text": {"type": [""]},
}


@pytest.mark.parametrize("given", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("to", [None, "fifo", "ordered", "loose"])
def test_plain_rows_are_stored_as_one_by_one(shop, given, to):
    """The same rows beside an odd one go one by one."""
    incoming, queue = Incoming(), None
    if to is not None:
        incoming = Incoming(group="g", sequence="n")
        queue = shop.definitions().queue(to)
        n = len(next(iter(given.values())))
        given = {**given, "g": [f"g{row % 2}" for row in range(n)], "n": list(range(1, n + 1))}
    n = len(next(iter(given.values())))
    with Staging(shop.dsn, shop.schema, queue=to, incoming=incoming) as staging:
        for writer in ("a", "b"):
            rows = batch(**given, message_id=[f"{writer}-{row}" for row in range(n)])
            router = staging._router(shop.definitions())
            if writer == "b":
                odd = batch(context=["{}"], message_id=["odd"])
                both = [pa.Table.from_batches([each]) for each in (rows, odd)]
                (rows,) = pa.concat_tables(both, promote_options="default").combine_chunks().to_batches()
            assert (plain_columns(rows, incoming, router, queue) is not None) is (writer == "a")
            assert staging.merge(writer, 0, [staging.stage(writer, 0, [rows])]) == len(rows)
    assert stored(shop, "a") == stored(shop, "b")
    assert invariants.broken(shop) == []


@pytest.mark.parametrize("given", ODD.values(), ids=ODD)
def test_odd_rows_are_looked_at_one_by_one(shop, given):
    assert plain_columns(batch(**given), Incoming(), router_of(shop.definitions()), None) is None


def some(prefix, n=20, **more):
    return batch(
        message_id=[f"{prefix}-{row:02}" for row in range(n)], customer=["c"] * n, body=[b"x" * 100] * n, **more
    )


def ids(box, queue="fifo"):
    with box.session() as tx:
        delivery = tx.receive(queue, limit=1000)
        return [] if delivery is None else [message.message_id for message in delivery]


def test_a_body_stays_where_it_was_staged_and_nobody_sees_it_before(shop):
    where = "SELECT ctid, xmin::text, received_at FROM {}.spool ORDER BY 1"
    with Staging(shop.dsn, shop.schema) as staging:
        part = staging.stage("w", 0, [some("m")])
        before = query(shop, where)
        assert len(before) == 20
        assert query(shop, "SELECT count(*) FROM {}.messages") == [(0,)]
        assert shop.status_of("m-00").state == "unknown"
        assert ids(shop) == []
        assert invariants.broken(shop) == []
        assert staging.merge("w", 0, [part]) == 20
    assert query(shop, where) == before
    assert query(shop, "SELECT epoch, number, count FROM {}.tickets") == [(0, 1, 20)]
    assert query(
        shop, "SELECT count(*) FROM {}.message_ids JOIN {}.spool USING (message_id) WHERE published_at = received_at"
    ) == [(20,)]
    assert ids(shop) == [f"m-{row:02}" for row in range(20)]
    assert [
        query(shop, f"SELECT count(*) FROM {{}}.{one}") for one in ("parts", "staged_arrivals", "staged_entries")
    ] == [[(0,)]] * 3


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)], ids=["in their order", "in no order of theirs"])
def test_the_parts_of_a_batch_are_numbered_in_its_order_whenever_they_were_staged(shop, numbers):
    with Staging(shop.dsn, shop.schema) as staging:
        later = staging.stage("w", 0, [some("b", location=["east", "west"] * 10)], numbers[1])
        first = staging.stage("w", 0, [some("a", location=["west", "east"] * 10)], numbers[0])
        assert staging.merge("w", 0, [first, later]) == 40
    tickets = query(shop, "SELECT location, number, message_id FROM {}.messages ORDER BY 1, 2")
    assert [number for _, number, _ in tickets] == [*range(1, 21)] * 2
    for location, one in (("east", 1), ("west", 0)):
        found = [message_id for where, _, message_id in tickets if where == location]
        assert found == [f"a-{row:02}" for row in range(one, 20, 2)] + [f"b-{row:02}" for row in range(1 - one, 20, 2)]
    assert ids(shop) == [f"{part}-{row:02}" for part in "ab" for row in range(20)]
    assert invariants.broken(shop) == []


@pytest.mark.parametrize("where", ["in the box", "in the same part", "in another part"])
def test_what_was_published_before_is_left_out_and_the_others_are_numbered_without_a_gap(shop, where):
    parts = [some("m")]
    if where == "in the box":
        shop.publish(sq.Message(type="order", message_id="m-05", context={"customer": "c"}))
        parts.append(some("n"))
    elif where == "in the same part":
        parts[0] = pa.Table.from_batches([some("m"), some("m", 3), some("n")]).combine_chunks().to_batches()[0]
    else:
        parts += [some("m", 3), some("n")]
    with Staging(shop.dsn, shop.schema) as staging:
        staged = [staging.stage("w", 0, [rows], number) for number, rows in enumerate(parts)]
        assert staging.merge("w", 0, staged) == (39 if where == "in the box" else 40)
    assert query(shop, "SELECT array_agg(number ORDER BY number) FROM {}.messages") == [([*range(1, 41)],)]
    assert sorted(ids(shop)) == [f"{one}-{row:02}" for one in "mn" for row in range(20)]
    assert invariants.broken(shop) == []


@pytest.mark.parametrize("published", [False, True], ids=["stored", "written anew"])
def test_the_voids_of_a_queue_without_order_are_set_aside(shop, published):
    says = sq.Sequence(void="note = 'fill'")
    shop.define(
        sq.Queue("fills", policy=sq.Unordered(), sequence=says, max_messages=sq.Limit(3, when_full="refuse")),
        sq.Subscription("fills", where="type = 'order'", to="fills"),
    )
    if published:
        shop.publish(sq.Message(type="order", message_id="m-00", context={"customer": "c"}))
    with Staging(shop.dsn, shop.schema) as staging:
        part = staging.stage("w", 0, [some("m", 5, note=["a", "fill", None, "fill", "b"])])
        assert staging.merge("w", 0, [part]) == 5 - published
        assert staging.merge("w", 1, [staging.stage("w", 1, [some("n", 1, note=["fill"])])]) == 1  # it needs no room
    gone = query(
        shop, "SELECT message_id, disposition FROM {}.aside JOIN {}.spool USING (arrival_id, position) ORDER BY 1"
    )
    assert gone == [("m-01", "void"), ("m-03", "void"), ("n-00", "void")]
    assert sorted(ids(shop, "fills")) == ["m-00", "m-02", "m-04"]
    assert invariants.broken(shop) == []


def test_attachments_come_along_where_messages_are_left_out(shop):
    kind = pa.list_(pa.struct([("name", pa.string()), ("body", pa.binary())]))
    parts = pa.array(
        [[{"name": "scan", "body": b"1"}, {"name": "note", "body": b"2"}], None, [{"name": "x", "body": b"3"}]], kind
    )
    rows = batch(message_id=["m1", "m2", "m3"], customer=["c"] * 3, parts=parts)
    shop.publish(sq.Message(type="order", message_id="m2", context={"customer": "c"}))
    with Staging(shop.dsn, shop.schema) as staging:
        assert staging.merge("w", 0, [staging.stage("w", 0, [rows])]) == 2
    with shop.session() as tx:
        found = {
            message.message_id: [(part.name, part.body) for part in message.parts]
            for message in tx.receive("fifo", limit=10)
        }
    assert found == {"m2": [], "m1": [("scan", b"1"), ("note", b"2")], "m3": [("x", b"3")]}
    assert invariants.broken(shop) == []


def test_a_part_that_is_never_merged_is_cleaned_up(shop):
    with Staging(shop.dsn, shop.schema) as staging:
        staging.stage("gone", 0, [some("old")])
        query(shop, "UPDATE {}.parts SET staged_at = now() - interval '2 days' RETURNING 1")
        new = staging.stage("w", 0, [some("new")])
        retention.purge(shop)
        assert query(shop, "SELECT DISTINCT substr(message_id, 1, 3) FROM {}.spool") == [("new",)]
        staging.discard([new])
    for table in ("spool", "parts", "staged_arrivals", "staged_entries"):
        assert query(shop, f"SELECT count(*) FROM {{}}.{table}") == [(0,)]


def test_the_list_of_open_parts_outlives_a_crash_and_what_is_lost_is_noticed(shop):
    logged = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relname IN ('parts', 'staged_arrivals') AND relpersistence = 'p'"
    assert len(query(shop, logged, shop.schema)) == 2
    with Staging(shop.dsn, shop.schema) as staging:
        lost = staging.stage("w", 0, [some("m")])
        with shop.session() as tx:  # as a crash of the server empties it
            tx.connection.execute(f"TRUNCATE {shop.schema}.staged_entries")
        assert invariants.broken(shop) == []
        with pytest.raises(sq.Unavailable, match="a staged part of the batch is gone"):
            staging.merge("w", 0, [lost])
        assert staging.merge("w", 0, [staging.stage("w", 0, [some("m")])]) == 20
        retention.purge(shop)
    assert query(shop, "SELECT count(*) FROM {}.spool") == [(20,)]
    assert invariants.broken(shop) == []


def test_a_reader_that_stops_in_the_middle_ends_its_copy(shop):
    with Staging(shop.dsn, shop.schema) as staging:
        staging.merge("w", 0, [staging.stage("w", 0, [some("m", 12_000, version=[1] * 12_000)])])
    with fed.feed(shop, "fifo") as feed:
        reader, number, messages = feed.next("", 0, None)
        assert messages == 12_000
        (part,) = feed.parts(reader, 0, number)
        rows = feed.read(0, number, part, {})
        assert len(next(rows)) >= 10_000
        with pytest.raises(RuntimeError, match="the consumer's"):
            rows.throw(RuntimeError("the consumer's"))
        assert sum(map(len, feed.read(0, number, part, {}))) == 12_000
