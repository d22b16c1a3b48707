"""Bodies that strangers send: each has the values that are looked for, or a reason why it hasn't, in bounded time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from seriatim import Message, MessageType
from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.bodies.property_values import Unreadable
from seriatim.pipeline.bodies.xml_paths import XmlPaths
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.types.typed_message import MessageTypes
from seriatim.spark.receive.promotion import CsvColumns, CsvDialect
from seriatim.spark.receive.split import JsonElements
from seriatim.spark.receive.text_files import XmlElements
from tests import soak

KINDS = {"s": "string", "l": "long", "d": "double", "n": "decimal(12,2)", "b": "boolean", "t": "timestamp"}
JSON = json.dumps({"s": "a", "l": 7, "d": 1.5, "n": "12.30", "b": True, "t": "2026-01-31T12:00:00Z", "lines": [{"sku": "x", "tags": ["u", "v"]}, {"sku": "y"}]})  # fmt: skip
XML = '<?xml version="1.0"?><o:r xmlns:o="urn:o" s="a"><l>7</l><d>1.5</d><n>12.30</n><b>true</b><t>2026-01-31T12:00:00Z</t><lines><line sku="x"/><line sku="y">z</line></lines></o:r>'  # fmt: skip
CSV = "a,7,1.5,12.30,true,2026-01-31T12:00:00Z"
SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string", "pattern": "^(a|aa)+$", "maxLength": 1_000},
        "l": {"type": "integer", "multipleOf": 7},
        "n": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "uniqueItems": True},
    },
    "patternProperties": {"^x-": {"$ref": "#"}},
    "unevaluatedProperties": {"type": ["string", "number", "boolean", "null"]},
    "$defs": {"line": {"required": ["sku"], "properties": {"tags": {"items": {"$ref": "#/$defs/line"}}}}},
}
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:o"><xs:element name="r"><xs:complexType>
<xs:sequence><xs:any processContents="lax" minOccurs="0" maxOccurs="unbounded"/></xs:sequence>
<xs:attribute name="s"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="[a-z]+(-[a-z]+)*"/>
</xs:restriction></xs:simpleType></xs:attribute></xs:complexType></xs:element></xs:schema>"""

ODD = [
    *["9" * 5_000, "-" + "9" * 30, "1e999", "1e99999999999", "-0", "0.1e-400", "NaN", "Infinity", "null", "true", "[]", "{}", '""'],
    *[r'"\ud800"', r'"\u0000"', '"\\', '"' + "a" * 70_000 + '"', "[" * 3_000, '{"a":' * 3_000, "]" * 10, "}" * 10],
    *["<a>" * 3_000, "</a>", "<a/>", "&lt;", "&a;", "&#0;", "&#x110000;", "<![CDATA[x]]>", "<!-- -->", "<?pi?>", "]]>"],
    *['<!DOCTYPE r [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>', '<!DOCTYPE r SYSTEM "file:///etc/passwd">', 'xmlns:o="urn:p"', '<?xml version="1.0" encoding="utf-16"?>'],
    *['"', "'", '""', ",", ",,,,,,,", "\r", "\n", "\t", "\0", "\x1f", "\ufeff", "\ufffe", "é", "😀", "٣", "2026-02-30", "24:00", "9" * 200_000 + "x"],
]  # fmt: skip


def mutations(text: str, chance: random.Random) -> Iterator[bytes]:
    while True:
        changed = text
        for _ in range(chance.choice([1, 1, 2, 4])):
            at, wide = chance.randrange(len(changed) + 1), chance.choice([0, 0, 1, 3, 20])
            new = chance.choice(
                ["", chance.choice(ODD), chance.choice(ODD), changed[at : at + 30], chr(chance.randrange(256))]
            )
            changed = (changed[:at] + new + changed[at + wide :])[:400_000]
        body = changed.encode(errors="surrogatepass")
        if chance.random() < 0.2 and body:
            at = chance.randrange(len(body))
            body = body[:at] + bytes(chance.choices(range(256), k=chance.randrange(1, 4))) + body[at + 1 :]
        yield chance.choice([body, body, body, body[: chance.randrange(len(body) + 1)], b"\xef\xbb\xbf" + body, changed.encode("utf-16", errors="surrogatepass")])  # fmt: skip


