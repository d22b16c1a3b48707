"""Requests, read strictly: JSON in UTF-8 without a name twice, and parameters as the operations declare them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote_to_bytes

from jsonschema import Draft202012Validator

from seriatim.errors import UsageError, shown
from seriatim.http.declared import SCHEMAS, Operation, Parameter, Schema
from seriatim.http.problems import Problem
from seriatim.kernel.values.time import micros

#: A time of RFC 3339.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,12})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_BLANK = " \t\n\r"
_TRUE, _FALSE = ("true", "1"), ("false", "0")


class Member(NamedTuple):
    value: Any
    text: str


def as_text(body: bytes | bytearray) -> str:
    try:
        return bytes(body).decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body isn't UTF-8: byte {error.start}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise json.JSONDecodeError(f"the name {name!r:.80} is there twice", "", 0)
    return found


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is no JSON", "", 0)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_distinct)


def _unreadable(error: Exception) -> Problem:
    match error:
        case json.JSONDecodeError():
            return Problem(400, f"the body isn't JSON that can be read: {error.msg} at character {error.pos}")
        case RecursionError():
            return Problem(400, "the body is nested too deeply")
        case _:
            return Problem(400, "the body has a number that is too long")


_FAULTS = (ValueError, ArithmeticError, RecursionError)


def json_of(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except _FAULTS as error:
        raise _unreadable(error) from None


def members(text: str) -> dict[str, Member]:
    """The members of a JSON object, each with its own text."""
    try:
        return dict(_members(text))
    except _FAULTS as error:
        raise _unreadable(error) from None


def items(text: str) -> list[str]:
    try:
        return [text[begin:end] for begin, end in _items(text, _past(text, 0, "["), "]")]
    except _FAULTS as error:
        raise _unreadable(error) from None


def _members(text: str) -> Iterator[tuple[str, Member]]:
    seen: set[str] = set()
    at, is_name, name = _past(text, 0, "{"), True, ""
    if text[at : at + 1] == "}":
        _end(text, at + 1)
        return
    while True:
        if is_name:
            if text[at : at + 1] != '"':
                raise json.JSONDecodeError("a name in double quotes is missing", text, at)
            name, at = _DECODER.raw_decode(text, at)
            if name in seen:
                raise json.JSONDecodeError(f"the name {name!r:.80} is there twice", text, at)
            seen.add(name)
            at, is_name = _past(text, at, ":"), False
            continue
        value, end = _DECODER.raw_decode(text, at)
        yield name, Member(value, text[at:end])
        at, is_name = _skip(text, end), True
        if text[at : at + 1] == "}":
            _end(text, at + 1)
            return
        at = _past(text, at, ",")


def _items(text: str, at: int, closing: str) -> Iterator[tuple[int, int]]:
    if text[at : at + 1] == closing:
        _end(text, at + 1)
        return
    while True:
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at : at + 1] == closing:
            _end(text, at + 1)
            return
        at = _past(text, at, ",")


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANK:
        at += 1
    return at


def _past(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"{mark} is missing", text, at)
    return _skip(text, at + 1)


def _end(text: str, at: int) -> None:
    if (at := _skip(text, at)) != len(text):
        raise json.JSONDecodeError("something follows the end", text, at)


@cache
def _validator(schema: str) -> Draft202012Validator:
    of_all = {"$defs": {name: _local(one) for name, one in SCHEMAS.items()}}
    return Draft202012Validator(of_all | {"$ref": f"#/$defs/{schema}"})


def _local(schema: Any) -> Any:
    """A schema with references within one document."""
    match schema:
        case dict():
            return {
                name: value.replace("#/components/schemas/", "#/$defs/") if name == "$ref" else _local(value)
                for name, value in schema.items()
            }
        case list():
            return [_local(one) for one in schema]
    return schema


_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float, Decimal), "boolean": (bool,), "null": (type(None),), "object": (dict,),
    "array": (list,),
}  # fmt: skip
#: Words of a schema that refuse nothing.
_TOLD = {"description", "default", "examples", "contentEncoding"}
Test = Callable[[Any], bool]


@cache
def _quick(schema: str) -> Test:
    """A test that accepts only what fits a schema, in a tenth of the validator's time, which judges all else."""
    return _accepting(SCHEMAS[schema])


def _accepting(schema: Schema) -> Test:
    words = sorted(schema.keys() - _TOLD, key=lambda word: word != "type")  # the others suppose a value of that type
    if not _TESTS.keys() >= set(words) or words[:1] not in ([], ["type"], ["$ref"], ["oneOf"], ["anyOf"]):
        return lambda _: False
    tests = [_TESTS[word](schema[word], schema) for word in words]
    return lambda value: all(test(value) for test in tests)


def _of_kind(rule: Any, _: Schema) -> Test:
    kinds = tuple(kind for name in ([rule] if isinstance(rule, str) else rule) for kind in _KINDS[name])
    return lambda value: type(value) in kinds


