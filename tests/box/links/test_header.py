"""The header of a message on its way: a box takes what the page of the protocol says, and refuses everything else with a reason."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from tests import soak
from tests.databases import fresh_box

_NORTH, _EAST = str(UUID(int=1)), str(UUID(int=2))
_FIELDS = {
    "type": "order",
    "content_type": "application/json",
    "space": "",
    "context": {"a": 1},
    "property_types": {},
    "sent_by": {"box": _NORTH, "queue": "orders", "location": "box", "epoch": 0, "number": 17},
    "through": [_NORTH, _EAST],
    "parts": [
        {"name": "scan", "content_type": "image/png", "size": 10},
        {"name": "note", "content_type": None, "size": 0},
    ],
}
_TYPED = {
    "context": {"total": 12.30, "rate": 0.1, "customer": "Ö", "n": 2**63, "at": "2026-01-31T12:00:00.000000+00:00", "ref": None},
    "property_types": {"total": "decimal", "rate": "double", "at": "timestamp", "ref": "decimal"},
}  # fmt: skip


def _with(**fields):
    return json.dumps(_FIELDS | fields).encode()


def _by(**fields):
    return _with(sent_by=_FIELDS["sent_by"] | fields)


@pytest.fixture(scope="module")
def wrong_with(databases):
    """What a box says is wrong with the header of a message whose body and parts have 10 bytes; None: nothing."""
    with fresh_box(databases) as box, psycopg.connect(box.dsn, autocommit=True) as connection:
        # As the doors do, which make a refusal of what PostgreSQL can't read.
        call = f"SELECT {box.schema}.link_wrong_header('id', convert_from(%b, 'UTF8'), 10)"

        def ask(header):
            try:
                return connection.execute(call, [header]).fetchone()[0]
            except (psycopg.DataError, psycopg.errors.StatementTooComplex) as error:
                return str(error)

        yield ask


@pytest.mark.parametrize(
    "header",
    [
        _with(),
        _with(**_TYPED),
        json.dumps(dict(reversed(_FIELDS.items())), indent=2).encode(),
        _with(content_type=None, space="of the north", parts=[]),
        _with(context={"a": 10**99, "b": True}),
    ],
    ids=["plain", "typed", "turned", "bare", "large"],
)
def test_a_header_as_the_page_says_is_taken(header, wrong_with):
    assert wrong_with(header) is None


_PART = _FIELDS["parts"][0]
_DEEP = b'{"type": ' + b"[" * 100_000


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"", "is no JSON that says each name once"),
        (b"\xff", "invalid byte sequence"),
        (_DEEP, "stack depth limit exceeded"),
        (b'{"type": NaN}', "is no JSON"),
        (b'{"type": "a", "type": "b"}', "is no JSON that says each name once"),
        (b"[]", "is no JSON"),
        (_with(more=1), "has other names than the protocol says"),
        (_with(type=""), "a message needs a type"),
        (_with(type="a\0"), "is no JSON"),
        (_with(content_type=5), "a content type or a space that is no text"),
        (_with(space=None), "a content type or a space that is no text"),
        (_with(space="x" * 129), "a content type or a space that is no text"),
        (_with(context=[]), "the context of a message is a JSON object"),
        (_with(context={"a": []}), "a property is a string, a number, a boolean or null"),
        (_with(context={"a": 10**100}), "more digits than a property can have"),
        (_with().replace(b'{"a": 1}', b'{"a": 1e999999999}'), "overflows"),
        (_with().replace(b'{"a": 1}', b'{"a": 1e-401}'), "more digits than a property can have"),
        (_with(context={"a": "\ud800"}), "is no JSON"),
        (_with(context={"origin_queue": "a"}), "can't be given as properties"),
        (_with(property_types={"b": "decimal"}), "isn't of the type that is said of it"),
        (_with(property_types={"a": "long"}), "isn't of the type that is said of it"),
        (_with(property_types={"a": []}), "isn't of the type that is said of it"),
        (_with(property_types={"a": "timestamp"}), "isn't of the type that is said of it"),
        (_with(context={"a": True}, property_types={"a": "decimal"}), "isn't of the type that is said of it"),
        (_with(context={"a": "yesterday"}, property_types={"a": "timestamp"}), "isn't of the type that is said of it"),
        (_with(sent_by={}), "has other names in sent_by"),
        (_by(number=-1), "has a sent_by that is no ticket"),
        (_by(number=True), "has a sent_by that is no ticket"),
        (_by(epoch=2**63), "has a sent_by that is no ticket"),
        (_by(box="north"), "names no boxes that it went through, its home first"),
        (_by(box=_NORTH.replace("-", "")), "names no boxes that it went through, its home first"),
        (_by(box=_EAST), "names no boxes that it went through, its home first"),
        (_with(through=[]), "names no boxes that it went through"),
        (_with(through={}), "names no boxes that it went through"),
        (_with(through=[5]), "names no boxes that it went through"),
        (_with(parts={}), "has parts that are none"),
        (_with(parts=[5]), "has parts that are none"),
        (_with(parts=[_PART | {"size": 11}]), "larger than the message, or have one name"),
        (_with(parts=[_PART | {"size": 1}] * 2), "larger than the message, or have one name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_header_as_the_page_does_not_say_is_refused(header, says, wrong_with):
    assert says in str(wrong_with(header))


def test_the_page_names_each_field():
    page = (Path(__file__).parents[3] / "docs/reference/link-protocol.md").read_text(encoding="utf-8")
    part = page[page.index("### The header of a message") : page.index("## Dialogs")]
    assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == list(_FIELDS)


@pytest.mark.soak
def test_headers_by_chance_are_taken_or_refused(figures, wrong_with):
    chance = random.Random(soak.seed())
    refused, rounds = 0, soak.sized(10_000, 1_500)
    whole = _with(**_TYPED)
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
        if wrong_with(bytes(data)) is not None:
            refused += 1
        else:
            assert json.loads(data).keys() == _FIELDS.keys()
    figures(f"{rounds:,} headers by chance, {refused:,} refused")
    assert 0 < refused < rounds
