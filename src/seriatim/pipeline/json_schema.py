"""JSON Schema: documents against a schema that is one text. Nothing is fetched: an external reference is refused.

jsonschema does it. Three keywords are exchanged, because numbers with a point are `Decimal` here and because a stranger's
list must not take time that grows with the square of its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from jsonschema import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, extend, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from seriatim.errors import UsageError, shown
from seriatim.pipeline.json_paths import json_reader
from seriatim.pipeline.values import Unreadable, Value, shortened

__all__ = ["json_schema"]

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SHOWN = re.compile(r"Decimal\('([^']*)'\)")
# A quotient has at most so many digits; with more it would be a question of memory.
_DIGITS = Context(prec=10_000, traps=[InvalidOperation])


def json_schema(text: str) -> Callable[[Value], None]:
    """What checks a document that `json_reader` read; it raises `Unreadable`, with the first violation.

    The draft is that of ``$schema``, without it 2020-12. ``format`` is not checked.

    Raises:
        UsageError: the text is no JSON Schema, or refers to another document.
    """
    schema = _read(text)
    draft = _draft(schema)
    try:
        draft.check_schema(schema)
        _check_references(schema, draft)
    except SchemaError as error:
        raise UsageError(f"the schema is wrong at {shortened(error.json_path)}: {_told(error)}") from error
    except RecursionError:
        raise UsageError("the schema is nested too deeply") from None
    validator = _exact(draft)(_without_draft(schema), registry=Registry())

    def check(document: Value) -> None:
        try:
            error = next(validator.iter_errors(document), None)
        except RecursionError:
            raise Unreadable("not valid: nested too deeply") from None
        if error is not None:
            raise Unreadable(f"not valid at {shortened(error.json_path, 200)}: {_told(error)}")

    return check


def _read(text: str) -> Any:
    try:
        schema = json_reader()(text.removeprefix("\ufeff"))
    except Unreadable as error:
        raise UsageError(f"the schema is {error}") from error
    if not isinstance(schema, dict | bool):
        raise UsageError("the schema is neither an object nor true or false")
    return schema


def _draft(schema: Any) -> Any:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if named is None:
        return Draft202012Validator
    found = validator_for(schema, default=None) if isinstance(named, str) else None
    if found is None:
        remedy = "such as https://json-schema.org/draft/2020-12/schema"
        raise UsageError(f"the schema's $schema, {named!r:.80}, is not known", remedy=remedy)
    return found


def _check_references(schema: Any, draft: Any) -> None:
    """See that every reference leads to a schema in the same text; jsonschema would only look when it needs one."""
    specification = specification_with(draft.META_SCHEMA["$schema"])
    root: Resource[Any] = specification.create_resource(schema)
    registry: Registry[Any] = Registry()
    waiting = [(root, registry.resolver_with_root(root))]
    seen: set[int] = set()
    while waiting:
        resource, resolver = waiting.pop()
        contents = resource.contents
        if not isinstance(contents, Mapping) or id(contents) in seen:
            continue
        seen.add(id(contents))
        for key in _REFERENCES:
            if not isinstance(reference := contents.get(key), str):
                continue
            try:
                found = resolver.lookup(reference)
            except (Unresolvable, ValueError, TypeError) as error:
                what = f"the schema's {key} {reference!r:.80} leads to nothing within it"
                raise UsageError(what, remedy="what is outside is never fetched: write all into one schema") from error
            if not isinstance(found.contents, Mapping | bool):
                raise UsageError(f"the schema's {key} {shown(reference, 80)} leads to something that is no schema")
            waiting.append((specification.create_resource(found.contents), found.resolver))
        waiting += [(part, resolver.in_subresource(part)) for part in resource.subresources()]


def _without_draft(schema: Any) -> Any:
    """The schema without its ``$schema``, by which jsonschema would go back to the keywords as they were."""
    return {key: one for key, one in schema.items() if key != "$schema"} if isinstance(schema, dict) else schema


def _exact(draft: Any) -> Any:
    integers = draft.TYPE_CHECKER.redefine("integer", _is_integer)
    return extend(draft, {"multipleOf": _multiple_of, "uniqueItems": _unique_items}, type_checker=integers)


def _is_integer(_: Any, value: Value) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _multiple_of(validator: Any, divisor: Any, value: Value, _: Any) -> Iterator[ValidationError]:
    if not validator.is_type(value, "number"):
        return
    try:
        if not _DIGITS.remainder(Decimal(value), Decimal(divisor)):
            return
    except InvalidOperation:
        yield ValidationError(f"{shortened(str(value))} is too large to tell whether it is a multiple of {divisor}")
    else:
        yield ValidationError(f"{shortened(str(value))} is not a multiple of {divisor}")


def _unique_items(validator: Any, wanted: Any, value: Value, _: Any) -> Iterator[ValidationError]:
    if not wanted or not validator.is_type(value, "array"):
        return
    seen = set()
    for place, item in enumerate(value):
        key = _key(item)
        if key in seen:
            yield ValidationError(f"item {place} is there before it")
            return
        seen.add(key)


def _key(value: Value) -> Any:
    """What is equal for equal JSON values, and can be hashed."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("list", tuple(map(_key, value)))
        case dict():
            return ("object", frozenset((name, _key(one)) for name, one in value.items()))
    return value


def _told(error: ValidationError | SchemaError) -> str:
    return _SHOWN.sub(r"\1", shortened(error.message, 300))
