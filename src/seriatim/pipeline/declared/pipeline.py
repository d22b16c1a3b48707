"""The content of a pipeline file, as frozen values. Owns the shape; reading and checking a file is ``files/pipeline_file.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.declared.queue import Queue

#: The largest number of parts of a state.
MOST_BUCKETS = 4096
#: The largest number of destinations of a pipeline. Each destination is counted by an expression of its own; with more
#: destinations, Spark takes minutes to plan a batch. A million groups of one destination are no trouble.
MOST_DESTINATIONS = 1000
#: The format of sources and ports that are queues of a message box.
BOX = "seriatim"
#: The format of a port that delivers nothing.
DROP = "drop"
#: The format of a port that is a table in the database of the journal of two regions.
TABLE = "table"
#: The property of messages that two regions send: which has shown it.
REGION = "region"


def source_variable(place: int) -> str:
    """The variable under which workers find the DSN of the source at a place of the list, where it has a box of its own."""
    return f"SERIATIM_DSN_OF_SOURCE_{place}"


@dataclass(frozen=True, slots=True)
class Source:
    """A Spark source: its `format`, its `path`, and the reader's `options`. The format is json, csv, text, xml, parquet, or another format
    of Spark. `schema` is Spark DDL text, for formats that need a schema; None: the schema is taken from the present files. The last two are
    for parquet and for formats other than these five. `id`: the columns that identify a row, in the order in which rows arrived (``[topic,
    partition, offset]``). `body`: the column with the body; None: the body is the row as JSON.
    """

    format: str
    path: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    id: tuple[str, ...] = ()
    body: str | None = None

    @property
    def kind(self) -> str:
        """How its messages are read: by its format, or as rows of a ``"table"``, which are named by columns."""
        return "table" if self.id else self.format


@dataclass(frozen=True, slots=True)
class Split:
    """The rule by which one message becomes several: a `path` to a list (JSON) or to elements (XML), or a `function`. The function,
    ``module:name``, takes the body (bytes) and returns the bodies of the parts (an iterable of bytes). `otherwise`: a message that has
    nothing to split is ``invalid``, or stays ``whole``.
    """

    path: str | None = None
    function: str | None = None
    otherwise: Literal["invalid", "whole"] = "invalid"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The numbering of a location's messages: from 1 to `last_number`, then from 1 again in the next epoch. `order_by` names the properties
    or columns that give the order of arrival in a batch; empty: the file and the row. No two messages of a batch may have the same values
    of all these properties.
    """

    last_number: int = LAST_NUMBER
    order_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoxPlace:
    """The DSN and the schema of a pipeline's message box; None: as `MessageBox.open` finds them. The DSN may have a password."""

    dsn: str | None = field(default=None, repr=False)
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """The journal by which two runs of a pipeline, one in each region, deliver in turn (``claims: journal``). `dsn` and `schema`: of the
    journal; the DSN may have a password. `region`: where this run is. `lease_s`: after how many seconds the other run takes over from one
    that says nothing any more.
    """

    dsn: str = field(repr=False)
    region: str
    schema: str | None = None
    lease_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Receive:
    """A location: the source of its messages, and the properties that are read from them. `function`, ``module:name``, reads properties
    from a body (bytes) and returns them as a mapping; None: paths lead to the properties. `namespaces` are the prefixes that XPath may use.
    `stamp` is None for a location without tickets. `envelope` is the form in which a body describes a change or an event (one of
    `bodies.envelopes.registry.ENVELOPES`). With an envelope, an empty body is a tombstone. `region`: of a location that two regions send,
    which of them this entry receives, ``a`` or ``b``; `message_id`: the property with the id that a message has in both. `box`: the message
    box of this source, where it isn't the pipeline's.
    """

    location: str
    source: Source
    promote: tuple[Promotion, ...] = ()
    function: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    split: Split | None = None
    stamp: Stamp | None = field(default_factory=Stamp)
    envelope: str | None = None
    region: str | None = None
    message_id: str | None = None
    box: BoxPlace | None = None

    @property
    def title(self) -> str:
        """The name of the source in its pipeline, and the beginning of its rows' ids: the location, and the region if there are two."""
        return self.location if self.region is None else f"{self.location}/{self.region}"


@dataclass(frozen=True, slots=True)
class Process:
    """A call of the user's code: `function`, ``module:name``, takes and returns a table of Arrow. `returns` are the columns that the
    function adds or replaces, with their types. `on_error`: ``set_aside`` the messages at which the function raises, or ``fail`` the batch.
    """

    function: str
    returns: Mapping[str, str] = field(default_factory=dict)
    on_error: Literal["set_aside", "fail"] = "set_aside"


@dataclass(frozen=True, slots=True)
class Deliver:
    """A port: its `format` (json, csv, parquet, or the name of another Spark sink), its `path`, and the writer's `options`. With the format
    `DROP`, messages are released, but delivered nowhere.
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
    """One entry of ``route``. A message passes the filter, the user's code, the queue's order and the port, in this sequence. `start_said`:
    whether the file says at which number groups start, where it starts at the default.
    """

    queue: Queue
    deliver: Deliver
    where: str = "TRUE"
    process: Process | None = None
    start_from: StartFrom | None = None
    start_said: bool = False

    @property
    def says_its_start(self) -> bool:
        """Whether it is said where the numbers of a group begin, as far as its policy has contiguous numbers."""
        policy = self.queue.policy
        return not isinstance(policy, Standard) or self.start_said or self.start_from is not None or policy.start != 1


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    checkpoint: Path
    receive: tuple[Receive, ...]
    route: tuple[Destination, ...]
    process: Process | None = None
    trigger_s: float = 1.0
    clock: Literal["processing", "event"] = "processing"
    #: The property with the event time (event clock only).
    time: str | None = None
    #: The seconds by which a message may be behind the latest event time, before time moves past it (event clock only).
    watermark_s: float = 0.0
    #: The property with the order of arrival, which settles ties.
    arrival: str | None = None
    #: The number of parts of the state, fixed at the first start.
    buckets: int | None = None
    set_aside: Path | None = None
    unrouted: Path | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    #: The message box whose queues the pipeline reads, and to whose queues it delivers.
    box: BoxPlace = field(default_factory=BoxPlace)
    source_file: Path | None = None
    #: Where two regions send messages, for how long destinations by arrival remember their ids, in seconds; None: as long as by default.
    horizon_s: float | None = None
    #: Where two runs of the pipeline, one in each region, agree on which one delivers; None: this run delivers.
    claims: JournalPlace | None = None
    #: What is no fault of the file, but may not mean what its author thinks.
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def needs_box(self) -> bool:
        """Whether the pipeline reads from its message box, or delivers to it."""
        formats = [entry.source.format for entry in self.receive if entry.box is None]
        return BOX in formats + [one.deliver.format for one in self.route]

    @property
    def other_boxes(self) -> dict[str, BoxPlace]:
        """The boxes of single sources, by the variables under which workers find their DSNs."""
        return {source_variable(n): entry.box for n, entry in enumerate(self.receive) if entry.box is not None}

    @property
    def merges(self) -> bool:
        """Whether two regions send the messages."""
        return any(entry.region is not None for entry in self.receive)
