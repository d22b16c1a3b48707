"""A target that only one of several runs writes to at a time.

Each run orders the same messages, and the journal names the run that delivers.
A batch is delivered by its rows: those whose numbers are above the number through which their group is delivered. A batch of which no row
is, another run has delivered, and nothing is done with it. `through` is read under the claim under which is written afterwards: as long as
that claim is the present one nobody else writes, and when it isn't any more, the journal refuses it.

A table of the journal's database gets the rows in the transaction that notes the numbers: exactly once. Any other sink gets them before: at
least once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seriatim.kernel.regions.delivered import portions, undelivered
from seriatim.kernel.values.columns import Bools, Ints
from seriatim.kernel.values.time import NEVER
from seriatim.spark.deliver.targets import Target

#: The most rows of a table in one transaction; about as many bytes as these.
MOST_ROWS = 10_000
_PORTION_BYTES = 8 * 2**20
_KEYS = ["group", "sequence"]
#: The folder beside the batch for the rows that a sink still has to get. No reader takes a name that begins with a dot for a part.
_REST = ".rest"


class StandsBy(Exception):
    """This run may not deliver now; the text is the reason. The next look follows soon."""


class DeliveryLease(Protocol):
    """The right of a run to deliver, and the deliveries under it. Each method raises `StandsBy` where the journal can't be reached, or the
    claim is another's by now.
    """

    @property
    def look_s(self) -> float:
        """The time after which a standby run looks again, seconds."""

    def held(self) -> Any:
        """The claim of this run; None: it has none."""

    def why(self) -> str:
        """Why this run has no claim."""

    def through(self, destination: str, groups: Sequence[str]) -> Mapping[str, int]:
        """Through which numbers groups are delivered."""

    def note(self, claim: Any, destination: str, through: Mapping[str, int]) -> None:
        """Note through which numbers groups are delivered."""

    def insert(self, claim: Any, destination: str, through: Mapping[str, int], rows: Mapping[str, list[Any]]) -> None:
        """Insert rows into the table of a destination, and note the numbers, in one transaction."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of a batch: their keys, the highest number of each, and the number through which each is delivered."""

    keys: pa.Array
    highest: Ints
    through: Ints

    def places(self, rows: pa.Table) -> Ints:
        index: Ints = pc.index_in(_group_of(rows), self.keys).to_numpy(zero_copy_only=False).astype(np.int64)
        return index

    def new(self, rows: pa.Table) -> Bools:
        return undelivered(self.places(rows), _number_of(rows), self.through)

    @property
    def is_over(self) -> bool:
        return not undelivered(np.arange(len(self.highest)), self.highest, self.through).any()

    def raised(self) -> dict[str, int]:
        """Through which numbers the groups are delivered when all rows are."""
        new = np.flatnonzero(self.highest > self.through)
        return dict(zip(self.keys.take(pa.array(new)).to_pylist(), self.highest[new].tolist(), strict=True))


class Claimed:
    def __init__(self, destination: str, lease: DeliveryLease, sink: Target | None = None) -> None:
        self._destination = destination
        self._lease = lease
        #: The sink for the rows; None: a table of the journal's database.
        self._sink = sink

    @property
    def look_s(self) -> float:
        return self._lease.look_s

    def claim(self) -> None:
        """See `Target`. Whether the sink can be written only a write shows."""

    def take(self, batch: int, folder: Path) -> None:
        """See `Target`. Nothing is done with a batch that another run has delivered."""
        claim = self._lease.held()  # before the numbers are read: a later read may see another run's numbers
        groups = self._groups(folder)
        if groups.is_over:
            return
        if claim is None:
            raise StandsBy(self._lease.why())
        if self._sink is None:
            for rows in _portions(folder, groups):
                last = _last_numbers(rows)
                highest = dict(
                    zip(last.column("group").to_pylist(), last.column("number_max").to_pylist(), strict=True)
                )
                values = {name: rows.column(name).to_pylist() for name in rows.column_names}
                self._lease.insert(claim, self._destination, highest, values)
            return
        rest = folder / _REST
        try:
            self._sink.take(batch, _written(folder, groups, rest))
        finally:
            shutil.rmtree(rest, ignore_errors=True)
        self._lease.note(claim, self._destination, groups.raised())

    def newest_batch(self) -> int | None:
        return None if self._sink is None else self._sink.newest_batch()

    def is_over(self, folder: Path) -> bool:
        """Whether another run has delivered a batch."""
        return self._groups(folder).is_over

    def _groups(self, folder: Path) -> _Groups:
        groups = [_last_numbers(rows) for rows in _tables(folder, _KEYS)]
        if not groups:
            return _Groups(pa.array([], pa.string()), np.zeros(0, np.int64), np.zeros(0, np.int64))
        together = pa.concat_tables(groups).group_by("group").aggregate([("number_max", "max")])
        keys = together.column("group").combine_chunks()
        known = self._lease.through(self._destination, keys.to_pylist())
        through = np.array([known.get(key, NEVER) for key in keys.to_pylist()], np.int64)
        return _Groups(keys, together.column("number_max_max").to_numpy().astype(np.int64), through)


def _group_of(rows: pa.Table) -> pa.ChunkedArray:
    """The key of each row's group; a queue without groups has one group, whose key no real group has."""
    return pc.fill_null(rows.column("group"), "")


def _number_of(rows: pa.Table) -> Ints:
    numbers: Ints = rows.column("sequence").to_numpy().astype(np.int64)
    return numbers


def _last_numbers(rows: pa.Table) -> pa.Table:
    """The last number of each group: ``group``, ``number_max``."""
    keyed = pa.table({"group": _group_of(rows), "number": rows.column("sequence")})
    return keyed.group_by("group").aggregate([("number", "max")])


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*"))


def _tables(folder: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The rows of a batch in their order, as they lie together in its files."""
    for path in _files(folder):
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number, columns=columns)


def _portions(folder: Path, groups: _Groups) -> Iterator[pa.Table]:
    """The rows that are still to be delivered, a message's together."""
    kept: pa.Table | None = None
    for table in _tables(folder):
        new = table.filter(pa.array(groups.new(table)))
        *whole, kept = _cut(new if kept is None else pa.concat_tables([kept, new]), groups)
        yield from whole  # the last message of these rows may continue in the next ones
    if kept is not None and kept.num_rows:
        yield from _cut(kept, groups)


def _cut(rows: pa.Table, groups: _Groups) -> list[pa.Table]:
    """The rows in portions; none: one portion without rows."""
    size = max(1, rows.nbytes // max(1, rows.num_rows))
    cuts = portions(groups.places(rows), _number_of(rows), max(1, min(MOST_ROWS, _PORTION_BYTES // size)))
    return [rows.slice(begin, end - begin) for begin, end in cuts] or [rows]


def _written(folder: Path, groups: _Groups, rest: Path) -> Path:
    """Return a folder with the rows that are still to be delivered, in files of the same names; the batch itself if these are all."""
    if (groups.through == NEVER).all():
        return folder
    shutil.rmtree(rest, ignore_errors=True)
    rest.mkdir()
    for path in _files(folder):
        with pq.ParquetFile(path) as file, pq.ParquetWriter(rest / path.name, file.schema_arrow) as writer:
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number)
                writer.write_table(rows.filter(pa.array(groups.new(rows))))
    return rest
