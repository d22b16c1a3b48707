"""The operations as a document of OpenAPI 3.1, written from their declarations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from seriatim.http.declared import EVENT_TYPE, OPERATIONS, SCHEMAS, Operation
from seriatim.http.problems import PROBLEM_TYPE

#: The media types of answers that may be events, by their schemas.
_KINDS: Mapping[str, tuple[str, ...]] = {"Event": (EVENT_TYPE,), "TakenOrReply": ("application/json", EVENT_TYPE)}


@cache
def document() -> bytes:
    return (json.dumps(openapi(), ensure_ascii=False, indent=2) + "\n").encode()


def openapi() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "seriatim",
            "version": "1",
            "summary": "Publish messages, and work off queues in order, group by group.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": dict(SCHEMAS)},
    }


def _operation(one: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": one.id,
        "summary": one.told,
        "parameters": [
            {
                "name": parameter.name, "in": parameter.where, "required": parameter.where == "path",
                "description": parameter.told, "schema": dict(parameter.schema),
            }
            for parameter in one.parameters
        ],
        "responses": {str(status): _response(status, *told) for status, told in sorted(one.answers.items())},
    }  # fmt: skip
    if one.bodies:
        found["requestBody"] = {"required": True, "content": _content(one.bodies)}
    return found


def _response(status: int, told: str, schema: str | None) -> dict[str, Any]:
    if schema is None:
        return {"description": told}
    kinds = (PROBLEM_TYPE,) if status >= 400 else _KINDS.get(schema, ("application/json",))
    return {"description": told, "content": _content(dict.fromkeys(kinds, schema))}


def _content(schemas: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        kind: {} if schema is None else {"schema": {"$ref": f"#/components/schemas/{schema}"}}
        for kind, schema in schemas.items()
    }
