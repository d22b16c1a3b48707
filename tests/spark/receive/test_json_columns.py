"""Lines of JSON that are read many at once, compared with the same lines read one by one, column by column."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.receive.body_reader import Reading
from seriatim.spark.receive.gz_files import Shape
from seriatim.spark.receive.json_columns import JsonColumns
from seriatim.spark.receive.row_formats import Documents
from seriatim.spark.receive.text_lines import LineReader

PROMOTE = (
    Promotion("type", "$.kind"),
    Promotion("customer", "$.customer.id"),
    Promotion("name", ("$.name", "$.customer.name")),
    Promotion("version", "$.version", "long"),
    Promotion("price", "$.price", "double"),
    Promotion("paid", "$.paid", "boolean"),
    Promotion("at", "$.at", "timestamp"),
)
READING = Reading("crm", PROMOTE, Documents(JsonPaths(PROMOTE)))
MANY = 64

#: Rows that are read many at once.
PLAIN = [
    b"{}",
    b'{"kind":"order","customer":{"id":"a","name":"n"},"version":7,"price":7.5,"paid":true,"at":"2024-05-01T12:00:00Z"}',
    b'{"customer":null,"version":null,"price":null,"paid":null,"at":null,"name":null,"kind":null}',
    b'{"name":null,"customer":{"name":"second"}}',
    b'{"name":"first","customer":{"name":"second"}}',
    b'{"customer":{}}',
    b'{"customer":{"id":""}}',
    b'{"customer":{"id":"a\\u0000b"}}',
    b'{"customer":{"id":"\\ud83d\\ude00"}}',
    '{"customer":{"id":"ü😀"}}'.encode(),
    b'{"version":-0}',
    b'{"version":9223372036854775807}',
    b'{"version":-9223372036854775808}',
    b'{"Version":3}',
    b'{"\\u0076ersion":3}',
    b'{"version\\u0000x":3}',
    b'{"price":7}',
    b'{"price":0}',
    b'{"price":5e-324}',
    b'{"price":1e-400}',
    b'{"price":9007199254740993}',
    b'{"price":12345678901234567890123}',
    b'{"price":0.1000000000000000055511151231257827021181583404541015625}',
    b'{"paid":false}',
    b'{"at":"2024-05-01"}',
    b'{"at":"2024-05-01T12:00:00.123456+02:00"}',
    b'{"x":1,"x":2}',
    b'{"x":[1,{"y":[2,null,{}]}]}',
    b'{"x":"\\/\\u0001\x7f"}',
    b'{"x":"Info: NaN"}',
    b'{"":1, "x" :\t{ } }',
    b'{"x":1e-99999999999}',
    b'{"x":"3e-1234"}',
]
#: Rows that may be read otherwise, or are refused.
ODD = [
    b'{"version":"7"}',
    b'{"version":"x"}',
    b'{"version":7.0}',
    b'{"version":7.5}',
    b'{"version":7e0}',
    b'{"version":1E2}',
    b'{"version":0.0}',
    b'{"version":9223372036854775808}',
    b'{"version":true}',
    b'{"version":[]}',
    b'{"version":1,"version":2}',
    b'{"version":null,"version":3}',
    b'{"customer":{"id":"a"},"customer":{"id":"b"}}',
    b'{"customer":{"id":7}}',
    b'{"customer":{"id":true}}',
    b'{"customer":{"id":[1]}}',
    b'{"customer":"x"}',
    b'{"customer":[]}',
    b'{"customer":{"id":"\\udc00"}}',
    b'{"price":"7.5"}',
    b'{"price":-0}',
    b'{"price":-0.0}',
    b'{"price":1e400}',
    b'{"price":true}',
    b'{"price":1e-9999999999999999999}',
    b'{"price":NaN}',
    b'{"paid":"true"}',
    b'{"paid":1}',
    b'{"at":5}',
    b'{"at":"yesterday"}',
    b'{"kind":""}',
    b'{"kind":"a\\u0000"}',
    b'{"kind":1}',
    b'{"x":NaN}',
    b'{"x":Infinity}',
    b'{"x":-Infinity }',
    b'{"x":Inf}',
    b'{"x":[NaN ]}',
    b'{"x":"NaN, }"}',
    b'{"x":nan}',
    b'{"x":01}',
    b'{"x":.5}',
    b'{"x":5.}',
    b'{"x":+5}',
    b'{"x":-}',
    b'{"x":1e}',
    b'{"x":1,}',
    b'{"x":1e9999999999999999999}',
    b'{"x":1e-9999999999999999999}',
    b'{"x":1E-9999999999999999999}',
    b'{"x":' + b"1" * 5000 + b"}",
    b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"x":' + b'{"y":' * 3000 + b"1" + b"}" * 3000 + b"}",
    b'{"x":"\x01"}',
    b'{"x":"a\tb"}',
    b'{"x":"\\x"}',
    b'{"x":"\\ud800"}',
    b'{"x":tru}',
    b'{"x"}',
    b'{"x":{"a":1}',
    b'{"x":1}}',
    b'{"x":1} {"x":2}',
    b'{"x":1}{}',
    b'{"version":3}\x00}',
    b'{"version":3 "x":1}',
    b'{"version":\xa03}',
    b"{'x':1}",
    b'{"x":1}//c}',
    b'{/*c*/"x":1}',
    b'{"x":\xc3\x28}',
    b'{"x":"\xed\xa0\x80"}',
    b'\xef\xbb\xbf{"version":1}',
    b' {"version":1}',
    b'{"version":1} ',
    b"",
    b"  ",
    b"7",
    b"[]",
    b'"x"',
    b"null",
]


def read(rows, size):
    """The messages of rows that come in batches of `size`, as columns."""
    written = pa.scalar(dt.datetime(2024, 5, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC"))
    batches = []
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        batches.append(
            pa.record_batch(
                {
                    "body": pa.array(some, pa.binary()),
                    "path": pa.array(["file:///in/a%20b.json"] * len(some)),
                    "block": pa.array([0] * len(some), pa.int64()),
                    "received_at": pa.array([written] * len(some)),
                }
            )
        )
    return pa.Table.from_batches(LineReader(READING, "/in", Shape(2**30))(batches))


def check_alike(rows):
    """All at once as one by one: runs of one row are never read at once."""
    together, each = read(rows, len(rows)), read(rows, 1)
    assert together.schema == each.schema
    for name in each.column_names:
        assert together.column(name).to_pylist() == each.column(name).to_pylist(), name
    return together


def at_once(rows):
    return JsonColumns.of(READING).read(pa.array(rows, pa.binary()))


@pytest.mark.parametrize("row", PLAIN)
def test_a_plain_row_is_read_as_one_by_one(row):
    assert at_once([row] * MANY) is not None
    assert check_alike([row] * MANY).num_rows == MANY


@pytest.mark.parametrize("row", ODD)
def test_an_odd_row_is_left_to_be_read_one_by_one(row):
    assert at_once([row]) is None
    check_alike([*[row] * MANY, b"{}"])


def test_odd_rows_among_plain_ones_are_read_as_one_by_one():
    rows = [row for odd in ODD for row in (*PLAIN, odd, *PLAIN)]
    found = check_alike(rows)
    assert found.column("message_id")[0].as_py() == "crm/a b.json:1"
    assert found.num_rows == len(rows) - 2  # two are blank
    assert found.column("_invalid").null_count < found.num_rows


def test_two_faults_don_t_make_up_for_each_other():
    # Two documents in a row, and for Arrow none in another.
    assert at_once([b"{} {}", b"{}\0}", b"{}"]) is None
    assert at_once([b"{}{}", b"", b"{}"]) is None
    check_alike([b"{}" for _ in range(MANY)] + [b"{} {}", b"{}\0}", b"{}"])


@pytest.mark.parametrize(
    "promote",
    [
        (),
        (Promotion("a", "$.a", "decimal(10,2)"),),
        (Promotion("a", "$.lines[0]"),),
        (Promotion("a", "$.a"), Promotion("b", "$.a.b")),
        (Promotion("a", "$.a"), Promotion("b", "$.a", "long")),
        (Promotion("a", "$.a", envelope=True),),
        (Promotion("a", "a", told_by="debezium"),),
        (Promotion("a", "$"),),
    ],
)
def test_other_properties_are_read_one_by_one(promote):
    assert JsonColumns.of(Reading("crm", promote, Documents(JsonPaths(promote)))) is None


def test_two_properties_may_have_one_path():
    promote = (Promotion("a", "$.a.b"), Promotion("b", ("$.a.b", "$.c")))
    read_at_once = JsonColumns.of(Reading("crm", promote, Documents(JsonPaths(promote)))).read
    assert [one.to_pylist() for one in read_at_once(pa.array([b'{"a":{"b":"x"}}', b'{"c":"y"}'], pa.binary()))] == [
        ["x", None],
        ["x", "y"],
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.text(max_size=3) | VALUES,
        "customer": st.fixed_dictionaries({}, optional={"id": st.text(max_size=4) | VALUES, "name": VALUES}) | VALUES,
        "name": VALUES,
        "version": st.integers(-5, 2**63 + 1) | VALUES,
        "price": st.floats() | VALUES,
        "paid": st.booleans() | VALUES,
        "at": st.datetimes().map(str) | VALUES,
        "x": VALUES,
    },
)


@st.composite
def lines(draw):
    """A document, often with a fault: bytes that are left out, put in or written twice."""
    text = json.dumps(draw(DOCUMENTS), ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    for _ in range(draw(st.integers(0, 2))):
        place, length = draw(st.integers(0, len(text))), draw(st.integers(0, 4))
        what = draw(st.sampled_from([b"", b"0", b"-", b"e-", b'"', b"{", b"}", b",", b"\\", b"\0", b"\xff", b" "]))
        text = text[:place] + what + text[place + length :]
    return text.replace(b"\n", b"").replace(b"\r", b"")


@pytest.mark.dear
@given(st.lists(lines(), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_rows_are_read_as_one_by_one(rows):
    check_alike([*rows * MANY, b"{}"])
