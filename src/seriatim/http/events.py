"""CloudEvents 1.0 over HTTP: binary, structured and batch. What isn't as the specification says is refused."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_to_bytes

from seriatim.box.requests.requests import Reply
from seriatim.errors import shown
from seriatim.http.problems import Problem
from seriatim.http.reading import Member, json_of, members, moment_of
from seriatim.pipeline.types.box_properties import OWN, TRACE
from seriatim.pipeline.types.message import Message, Property, Received

_PREFIX = b"ce-"
_NAME = re.compile(r"[a-z0-9]+", re.ASCII)
_LONGEST_SOURCE = 2048
#: What is a field of the message, and no property.
_FIELDS = frozenset({"specversion", "id", "type", "datacontenttype"})
#: Reserved properties that an event may give.
_GIVEN = frozenset({"to", "location", "part", "parts", *TRACE})
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Event:
    attributes: Mapping[str, Property]
    body: bytes
    content_type: str | None

    @property
    def source(self) -> str:
        return str(self.attributes["source"])

    def message(self, declared: Mapping[str, Collection[str]]) -> Message:
        """The event as a message. Of a declared type (`declared`: the properties of each) it has only properties that the type knows."""
        kind = str(self.attributes["type"])
        known = declared.get(kind)
        return Message(
            type=kind,
            body=self.body,
            context={
                name: value
                for name, value in self.attributes.items()
                if name not in _FIELDS and (name in _GIVEN or known is None or name in known)
            },
            message_id=str(self.attributes["id"]),
            content_type=self.content_type,
        )


def media_type(text: str) -> str:
    """The media type of a header, without its parameters; a charset has to be UTF-8."""
    kind, *options = (one.strip().lower() for one in text.split(";"))
    for one in options:
        name, _, value = one.partition("=")
        if (
            name.strip() == "charset"
            and value.strip().strip('"') not in ("utf-8", "utf8", "us-ascii")
            and "json" in kind
        ):
            raise Problem(415, f"JSON is in UTF-8, and not in {shown(value, 40)}")
    return kind


def is_binary(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name.lower().startswith(_PREFIX) for name, _ in headers)


def binary_event(headers: Iterable[tuple[bytes, bytes]], content_type: str | None, body: bytes) -> Event:
    """An event whose attributes are headers, and whose data is the body."""
    found: dict[str, Property] = {}
    for raw, value in headers:
        name = raw.lower()
        if not name.startswith(_PREFIX):
            continue
        attribute = _attribute(name.removeprefix(_PREFIX).decode("latin-1"))
        if attribute == "datacontenttype":
            raise Problem(400, "the header ce-datacontenttype must not be there", remedy="give Content-Type")
        if attribute == "data":
            raise Problem(400, "the header ce-data must not be there: the body is the data")
        if attribute in found:
            raise Problem(400, f"the header ce-{attribute} is there twice")
        found[attribute] = _decoded(attribute, value)
    return Event(_checked(found), body, content_type)


def _decoded(name: str, raw: bytes) -> str:
    """The value of a header: double quotes and percent signs are undone, once."""
    try:
        text = raw.decode("ascii")
        if len(text) > 1 and text[0] == text[-1] == '"':
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise Problem(400, f"the header ce-{name} isn't UTF-8 in percent signs, as the specification has it") from None


def structured_event(text: str) -> Event:
    return json_event(members(text))


def json_event(found: Mapping[str, Member]) -> Event:
    """An event by the members of its JSON object. Data of JSON stays as it was written."""
    attributes: dict[str, Property] = {}
    for name, (value, _) in found.items():
        if name in ("data", "data_base64") or value is None:
            continue
        if not isinstance(value, str | bool | int) or (type(value) is int and not -(2**31) <= value < 2**31):
            raise Problem(
                400,
                f"the attribute {_attribute(name)} can't be {shown(value, 60)}",
                remedy="a text, a whole number of 32 bits, or a boolean",
            )
        attributes[_attribute(name)] = value
    kind = attributes.get("datacontenttype")
    if kind is not None and not isinstance(kind, str):
        raise Problem(400, "datacontenttype is no text")
    return Event(_checked(attributes), *_data(found, kind))


def _data(found: Mapping[str, Member], kind: str | None) -> tuple[bytes, str | None]:
    encoded, data = found.get("data_base64"), found.get("data")
    if encoded is not None and encoded.value is not None:
        if data is not None:
            raise Problem(400, "an event has data or data_base64, not both")
        try:
            return base64.b64decode(encoded.value, validate=True), kind
        except (binascii.Error, ValueError, TypeError):
            raise Problem(400, "data_base64 is no Base64") from None
    if data is None:
        return b"", kind
    if kind is not None and not _is_json(kind) and isinstance(data.value, str):
        return data.value.encode(errors="surrogatepass"), kind
    return data.text.encode(errors="surrogatepass"), kind or _JSON


def _is_json(kind: str) -> bool:
    subtype = kind.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def _attribute(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Problem(
            400, f"{shown(name, 60)} can't be the name of an attribute", remedy="lower-case letters and digits"
        )
    return name


def _checked(found: Mapping[str, Property]) -> Mapping[str, Property]:
    for name in ("specversion", "id", "source", "type"):
        if not isinstance(found.get(name), str) or not found[name]:
            raise Problem(
                400, f"the event has no {name}", remedy="CloudEvents requires specversion, id, source and type"
            )
    if found["specversion"] != "1.0":
        raise Problem(400, f"the specversion can't be {shown(found['specversion'], 40)}", remedy="1.0")
    if len(str(found["source"])) > _LONGEST_SOURCE:
        raise Problem(422, f"the source has more than {_LONGEST_SOURCE:,} characters")
    if (time := found.get("time")) is not None:
        moment_of("time", str(time))
    return found


def received_event(message: Received | Reply, source: str, **further: Property) -> dict[str, Any]:
    """A message that is handed out, or a reply, as an event without its data. Properties whose names CloudEvents allow are attributes
    of it, and `context` has all of them as the text of a JSON object.
    """
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": message.message_id,
        "source": source,
        "type": message.type,
        "time": message.received_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": message.content_type,
        "partitionkey": message.group if isinstance(message, Received) else None,
        **further,
    }
    own = {name: value for name, value in message.context.items() if value is not None and name not in OWN}
    for name, value in own.items():
        if _NAME.fullmatch(name) and name not in event and name not in ("data", "context"):
            event[name] = value if isinstance(value, bool | str) else _written(value)
    if own:
        event["context"] = json.dumps(own, ensure_ascii=False, default=_written)
    return {name: value for name, value in event.items() if value is not None}


def in_json(event: Mapping[str, Any], message: Message) -> str:
    """An event with its data as JSON. A body of JSON is in it as it is; a text, if its media type says so; else it is in Base64."""
    head = json.dumps(event, ensure_ascii=False)[:-1]
    try:
        text = message.body.decode()
        if message.content_type is not None and not _is_json(message.content_type):
            return f'{head}, "data": {json.dumps(text, ensure_ascii=False)}}}'
        json_of(text)
    except (UnicodeDecodeError, Problem):
        return f'{head}, "data_base64": "{base64.b64encode(message.body).decode()}"}}'
    return f'{head}, "data": {text}}}'


def _written(value: object) -> str:
    """A value that JSON hasn't, as text."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
