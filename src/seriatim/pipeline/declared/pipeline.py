"""The content of a pipeline file, as frozen values. Owns the shape; reading and checking a file is ``files/pipeline_file.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from seriatim.kernel.sequence import LAST_NUMBER
from seriatim.pipeline.declared.queue import Queue

__all__ = [
    "BOX",
    "DROP",
    "MOST_BUCKETS",
    "MOST_DESTINATIONS",
    "BoxPlace",
    "Deliver",
    "Destination",
    "Pipeline",
    "Process",
    "Promotion",
    "Receive",
    "Source",
    "Split",
    "Stamp",
    "StartFrom",
]

#: Into how many parts a state may be cut.
MOST_BUCKETS = 4096
#: How many destinations a pipeline may have: each is counted by an expression of its own, and beyond this Spark takes
#: minutes to plan them. A million groups of one destination are no trouble.
MOST_DESTINATIONS = 1000
#: The format of what comes from a message box and goes into one.
BOX = "seriatim"
#: The format of a port that delivers nothing.
DROP = "drop"


@dataclass(frozen=True, slots=True)
class Source:
    """A Spark source: `format` (json, csv, text, xml, parquet, or any other of Spark's), `path`, the reader's `options`.

    `schema` is Spark DDL text for formats that need one; None: taken from the files that are there.
    A format that is not one of the five tells by `id` which columns identify a row, in the order in which rows
    arrived (``[topic, partition, offset]``), and by `body` which column is the body; None: the row as JSON.
    """

    format: str
    path: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    id: tuple[str, ...] = ()
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Promotion:
    """One property: its `name`, the `path` it is found at, its `type`.

    The path is ``$.customer.id`` in JSON, XPath in XML, the name of a column, or the key under which the location's
    function returns it. Of several the first counts whose value is neither absent nor null. `envelope`: of a message
    that was split, it is looked up in the whole instead of the part. `told_by`: the name of the envelope that tells it,
    in which `path` is the name of what it tells; None: it is found by its path.
    """

    name: str
    path: str | tuple[str, ...]
    type: str = "string"
    envelope: bool = False
    told_by: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths, in the order in which they are looked up."""
        return (self.path,) if isinstance(self.path, str) else self.path


@dataclass(frozen=True, slots=True)
class Split:
    """How one message becomes several: by a `path` to a list (JSON) or to elements (XML), or by a `function`.

    The function, ``module:name``, takes the body (bytes) and returns the bodies of the parts (an iterable of bytes).
    `otherwise`: what becomes of a message that has nothing to be taken apart: it is ``invalid``, or stays ``whole``.
    """

    path: str | None = None
    function: str | None = None
    otherwise: Literal["invalid", "whole"] = "invalid"


@dataclass(frozen=True, slots=True)
class Stamp:
    """How a location's messages are numbered: 1 to `last_number`, then from 1 again in the next epoch.

    `order_by` are the properties or columns that say in which order the messages of a batch arrived; empty: by
    file and row. It has to be total.
    """

    last_number: int = LAST_NUMBER
    order_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receive:
    """A location: where messages come from and which properties are lifted out of them.

    `function`, ``module:name``, reads properties out of a body (bytes) and returns them as a mapping; None: by paths.
    `namespaces` are the prefixes that XPath may use. `stamp` is None for a location without tickets. `envelope` is the
    form in which a body tells of a change or an event (one of `bodies.envelopes.registry.ENVELOPES`); an empty body is then a tombstone.
    """

    location: str
    source: Source
    promote: tuple[Promotion, ...] = ()
    function: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    split: Split | None = None
    stamp: Stamp | None = field(default_factory=Stamp)
    envelope: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """The user's code on the way: `function` is ``module:name``, Arrow in and out.

    `returns` are the columns that it adds or replaces, with their types. `on_error`: ``set_aside`` the messages
    at which it raises, or ``fail`` the batch.
    """

    function: str
    returns: Mapping[str, str] = field(default_factory=dict)
    on_error: Literal["set_aside", "fail"] = "set_aside"


@dataclass(frozen=True, slots=True)
class Deliver:
    """A port: files (json, csv, parquet), or any other Spark sink `format`, `path` and the writer's `options`.

    The format `DROP` is that of messages which are released and delivered nowhere.
    """

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
    """One entry of ``route``: the filter, the user's code, the queue's order and the port, in the order of the way."""

    queue: Queue
    deliver: Deliver
    where: str = "TRUE"
    process: Process | None = None
    start_from: StartFrom | None = None


@dataclass(frozen=True, slots=True)
class BoxPlace:
    """Where the message box of a pipeline is; None: as `MessageBox.open` finds it. The DSN may have a password in it."""

    dsn: str | None = field(default=None, repr=False)
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline file.

    `trigger_s` is the pause between micro-batches in seconds; `watermark_s` how far behind the
    latest event time a message may be before time moves past it (event clock only); `time` the
    property with the event time; `arrival` the property by which ties are settled; `buckets` the number of parts
    that the state is cut into, fixed at the first start; `process` the user's code before ``route``; `set_aside`
    where messages go that were not released; `unrouted` where those go that match no destination; `box` the message
    box whose queues it reads and delivers to.
    """

    name: str
    checkpoint: Path
    receive: tuple[Receive, ...]
    route: tuple[Destination, ...]
    process: Process | None = None
    trigger_s: float = 1.0
    clock: Literal["processing", "event"] = "processing"
    time: str | None = None
    watermark_s: float = 0.0
    arrival: str | None = None
    buckets: int | None = None
    set_aside: Path | None = None
    unrouted: Path | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    box: BoxPlace = field(default_factory=BoxPlace)
    source_file: Path | None = None

    @property
    def needs_box(self) -> bool:
        """Whether it reads or delivers to a message box."""
        formats = [entry.source.format for entry in self.receive] + [one.deliver.format for one in self.route]
        return BOX in formats
