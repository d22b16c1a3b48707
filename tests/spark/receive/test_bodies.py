"""Reading bodies without Spark: XML, functions of the user's, and messages that are taken apart."""

from __future__ import annotations

import bz2
import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.bodies.property_values import Unreadable
from seriatim.pipeline.bodies.xml_paths import XmlPaths
from seriatim.pipeline.declared.function import Function
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.calls.register import Calling
from seriatim.spark.receive.body_reader import Reading
from seriatim.spark.receive.gz_files import Shape
from seriatim.spark.receive.promotion import CsvColumns, Returned
from seriatim.spark.receive.row_formats import Block, CsvRows, Documents
from seriatim.spark.receive.row_paths import RowPaths
from seriatim.spark.receive.split import JsonElements, ReturnedParts
from seriatim.spark.receive.tables import _values
from seriatim.spark.receive.text_files import XmlElements
from seriatim.spark.receive.text_lines import LineReader
from tests.nested import nested_lists

WRITTEN = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)

CODE = """
import datetime, decimal
import numpy
def read(body):
    kind, *fields = body.decode().split("|")
    if kind == "ERR":
        raise ValueError("the " + "\\n".join(fields))
    if kind == "OUT":
        raise SystemExit(3)
    if kind == "LIST":
        return fields
    if kind == "ODD":
        return {"key": b"\\xff", "number": 1}
    if kind == "NAN":
        return {"share": float("nan")}
    if kind == "BIG":
        return {"number": 2**63}
    return {"key": fields[0].encode(), "number": numpy.int64(7), "share": 0.1, "paid": True, "more": object(),
            "at": datetime.datetime(2024, 5, 1, 12), "amount": decimal.Decimal("1.50")}
def parts(body):
    if body == b"text":
        return "text"
    if body == b"none":
        return []
    if body == b"number":
        return 7
    if body == b"mixed":
        return [b"a", "b"]
    if body == b"late":
        return (bytes([65 + n]) if n < 2 else 1 / 0 for n in range(3))
    return body.split(b"+")
not_a_function = 7
"""
#: Code at which a process ends.
ENDING = """
import os, signal
def short(body):
    if b"kill" in body:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"ERR" in body:
        raise ValueError("no")
    return {"a": body.decode()}
def cut(body):
    if b"exit" in body:
        os._exit(0)
    return body.split(b"+")
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """A module of the user's, under a name that no other test has."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "receive_bodies_code.py").write_text(CODE)
    return lambda name: Function(f"receive_bodies_code:{name}", (str(folder),))


@pytest.fixture(scope="module")
def ending(tmp_path_factory):
    """A module likewise, whose functions end their process."""
    folder = tmp_path_factory.mktemp("ending")
    (folder / "receive_bodies_ending.py").write_text(ENDING)
    return lambda name: Function(f"receive_bodies_ending:{name}", (str(folder),))


def read(reading, *files):
    """The messages of files, each a list of rows."""
    rows = [(body, f"file:///in/{name}", 0, WRITTEN) for name, bodies in files for body in bodies]
    types = [pa.binary(), pa.string(), pa.int64(), pa.timestamp("us", "UTC")]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)],
        names=["body", "path", "block", "received_at"],
    )
    return [row for one in LineReader(reading, "/in", Shape(2**30))([batch]) for row in one.to_pylist()]


def xml(*promote, namespaces=None, split=None):
    return Reading("crm", promote, Documents(XmlPaths(promote, namespaces or {})), split)


def value(document, path, kind="string", namespaces=None):
    (row,) = read(xml(Promotion("x", path, kind), namespaces=namespaces), ("a", [document]))
    return row["x"] if row["_invalid"] is None else row["_invalid"].removeprefix("a:1: ")


ORDER = b"""<?xml version="1.0"?>
<order xmlns="urn:o" id="7" paid="true"><total> 12.50 </total><line n="1">a</line><line n="2"><b>b</b>c</line>
<note/><at>2024-05-01T12:00:00Z</at><!-- no text --></order>"""
NAMES = {"o": "urn:o"}


