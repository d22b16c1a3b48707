"""Messages by their types: what a property becomes, what is wrong with a message, and the columns of a batch."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seriatim as sq
from seriatim.kernel.filters.filter import LONG, STRING, TIMESTAMP, decimal
from seriatim.kernel.filters.filter_eval import evaluate
from seriatim.pipeline.filters.syntax import parsed
from seriatim.pipeline.types import property_columns
from seriatim.pipeline.types.failure_message import FAILURE_PROPERTIES
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.pipeline.types.sent_by import LINK
from seriatim.pipeline.types.taken_from import SOURCE
from seriatim.pipeline.types.typed_message import MessageTypes

pytestmark = pytest.mark.dear

ALL = {"s": "string", "n": "long", "d": "double", "m": "decimal(12,2)", "b": "boolean", "t": "timestamp"}
MOMENT = datetime(2026, 11, 20, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))


def order(context=(), body=b"", **fields):
    return sq.Message(type="order", context=dict(context), body=body, **fields)


def read(message, *types):
    """The context and the problem of one message."""
    typed = MessageTypes(types).typed([message])
    assert typed.problems[0] is None or not typed.contexts[0]
    return typed.contexts[0], typed.problems[0]


def exactly(one, other):
    return [(name, type(value), value) for name, value in one.items()] == [
        (name, type(value), value) for name, value in other.items()
    ]


# What is given


def test_given_values_become_what_the_type_declares():
    context, problem = read(
        order({"s": 7, "n": "7", "d": 1, "m": 0.1, "b": "TRUE", "t": "2026-11-20"}), sq.MessageType("order", ALL)
    )
    assert problem is None
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    assert exactly(context, {"s": "7", "n": 7, "d": 1.0, "m": Decimal("0.10"), "b": True, "t": moment})


def test_values_that_fit_stay_as_they_are():
    values = {"s": "ü\n", "n": -(2**63), "d": 1e300, "m": Decimal("12.30"), "b": False, "t": MOMENT, "location": "crm"}
    context, problem = read(order(values), sq.MessageType("order", ALL))
    assert problem is None
    assert exactly(context, values | {"t": MOMENT.astimezone(UTC)})
    assert context["t"].tzinfo is UTC


def test_a_moment_without_zone_is_in_utc_and_null_is_null():
    naive = MOMENT.replace(tzinfo=None)
    context, _ = read(order({"t": naive, "s": None}), sq.MessageType("order", ALL))
    assert context == {"t": naive.replace(tzinfo=UTC), "s": None}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("s", "a\0b", r"property s: 'a\x00b' has a NUL (its type is string)"),
        ("s", "\ud800", "property s: half a surrogate pair is no text (its type is string)"),
        ("s", [1], "property s: list can't be a property's value (its type is string)"),
        ("s", b"a", "property s: bytes can't be a property's value (its type is string)"),
        ("n", "x" * 500, f"property n: '{'x' * 60}…' is not a long (its type is long)"),
        ("n", 2**63, "property n: 9223372036854775808 is beyond the range of a long (its type is long)"),
        ("n", 1.5, "property n: 1.5 is not a long (its type is long)"),
        ("n", True, "property n: true is not a long (its type is long)"),
        ("n", Decimal("sNaN"), "property n: "),
        ("n", Decimal("Infinity"), "property n: "),
        ("d", float("nan"), "property d: NaN is beyond the range of a double (its type is double)"),
        ("d", "1e999", "property d: 1e999 is beyond the range of a double (its type is double)"),
        ("m", Decimal("0.001"), "property m: 0.001 doesn't fit decimal(12,2) (its type is decimal(12,2))"),
        ("m", 10**10, "property m: 10000000000 doesn't fit decimal(12,2) (its type is decimal(12,2))"),
        ("m", Decimal("NaN"), "property m: NaN doesn't fit decimal(12,2) (its type is decimal(12,2))"),
        ("b", 1, "property b: 1 is not a boolean (its type is boolean)"),
        ("t", 1, "property t: 1 is not a timestamp (ISO 8601) (its type is timestamp)"),
        ("t", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), "property t: date value out of range"),
        ("part", "first", "property part: 'first' is not a long (its type is long)"),
        ("location", "", "property location: '' is not a location's name (its type is string)"),
        ("ticket", 1, "property 'ticket' can't be given: it is a field of the message, or the box gives it"),
        ("message_id", "1", "property 'message_id' can't be given"),
        (
            "origin_ordinal",
            1,
            "property 'origin_ordinal' can't be given: it is a field of the message, or the box gives it",
        ),
        ("S", "a", "type 'order' declares no property 'S'"),
        ("a\0", 1, r"type 'order' declares no property 'a\x00'"),
        (7, 1, "type 'order' declares no property 7"),
    ],
)
def test_what_does_not_fit_is_told(name, value, problem):
    context, told = read(order({name: value}), sq.MessageType("order", ALL))
    assert told.startswith(problem)
    assert context == {}


def test_ten_thousand_properties():
    many = {f"p{n}": n for n in range(10_000)}
    told = "type 'order' declares no property 'p0' and 9,999 others"
    assert read(order(many), sq.MessageType("order", ALL)) == ({}, told)
    assert read(order(many)) == (many, None)
    assert read(order(many), sq.MessageType("order", dict.fromkeys(many, "long"))) == (many, None)


def test_one_wrong_message_leaves_the_others_alone():
    typed = MessageTypes([sq.MessageType("order", ALL)]).typed([order({"n": 1}), order({"n": "x"}), order({"n": 3})])
    assert typed.contexts == [{"n": 1}, {}, {"n": 3}]
    assert [problem is None for problem in typed.problems] == [True, False, True]


numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.decimals(),
    st.decimals(-1000, 1000, places=3),
    st.booleans(),
    st.none(),
)
anything = st.one_of(numbers, st.text(), st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.binary())
PYTHON = {"s": str, "n": int, "d": float, "m": Decimal, "b": bool, "t": datetime}


@given(st.sampled_from(sorted(ALL)), anything)
def test_a_value_is_of_its_type_or_told(name, value):
    context, problem = read(order({name: value}), sq.MessageType("order", ALL))
    if problem is None:
        assert value is None or type(context[name]) is PYTHON[name]
        assert read(order(context), sq.MessageType("order", ALL)) == (context, None)
    else:
        assert problem.startswith(f"property {name}: ")
        assert "\0" not in problem


@given(st.sampled_from(["n", "m", "d", "s", "b"]), numbers.filter(lambda one: not isinstance(one, float | Decimal)))
def test_given_and_promoted_values_are_cast_alike(name, value):
    kind = sq.MessageType("order", {name: {"type": ALL[name], "path": f"$.{name}"}})
    promoted, why = read(order(body=json.dumps({name: value}).encode()), kind)
    stated, problem = read(order({name: value}), kind)
    assert why == problem
    assert {name: promoted.get(name)} == {name: stated.get(name)}


# What is promoted

JSON = {
    "customer_id": {"path": "$.customer.id"},
    "amount": {"type": "decimal(12,2)", "path": "$.total"},
    "version": "long",
}


def test_properties_are_found_in_json():
    body = b'{"customer": {"id": "c1"}, "total": 12.5}'
    context, problem = read(order({"version": 3}, body), sq.MessageType("order", JSON))
    assert (context, problem) == ({"version": 3, "customer_id": "c1", "amount": Decimal("12.50")}, None)


def test_properties_are_found_in_xml():
    kind = sq.MessageType(
        "order",
        {"sku": {"path": "/o:order/line[1]/@sku"}, "lines": {"type": "long", "path": "count(//line)"}},
        namespaces={"o": "urn:o"},
    )
    body = b'<order xmlns="urn:o"><line xmlns="" sku=" 7 "/><line xmlns=""/></order>'
    assert read(order(body=body), kind) == ({"sku": " 7 ", "lines": 2}, None)


def test_what_is_given_wins():
    body = b'{"customer": {"id": "c1"}, "total": "not a number"}'
    kind = sq.MessageType("order", JSON)
    assert read(order({"amount": 1}, body), kind) == ({"amount": Decimal("1.00"), "customer_id": "c1"}, None)
    assert read(order({"amount": None}, body), kind) == ({"amount": None, "customer_id": "c1"}, None)
    # Nothing is left to be found, and nothing is to be checked: the body is not read.
    assert read(order({"amount": 1, "customer_id": "c2"}, b"\xff"), kind)[1] is None
    checked = sq.MessageType("order", JSON, validation="well_formed_json")
    assert read(order({"amount": 1, "customer_id": "c2"}, b"\xff"), checked)[1] == "body: not UTF-8 at byte 0"


def test_what_is_not_there_is_left_out():
    assert read(order(body=b'{"customer": null, "total": null}'), sq.MessageType("order", JSON)) == ({}, None)
    assert read(order(body=b"[]"), sq.MessageType("order", JSON)) == ({}, None)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "body: not JSON: Expecting value"),
        (b"{", "body: not JSON: Expecting property name"),
        (b"[" * 100_000, "body: not JSON that can be read: nested too deeply"),
        (b'{"total": NaN}', "body: not JSON: NaN is no JSON number"),
        (b'{"total": "x"}', "property amount: 'x' is not a number (its type is decimal(12,2))"),
        (b'{"total": 1e400}', "property amount: 1E+400 doesn't fit decimal(12,2) (its type is decimal(12,2))"),
        (b'{"customer": {"id": {}}}', "property customer_id: an object is not a string (its type is string)"),
        (rb'{"customer": {"id": "a\u0000"}}', r"property customer_id: 'a\x00' has a NUL (its type is string)"),
        (rb'{"customer": {"id": "\ud800"}}', "property customer_id: half a surrogate pair is no text"),
    ],
)
def test_bodies_of_json_in_which_something_is_wrong(body, problem):
    told = read(order(body=body), sq.MessageType("order", JSON))[1]
    assert told.startswith(problem)


BOMB = b"".join(
    [b'<!DOCTYPE a [<!ENTITY e0 "ha">', *(b'<!ENTITY e%d "&e%d;&e%d;">' % (n + 1, n, n) for n in range(64)), b"]>"]
)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "body: not XML: "),
        (b"<a>", "body: not XML: "),
        (b"<a>\0</a>", "body: not XML: "),
        (BOMB + b"<a>&e64;</a>", "body: the document has a DOCTYPE"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "body: the document has a DOCTYPE"),
        (b'<!DOCTYPE a SYSTEM "http://localhost:1/a.dtd"><a/>', "body: the document has a DOCTYPE"),
        (b"<a><b/><b/></a>", "property b: finds 2 values (its type is long)"),
        (b"<a><b>x</b></a>", "property b: 'x' is not a long (its type is long)"),
    ],
)
def test_bodies_of_xml_in_which_something_is_wrong(body, problem):
    told = read(order(body=body), sq.MessageType("order", {"b": {"type": "long", "path": "/a/b"}}))[1]
    assert told.startswith(problem)


# Types that aren't declared


def test_a_type_that_is_not_declared_may_have_any_properties():
    values = {
        "any name": "a",
        "n": 1,
        "f": 0.5,
        "d": Decimal("1.50"),
        "b": True,
        "t": MOMENT,
        "none": None,
        "part": "2",
    }
    context, problem = read(sq.Message(type="other", context=values), sq.MessageType("order", ALL))
    assert problem is None
    assert exactly(context, values | {"t": MOMENT.astimezone(UTC), "part": 2})


def test_names_of_types_are_compared_byte_for_byte():
    for name in ("Order", "order ", "o\u0072der\u0301"):
        assert read(sq.Message(type=name, context={"x": 1}), sq.MessageType("order"))[1] is None
    assert read(order({"x": 1}), sq.MessageType("order"))[1] == "type 'order' declares no property 'x'"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("p", one) for one in ("a\0", "\ud800", 2**63, float("inf"), Decimal("NaN"), b"a", [1], object())),
        *(("p", Decimal(one)) for one in ("1e38", "1e-39", "1e999999999", "1" * 39)),
        *((one, 1) for one in ("", "a\0", "\ud800", "a" * 129, 7, "ticket", "epoch", "type", "received_at")),
        ("location", 7),
        ("to", "a\0"),
    ],
)
def test_what_no_message_can_have(name, value):
    context, problem = read(order({name: value}))
    assert context == {}
    assert problem.startswith(("property ", repr(name)[:20]))
    problem.encode()


# Bodies that are checked

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "multipleOf": 0.01},
            "m": {"type": "number", "multipleOf": 0.01, "minimum": 0},
            "of": {"$ref": "#"},
            "list": {"uniqueItems": True},
        },
        "$schema": "https://json-schema.org/draft/2020-12/schema",
    }
)
VALID = sq.MessageType("order", validation="valid_json", schema=SCHEMA)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"n": 7.0, "m": 19.99}',
        b'{"of": {"of": {"n": 1.0, "m": 0.07}}}',
        b'{"m": 123456789012345678901234567890.12}',
        b'{"list": [1, true, "1", [1], [true], {"a": 1}, {"a": true}, null]}',
    ],
)
def test_valid_json(body):
    assert read(order(body=body), VALID) == ({}, None)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "body: not JSON: "),
        (b"[]", "body: not valid at $: [] is not of type 'object'"),
        (b'{"n": 7.5}', "body: not valid at $.n: 7.5 is not of type 'integer'"),
        (b'{"of": {"m": -1}}', "body: not valid at $.of.m: -1 is less than the minimum of 0"),
        (b'{"m": 0.001}', "body: not valid at $.m: 0.001 is not a multiple of 0.01"),
        (b'{"m": 1e999999999}', "body: not valid at $.m: 1E+999999999 is too large to tell"),
        (b'{"list": [1, 1.0]}', "body: not valid at $.list: item 1 is there before it"),
        (
            b'{"list": [{"a": [1], "b": 2}, {"b": 2.0, "a": [1]}]}',
            "body: not valid at $.list: item 1 is there before it",
        ),
        (b'{"of": ' * 900 + b"7" + b"}" * 900, "body: not valid"),
    ],
)
def test_json_that_is_not_valid(body, problem):
    assert read(order(body=body), VALID)[1].startswith(problem)


def test_a_schema_that_goes_round_for_ever():
    kind = sq.MessageType("order", validation="valid_json", schema='{"$ref": "#"}')
    assert read(order(body=b"{}"), kind)[1] == "body: not valid: nested too deeply"


def test_a_long_list_of_objects_is_looked_at_once_each():
    # 10^10 comparisons, if each were compared with each.
    body = json.dumps({"list": [{"a": n} for n in range(200_000)]}).encode()
    assert read(order(body=body), VALID)[1] is None


def test_a_problem_can_be_stored_whatever_the_body_says():
    kind = sq.MessageType(
        "order", validation="valid_json", schema='{"additionalProperties": {"additionalProperties": false}}'
    )
    name = rb'"\u0000\ud800' + b"x" * 100_000 + b'"'
    problem = read(order(body=b"{%b: {%b: 1}}" % (name, name)), kind)[1]
    assert problem.startswith("body: not valid at $")
    assert "\0" not in problem.encode().decode()
    assert len(problem) < 1_100


XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="order"><xs:complexType><xs:sequence>
<xs:element name="amount" type="xs:decimal"/></xs:sequence></xs:complexType></xs:element></xs:schema>"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<order><amount>1.5</amount></order>", None),
        (b"", "body: not XML"),
        (b"<order>\n<amount>x</amount></order>", "body: not valid: Element 'amount': 'x' is not a valid value"),
        (b"<other/>", "body: not valid: Element 'other': No matching global declaration"),
        (
            b'<other xmlns:x="http://www.w3.org/2001/XMLSchema-instance" x:noNamespaceSchemaLocation="%b"/>',
            "body: not valid: Element 'other': No matching global declaration",
        ),
    ],
)
def test_xml_against_an_xsd(body, problem, tmp_path):
    # Where the document says that its schema is elsewhere, nobody looks there.
    elsewhere = tmp_path / "other.xsd"
    elsewhere.write_text(XSD.replace('name="order"', 'name="other"').replace('type="xs:decimal"', 'minOccurs="0"'))
    body = body.replace(b"%b", elsewhere.as_uri().encode())
    told = read(order(body=body), sq.MessageType("order", validation="valid_xml", schema=XSD))[1]
    assert told is None if problem is None else told.startswith(problem)


@pytest.mark.parametrize(
    ("validation", "good", "bad"),
    [
        ("none", b"\xff", None),
        ("empty", b"", b" "),
        ("well_formed_json", b"7", b"7 8"),
        ("well_formed_xml", b"<a/>", b"<a></b>"),
    ],
)
def test_checks_without_a_schema(validation, good, bad):
    kind = sq.MessageType("order", validation=validation)
    assert read(order(body=good), kind) == ({}, None)
    assert bad is None or read(order(body=bad), kind)[1].startswith("body: ")


def test_threads_share_the_types():
    types = MessageTypes([sq.MessageType("order", validation="valid_xml", schema=XSD)])
    batch = [order(body=b"<order><amount>%b</amount></order>" % one) for one in (b"1", b"x") * 200]

    def problems(_):
        return types.typed(batch).problems

    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(problems, range(8)):
            assert found[::2] == [None] * 200
            assert all(one.startswith("body: not valid: Element 'amount': 'x'") for one in found[1::2])


# Several types


def test_one_name_has_one_type():
    one, other = sq.MessageType("a", {"p": "long"}), sq.MessageType("b", {"p": "string"})
    with pytest.raises(sq.UsageError, match="property 'p' is string here and long in type 'a'"):
        MessageTypes([one, other])
    with pytest.raises(sq.UsageError, match="two message types are named 'a'"):
        MessageTypes([one, one])


def test_what_filters_may_name():
    types = MessageTypes([sq.MessageType("a", {"p": "decimal(30,2)"}), sq.MessageType("b", {"q": "long"})])
    own = {
        *ORIGIN,
        *LINK,
        *SOURCE,
        "correlation_id",
        "epoch",
        "location",
        "message_id",
        "parent_id",
        "part",
        "parts",
        "received_at",
        "ticket",
        "traceparent",
        "tracestate",
        "unique_key",
    }
    assert types.properties.keys() == own | {"to", "type", "p", "q"} | FAILURE_PROPERTIES.keys()
    assert types.properties["p"] == decimal(30, 2)
    assert (types.properties["ticket"], types.properties["received_at"]) == (LONG, TIMESTAMP)


# Columns


def columns(*given, **named):
    """As filters take them."""
    return {name: one.arrays() for name, one in property_columns.columns(*given, **named).items()}


def test_columns_are_those_of_filters():
    types = MessageTypes([sq.MessageType("order", {**ALL, "w": "decimal(38,2)"})])
    full = {"s": "a", "n": 1, "d": 0.5, "m": "-1.5", "b": True, "t": MOMENT, "w": 10**35, "to": "q", "part": 2}
    typed = types.typed([order(full, message_id="1"), order(message_id="2"), order({"x": 1}, message_id="3")])
    now = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    found = columns(typed, types.properties, received_at=now)
    assert found.keys() == types.properties.keys()
    micros = round(MOMENT.timestamp()) * 10**6 + 5
    first = full | {"m": -150, "t": micros, "w": 10**37, "location": "box", "received_at": 10**6, "type": "order"}
    first |= dict.fromkeys(
        (
            *("correlation_id", "epoch", "parent_id", "parts", "ticket", "traceparent", "tracestate", "unique_key"),
            *ORIGIN,
            *LINK,
            *SOURCE,
            *FAILURE_PROPERTIES,
        )
    )
    first |= {"message_id": "1"}
    assert {name: one.values[0] if one.known[0] else None for name, one in found.items()} == first
    assert {name for name, one in found.items() if one.known[1]} == {"location", "message_id", "received_at", "type"}
    assert {name for name, one in found.items() if one.known[2]} == {"message_id", "received_at", "type"}
    kinds = {name: one.values.dtype for name, one in found.items()}
    assert {kinds[name] for name in ("n", "t", "m", "part", "received_at", "ticket")} == {np.dtype(np.int64)}
    assert {kinds[name] for name in ("s", "w", "location", "to")} == {np.dtype(object)}
    assert (kinds["d"], kinds["b"]) == (np.dtype(np.float64), np.dtype(np.bool_))
    assert {len(one.values) for one in found.values()} | {len(one.known) for one in found.values()} == {3}


def test_properties_of_undeclared_types_are_converted_for_filters_where_they_can_be():
    types = MessageTypes([sq.MessageType("order", {"n": "long", "m": "decimal(4,2)"})])
    given = [{"n": "7", "m": 1.5}, {"n": "x", "m": 1000}, {"n": None}]
    typed = types.typed([sq.Message(type="other", context=one) for one in given])
    found = columns(typed, {"n": LONG, "m": decimal(4, 2)})
    assert [found["n"].known.tolist(), found["m"].known.tolist()] == [[True, False, False]] * 2
    assert (found["n"].values[0], found["m"].values[0]) == (7, 150)
    assert typed.contexts == given


def test_an_empty_batch():
    types = MessageTypes([sq.MessageType("order", ALL)])
    found = columns(types.typed([]), types.properties)
    assert all(len(one.values) == len(one.known) == 0 for one in found.values())


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("type = 'order' AND amount >= 12.5", [0]),
        ("location = 'box'", [1, 2]),
        ("location = 'crm'", [0]),
        ('"to" IS NULL AND ticket IS NULL', [0, 1, 2]),
        ("received_at > TIMESTAMP '2026-01-01 00:00:00'", [0, 1, 2]),
        ("customer_id LIKE 'c_'", [0, 2]),
        ("amount IS NULL", [1, 2]),
    ],
)
def test_filters_over_typed_messages(where, rows):
    types = MessageTypes([sq.MessageType("order", JSON)])
    batch = [
        order({"location": "crm"}, b'{"customer": {"id": "c1"}, "total": "12.50"}'),
        order(body=b"{}"),
        sq.Message(type="other", context={"customer_id": "c2", "amount": "much"}),
    ]
    found = columns(types.typed(batch), types.properties, received_at=MOMENT)
    passed, _ = evaluate(parsed(where, types.properties), found, len(batch))
    assert np.flatnonzero(passed).tolist() == rows
    assert types.properties["customer_id"] == STRING
