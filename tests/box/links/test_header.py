"""The header of a message on its way: what is written is read, and what isn't as the page says is refused."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from seriatim.box.links.header import MessageHeader, PartHeader, SentBy
from seriatim.errors import LinkProtocolError
from seriatim.kernel.streams import goes_in_circles
from tests import soak

_NORTH, _EAST = UUID(int=1), UUID(int=2)
_HEADER = MessageHeader(
    message_type="order",
    content_type="application/json",
    space="",
    context={"total": Decimal("12.30"), "rate": Decimal("0.1"), "customer": "Ö", "n": 2**63, "at": "2026-01-31T12:00:00+00:00", "paid": True, "ref": None},
    property_types={"total": "decimal", "rate": "double", "at": "timestamp", "ref": "decimal"},
    sent_by=SentBy(_NORTH, "orders", "box", 0, 17),
    through=(_NORTH, _EAST),
    parts=(PartHeader("scan", "image/png", 10), PartHeader("note", None, 0)),
)  # fmt: skip
_FIELDS = json.loads(_HEADER.to_bytes(), parse_float=str) | {"context": {"a": 1}, "property_types": {}}


def _with(**fields):
    return json.dumps(_FIELDS | fields).encode()


def _by(**fields):
    return _with(sent_by=_FIELDS["sent_by"] | fields)


def test_what_is_written_is_read():
    assert MessageHeader.read(_HEADER.to_bytes(), 10) == _HEADER
    assert b"12.30" in _HEADER.to_bytes()


def test_white_space_and_order_are_free():
    turned = json.dumps(dict(reversed(_FIELDS.items())), indent=2).encode()
    assert MessageHeader.read(turned, 10) == MessageHeader.read(_with(), 10)


_PART = _FIELDS["parts"][0]
_DEEP = b'{"type": ' + b"[" * 100_000


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"", "is no JSON"),
        (b"\xff", "is no JSON"),
        (_DEEP, "is no JSON"),
        (b'{"type": NaN}', "NaN is no number"),
        (b'{"type": "a", "type": "b"}', "a name stands twice"),
        (b'{"type": ' + b"9" * 5_000 + b"}", "is no JSON"),
        (b"[]", "a header has content_type, context"),
        (_with(more=1), "and nothing else"),
        (_with(type=""), "has as type no text"),
        (_with(type="a\0"), "has as type no text"),
        (_with(content_type=5), "has as content_type no text"),
        (_with(space=None), "has as space no text"),
        (_with(space="x" * 129), "has as space no text"),
        (_with(context=[]), "properties that are no object"),
        (_with(context={"a": []}), "a property that a box can't store"),
        (_with(context={"a": 10**401}), "a property that a box can't store"),
        (_with().replace(b'{"a": 1}', b'{"a": 1e999999999}'), "a property that a box can't store"),
        (_with().replace(b'{"a": 1}', b'{"a": 1e9999999999999999999}'), "is no JSON"),
        (_with().replace(b'{"a": 1}', b'{"a": 1e-401}'), "a property that a box can't store"),
        (_with(context={"a": "\ud800"}), "a property that a box can't store"),
        (_with(property_types={"b": "decimal"}), "a type of a property that there isn't"),
        (_with(property_types={"a": "long"}), "a type of a property that there isn't"),
        (_with(property_types={"a": []}), "a type of a property that there isn't"),
        (_with(property_types={"a": "timestamp"}), "a property that is no timestamp"),
        (_with(context={"a": True}, property_types={"a": "decimal"}), "a property that is no decimal"),
        (_with(context={"a": "yesterday"}, property_types={"a": "timestamp"}), "a property that is no timestamp"),
        (_with(sent_by={}), "sent_by has box, epoch"),
        (_by(number=-1), "has as number no whole number"),
        (_by(number=True), "has as number no whole number"),
        (_by(epoch=2**63), "has as epoch no whole number"),
        (_by(box="north"), "no UUID"),
        (_by(box=_FIELDS["sent_by"]["box"].replace("-", "")), "as UUIDs are"),
        (_by(box=str(_EAST)), "isn't its home"),
        (_with(through=[]), "names no box"),
        (_with(through={}), "names no box"),
        (_with(through=[5]), "no UUID"),
        (_with(parts={}), "parts that are no list"),
        (_with(parts=[5]), "a part has content_type, name, size"),
        (_with(parts=[_PART | {"size": 11}]), "larger than the message"),
        (_with(parts=[_PART | {"size": 1}] * 2), "names a part twice"),
    ],
)
def test_what_the_page_does_not_say_is_refused(header, says):
    with pytest.raises(LinkProtocolError, match=re.escape(says)):
        MessageHeader.read(header, 10)


def test_the_page_names_each_field():
    page = (Path(__file__).parents[3] / "docs/reference/link-protocol.md").read_text(encoding="utf-8")
    part = page[page.index("### The header of a message") : page.index("## Answers")]
    assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == list(_FIELDS)


@pytest.mark.soak
def test_headers_by_chance_are_refused_or_are_what_they_say(figures):
    chance = random.Random(soak.seed())
    refused, rounds = 0, soak.sized(10_000, 1_500)
    whole = _HEADER.to_bytes()
    for _ in range(rounds):
        data = bytearray(whole)
        for _ in range(chance.choice((0, 1, 1, 2))):
            at = chance.randrange(len(data))
            data[at : at + chance.choice((0, 1, 2))] = chance.choice(
                [
                    b"\\",
                    b'"',
                    b"{",
                    b"[",
                    b"9" * 400,
                    b"null",
                    b"1e999",
                    b"\0",
                    b"\xff",
                    b"\\ud800",
                    b"-",
                    b", ",
                    bytes([chance.randrange(256)]),
                ]
            )
        try:
            read = MessageHeader.read(bytes(data), 10)
        except LinkProtocolError:
            refused += 1
        else:
            assert MessageHeader.read(read.to_bytes(), 10) == read
    figures(f"{rounds:,} headers by chance, {refused:,} refused")
    assert 0 < refused < rounds


def test_a_message_comes_to_a_box_once():
    ninth = [str(UUID(int=nth)) for nth in range(1, 10)]
    assert goes_in_circles([str(_NORTH), str(_EAST)], str(_NORTH))
    assert not goes_in_circles(ninth[:8], str(UUID(int=77)))
    assert goes_in_circles(ninth, str(UUID(int=77)))
