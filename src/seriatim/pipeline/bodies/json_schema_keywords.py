"""Keywords of JSON Schema as they are checked here, in place of jsonschema's own.

The original keywords match patterns with Python's engine, which can take for ever; follow references that lead to each
other without a limit; compare every item of a list with every other; and don't accept a `Decimal` as a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal, InvalidOperation
from threading import local
from typing import Any

from jsonschema import ValidationError
from jsonschema.validators import extend
from referencing.jsonschema import lookup_recursive_ref

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.json_schema_patterns import matcher
from seriatim.pipeline.bodies.property_values import Unreadable, Value, shortened

# The most digits of a quotient: more would be a question of memory.
_DIGITS = Context(prec=10_000, traps=[InvalidOperation])
# The number of references that are followed for each document, and further ones for each value of it.
_FREE, _EACH = 10_000, 20
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class Steps:
    """The number of references that may still be followed for a document; each thread has its own."""

    def __init__(self) -> None:
        self._of_thread = local()

    def begin(self, document: Value) -> None:
        self._of_thread.left, self._of_thread.document = _FREE, document

    def take(self) -> None:
        """Count a followed reference. Raises `Unreadable` if there are too many."""
        mine = self._of_thread
        mine.left -= 1
        if mine.left > 0:
            return
        if mine.document is None:
            raise Unreadable(
                "it can't be told whether it is valid: the schema's references lead to each other too often"
            )
        mine.left, mine.document = _EACH * _size(mine.document), None


def _size(document: Value) -> int:
    count, waiting = 0, [document]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return count


def exact(draft: Any, steps: Steps) -> Any:
    """Return a draft's validator with the keywords of this module; `steps` counts for every document that it checks."""
    own: dict[str, _Keyword] = {
        "additionalProperties": _additional_properties,
        "multipleOf": _multiple_of,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "unevaluatedProperties": _unevaluated_properties,
        "uniqueItems": _unique_items,
    }
    known = draft.VALIDATORS
    followed = {name: _counted(known[name], steps) for name in _REFERENCES if name in known}
    integers = draft.TYPE_CHECKER.redefine("integer", _is_integer)
    return extend(draft, {**{name: own[name] for name in own if name in known}, **followed}, type_checker=integers)


def _counted(follow: _Keyword, steps: Steps) -> _Keyword:
    def keyword(validator: Any, reference: Any, value: Value, schema: Any) -> Iterator[ValidationError]:
        steps.take()
        yield from follow(validator, reference, value, schema)

    return keyword


def _matches(pattern: str, text: str) -> bool:
    try:
        return matcher(pattern)(text)
    except UsageError as error:  # of a part of a schema that isn't checked when it is declared
        raise Unreadable(f"it can't be told whether it is valid: {error}") from error


def _pattern(validator: Any, pattern: str, value: Value, _: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and not _matches(pattern, value):
        yield ValidationError(f"{shortened(value)!r} does not match {shortened(pattern)!r}")


def _pattern_properties(validator: Any, patterns: Any, value: Value, _: Any) -> Iterator[ValidationError]:
    if not validator.is_type(value, "object"):
        return
    for pattern, schema in patterns.items():
        for name, inner in value.items():
            if _matches(pattern, name):
                yield from validator.descend(inner, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, value: Value, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(value, "object"):
        return
    for name in _additional(value, schema):
        if wanted is False:
            yield ValidationError(f"the property {shortened(name)!r} is not allowed")
        else:
            yield from validator.descend(value[name], wanted, path=name)


def _additional(value: Mapping[str, Value], schema: Mapping[str, Any]) -> Iterator[str]:
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in value:
        if name not in properties and not any(_matches(pattern, name) for pattern in patterns):
            yield name


def _unevaluated_properties(validator: Any, wanted: Any, value: Value, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(value, "object"):
        return
    evaluated = _evaluated(validator, value, schema, own=True)
    for name in value:
        if name not in evaluated and not _holds(validator, value[name], wanted):
            yield ValidationError(f"the property {shortened(name)!r} is not allowed by unevaluatedProperties")


def _holds(validator: Any, value: Value, schema: Any) -> bool:
    return next(iter(validator.descend(value, schema)), None) is None


def _evaluated(validator: Any, value: Mapping[str, Value], schema: Any, *, own: bool = False) -> set[str]:
    """Return the properties that a valid schema evaluates; without those of its `own` unevaluatedProperties."""
    if not isinstance(schema, Mapping):
        return set()
    found = set(schema.get("properties", {})) & set(value)
    found.update(name for pattern in schema.get("patternProperties", {}) for name in value if _matches(pattern, name))
    if "additionalProperties" in schema:
        found.update(_additional(value, schema))
    if "unevaluatedProperties" in schema and not own:
        found.update(value)
    for part, inner in _in_place(validator, value, schema):
        found |= _evaluated(part, value, inner)
    return found


def _in_place(validator: Any, value: Mapping[str, Value], schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the schemas that this schema applies to the same value, each with its validator."""
    for keyword in _REFERENCES:
        if (
            keyword in schema
            and keyword in validator.VALIDATORS
            and _holds(validator, value, {keyword: schema[keyword]})
        ):
            yield _followed(validator, keyword, schema[keyword])
    tried = [one for keyword in ("allOf", "anyOf", "oneOf") for one in schema.get(keyword, ())]
    tried += [one for name, one in schema.get("dependentSchemas", {}).items() if name in value]
    if "if" in schema:
        tried += [schema["if"], schema.get("then", True)]
        if not _holds(validator, value, schema["if"]):
            tried[-2:] = [schema.get("else", True)]
    for inner in tried:
        if _holds(validator, value, inner):
            yield validator.evolve(schema=inner), inner


def _followed(validator: Any, keyword: str, reference: str) -> tuple[Any, Any]:
    resolver = validator._resolver  # noqa: SLF001 - jsonschema's own keywords have no other way either
    found = lookup_recursive_ref(resolver) if keyword == "$recursiveRef" else resolver.lookup(reference)
    return validator.evolve(schema=found.contents, _resolver=found.resolver), found.contents


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
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("list", tuple(map(_key, value)))
        case dict():
            return ("object", frozenset((name, _key(one)) for name, one in value.items()))
    return value