@pytest.mark.parametrize(
    ("path", "kind", "found"),
    [
        ("/o:order/@id", "long", 7),
        ("@id", "string", "7"),
        ("/o:order/@paid", "boolean", True),
        ("o:total", "decimal(12,2)", Decimal("12.50")),
        ("o:total", "string", " 12.50 "),
        ("o:line[@n=2]", "string", "bc"),
        ("o:line[1]/text()", "string", "a"),
        ("count(o:line)", "long", 2),
        ("o:total * 2", "double", 25.0),
        ("sum(o:none/@n)", "long", 0),
        ("number(o:note)", "long", None),
        ("string(o:none)", "string", None),
        ("boolean(o:none)", "boolean", False),
        ("local-name()", "string", "order"),
        ("o:at", "timestamp", dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)),
        ("o:note", "string", None),
        ("o:note", "long", None),
        ("o:none", "long", None),
        ("/order/@id", "long", None),
        ("o:line", "string", "x: finds 2 values"),
        ("o:line[1]", "long", "x: 'a' is not a long"),
        ("o:total", "decimal(3,2)", "x: 12.50 doesn't fit decimal(3,2)"),
    ],
)
def test_what_a_path_finds_in_xml(path, kind, found):
    assert value(ORDER, path, kind, NAMES) == found


def test_xml_says_its_own_encoding():
    text = '<?xml version="1.0" encoding="{}"?><a>caf\u00e9</a>'
    for encoding in ("ISO-8859-1", "UTF-8", "UTF-16"):
        assert value(text.format(encoding).encode(encoding), "/a") == "caf\u00e9"
    assert value(b"\xef\xbb\xbf<a>b</a>", "/a") == "b"
    assert value("<a>caf\u00e9</a>".encode("latin-1"), "/a").startswith("not XML: ")


@pytest.mark.parametrize("document", [b"nope", b"<a>", b"<a></b>", b"<a/><b/>", b"<a>&none;</a>", b"<a b=1/>", b"\x00"])
def test_what_is_no_xml(document):
    assert value(document, "/a").startswith("not XML: ")


def test_xml_with_a_doctype_is_refused_whatever_is_in_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    documents = [
        "<!DOCTYPE a><a/>",
        f'<!DOCTYPE a [<!ENTITY e0 "{"x" * 100}">{entities}]><a>&e11;</a>',
        f'<!DOCTYPE a [<!ENTITY e0 "{"x" * 100}">{entities}]><a b="&e11;"/>',
        f'<!DOCTYPE a [<!ENTITY s SYSTEM "{secret.as_uri()}">]><a>&s;</a>',
        f'<!DOCTYPE a [<!ENTITY % s SYSTEM "{secret.as_uri()}"> %s;]><a/>',
        f'<!DOCTYPE a SYSTEM "{secret.as_uri()}"><a/>',
        '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>',
        f'<!-- {"long " * 3000} --><!DOCTYPE a [<!ENTITY e "x">]><a>&e;&none;</a>',
    ]
    for document in documents:
        for body in (document.encode(), f"\ufeff{document}".encode("utf-16-le")):
            assert value(body, "/a").startswith("the document has a DOCTYPE")


def test_xml_may_be_large_and_not_too_deep():
    assert len(value(b"<a>" + b"x" * 20_000_000 + b"</a>", "/a")) == 20_000_000
    assert value(b"<a>" * 1000 + b"x" + b"</a>" * 1000, "string()") == "x"
    assert value(b"<a>" * 100_000, "/a").startswith("not XML: Excessive depth")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/a[", "is not XPath"),
        ("/a/p:b", "the prefix 'p' is not in namespaces"),
        ("/a[p:b='x']", "the prefix 'p' is not in namespaces"),
        ("child::p:b", "the prefix 'p' is not in namespaces"),
        ("$v", "is not XPath: Undefined variable"),
        ("document('x')", "is not XPath: Unregistered function"),
    ],
)
def test_a_wrong_path_is_told_at_once(path, told):
    with pytest.raises(UsageError, match=told):
        xml(Promotion("x", path)).check()


def test_prefixes_in_texts_and_axes_are_none():
    xml(Promotion("x", "ancestor-or-self::a[@b='p:q']/child::o:c"), namespaces=NAMES).check()


RETURNED = (
    Promotion("key", "key"),
    Promotion("number", "number", "long"),
    Promotion("share", "share", "double"),
    Promotion("paid", "paid", "boolean"),
    Promotion("at", "at", "timestamp"),
    Promotion("amount", "amount", "decimal(5,2)"),
    Promotion("absent", "absent"),
)


