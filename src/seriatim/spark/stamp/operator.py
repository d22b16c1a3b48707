"""The operator that stamps: a Spark ``StatefulProcessor`` over buckets of locations, and the same for batch frames.

Of the messages' packets the operator reads only the columns of the order; it adds 8 bytes for each
message, the position of its ticket, from which `add_tickets` makes the column. The kernel makes every decision.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from seriatim.errors import ColumnError
from seriatim.kernel import stamp as kernel
from seriatim.kernel.values.columns import Ints, empty_ints
from seriatim.spark.session.collector import freeze_loaded
from seriatim.spark.state.packets import InArrow, by_bucket, from_bytes
from seriatim.spark.state.ticket_counters import Counters

if TYPE_CHECKING:
    import pandas as pd

#: Our column in the packets: the location of a message, null for a message without a ticket.
LOCATION = "__sq_location"
#: The output of the operator; packets of one bucket have places one after another.
STAMPED_SCHEMA = "bucket int, place int, packet binary, positions binary"

_STATE = ("counters", "value binary")
_COLUMNS = ("bucket", "place", "packet", "positions")
#: The most bytes of packets that leave in one piece.
_PIECE_BYTES = 64 * 2**20

_MOST_CHARACTERS, _MOST_COLUMNS = 80, 4


def not_total(messages: pa.Table, order_by: Sequence[str], location: str) -> ColumnError:
    first, second = (_name(messages, row, order_by) for row in range(2))
    alike = ", ".join(f"{name} {_shown(messages, name, 0)}" for name in order_by)
    return ColumnError(
        f"the order of arrival is not total: {first} and {second} both have {alike}",
        where=f"location {_shown(messages, location, 0)}",
        remedy="order_by needs columns that differ for any two messages of a location and batch",
    )


def _name(messages: pa.Table, row: int, order_by: Sequence[str]) -> str:
    if "message_id" in messages.column_names and messages.column("message_id")[row].is_valid:
        return f"message {_shown(messages, 'message_id', row)}"
    others = [
        f"{field.name} {_shown(messages, field.name, row)}"
        for field in messages.schema
        if not pa.types.is_nested(field.type) and field.name not in order_by and not field.name.startswith("__sq_")
    ]
    return f"a message with {', '.join(others[:_MOST_COLUMNS])}" if others else "a message"


def _shown(messages: pa.Table, column: str, row: int) -> str:
    """A value in one line: text as Python writes it, all other values as Arrow writes them."""
    scalar = messages.column(column)[row]
    kind = scalar.type
    if not scalar.is_valid:
        return "null"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = repr(scalar.as_buffer().to_pybytes().decode(errors="backslashreplace"))
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        text = repr(scalar.as_buffer().to_pybytes())
    else:
        text = str(scalar)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


@dataclass(frozen=True, slots=True)
class StampPlan:
    """The plan of the operator; it is sent to the workers. `order_by` and `last_number` are the same for all locations, or a mapping by
    location. `following`: by location a position to which another operator has counted before; the next tickets are beyond it.
    """

    order_by: tuple[str, ...] | Mapping[str, tuple[str, ...]]
    last_number: int | Mapping[str, int]
    fingerprint: str
    following: Mapping[str, int] = field(default_factory=dict)


class Stamper(StatefulProcessor):
    """Stamps one bucket of locations in each call. State: one value, the counters."""

    def __init__(self, plan: StampPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state; Spark calls it once for each task, and once on the driver."""
        freeze_loaded()
        self._counters = handle.getValueState(*_STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Put all messages of a micro-batch in a bucket in order together."""
        import pandas as pd  # noqa: PLC0415 -- the start of a query, in a process of its own, doesn't need it

        # A shuffle brings packets in any order; a part of the query that runs again must not depend on it.
        packets = sorted(bytes(packet) for frame in rows for packet in frame["packet"] if len(packet))
        value, fingerprint = self._counters.get(), self._plan.fingerprint
        counters = Counters() if value is None else Counters.from_bytes(value[0], fingerprint)
        counters.at_least(self._plan.following)
        if packets:
            positions = _positions(self._plan, counters, [from_bytes(packet) for packet in packets])
            for start, end in _pieces(packets):
                content = [position.tobytes() for position in positions[start:end]]
                places = np.arange(key[0] + start, key[0] + end, dtype=np.int32)
                bucket = np.full(end - start, key[0], np.int32)
                yield pd.DataFrame(
                    {"bucket": bucket, "place": places, "packet": packets[start:end], "positions": content}
                )
        if packets or value is None:
            self._counters.update((counters.to_bytes(fingerprint),))

    def close(self) -> None:
        """Do nothing."""


class Resting(StatefulProcessor):
    """The same operator where tickets are given elsewhere: it keeps its state as it is, and passes rows of columns with these names on. A
    query always has the same operators, so that another declaration may bring `Stamper` back.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)

    def init(self, handle: StatefulProcessorHandle) -> None:
        freeze_loaded()
        handle.getValueState(*_STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        for frame in rows:
            yield frame[self._columns]

    def close(self) -> None:
        """Do nothing."""


def _pieces(packets: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Group packets to leave together, so that neither their number nor their size becomes too large."""
    start, size = 0, 0
    for place, packet in enumerate(packets):
        if size and size + len(packet) > _PIECE_BYTES:
            yield start, place
            start, size = place, 0
        size += len(packet)
    yield start, len(packets)


def _positions(plan: StampPlan, counters: Counters, packets: Sequence[pa.Table]) -> list[Ints]:
    """The position of each message's ticket, by packet; 0 for a message without a ticket. Advances the counters."""
    messages = pa.concat_tables(packets)
    named = messages.column(LOCATION).combine_chunks().dictionary_encode()
    locations = named.dictionary.cast(pa.string())
    code = pc.fill_null(named.indices, -1).to_numpy()
    position = empty_ints(messages.num_rows)
    for order_by, order_locations in _by_order(plan, locations):
        row_of = np.full(len(locations) + 1, -1, np.int64)  # the last row is for the code -1
        row_of[order_locations] = counters.enrol(locations.take(pa.array(order_locations)))
        rows = np.flatnonzero(row_of[code] >= 0)
        location = row_of[code[rows]]
        columns = messages.select(list(order_by))
        columns = columns if len(rows) == messages.num_rows else columns.take(pa.array(rows))
        keys = [key for name in order_by for key in _keys(columns.column(name))]
        order, tie = kernel.by_arrival(location, keys)
        if tie is not None:
            raise not_total(messages.take(pa.array(rows[list(tie)])), order_by, LOCATION)
        position[rows], counters.following = kernel.stamp(counters.following, location, order)
    return np.split(position, np.cumsum([packet.num_rows for packet in packets])[:-1])


def _by_order(plan: StampPlan, locations: pa.StringArray) -> Iterator[tuple[tuple[str, ...], Ints]]:
    if not isinstance(plan.order_by, Mapping):
        if len(locations):
            yield plan.order_by, np.arange(len(locations))
        return
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, name in enumerate(locations.to_pylist()):
        alike[plan.order_by[name]].append(place)
    for order_by, places in alike.items():
        yield order_by, np.array(places, np.int64)


def _keys(column: pa.ChunkedArray) -> list[Ints]:
    """Numbers that sort like the values, ascending, nulls first."""
    keys = []
    if column.null_count:
        keys.append(pc.is_valid(column).to_numpy().astype(np.int64))
    if pa.types.is_integer(column.type):
        numbers = column
    elif pa.types.is_timestamp(column.type):
        numbers = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        numbers = column.cast(pa.int32())
    else:
        coded = column.combine_chunks().dictionary_encode()
        rank = empty_ints(len(coded.dictionary))
        rank[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(len(rank))
        codes = pc.fill_null(coded.indices, 0).to_numpy()
        return [*keys, rank[codes] if len(rank) else empty_ints(len(codes))]
    numbers = pc.fill_null(numbers, 0) if numbers.null_count else numbers
    return [*keys, numbers.to_numpy().astype(np.int64, copy=False)]


def add_tickets(plan: StampPlan) -> InArrow:
    """The messages of the packets with their tickets. A shuffle brings packets in any order. They are sorted, so that later stages pack the
    same messages into the same packets when a part of the query runs again: Spark ends a query whose second run writes a row that differs
    in a byte (``spark.sql.shuffle.orderIndependentChecksum``).
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stamped = [row for batch in batches for row in zip(*(batch.column(name) for name in _COLUMNS), strict=True)]
        stamped.sort(key=lambda row: (row[0].as_py(), row[1].as_py()))
        for _, _, packet, positions in stamped:
            position = np.frombuffer(positions.as_buffer(), np.int64)
            for messages in pa.ipc.open_stream(packet.as_buffer()):
                yield _ticketed(plan, messages, position[: messages.num_rows])
                position = position[messages.num_rows :]

    return run


def _ticketed(plan: StampPlan, messages: pa.RecordBatch, position: Ints) -> pa.RecordBatch:
    ticket = ticket_column(plan, messages.column(LOCATION), position)
    return messages.drop_columns([LOCATION]).append_column("ticket", ticket)


def ticket_column(plan: StampPlan, location: pa.StringArray, position: Ints) -> pa.StructArray:
    none = position == 0
    tickets = kernel.tickets(position, _last_numbers(plan, location))
    columns = [location, pa.array(tickets.epoch, mask=none), pa.array(tickets.number, mask=none)]
    return pa.StructArray.from_arrays(columns, ["location", "epoch", "number"])


def _last_numbers(plan: StampPlan, location: pa.StringArray) -> int | Ints:
    if not isinstance(plan.last_number, Mapping):
        return plan.last_number
    coded = location.dictionary_encode()
    by_code = np.array([plan.last_number[name] for name in coded.dictionary.to_pylist()] + [1], np.int64)
    return by_code[pc.fill_null(coded.indices, -1).to_numpy()]


def stamp_to_the_end(plan: StampPlan) -> InArrow:
    """All buckets of a partition of a batch frame, from an empty state."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packets = by_bucket(batches)
        for bucket in sorted(packets):
            tables = packets.pop(bucket)
            for table, positions in zip(tables, _positions(plan, Counters(), tables), strict=True):
                at = 0
                for messages in table.to_batches():
                    yield _ticketed(plan, messages, positions[at : at + messages.num_rows])
                    at += messages.num_rows

    return run