def _with_items(rule: Any, _: Schema) -> Test:
    each = _accepting(rule)
    return lambda value: all(each(one) for one in value)


def _with_members(rule: Any, _: Schema) -> Test:
    known = {name: _accepting(one) for name, one in rule.items()}
    return lambda value: all(known[name](one) for name, one in value.items() if name in known)


def _with_others(rule: Any, schema: Schema) -> Test:
    named = schema.get("properties", {})
    if isinstance(rule, bool):
        return lambda value: rule or value.keys() <= named.keys()
    other = _accepting(rule)
    return lambda value: all(name in named or other(one) for name, one in value.items())


def _any_of(rule: Any, _: Schema) -> Test:
    either = [_accepting(one) for one in rule]
    return lambda value: any(one(value) for one in either)


def _one_kind_of(rule: Any, _: Schema) -> Test:
    """One of several schemas, of which the test knows that no value fits two: each has another type."""
    types = [SCHEMAS[one["$ref"].rpartition("/")[2]]["type"] if "$ref" in one else one.get("type") for one in rule]
    either = [_accepting(one) for one in rule] if None not in types and len(set(map(str, types))) == len(rule) else []
    return lambda value: any(one(value) for one in either)


_TESTS: Mapping[str, Callable[[Any, Schema], Test]] = {
    "type": _of_kind, "items": _with_items, "properties": _with_members, "additionalProperties": _with_others,
    "oneOf": _one_kind_of, "anyOf": _any_of,
    "$ref": lambda rule, _: _quick(rule.rpartition("/")[2]),
    "required": lambda rule, _: lambda value: all(name in value for name in rule),
    "minLength": lambda rule, _: lambda value: len(value) >= rule,
    "maxLength": lambda rule, _: lambda value: len(value) <= rule,
    "maxItems": lambda rule, _: lambda value: len(value) <= rule,
}  # fmt: skip


def checked(schema: str, found: Any) -> Any:
    if _quick(schema)(found):
        return found
    try:
        error = next(_validator(schema).iter_errors(found), None)
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
    if error is not None:
        place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in error.absolute_path)
        raise Problem(422, f"{place.removeprefix('.')[:200] or 'the body'}: {error.message:.300}")
    return found


def segments(raw: bytes) -> list[str] | None:
    """The segments of a path; None: it isn't UTF-8."""
    try:
        return [unquote_to_bytes(one).decode() for one in raw.removeprefix(b"/").split(b"/")]
    except UnicodeDecodeError:
        return None


def parameters(
    operation: Operation, query: bytes, headers: Mapping[str, str], path: Mapping[str, str]
) -> dict[str, Any]:
    """The parameters of a request, each of its declared type; those of the query that aren't declared are refused."""
    try:
        given = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except (UnicodeError, ValueError):
        raise Problem(400, "the query can't be read") from None
    known = {one.name: one for one in operation.parameters if one.where == "query"}
    found: dict[str, Any] = {}
    for name, text in given:
        if name not in known:
            raise Problem(400, f"unknown parameter {shown(name, 80)}", remedy=f"there are {', '.join(known) or 'none'}")
        if name in found:
            raise Problem(400, f"the parameter {name} is there twice")
        found[name] = _value(known[name], text)
    for one in operation.parameters:
        if one.where == "header" and (sent := headers.get(one.name.lower())) is not None:
            found[one.name] = _value(one, sent)
    for one in operation.parameters:
        if one.where == "path":
            found[one.name] = _value(one, path[one.name])
    return found


def period_of(name: str, value: Any) -> float:
    """A period of a body, in seconds: a number, or a text."""
    return _seconds(name, value) if isinstance(value, str) else float(value)


def _value(parameter: Parameter, text: str) -> Any:
    kind, value = parameter.schema.get("type"), cast("Any", text)
    if "\0" in text:
        raise Problem(422, f"{parameter.name} has a NUL")
    match kind:
        case "integer" if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
            value = int(text)
        case "boolean" if text in (*_TRUE, *_FALSE):
            value = text in _TRUE
    error = next(Draft202012Validator(dict(parameter.schema)).iter_errors(value), None)
    if error is not None:
        raise Problem(422, f"{parameter.name}: {error.message:.300}")
    if parameter.is_time:
        return _seconds(parameter.name, text)
    return value


def _seconds(name: str, text: str) -> float:
    """A time such as ``20`` or ``20s``, in seconds."""
    try:
        found = micros(float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII) else text)
    except UsageError as error:
        raise Problem(422, f"{name}: {error}") from None
    return found / 1_000_000


def moment_of(name: str, text: str) -> datetime:
    with suppress(ValueError):
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text).upper())
    raise Problem(422, f"{name} is no time as of RFC 3339: {shown(text, 80)}")