def test_a_function_reads_the_properties(code):
    reading = Reading("lab", RETURNED, Documents(Returned(code("read"), RETURNED)))
    good, *bad = read(reading, ("a", [b"OK|k", b"", b"ERR|x|y", b"OUT", b"LIST|1", b"ODD", b"NAN", b"BIG", b"OK"]))
    assert good["message_id"] == "lab/a:1"
    assert [good[one.name] for one in RETURNED] == [
        *("k", 7, 0.1, True, dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC), Decimal("1.50"), None)
    ]
    name = "receive_bodies_code:read"
    assert [row["_invalid"] for row in bad] == [
        f"a:3: {name}: ValueError: the x y",
        f"a:4: {name}: SystemExit: 3",
        f"a:5: {name}: returned list, not a mapping from names to values",
        "a:6: key: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "a:7: share: NaN is beyond the range of a double",
        "a:8: number: 9223372036854775808 is beyond the range of a long",
        f"a:9: {name}: IndexError: list index out of range",
    ]
    assert [[one.name for one in RETURNED if row[one.name] is not None] for row in bad] == [
        *([], [], [], ["number"], [], [], [])  # one property that is wrong leaves the others
    ]


@pytest.mark.parametrize(("name", "told"), [("absent", "has no 'absent'"), ("not_a_function", "isn't callable")])
def test_a_function_that_is_none_is_told_at_once(code, name, told):
    with pytest.raises(UsageError, match=told):
        Reading("lab", RETURNED, Documents(Returned(code(name), RETURNED))).check()


def json_lines(path, *promote):
    return Reading("crm", promote, Documents(JsonPaths(promote)), JsonElements(path))


def test_a_json_list_is_taken_apart():
    promote = (
        Promotion("order", "$.order", envelope=True),
        Promotion("sku", "$.sku"),
        Promotion("pieces", "$.pieces", "long"),
    )
    document = b'{"order": 7, "lines": [ {"sku": "a", "pieces": 1} ,{"sku":"b","pieces":"x"}, null,\n 5] }'
    found = read(json_lines("$.lines", *promote), ("a.json", [b"", document, b'{"order": 8, "lines": [{"sku": "c"}]}']))
    assert [(row["message_id"], row["parent_id"], row["part"], row["parts"], row["body"]) for row in found] == [
        ("crm/a.json:2.1", "crm/a.json:2", 1, 4, b'{"sku": "a", "pieces": 1}'),
        ("crm/a.json:2.2", "crm/a.json:2", 2, 4, b'{"sku":"b","pieces":"x"}'),
        ("crm/a.json:2.3", "crm/a.json:2", 3, 4, b"null"),
        ("crm/a.json:2.4", "crm/a.json:2", 4, 4, b"5"),
        ("crm/a.json:3.1", "crm/a.json:3", 1, 1, b'{"sku": "c"}'),
    ]
    assert [(row["order"], row["sku"], row["pieces"]) for row in found] == [
        *(("7", "a", 1), ("7", "b", None), ("7", None, None), ("7", None, None), ("8", "c", None))
    ]
    assert [row["_invalid"] for row in found] == [None, "a.json:2.2: pieces: 'x' is not a long", None, None, None]
    assert [row["_position"] for row in found] == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"nope", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"lines": [1', "not JSON: Expecting ',' delimiter: line 1 column 13 (char 12)"),
        (b'{"lines": [1]} x', "not JSON: Extra data: line 1 column 16 (char 15)"),
        (b'{"lines": []}', "split: the list at $.lines is empty"),
        (b'{"lines": {}}', "split: there is no list at $.lines"),
        (b'{"lines": null}', "split: there is no list at $.lines"),
        (b"[]", "split: there is no list at $.lines"),
        (b'{"lines": [1], "total": "x"}', "total: 'x' is not a long"),
        (b'{"lines": ["\xff"]}', "not UTF-8 at byte 12"),
        (b"[" * 100_000, "not JSON that can be read: nested too deeply"),
    ],
)
def test_what_cannot_be_taken_apart_is_one_invalid_message(document, reason):
    promote = (Promotion("total", "$.total", "long", envelope=True), Promotion("n", "$", "long"))
    found = read(json_lines("$.lines", *promote), ("a", [b'{"lines": [1]}', document, b'{"lines": [2]}']))
    assert [row["n"] for row in found] == [1, None, 2]
    bad = found[1]
    assert (bad["message_id"], bad["_invalid"], bad["body"]) == ("crm/a:2", f"a:2: {reason}", document)
    assert (bad["parent_id"], bad["part"], bad["parts"]) == (None, None, None)


