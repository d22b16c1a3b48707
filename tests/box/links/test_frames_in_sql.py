"""PostgreSQL reads a batch by itself, in one statement for all messages; decision 107 rests on that."""

from __future__ import annotations

from hashlib import sha256

from seriatim.box.links import layout
from tests.box.links import recorder

#: The frame is a parameter each time: in a row of its own PostgreSQL would copy it with each message.
_READ = """
WITH head AS MATERIALIZED (
    SELECT sha256(substring(%(frame)b::bytea, 1, length(%(frame)b::bytea) - 32)) = substring(%(frame)b::bytea, length(%(frame)b::bytea) - 31, 32) AS is_whole,
        ('x' || encode(substring(%(frame)b::bytea, 49, 4), 'hex'))::bit(32)::int AS ranges,
        ('x' || encode(substring(%(frame)b::bytea, 53, 4), 'hex'))::bit(32)::int AS streams,
        ('x' || encode(substring(%(frame)b::bytea, 57, 4), 'hex'))::bit(32)::int AS messages
),
stream AS (
    SELECT nth, ('x' || encode(substring(%(frame)b::bytea, place + 88, 4), 'hex'))::bit(32)::int
        + ('x' || encode(substring(%(frame)b::bytea, place + 92, 4), 'hex'))::bit(32)::int AS length
    FROM head, generate_series(1, streams) AS nth, LATERAL (SELECT 65 + 24 * ranges + 96 * (nth - 1) AS place) AS at
),
message AS (
    SELECT nth, substring(%(frame)b::bytea, place, 32) AS digest,
        ('x' || encode(substring(%(frame)b::bytea, place + 32, 8), 'hex'))::bit(64)::bigint AS size,
        ('x' || encode(substring(%(frame)b::bytea, place + 48, 4), 'hex'))::bit(32)::int AS part_length,
        ('x' || encode(substring(%(frame)b::bytea, place + 52, 4), 'hex'))::bit(32)::int AS id_length,
        ('x' || encode(substring(%(frame)b::bytea, place + 56, 4), 'hex'))::bit(32)::int AS header_length
    FROM head, generate_series(1, messages) AS nth,
        LATERAL (SELECT 65 + 24 * ranges + 96 * streams + 64 * (nth - 1) AS place) AS at
),
placed AS (
    SELECT message.*, is_whole, 65 + 24 * ranges + 96 * streams + 64 * messages + (SELECT coalesce(sum(length), 0) FROM stream)::int
        + (sum(id_length + header_length + part_length) OVER (ORDER BY nth) - id_length - header_length - part_length)::int AS place
    FROM message, head
)
SELECT convert_from(substring(%(frame)b::bytea, place, id_length), 'UTF8'), size, substring(%(frame)b::bytea, place + id_length, header_length),
    substring(%(frame)b::bytea, place + id_length + header_length, part_length),
    part_length < size OR digest = sha256(
        int4send(header_length) || substring(%(frame)b::bytea, place + id_length, header_length + part_length)
    ),
    is_whole
FROM placed ORDER BY nth
"""


def test_postgresql_reads_what_the_recorder_has_written(box):
    with box.session() as tx:
        rows = tx.connection.execute(_READ, {"frame": recorder.batch()}).fetchall()
    assert rows == [
        ("order-1", 3, b'{"type":"order"}', b"one", True, True),
        ("bestätigt", 0, b"{}", b"", True, True),
        ("large", 2 * recorder.MIB + 5, b"{}", b"xxxxx", True, True),
    ]


def test_a_thousand_messages_are_one_statement(box):
    header = b'{"type":"order"}'
    bodies = [sha256(nth.to_bytes(4, "big")).digest() * 32 for nth in range(layout.MOST_STREAMS // 10)]
    stream = (1, 1, b"S" * 16, 0, len(bodies), 0, 0, bytes(32), 6, 0)
    messages = [(recorder.digest(header, body), len(body), 0, len(body), 3, len(header), 0) for body in bodies]
    heap = b"orders" + b"".join(b"%03d" % nth + header + body for nth, body in enumerate(bodies))
    with box.session() as tx:
        rows = tx.connection.execute(
            _READ, {"frame": recorder.frame(recorder.BATCH, ((), [stream], messages), heap)}
        ).fetchall()
    assert [row[3] for row in rows] == bodies
    assert all(row[4] for row in rows)
