"""`.gz` files are expanded in a worker: the rows are those that Spark finds in the same file as plain text, within the limit."""

from __future__ import annotations

import gzip
import random
import re
import zlib

import pyarrow as pa
import pytest

from seriatim.errors import EnvironmentProblem
from seriatim.spark.receive.gz_files import Shape, rows_of

PATH = "file:///in/a%20b.json.gz"


def handed_over(data, shape, chance, path=PATH):
    """A file as Spark hands it over: cut at the separator, in batches of any size."""
    pieces = [data] if shape.whole else data.split(shape.between)
    if not shape.whole and pieces[-1] == b"":
        pieces.pop()
    while pieces:
        many = chance.randrange(1, len(pieces) + 1)
        some, pieces = pieces[:many], pieces[many:]
        yield pa.record_batch(
            [pa.array(some, pa.binary()), [path] * many, pa.array([0] * many, pa.int64()), [1] * many],
            names=["body", "path", "block", "received_at"],
        )


def expanded(batches, shape):
    found = []
    for rows in rows_of(batches, shape):
        bodies = rows.batch.column(0).to_pylist()
        assert [place for place, body in enumerate(bodies) if body is None] == sorted(rows.refused)
        found += [rows.refused.get(place, body) for place, body in enumerate(bodies)]
    return found


def split_by(text, separator):
    rows = re.split(rb"\r\n|\r|\n", text) if separator is None else text.split(separator)
    return rows[:-1] if rows[-1] == b"" else rows


@pytest.mark.parametrize("separator", [None, b"\n", b"\r\n", b"||", b"\x00"])
def test_rows_are_those_of_the_text(separator):
    chance = random.Random(7)
    for _ in range(150):
        parts = [
            b"a",
            b"\n",
            b"\r",
            b"\r\n",
            b"|",
            b"||",
            b"\x00",
            bytes(chance.choices(range(256), k=300)),
            b"x" * 50_000,
        ]
        text = b"".join(chance.choices(parts, k=chance.randrange(1, 40))) + chance.choice([b".", b"\r", b"\n"])
        at = chance.randrange(len(text))
        data = (
            gzip.compress(text[:at]) + gzip.compress(text[at:], chance.choice([0, 9])) + b"\0" * chance.choice([0, 512])
        )
        shape = Shape(10_000_000, separator)
        assert expanded(handed_over(data, shape, chance), shape) == split_by(text, separator)


def test_the_last_byte_of_a_file_may_be_a_separator():
    """Spark takes it away, and it is the highest of the four that say how long the text is."""
    size, block = 10 << 24, b"x" * 2**20
    squeezed = zlib.compressobj(1, wbits=31)
    data = b"".join(squeezed.compress(block) for _ in range(size >> 20)) + squeezed.flush()
    assert data.endswith(b"\n")
    shape = Shape(1_000)
    assert expanded(handed_over(data, shape, random.Random(1)), shape) == [shape.refusal(size)]


def test_a_mark_of_utf8_is_no_part_of_the_first_line():
    shape = Shape(10_000_000)
    data = gzip.compress(b"\xef\xbb\xbfa\n\xef\xbb\xbfb")
    assert expanded(handed_over(data, shape, random.Random(1)), shape) == [b"a", b"\xef\xbb\xbfb"]


def test_a_row_that_is_too_large_is_refused_and_the_others_are_there():
    shape = Shape(10)
    data = gzip.compress(b"1234567890\n12345678901\n" + b"y" * 5_000_000 + b"\nend")
    found = expanded(handed_over(data, shape, random.Random(1)), shape)
    assert found == [b"1234567890", shape.refusal(11), shape.refusal(5_000_000), b"end"]
    assert found[1] == "the row has 11 bytes, and the location takes 10 (maxRowBytes)"
    ends = gzip.compress(b"1234567890\r\n12345678901\r\n12345\r1234567890\r\n1234567890\r")
    found = expanded(handed_over(ends, shape, random.Random(1)), shape)
    assert found == [b"1234567890", shape.refusal(11), b"12345", b"1234567890", b"1234567890"]
    plain = list(handed_over(b"12345678901\nend", shape, random.Random(1), "file:///in/a.json"))
    assert expanded(plain, shape) == [shape.refusal(11), b"end"]


def test_a_file_that_is_one_row_is_expanded_no_further_than_it_may_be():
    shape = Shape(3_000_000, whole=True)
    data = gzip.compress(b"z" * 3_000_000)
    (row,) = expanded(handed_over(data, shape, random.Random(1)), shape)
    assert row == b"z" * 3_000_000
    # It is cut off, but nobody comes so far.
    data = gzip.compress(b"z" * 50_000_000)[:-100]
    assert expanded(handed_over(data, shape, random.Random(1)), shape) == [
        "the row has more than 3,000,000 bytes, and the location takes 3,000,000 (maxRowBytes)"
    ]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda data: data[:-9], "it is cut off"),
        (lambda data: data[:-8] + b"\1" * 8, "incorrect data check"),
        (lambda data: b"plain", "incorrect header check"),
        (lambda data: data + b"more", "incorrect header check"),
    ],
)
def test_a_file_that_is_damaged_is_named(damage, what):
    shape = Shape(10_000_000)
    with pytest.raises(EnvironmentProblem, match=what) as caught:
        expanded(handed_over(damage(gzip.compress(b"a\nb\n")), shape, random.Random(1)), shape)
    assert "/in/a b.json.gz" in caught.value.what
