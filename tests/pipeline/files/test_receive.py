"""The ``receive`` part of pipeline files: sources, functions, XPath, splitting and stamping, and what is wrong there."""

from __future__ import annotations

from pathlib import Path

import pytest

from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.pipeline.declared.pipeline import Split, Stamp
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files import pipeline_file

HEAD = "name: small\nreceive:\n"
TAIL = """\
route:
  - to: all
    resequence: {policy: fifo, group: key}
    deliver: {format: json, path: out/all}
"""
CODE = """
def read(body):
    return {}
def parts(body):
    return [body]
def two(body, more):
    return {}
async def later(body):
    return {}
number = 7
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "inbox").mkdir()
    (tmp_path / "other").mkdir()
    # A module of its own for each test: a process imports a name once.
    (tmp_path / f"code_{tmp_path.name}.py").write_text(CODE)
    (tmp_path / f"broken_{tmp_path.name}.py").write_text("import no_such_module_at_all\n")


@pytest.fixture
def code(tmp_path):
    return f"code_{tmp_path.name}"


def written(*lines: str, tail: str = TAIL) -> Path:
    first, *rest = lines
    path = Path("pipeline.yaml")
    path.write_text(HEAD + f"  - {first}\n" + "".join(f"    {line}\n" for line in rest) + tail)
    return path


def read(*lines: str, tail: str = TAIL):
    return pipeline_file.load(written(*lines, tail=tail)).receive[0]


def fault(*lines: str, tail: str = TAIL) -> str:
    found = [str(one).removeprefix("pipeline.yaml:") for one in pipeline_file.check(written(*lines, tail=tail))]
    assert len(found) == 1, found
    return found[0]


JSON = ("location: crm", "source: {format: json, path: inbox}")
XML = ("location: crm", "source: {format: xml, path: inbox}", "namespaces: {o: 'urn:o'}")
TEXT = ("location: crm", "source: {format: text, path: inbox, options: {wholetext: true}}")
CSV = ("location: crm", "source: {format: csv, path: inbox}")
PARQUET = ("location: crm", "source: {format: parquet, path: inbox}")
KAFKA = (
    "location: crm",
    "source: {format: kafka, id: [topic, partition, offset], body: value, options: {kafka.bootstrap.servers: 'k:1', subscribe: t}}",
)


def test_any_format_of_sparks_with_the_columns_that_name_a_row():
    entry = read(*KAFKA, "promote: {key: key, n: {path: $.n, type: long}, x: /o/x}")
    assert (entry.source.format, entry.source.path, entry.source.options) == (
        "kafka",
        None,
        {"kafka.bootstrap.servers": "k:1", "subscribe": "t"},
    )
    assert (entry.source.id, entry.source.body) == (("topic", "partition", "offset"), "value")
    entry = read("location: crm", "source: {format: orc, path: inbox, id: n, schema: n long}", "promote: {key: k}")
    assert (entry.source.id, entry.source.path, entry.source.schema) == (("n",), Path("inbox"), "n long")


def test_xml_with_namespaces():
    entry = read(*XML, "promote: {key: /o:a/@b, n: {path: 'count(o:c)', type: long}}")
    assert entry.namespaces == {"o": "urn:o"}
    assert entry.promote == (Promotion("key", "/o:a/@b"), Promotion("n", "count(o:c)", "long"))


@pytest.mark.parametrize("location", [TEXT, JSON, XML, CSV, PARQUET, KAFKA])
def test_a_function_may_read_any_format(location, code):
    entry = read(*location, f"promote: {{function: '{code}:read', returns: {{key: string, n: 'decimal(5,2)'}}}}")
    assert entry.function == f"{code}:read"
    assert entry.promote == (Promotion("key", "key"), Promotion("n", "n", "decimal(5,2)"))


def test_properties_may_be_called_function_and_returns():
    entry = read(*JSON, "promote: {key: $.k, function: $.f, returns: $.r}")
    assert [one.name for one in entry.promote] == ["key", "function", "returns"]
    assert entry.function is None
    assert read(*CSV, "promote: {key: k, function: f, returns: {path: r}}").function is None


def test_splitting(code):
    promote = "promote: {key: {path: $.k, envelope: true}, n: $.n}"
    entry = read(*JSON, "split: $.lines", promote)
    assert entry.split == Split("$.lines")
    assert [one.envelope for one in entry.promote] == [True, False]
    assert read(*JSON, "split: {path: $}", promote).split == Split("$")
    assert read(*JSON, f"split: {{function: '{code}:parts'}}", promote).split == Split(None, f"{code}:parts")
    assert read(*XML, "split: //o:line", "promote: {key: k}").split == Split("//o:line")
    assert read(*PARQUET, "split: $.lines", "promote: {key: k, n: $.n}").split == Split("$.lines")
    assert read(*KAFKA, "split: $.lines", "promote: {key: key, n: $.n}").split == Split("$.lines")
    assert read(*JSON, "promote: {key: $.k}").split is None


def test_what_becomes_of_a_message_that_has_nothing_to_split(code):
    promote = "promote: {key: $.k}"
    assert read(*JSON, "split: {path: $.lines, otherwise: whole}", promote).split == Split("$.lines", None, "whole")
    assert read(*JSON, "split: {path: $.lines, otherwise: invalid}", promote).split == Split("$.lines")
    entry = read(*JSON, f"split: {{function: '{code}:parts', otherwise: whole}}", promote)
    assert entry.split == Split(None, f"{code}:parts", "whole")
    assert fault(*JSON, "split: {path: $.l, otherwise: hole}", promote) == (
        "5:35: receive[0].split.otherwise can't be 'hole' (did you mean 'whole'?)"
    )


def test_a_property_may_have_several_paths():
    paths = ("$.after.id", "$.before.id")
    for written in ("[$.after.id, $.before.id]", "{path: [$.after.id, $.before.id]}"):
        assert read(*JSON, f"promote: {{key: {written}}}").promote == (Promotion("key", paths),)
    entry = read(*JSON, "promote: {key: [$.a], n: {path: [$.n, $.m], type: long}}")
    assert entry.promote == (Promotion("key", "$.a"), Promotion("n", ("$.n", "$.m"), "long"))
    assert read(*XML, "promote: {key: ['o:a/@b', c]}").promote[0].paths == ("o:a/@b", "c")
    assert read(*CSV, "promote: {key: [new, old]}").promote[0].paths == ("new", "old")
    kafka = read(*KAFKA, "promote: {key: [$.after.id, 'key:$.id', topic]}")
    assert kafka.promote[0].paths == ("$.after.id", "key:$.id", "topic")


def names(entry):
    return [one.name for one in entry.promote]


@pytest.mark.parametrize("location", [JSON, PARQUET, KAFKA])
def test_an_envelope_tells_properties_and_goes_with_others(location):
    entry = read(*location, "promote: {envelope: debezium, key: [$.after.id, $.before.id]}")
    assert entry.envelope == "debezium"
    assert names(entry) == [
        *("op", "snapshot", "database", "schema", "table", "position", "position_text", "transaction", "happened_at"),
        "key",
    ]
    assert entry.promote[5] == Promotion("position", "position", "long", False, "debezium")
    entry = read(*location, "promote: {key: [$.k, $.l], envelope: maxwell, op: [$.type], position: {path: [$.p, $.q]}}")
    assert (entry.promote[-2], entry.promote[-1]) == (Promotion("op", "$.type"), Promotion("position", ("$.p", "$.q")))
    assert len(set(names(entry))) == len(names(entry))
    tail = TAIL.replace("{policy: fifo, group: key}", "{policy: best_effort, group: table, sequence: position}")
    tail = tail.replace("- to: all", "- to: all\n    where: \"op <> 'tombstone' AND NOT snapshot\"")
    assert (
        pipeline_file.load(written(*location, "promote: {envelope: debezium}", tail=tail)).route[0].queue.group.by
        == "table"
    )


def test_an_envelope_is_the_whole_of_a_message_that_is_split_by_its_own_list():
    entry = read(*JSON, "split: {path: $.data, otherwise: whole}", "promote: {envelope: canal, key: $.id}")
    assert {one.envelope for one in entry.promote if one.told_by} == {True}
    assert entry.promote[-1] == Promotion("key", "$.id")
    entry = read(*JSON, "split: \"$['value'].data\"", "promote: {envelope: canal, key: $.id}")
    assert {one.envelope for one in entry.promote if one.told_by} == {True}
    for split in ("$", "$.records", "$.database.events"):
        entry = read(*JSON, f"split: {split}", "promote: {envelope: cloudevents, key: $.id}")
        assert {one.envelope for one in entry.promote} == {False}


def test_a_property_may_be_called_envelope():
    for written in ("$.e", "{path: $.e}", "[$.e, $.f]"):
        entry = read(*JSON, f"promote: {{key: $.k, envelope: {written}}}")
        assert (names(entry), entry.envelope) == (["key", "envelope"], None)
    assert names(read(*CSV, "promote: {key: k, envelope: e}")) == ["key", "envelope"]
    assert read(*KAFKA, "promote: {key: key, envelope: topic}").envelope is None


def test_what_parts_have_is_there_for_order():
    tail = TAIL.replace(
        "{policy: fifo, group: key}", "{policy: unit_of_work, group: parent_id, sequence: part, size: parts}"
    )
    pipeline = pipeline_file.load(written(*JSON, "split: $.lines", tail=tail))
    assert (pipeline.route[0].queue.group.by, pipeline.route[0].queue.sequence) == ("parent_id", "part")
    found = [str(one) for one in pipeline_file.check(written(*JSON, "promote: {n: $.n}", tail=tail))]
    assert [one.split(": ")[2] for one in found] == [
        f"no location promotes a property '{name}' (promote it under receive)"
        for name in ("parent_id", "part", "parts")
    ] or all("no location promotes a property" in one for one in found)
    assert len(found) == 3
    wrong = tail.replace("sequence: part,", "sequence: parent_id,")
    assert "'parent_id' is string, but has to be long" in fault(*JSON, "split: $.lines", tail=wrong)


@pytest.mark.parametrize(
    ("line", "stamp"),
    [
        ("stamp: false", None),
        ("stamp: true", Stamp()),
        ("stamp: {}", Stamp()),
        ("stamp: {last_number: 1}", Stamp(1)),
        ("stamp: {order_by: n}", Stamp(LAST_NUMBER, ("n",))),
        ("stamp: {last_number: 1000, order_by: [n, key, message_id]}", Stamp(1000, ("n", "key", "message_id"))),
    ],
)
def test_stamping(line, stamp):
    assert read(*JSON, "promote: {key: $.k, n: {path: $.n, type: long}}", line).stamp == stamp


def test_parts_may_be_stamped_by_their_number():
    entry = read(*JSON, "split: $.l", "promote: {key: $.k}", "stamp: {order_by: [parent_id, part]}")
    assert entry.stamp == Stamp(LAST_NUMBER, ("parent_id", "part"))


KEY = "promote: {key: $.k}"
FAULTS = [
    (
        ("location: crm", "source: {format: jsn, path: inbox}", KEY),
        "4:22: the format 'jsn' is not known (did you mean 'json'?)",
    ),
    (
        ("location: crm", "source: {format: txt, path: inbox}"),
        "4:22: the format 'txt' is not known (did you mean 'text'?)",
    ),
    (("location: crm", "source: {format: orc, path: inbox}"), "4:22: the format 'orc' needs id, the columns that name"),
    (("location: crm", "source: {format: rate, id: []}"), "4:32: receive[0].source.id must be a text or a list of"),
    (("location: crm", "source: {format: rate, id: [a, a]}"), "4:32: receive[0].source.id must be a text or a list of"),
    (("location: crm", "source: {format: rate, id: 7}"), "4:32: receive[0].source.id must be text, not 7"),
    (
        ("location: crm", "source: {format: json, path: inbox, id: a}", KEY),
        "4:45: receive[0].source.id: json has messages",
    ),
    (
        ("location: crm", "source: {format: xml, path: inbox, body: a}"),
        "4:46: receive[0].source.body: xml has messages",
    ),
    (
        ("location: crm", "source: {format: text, path: inbox, schema: a int}"),
        "4:49: text is read as it is and takes no",
    ),
    (("location: crm", "source: {format: json}", KEY), "4:13: receive[0].source.path is missing"),
    (
        ("location: crm", "source: {format: json, path: inbox, options: {multiline: 1}}", KEY),
        "4:62: receive[0].source.options.multiline is true or false",
    ),
    (
        ("location: crm", "source: {format: json, path: inbox, options: {maxRowBytes: 1GB}}", KEY),
        "4:64: maxRowBytes is a number of bytes from 1 to 536,870,912, not '1GB'",
    ),
    (
        ("location: crm", "source: {format: json, path: inbox, options: {maxFilePerTrigger: 1}}", KEY),
        "4:51: unknown option 'maxFilePerTrigger' of json (did you mean 'maxFilesPerTrigger'?)",
    ),
    ((*JSON, KEY, "namespaces: {o: x}"), "6:5: receive[0].namespaces: json has none"),
    ((*XML[:2], "namespaces: {'a b': x}"), "5:18: 'a b' can't be a prefix of names in XML"),
    ((*XML[:2], "namespaces: [o]"), "5:17: receive[0].namespaces must be a mapping, not a list"),
    ((*XML, "promote: {key: /p:a}"), "6:20: '/p:a': the prefix 'p' is not in namespaces (it has o)"),
    ((*XML, "promote: {key: '/a['}"), "6:20: '/a[' is not XPath: Invalid expression"),
    ((*XML, "promote: {key: $.a}"), "6:20: '$.a': XML has XPath"),
    ((*TEXT, "promote: {key: a}"), "5:20: 'a': text has no paths (write promote: {function: module:name"),
    ((*PARQUET, "promote: {key: $.a}"), "5:20: '$.a': parquet has columns, not paths"),
    ((*KAFKA, "promote: {key: '$.a[*]'}"), "5:20: '$.a[*]' is not a path into JSON"),
    ((*KAFKA, "promote: {key: '/a['}"), "5:20: '/a[' is not XPath"),
    ((*JSON, "promote: {key: {path: $.k, envelope: true}}"), "5:42: envelope: true is for messages that are split"),
    (
        (*JSON, "split: $.l", "promote: {key: {path: $.k, envelope: 1}}"),
        "6:42: receive[0].promote.key.envelope must be true or false",
    ),
    ((*JSON, "split: lines", KEY), "5:12: 'lines' is not a path into JSON (write the path to a list, such as $.lines)"),
    ((*JSON, "split: {pth: $.l}", KEY), "5:13: unknown key 'pth' in receive[0].split (did you mean 'path'?)"),
    ((*JSON, "split: [a]", KEY), "5:12: receive[0].split must be a single value, not a list"),
    ((*CSV, "split: $.l", "promote: {key: k}"), "5:12: '$.l': csv has no lists to split by a path"),
    ((*XML, "split: //p:a", "promote: {key: k}"), "6:12: '//p:a': the prefix 'p' is not in namespaces"),
    ((*JSON, "promote: {key: [$.a, $.a]}"), "5:20: receive[0].promote.key must be a text or a list of different texts"),
    ((*JSON, "promote: {key: []}"), "5:20: receive[0].promote.key must be a text or a list of different texts"),
    ((*JSON, "promote: {key: {path: [$.a, b]}}"), "5:27: 'b' is not a path into JSON"),
    ((*KAFKA, "promote: {key: [key, 'key:$.a[*]']}"), "5:20: 'key:$.a[*]' is not a path into JSON"),
    ((*XML, "promote: {key: [a, $.b]}"), "6:20: '$.b': XML has XPath"),
    (
        (*JSON, "promote: {envelope: debezum, key: $.a}"),
        "5:25: receive[0].promote.envelope can't be 'debezum' (did you mean 'debezium'?)",
    ),
    ((*JSON, "promote: {envelope: 7, key: $.a}"), "5:25: receive[0].promote.envelope must be text, not 7"),
    (
        (*XML, "promote: {envelope: debezium, key: a}"),
        "6:25: receive[0].promote.envelope: xml has no Debezium, which is JSON (receive it as json)",
    ),
    (
        (*JSON, "promote: {envelope: debezium, key: {path: $.a, envelope: true}}"),
        "5:62: envelope: true is for messages that are split",
    ),
    (
        (*JSON, "promote: {envelope: debezium, ordinal: $.a}"),
        "5:35: 'ordinal' is the name of a column that seriatim adds",
    ),
    ((*JSON, KEY, "stamp: 7"), "6:12: receive[0].stamp must be false or a mapping"),
    ((*JSON, KEY, "stamp: {last_number: 0}"), "6:26: receive[0].stamp.last_number must be a whole number from 1"),
    (
        (*JSON, KEY, "stamp: {last_numbr: 1}"),
        "6:13: unknown key 'last_numbr' in receive[0].stamp (did you mean 'last_number'?)",
    ),
    (
        (*JSON, KEY, "stamp: {order_by: ky}"),
        "6:23: receive[0].stamp.order_by: the location doesn't promote 'ky' (did you mean 'key'?)",
    ),
    ((*JSON, KEY, "stamp: {order_by: [part]}"), "6:23: receive[0].stamp.order_by: the location doesn't promote 'part'"),
    (
        (*JSON, "promote: {key: $.k, x: {path: $.x, type: double}}", "stamp: {order_by: x}"),
        "6:23: receive[0].stamp.order_by: 'x' is double, which says no order",
    ),
    ((*JSON, KEY, "splt: $.l"), "6:5: unknown key 'splt' in receive[0] (did you mean 'split'?)"),
    (
        (*JSON, KEY, "dialogs: {}"),
        "6:5: receive[0].dialogs (dialogs of the pipeline's own) is not available in this version",
    ),
]


@pytest.mark.parametrize(("lines", "told"), FAULTS, ids=[told[:60] for _, told in FAULTS])
def test_a_fault_is_told_with_its_place(lines, told):
    found = [str(one) for one in pipeline_file.check(written(*lines))]
    assert any(one.startswith(f"pipeline.yaml:{told}") for one in found), found


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("code:none", "has no 'none'"),
        ("code:number", "which isn't callable"),
        ("code:two", "can't be called with a body alone: missing a required argument: 'more'"),
        ("code:later", "is a coroutine"),
        ("broken:read", "can't be imported: ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("absent:read", "there is no module"),
        ("read", "'read' doesn't name a function"),
    ],
)
def test_a_function_that_cannot_be_called_is_told_with_its_place(tmp_path, name, told):
    module, colon, attribute = name.partition(":")
    full = f"{module}_{tmp_path.name}{colon}{attribute}" if colon else name
    found = fault(*TEXT, f"promote: {{function: '{full}', returns: {{key: string}}}}")
    assert found.startswith("5:25: receive[0].promote.function: ")
    assert told in found
    found = fault(*JSON, f"split: {{function: '{full}'}}", KEY)
    assert found.startswith("5:23: receive[0].split.function: ")


def test_a_function_needs_its_returns(code):
    found = [str(one) for one in pipeline_file.check(written(*JSON, f"promote: {{function: '{code}:read'}}"))]
    assert found[0].startswith("pipeline.yaml:5:14: receive[0].promote.returns is missing")
    assert "'int' is not a type (did you mean long?)" in fault(
        *TEXT, f"promote: {{function: '{code}:read', returns: {{key: int}}}}"
    )
    assert "unknown key 'n' in receive[0].promote" in fault(
        *TEXT, f"promote: {{function: '{code}:read', returns: {{key: string}}, n: $.n}}"
    )
    assert "'ticket' is the name of a column that seriatim adds" in fault(
        *TEXT, f"promote: {{function: '{code}:read', returns: {{key: string, ticket: long}}}}"
    )


def test_split_has_a_path_or_a_function(code):
    for both in (f"{{path: $.l, function: '{code}:parts'}}", "{}"):
        assert fault(*JSON, f"split: {both}", KEY).endswith("receive[0].split needs either a path or a function")


@pytest.mark.parametrize(("envelope", "remarked"), [("maxwell", 1), ("canal", 1), ("wal2json", 1), ("debezium", 0)])
def test_a_group_in_a_column_is_remarked_where_an_update_may_change_it(envelope, remarked):
    def remarks(path):
        source = "source: {format: kafka, options: {kafka.bootstrap.servers: 'k:1', subscribe: t}, id: [topic, partition, offset], body: value}"
        file = written("location: log", source, f"promote: {{envelope: {envelope}, key: {path}}}")
        return tuple(one for one in pipeline_file.load(file).remarks if "connector" not in one)

    assert [one.split(": ", 1)[0] for one in remarks("key")] == ["pipeline.yaml:8:5"] * remarked
    assert all("reads key from a column" in one for one in remarks("'key:$.id'"))
    assert remarks("[$.data.id, 'key:$.id']") == ()