@pytest.mark.parametrize("path", ["$", "$[0]", "$.a", "$[0].a"])
def test_a_document_of_any_depth_is_one_message_or_its_parts(path):
    split = JsonElements(path).splitter()
    told = set()
    for nested in nested_lists():
        for body in (nested, b'{"a": %b}' % nested, b'[{"a": %b}]' % nested):
            try:
                told.add(len(split(body)))
            except Unreadable as error:
                told.add(str(error))
    assert {1, "not JSON that can be read: nested too deeply"} <= told


@pytest.mark.parametrize("number", ["1e400", "0.10", "1.0E+2", "-0", "9" * 5000, "123456789012345678901234567890.1"])
def test_numbers_of_parts_stay_as_they_are_written(number):
    (row,) = read(json_lines("$.a"), ("a", [f'{{"a":[{number}]}}'.encode()]))
    assert row["body"] == number.encode()


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("$", b"\xef\xbb\xbf [1, 2] "),
        ("$[1][0]", b"[0, [[1,2]]]"),
        ("$['a b'].c", b'{"a b": {"x": "]}", "c": [1, 2]}}'),
        ("$.a", b'{"a": 0, "a": [1, 2]}'),
        ("$.a", b'{"b": "\\"a\\": [", "\\u0061": [1, 2]}'),
    ],
)
def test_where_a_list_may_be(path, document):
    assert [row["body"] for row in read(json_lines(path), ("a", [document]))] == [b"1", b"2"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(
    before=st.dictionaries(st.text(max_size=3), _JSON, max_size=3),
    parts=st.lists(_JSON, min_size=1, max_size=5),
    indent=st.sampled_from([None, 1]),
    plain=st.booleans(),
)
def test_parts_put_together_are_the_list(before, parts, indent, plain):
    document = json.dumps({**before, "the list": parts}, indent=indent, ensure_ascii=plain)
    try:
        body = document.encode()
    except UnicodeEncodeError:
        body = json.dumps({**before, "the list": parts}, indent=indent).encode()
    cut = JsonElements("$['the list']").splitter()(body)
    assert [json.loads(part) for part in cut] == parts


def test_xml_elements_are_taken_apart_with_their_namespaces():
    promote = (Promotion("n", "@n", "long"), Promotion("text", "/o:line"), Promotion("total", "o:total", envelope=True))
    reading = xml(*promote, namespaces=NAMES, split=XmlElements("//o:line", NAMES))
    one, two = read(reading, ("a.xml", [ORDER]))
    assert (one["message_id"], one["n"], one["text"], one["total"]) == ("crm/a.xml:1.1", 1, "a", " 12.50 ")
    assert (two["part"], two["parts"], two["text"]) == (2, 2, "bc")
    assert two["body"] == b'<line xmlns="urn:o" n="2"><b>b</b>c</line>'


@pytest.mark.parametrize(
    ("path", "document", "reason"),
    [
        ("/a/b", b"<a/>", "split: /a/b finds no element"),
        ("/a/@b", b'<a b="1"/>', "split: /a/@b finds values, not elements"),
        ("count(/a)", b"<a/>", "split: count(/a) finds values, not elements"),
        ("/a/b", b"<a><b>", "not XML: "),
        ("/a/b", b"<!DOCTYPE a><a><b/></a>", "the document has a DOCTYPE"),
    ],
)
def test_xml_that_cannot_be_taken_apart(path, document, reason):
    (row,) = read(xml(split=XmlElements(path)), ("a", [document]))
    assert row["_invalid"].startswith(f"a:1: {reason}")
    assert (row["body"], row["part"]) == (document, None)


def test_a_function_takes_messages_apart(code):
    promote = (Promotion("n", "$", "long"),)
    reading = Reading("crm", promote, Documents(JsonPaths(promote)), ReturnedParts(code("parts")))
    bodies = [b"1+2", b"1++x", b"text", b"none", b"number", b"mixed", b"late"]
    found = read(reading, ("a", bodies))
    name = "receive_bodies_code:parts"
    assert [(row["message_id"], row["n"], row["_invalid"]) for row in found] == [
        ("crm/a:1.1", 1, None),
        ("crm/a:1.2", 2, None),
        ("crm/a:2.1", 1, None),
        ("crm/a:2.2", None, "a:2.2: the part is empty"),
        ("crm/a:2.3", None, "a:2.3: not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("crm/a:3", None, f"a:3: {name}: returned str, not a list of bytes"),
        ("crm/a:4", None, f"a:4: {name}: returned no part"),
        ("crm/a:5", None, f"a:5: {name}: TypeError: 'int' object is not iterable"),
        ("crm/a:6", None, f"a:6: {name}: part 2 is str, not bytes"),
        ("crm/a:7", None, f"a:7: {name}: ZeroDivisionError: division by zero"),
    ]


def test_one_property_that_is_wrong_leaves_the_others():
    promote = (Promotion("a", "$.a", "long"), Promotion("b", "$.b"), Promotion("c", "$.c", "boolean"))
    (row,) = read(Reading("crm", promote, Documents(JsonPaths(promote))), ("f", [b'{"a": "x", "b": "b", "c": 3}']))
    assert [row[name] for name in "abc"] == [None, "b", None]
    assert row["_invalid"] == "f:1: a: 'x' is not a long; c: 3 is not a boolean"
    promote = (Promotion("a", "/r/a", "long"), Promotion("b", "/r/b"), Promotion("c", "/r/b", "long"))
    (row,) = read(xml(*promote), ("f", [b"<r><a>1</a><a>2</a><b>b</b></r>"]))
    assert ([row[name] for name in "abc"], row["_invalid"]) == (
        *([None, "b", None], "f:1: a: finds 2 values; c: 'b' is not a long"),
    )
    promote = (Promotion("a", "a", "long"), Promotion("b", "b"))
    _, row = read(Reading("crm", promote, CsvRows(CsvColumns(promote))), ("f", [b"a,b", b"1,y", b"x,y"]))
    assert (row["a"], row["b"], row["_invalid"]) == (None, "y", "f:3: a: 'x' is not a long")


def test_the_whole_of_a_message_keeps_its_properties_where_it_cannot_be_taken_apart():
    promote = (Promotion("order", "$.id", envelope=True), Promotion("n", "$.n", "long"))
    (row,) = read(json_lines("$.lines", *promote), ("a", [b'{"id": 7}']))
    assert (row["order"], row["n"], row["_invalid"]) == ("7", None, "a:1: split: there is no list at $.lines")


@pytest.mark.parametrize(
    ("document", "found", "problem"),
    [
        (b'{"a": 1, "b": 2}', 1, None),
        (b'{"b": 2}', 2, None),
        (b'{"a": null, "b": 2}', 2, None),
        (b'{"a": 0, "b": 2}', 0, None),
        (b'{"a": null, "b": null}', None, None),
        (b'{"a": "x", "b": 2}', None, "f:1: x: 'x' is not a long"),
    ],
)
def test_of_several_paths_the_first_that_is_there_counts(document, found, problem):
    promote = (Promotion("x", ("$.a", "$.b"), "long"),)
    (row,) = read(Reading("crm", promote, Documents(JsonPaths(promote))), ("f", [document]))
    assert (row["x"], row["_invalid"]) == (found, problem)


def test_several_paths_in_xml_and_several_columns():
    promote = (Promotion("x", ("/r/after/@id", "/r/before/@id"), "long"),)
    rows = [
        b'<r><after id="1"/><before id="2"/></r>',
        b'<r><before id="2"/></r>',
        b'<r><after id=""/><before id="2"/></r>',
    ]
    assert [row["x"] for row in read(xml(*promote), ("f", rows))] == [1, 2, 2]
    promote = (Promotion("x", ("new", "old", "never"), "long"),)
    found = read(Reading("crm", promote, CsvRows(CsvColumns(promote))), ("f", [b"old,new", b"1,2", b"1,", b","]))
    assert [(row["x"], row["_invalid"]) for row in found] == [(2, None), (1, None), (None, None)]
    (row,) = read(Reading("crm", promote, CsvRows(CsvColumns(promote))), ("f", [b"b", b"1"]))
    assert row["_invalid"] == "f:2: the header has no column new or old or never"
    promote = (Promotion("x", ("$.a", "$.a[*]")),)
    with pytest.raises(UsageError, match=r"'\$.a\[\*\]' is not a path to one value"):
        Reading("crm", promote, Documents(JsonPaths(promote))).check()


def test_a_message_without_the_list_may_stay_whole(code):
    promote = (Promotion("kind", "$.kind", envelope=True), Promotion("n", "$.n", "long"))
    split = JsonElements("$.rows")
    reading = Reading("crm", promote, Documents(JsonPaths(promote)), split, "whole")
    bodies = [
        b'{"kind": "dml", "rows": [{"n": 1}, {"n": 2}]}',
        b'{"kind": "ddl", "n": 7}',
        b'{"kind": "ddl", "rows": null}',
        b'{"kind": "ddl", "rows": {}}',
        b'{"kind": "ddl", "rows": []}',
        b'{"kind": "ddl", "n": "x"}',
        b"nope",
    ]
    found = read(reading, ("a", bodies))
    assert [
        (row["message_id"], row["parent_id"], row["part"], row["kind"], row["n"], row["_invalid"]) for row in found
    ] == [
        ("crm/a:1.1", "crm/a:1", 1, "dml", 1, None),
        ("crm/a:1.2", "crm/a:1", 2, "dml", 2, None),
        ("crm/a:2", None, None, "ddl", 7, None),
        ("crm/a:3", None, None, "ddl", None, None),
        ("crm/a:4", None, None, "ddl", None, None),
        ("crm/a:5", None, None, "ddl", None, None),
        ("crm/a:6", None, None, "ddl", None, "a:6: n: 'x' is not a long"),
        ("crm/a:7", None, None, None, None, "a:7: not JSON: Expecting value: line 1 column 1 (char 0)"),
    ]
    assert [row["body"] for row in found[2:]] == bodies[1:]
    nothing = Reading("crm", (), Documents(None), ReturnedParts(code("parts")), "whole")
    assert [row["message_id"] for row in read(nothing, ("a", [b"none", b"1+2"]))] == [
        "crm/a:1",
        "crm/a:2.1",
        "crm/a:2.2",
    ]
    elements = xml(Promotion("n", "@n", "long"), split=XmlElements("/a/b"))
    elements = Reading("crm", elements.promote, elements.rows, elements.split, "whole")
    found = read(elements, ("a", [b'<a n="3"/>', b'<a><b n="4"/></a>']))
    assert [(row["message_id"], row["n"], row["_invalid"]) for row in found] == [
        *(("crm/a:1", 3, None), ("crm/a:2.1", 4, None))
    ]


def test_csv_lines_are_taken_apart_under_their_header(code):
    promote = (Promotion("b", "b"), Promotion("whole", "a", envelope=True))
    reading = Reading("crm", promote, CsvRows(CsvColumns(promote)), ReturnedParts(code("parts")))
    found = read(reading, ("one", [b"a,b", b"x,1", b"x,1+y,2"]), ("two", [b"b,a", b"3,z"]))
    assert [(row["message_id"], row["b"], row["whole"], row["_invalid"]) for row in found] == [
        ("crm/one:2.1", "1", "x", None),
        ("crm/one:3", None, None, "one:3: 3 fields where the header has 2"),
        ("crm/two:2.1", "3", "z", None),
    ]


def test_parts_that_are_large_come_in_several_batches():
    document = b'{"a": [' + b",".join([b'"' + b"x" * 2**20 + b'"'] * 40) + b"]}"
    rows = [(document, "file:///in/a", 0, WRITTEN)] * 3
    columns = zip(*rows, strict=True)
    types = [pa.binary(), pa.string(), pa.int64(), pa.timestamp("us", "UTC")]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=["body", "path", "block", "received_at"])
    sizes = [one.num_rows for one in LineReader(json_lines("$.a"), "/in", Shape(2**30))([batch])]
    assert sizes == [80, 40]


def test_a_splitter_says_what_it_cannot_read():
    with pytest.raises(Unreadable, match=r"there is no list at \$\.a"):
        JsonElements("$.a").splitter()(b"{}")
    with pytest.raises(UsageError, match="is not a path to one value"):
        JsonElements("$.a[*]").splitter()
    with pytest.raises(UsageError, match="there is no module 'receive_bodies_none'"):
        ReturnedParts(Function("receive_bodies_none:parts", (str(Path.cwd()),))).splitter()


A = (Promotion("a", "a"),)
ENDS = "receive_bodies_ending:short: it ended its process: signal 11 (SIGSEGV)"


@pytest.mark.proves("a body at which the user's function ends its process is invalid, and the others are read")
@pytest.mark.parametrize(
    ("rows", "header"), [(lambda ending: Documents(Returned(ending("short"), A)), []),
                         (lambda ending: CsvRows(Returned(ending("short"), A)), [b"kill the header"])],
    ids=["lines", "csv"],
)  # fmt: skip
def test_a_body_at_which_a_function_ends_its_process(ending, rows, header, tmp_path):
    """A header is none of the function's business."""
    calling = Calling(str(tmp_path), batch=3, apart=True).of("receive_bodies_ending:short", "crm")
    reading = Reading("crm", A, rows(ending), calling=calling)
    files = (
        ("a", [b"", *header, b"kill", b"1", b"ERR", b"2", b"kill 2", b"kill 3", b"3"]),
        ("b", [*header, b"kill", b"4"]),
    )

    def found(reading, files):
        return {
            row["message_id"].rpartition(":")[0] + f" {row['body'].decode()}": row["a"]
            or row["_invalid"].partition(": ")[2]
            for row in read(reading, *files)
        }

    told = found(reading, files)
    assert told == {
        "crm/a kill": ENDS, "crm/a 1": "1", "crm/a ERR": "receive_bodies_ending:short: ValueError: no", "crm/a 2": "2",
        "crm/a kill 2": ENDS, "crm/a kill 3": ENDS, "crm/a 3": "3", "crm/b kill": ENDS, "crm/b 4": "4",
    }  # fmt: skip
    # Once more, as the batch may run in a worker that has had no trouble.
    assert found(replace(reading, calling=replace(calling, apart=False)), files) == told


@pytest.mark.proves("a body at which the function that splits ends its process is invalid as a whole")
def test_a_body_at_which_a_function_that_splits_ends_its_process(ending, tmp_path):
    calling = Calling(str(tmp_path), batch=3, apart=True).of(
        "receive_bodies_ending:cut or receive_bodies_ending:short", "crm"
    )
    reading = Reading("crm", A, Documents(Returned(ending("short"), A)), ReturnedParts(ending("cut")), calling=calling)
    rows = read(reading, ("a", [b"1+2", b"exit+3", b"4+kill", b"5"]))
    assert [row["message_id"] for row in rows] == ["crm/a:1.1", "crm/a:1.2", "crm/a:2", "crm/a:3", "crm/a:4.1"]
    assert [row["_invalid"] for row in rows] == [
        None,
        None,
        "a:2: receive_bodies_ending:cut or receive_bodies_ending:short: it ended its process: exit code 0",
        "a:3: receive_bodies_ending:cut or receive_bodies_ending:short: it ended its process: signal 11 (SIGSEGV)",
        None,
    ]


@pytest.mark.parametrize("separator", [b"\n", b"\r", b"|"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.bz2"])
def test_rows_of_a_later_block_have_the_header_of_their_file(tmp_path, suffix, separator):
    text = separator.join([b"", b"a,b", b"1,x", b"2,y"])
    path = tmp_path / f"f{suffix}"
    path.write_bytes(bz2.compress(text) if suffix.endswith(".bz2") else text)
    promote = (Promotion("b", "b"),)
    read_row = CsvRows(CsvColumns(promote), separator=separator).reader(Block(path.as_uri(), 4))
    assert read_row(b"2,y", {}) == (["y"], None)


def test_a_column_s_values_that_python_can_t_have_are_faults_of_their_rows():
    far, near = pa.array([2**62, 0], pa.timestamp("us", tz="UTC")), pa.array([None, 0], pa.timestamp("us", tz="UTC"))
    text = pa.array([b"caf\xe9", b"Bonn"]).view(pa.string())
    city = pa.StructArray.from_arrays([text, pa.array(["x", "y"])], ["city", "other"])
    promote = (Promotion("until", ("far", "near"), "timestamp"), Promotion("city", "customer:$.city"))
    read = RowPaths(promote).reader()
    columns = {"far": _values(far), "near": _values(near), "customer": _values(city)}
    first, second = (read(None, {name: found[row] for name, found in columns.items()}) for row in (0, 1))
    assert first == (
        [None, None],
        (
            "until: the column far has a date or a time outside of the years 1 to 9999; "
            "city: the column customer has text that is not UTF-8"
        ),
    )
    assert second[1] is None
    assert second[0][1] == "Bonn"
