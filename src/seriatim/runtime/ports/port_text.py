"""A port through which messages come in, as text: ``mllp: {listen: …}``, and the source that it becomes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from seriatim.pipeline.text.document import Language
from seriatim.pipeline.text.one_of import given, later, one_of, texts
from seriatim.pipeline.text.section import Section
from seriatim.runtime.ports.source import Source

_PORT = Language("receive port", "mllp: {listen: …}", "ports-in")


def source_of(text: str) -> Source:
    kinds = {"mllp": _mllp, "rabbitmq": _rabbitmq, "kafka": _kafka}
    return one_of(text, kinds, os.environ, _PORT, "mllp: {listen: 127.0.0.1:2575}")


def _mllp(entry: Section, _: Section) -> Callable[[], Source]:
    listen = entry.text("listen", required=True)
    values = _common(entry) | given(
        largest=entry.whole("largest", 1, 2**29), connections=entry.whole("connections", 1, 10_000),
        silent=entry.duration_s("silent"), patience=entry.duration_s("patience"),
        **{name: entry.text(name) for name in ("certificate", "key", "authority")},
    )  # fmt: skip
    return later("seriatim.runtime.ports.mllp", "MllpSource", listen or "", **values)


def _rabbitmq(entry: Section, _: Section) -> Callable[[], Source]:
    url, queue = entry.text("url", required=True), entry.text("queue", required=True)
    values = _common(entry) | given(prefetch=entry.whole("prefetch", 1, 65_535))
    return later("seriatim.runtime.ports.rabbitmq", "RabbitmqSource", url or "", queue or "", **values)


def _kafka(entry: Section, _: Section) -> Callable[[], Source]:
    servers, topic = entry.text("servers", required=True), entry.text("topic", required=True)
    values = _common(entry) | given(start=entry.text("start"), options=texts(entry, "options"))
    return later("seriatim.runtime.ports.kafka", "KafkaSource", servers or "", topic or "", **values)


def _common(entry: Section) -> dict[str, Any]:
    """What every source takes: its name, the type of its messages, and their properties."""
    properties = texts(entry, "properties") if entry.has("properties") else None
    return given(name=entry.text("name"), type=entry.text("type"), properties=properties)
