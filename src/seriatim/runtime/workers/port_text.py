"""A port as text, ``http: {url: https://…}``, and the handler that it becomes.

``${NAME}`` is replaced from the environment of the worker process; only there may a password come from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seriatim.box.connection.dsn import resolve, without_secret
from seriatim.errors import DeclarationError, UsageError
from seriatim.pipeline.text.document import Language, Problems, parse
from seriatim.pipeline.text.section import Section

__all__ = ["port_of"]

_PORT = Language("port", "http: {url: …}", "ports")


def port_of(text: str, environment: Mapping[str, str] = os.environ) -> Callable[..., Any]:
    """Parse the text of a port, and return its handler."""
    problems = Problems(Path("port"))
    plain = parse(text, problems, {name: f"${{{name}}}" for name in environment}, language=_PORT)
    document = parse(text, problems, environment, language=_PORT)
    made: Callable[..., Any] | None = None
    if plain is not None and document is not None:
        made = _Reading(Section(document, problems), Section(plain, Problems(Path("port"))), environment).port()
    if faults := problems.found():
        raise faults[0] if len(faults) == 1 else DeclarationError("; ".join(map(str, faults)), where="port")
    assert made is not None  # noqa: S101 -- or there was a fault
    return made


class _Reading:
    """A text that is being read. `plain`: the same text with its ``${NAME}`` not replaced."""

    def __init__(self, text: Section, plain: Section, environment: Mapping[str, str]) -> None:
        self._text = text
        self._plain = plain
        self._environment = environment

    def port(self) -> Callable[..., Any] | None:
        """The handler; None if the text is wrong, which is reported."""
        readers = {"http": self._http, "table": self._table, "files": self._files, "queue": self._queue}
        kinds = [kind for kind in readers if self._text.has(kind)]
        for kind in readers:
            self._text.known(kind)
        self._text.finish()
        if len(kinds) != 1:
            self._text.fault(None, "a port needs one of http, table, files and queue", "such as http: {url: https://…}")
            return None
        entry, plain = self._text.section(kinds[0], required=True), self._plain.section(kinds[0])
        if entry is None or plain is None:
            return None
        make = readers[kinds[0]](entry, plain)
        entry.finish()
        if self._text.problems.found():
            return None
        try:
            return make()
        except DeclarationError:
            raise
        except UsageError as error:
            raise UsageError(error.what, where=error.where or f"port {kinds[0]}", remedy=error.remedy) from None

    def _http(self, entry: Section, _: Section) -> Callable[[], Callable[..., Any]]:
        url, source = entry.text("url", required=True), entry.text("source")
        timeout = entry.duration_s("timeout")
        headers, extensions = _texts(entry, "headers"), _texts(entry, "extensions")
        given = {
            "timeout": timeout,
            "response": entry.text("response"),
            "response_headers": _texts(entry, "response_headers") or None,
            "response_bytes": entry.whole("response_bytes", 0, 100 * 2**20),
            "refused": entry.choice("refused", ("fault", "answer")),
        }

        def make() -> Callable[..., Any]:
            from seriatim.endpoints.http import HttpPort  # noqa: PLC0415 -- the client, when it is needed

            more: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
            return HttpPort(url or "", headers=headers, source=source, extensions=extensions, **more)

        return make

    def _table(self, entry: Section, plain: Section) -> Callable[[], Callable[..., Any]]:
        name, columns = entry.text("name", required=True), _texts(entry, "columns")
        key, dsn = entry.texts("key") or (), plain.text("dsn")
        entry.known("dsn")

        def make() -> Callable[..., Any]:
            from seriatim.endpoints.table import TablePort  # noqa: PLC0415

            reached = None if dsn is None else resolve(without_secret(dsn) or "", self._environment)
            return TablePort(name or "", columns, key=key, dsn=reached)

        return make

    def _files(self, entry: Section, _: Section) -> Callable[[], Callable[..., Any]]:
        path, suffix = entry.text("path", required=True), entry.text("suffix")

        def make() -> Callable[..., Any]:
            from seriatim.endpoints.files import FilePort  # noqa: PLC0415

            return FilePort(path or "", suffix=suffix or "")

        return make

    def _queue(self, entry: Section, _: Section) -> Callable[[], Callable[..., Any]]:
        name, ordinal = entry.text("name", required=True), entry.text("ordinal")

        def make() -> Callable[..., Any]:
            from seriatim.endpoints.queue import QueuePort  # noqa: PLC0415

            return QueuePort(name or "", ordinal=ordinal)

        return make


def _texts(entry: Section, key: str) -> dict[str, str]:
    """A mapping of names to texts; faults are reported."""
    section = entry.section(key)
    if section is None:
        return {}
    return {name: text for name in section.names() if (text := section.text(name, required=True)) is not None}
