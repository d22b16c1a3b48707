"""Errors as answers over HTTP: `Problem`, which is written as RFC 9457 has it, and the problem of each error of seriatim."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from seriatim.errors import (
    ActionRefused,
    DeploymentError,
    LeaseLost,
    NotFound,
    QueueFull,
    SeriatimError,
    Unavailable,
    UsageError,
)

PROBLEM_TYPE = "application/problem+json"
#: PostgreSQL's code for a right that is missing.
_FORBIDDEN = "42501"
#: Seconds until a caller tries again: after a full queue, and after anything else that may be over soon.
_FULL_AGAIN_S, _AGAIN_S = 5, 1
_LONGEST = 2000
#: The first that fits counts.
_STATUSES: tuple[tuple[type[SeriatimError], int], ...] = (
    (LeaseLost, 410),
    (Unavailable, 503),
    (DeploymentError, 503),
    (NotFound, 404),
    (ActionRefused, 409),
    (UsageError, 422),
)


class Problem(Exception):
    """A request that is answered by an error. `code`: its stable code, as in the reference of errors. `more`: further members of the
    answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        remedy: str = "",
        code: str = "http",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.remedy, self.code, self.more = status, detail, remedy, code, more
        self.headers = dict(headers or {})

    def content(self) -> bytes:
        found = {
            "type": f"urn:seriatim:error:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail[:_LONGEST],
            "code": self.code,
        }
        if self.remedy:
            found["remedy"] = self.remedy[:_LONGEST]
        return json.dumps(found | self.more, ensure_ascii=False).encode(errors="replace")


def problem_of(error: SeriatimError) -> Problem | None:
    """The problem that a caller is told of an error of the box; None: it is a fault of seriatim."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
    if status is None:
        return None
    if getattr(error.__cause__, "sqlstate", None) == _FORBIDDEN:
        status = 403
    headers = {}
    if status == 503:
        headers["Retry-After"] = str(_FULL_AGAIN_S if isinstance(error, QueueFull) else _AGAIN_S)
    # The place of a deployment's error, and of one that PostgreSQL has raised, tells the server's host and database.
    tells_host = isinstance(error, DeploymentError) or hasattr(error.__cause__, "sqlstate")
    tells_host = tells_host or (isinstance(error, Unavailable) and not isinstance(error, QueueFull))
    where = "" if tells_host else error.where
    return Problem(
        status, f"{where}: {error.what}" if where else error.what, remedy=error.remedy, code=error.code, headers=headers
    )
