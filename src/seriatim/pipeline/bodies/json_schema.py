"""JSON Schema: check documents against a schema that is one text. Nothing is fetched: an external reference is refused.

The library jsonschema does it, with some keywords replaced (`json_schema_keywords.py`), so that the time for an
untrusted document is bounded by its size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jsonschema import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from seriatim.errors import UsageError, shown
from seriatim.pipeline.bodies.json_paths import json_reader
from seriatim.pipeline.bodies.json_schema_keywords import Steps, exact
from seriatim.pipeline.bodies.json_schema_patterns import matcher
from seriatim.pipeline.bodies.property_values import Unreadable, Value, shortened

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SHOWN = re.compile(r"Decimal\('([^']*)'\)")


# A schema is compiled where it is declared and once more where it is used: in one process only once.
@lru_cache(maxsize=256)
def json_schema(text: str) -> Callable[[Value], None]:
    """A function that checks a document that `json_reader` read; it raises `Unreadable`, with the first violation. ``$schema`` names the
    draft, by default 2020-12. ``format`` is not checked.
    """
    schema = _read(text)
    draft = _draft(schema)
    try:
        # Without the formats, of which one is Python's own kind of pattern.
        draft.check_schema(schema, format_checker=None)
        _check_parts(schema, draft)
    except SchemaError as error:
        raise UsageError(f"the schema is invalid at {shortened(error.json_path)}: {_told(error)}") from error
    except RecursionError:
        raise UsageError("the schema is nested too deeply") from None
    steps = Steps()
    validator = exact(draft, steps)(schema, registry=Registry())

    def check(document: Value) -> None:
        steps.begin(document)
        try:
            error = next(validator.iter_errors(document), None)
        except RecursionError:
            raise Unreadable("not valid: nested too deeply") from None
        except Unresolvable as unresolvable:  # of a part that isn't checked when the schema is declared
            what = f"it can't be told whether it is valid: {shortened(str(unresolvable))}"
            raise Unreadable(what) from unresolvable
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


def _check_parts(schema: Any, draft: Any) -> None:
    """Check that every reference leads to a schema in the same text, and that every pattern can be used. The library would only notice when
    it needs a reference. The schema's own ``$schema`` is removed: with it the library would use its original keywords, also in a part of
    the schema.
    """
    specification = specification_with(draft.META_SCHEMA["$schema"])
    root: Resource[Any] = specification.create_resource(schema)
    registry: Registry[Any] = Registry()
    waiting = [(root, registry.resolver_with_root(root))]
    seen: set[int] = set()
    while waiting:
        resource, resolver = waiting.pop()
        contents = resource.contents
        if not isinstance(contents, dict) or id(contents) in seen:
            continue
        seen.add(id(contents))
        _check_patterns(contents)
        if (named := contents.pop("$schema", None)) is not None and _draft({"$schema": named}) is not draft:
            raise UsageError(
                f"a part of the schema has another $schema, {named!r:.80}", remedy="use one $schema in a schema"
            )
        for key in _REFERENCES:
            if not isinstance(reference := contents.get(key), str):
                continue
            try:
                found = resolver.lookup(reference)
            except (Unresolvable, ValueError, TypeError) as error:
                what = f"the schema's {key} {reference!r:.80} leads to nothing within it"
                raise UsageError(
                    what, remedy="schemas elsewhere are never fetched: write everything into one schema"
                ) from error
            if not isinstance(found.contents, Mapping | bool):
                raise UsageError(f"the schema's {key} {shown(reference, 80)} doesn't lead to a schema")
            waiting.append((specification.create_resource(found.contents), found.resolver))
        waiting += [(part, resolver.in_subresource(part)) for part in resource.subresources()]


def _check_patterns(schema: Mapping[str, Any]) -> None:
    pattern, patterns = schema.get("pattern"), schema.get("patternProperties")
    for one in ([pattern] if isinstance(pattern, str) else []) + list(
        patterns if isinstance(patterns, Mapping) else ()
    ):
        matcher(one)


def _told(error: ValidationError | SchemaError) -> str:
    return _SHOWN.sub(r"\1", shortened(error.message, 300))
