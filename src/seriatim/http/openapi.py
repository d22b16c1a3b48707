"""The operations as a document of OpenAPI 3.1, written from their declarations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from seriatim.http.declared import OPERATIONS, SCHEMAS, Operation
from seriatim.http.problems import PROBLEM_TYPE

__all__ = ["document", "openapi"]


@cache
def document() -> bytes:
    """The document as JSON."""
    return (json.dumps(openapi(), ensure_ascii=False, indent=2) + "\n").encode()


def openapi() -> dict[str, Any]:
    """The document."""
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
    return {"description": told, "content": _content({PROBLEM_TYPE if status >= 400 else "application/json": schema})}


def _content(schemas: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        kind: {} if schema is None else {"schema": {"$ref": f"#/components/schemas/{schema}"}}
        for kind, schema in schemas.items()
    }