def _reads() -> dict[str, tuple[str, list[Callable[[bytes], Any]]]]:
    promoted = tuple(Promotion(name, f"$.{name}", kind) for name, kind in KINDS.items())
    found = tuple(Promotion(name, "@s" if name == "s" else f"//{name}", kind) for name, kind in KINDS.items())
    columns = CsvColumns(tuple(Promotion(name, name, kind) for name, kind in KINDS.items()), CsvDialect())
    return {
        "json": (JSON, [JsonPaths(promoted).reader(), JsonElements("$.lines").splitter(), JsonElements("$.lines[0].tags").splitter()]),
        "xml": (XML, [XmlPaths(found).reader(), XmlElements("//line").splitter(), XmlElements("//*").splitter()]),
        "csv": (CSV, [columns.reader(list(KINDS))]),
    }  # fmt: skip


@pytest.mark.parametrize("form", ["json", "xml", "csv"])
@pytest.mark.soak
def test_every_body_is_read_or_refused_with_a_reason(form: str) -> None:
    text, reads = _reads()[form]
    chance = random.Random(soak.seed())
    wrong: list[str] = []
    for body, _ in zip(mutations(text, chance), range(soak.sized(30_000, 300)), strict=False):
        for number, read in enumerate(reads):
            try:
                read(body)
            except Unreadable as error:
                if not str(error) or len(str(error)) > 5_000:
                    wrong.append(f"{number}: {body[:300]!r}: {error!s:.300}")
            except Exception as error:  # noqa: BLE001 - of any other kind is what this looks for
                wrong.append(f"{number}: {body[:300]!r}: {error!r:.300}")
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


@pytest.mark.parametrize("form", ["json", "xml"])
@pytest.mark.soak
def test_every_message_has_its_properties_or_a_problem(form: str) -> None:
    text = JSON if form == "json" else XML
    promoted = {name: {"type": kind, "path": f"$.{name}" if form == "json" else f"//{name}"} for name, kind in KINDS.items()}  # fmt: skip
    types = [
        MessageType("promoted", properties=promoted),
        MessageType("formed", validation="well_formed_json" if form == "json" else "well_formed_xml"),
        MessageType("valid", properties=promoted, validation="valid_json" if form == "json" else "valid_xml", schema=json.dumps(SCHEMA) if form == "json" else XSD),
    ]  # fmt: skip
    chance = random.Random(soak.seed())
    for body, _ in zip(mutations(text, chance), range(soak.sized(20_000, 200)), strict=False):
        messages = [Message(type=one.name, body=body) for one in types]
        typed = MessageTypes(types).typed(messages)
        for message, context, problem in zip(messages, typed.contexts, typed.problems, strict=True):
            assert problem is None or (not context and 0 < len(problem) < 1_100), (message.type, body[:300], problem)


#: Small ones that stand for large ones, or that take long step by step.
BOMBS = {
    "json": [b"[" * 5_000_000, b'{"a":' * 1_000_000, b'{"s": ' + b"9" * 5_000_000 + b"}", b'{"n": 1e' + b"9" * 5_000_000 + b"}", b'{"d": "' + b"9" * 5_000_000 + b'x"}', b'{"lines": [' + b"[" * 100_000, b'"' + b"\\u0041" * 1_000_000],
    "xml": [
        b"<a>" * 1_000_000,
        b'<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">' + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(20)) + b"]><r>&u;</r>",
        b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r s="a">&x;</r>',
        b'<r s="a">' + b"<line>" * 2_000 + b"x" * 1_000_000 + b"</line>" * 2_000 + b"</r>",
        b"<r " + b" ".join(b'xmlns:a%d="urn:%d"' % (n, n) for n in range(20_000)) + b">" + b"<line/>" * 20_000 + b"</r>",
        b"<r><d>" + b"9" * 5_000_000 + b"x</d></r>",
    ],
    "csv": [b'"' * 5_000_000, b"," * 1_000_000, b"a," + b"9" * 5_000_000 + b"x,1,1,true,2026-01-31"],
}  # fmt: skip


@pytest.mark.dear
@pytest.mark.parametrize(("form", "number"), [(form, n) for form, bodies in BOMBS.items() for n in range(len(bodies))])
def test_a_bomb_is_refused_in_bounded_time(form: str, number: int) -> None:
    for read in _reads()[form][1]:
        with suppress(Unreadable):
            found = read(BOMBS[form][number])
            assert sum(len(one) for one in found if isinstance(one, bytes | str)) < 200_000_000
