"""A port as text, ``http: {url: https://…}``, and the handler that it becomes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from seriatim.box.connection.dsn import resolve, without_secret
from seriatim.pipeline.text.document import Language
from seriatim.pipeline.text.one_of import Maker, given, later, one_of, texts
from seriatim.pipeline.text.section import Section

_PORT = Language("port", "http: {url: …}", "ports")
_Handler = Callable[..., Any]


def port_of(text: str, environment: Mapping[str, str] = os.environ) -> _Handler:
    kinds: dict[str, Maker[_Handler]] = {
        "http": _http, "table": partial(_table, environment), "files": _files, "queue": _queue, "mllp": _mllp,
        "rabbitmq": _rabbitmq, "kafka": _kafka,
    }  # fmt: skip
    return one_of(text, kinds, environment, _PORT, "http: {url: https://…}")


def _http(entry: Section, _: Section) -> Callable[[], _Handler]:
    url, source = entry.text("url", required=True), entry.text("source")
    headers, extensions = texts(entry, "headers"), texts(entry, "extensions")
    more = given(
        timeout=entry.duration_s("timeout"),
        response=entry.text("response"),
        response_headers=texts(entry, "response_headers") or None,
        response_bytes=entry.whole("response_bytes", 0, 100 * 2**20),
        refused=entry.choice("refused", ("fault", "answer")),
    )
    return later(
        "seriatim.endpoints.http", "HttpPort", url or "", headers=headers, source=source, extensions=extensions, **more
    )


def _table(environment: Mapping[str, str], entry: Section, plain: Section) -> Callable[[], _Handler]:
    name, columns = entry.text("name", required=True), texts(entry, "columns")
    key, dsn = entry.texts("key") or (), plain.text("dsn")
    entry.known("dsn")

    def make() -> _Handler:
        reached = None if dsn is None else resolve(without_secret(dsn) or "", environment)
        port: _Handler = later("seriatim.endpoints.table", "TablePort", name or "", columns, key=key, dsn=reached)()
        return port

    return make


def _files(entry: Section, _: Section) -> Callable[[], _Handler]:
    path, suffix = entry.text("path", required=True), entry.text("suffix")
    return later("seriatim.endpoints.files", "FilePort", path or "", suffix=suffix or "")


def _queue(entry: Section, _: Section) -> Callable[[], _Handler]:
    name, ordinal = entry.text("name", required=True), entry.text("ordinal")
    return later("seriatim.endpoints.queue", "QueuePort", name or "", ordinal=ordinal)


def _mllp(entry: Section, _: Section) -> Callable[[], _Handler]:
    address = entry.text("address", required=True)
    more = given(
        timeout=entry.duration_s("timeout"),
        tls=entry.flag("tls"),
        **{name: entry.text(name) for name in ("authority", "certificate", "key")},
    )
    return later("seriatim.endpoints.mllp", "MllpPort", address or "", **more)


def _rabbitmq(entry: Section, _: Section) -> Callable[[], _Handler]:
    url, headers = entry.text("url", required=True), texts(entry, "headers")
    more = given(**{name: entry.text(name) for name in ("exchange", "routing_key", "app_id")})
    return later("seriatim.endpoints.rabbitmq", "RabbitmqPort", url or "", headers=headers, **more)


def _kafka(entry: Section, _: Section) -> Callable[[], _Handler]:
    servers, topic = entry.text("servers", required=True), entry.text("topic", required=True)
    headers, options = texts(entry, "headers"), texts(entry, "options")
    more = given(timeout=entry.duration_s("timeout"))
    return later(
        "seriatim.endpoints.kafka", "KafkaPort", servers or "", topic or "", headers=headers, options=options, **more
    )
