"""What a pipeline file says, as frozen values. Owns the shape; reading and checking a file is ``file.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from seriatim.pipeline.queue import Queue

__all__ = ["MOST_BUCKETS", "Deliver", "Destination", "Pipeline", "Promotion", "Receive", "Source", "StartFrom"]

#: Into how many parts a state may be cut.
MOST_BUCKETS = 4096


@dataclass(frozen=True, slots=True)
class Source:
    """A Spark source: `format` (json, csv, parquet, …), `path` and the reader's `options`.

    `schema` is Spark DDL text for formats that need one; None: taken from the files that are there.
    """

    format: str
    path: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Promotion:
    """One property: its `name`, the `path` it is found at (``$.customer.id`` in JSON, else a column), its `type`."""

    name: str
    path: str
    type: str = "string"


@dataclass(frozen=True, slots=True)
class Receive:
    """A location: where messages come from and which properties are lifted out of them."""

    location: str
    source: Source
    promote: tuple[Promotion, ...] = ()


@dataclass(frozen=True, slots=True)
class Deliver:
    """A port: a Spark sink `format`, `path` and the writer's `options`."""

    format: str
    path: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartFrom:
    """A file with the first number of groups: the columns `group` and `next`."""

    format: str
    path: Path
    group: str = "group"
    next: str = "next"


@dataclass(frozen=True, slots=True)
class Destination:
    """One entry of ``route``: the filter, the queue's order and the port."""

    queue: Queue
    deliver: Deliver
    where: str = "TRUE"
    start_from: StartFrom | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline file.

    `trigger_s` is the pause between micro-batches in seconds; `watermark_s` how far behind the
    latest event time a message may be before time moves past it (event clock only); `time` the
    property with the event time; `arrival` the property by which ties are settled; `buckets` the number of parts
    that the state is cut into, fixed at the first start; `set_aside` where messages go that were not released.
    """

    name: str
    checkpoint: Path
    receive: tuple[Receive, ...]
    route: tuple[Destination, ...]
    trigger_s: float = 1.0
    clock: Literal["processing", "event"] = "processing"
    time: str | None = None
    watermark_s: float = 0.0
    arrival: str | None = None
    buckets: int | None = None
    set_aside: Path | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    source_file: Path | None = None
