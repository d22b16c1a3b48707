"""The control source: a stream of Spark with the input of a query's operator beside its data.

A row has a bucket, a kind and the content of that kind. There are ticks, which wake a bucket in which something is due, and entries of a
pipeline's control log. Spark reads this source on the driver, in a separate process, and asks for new rows at each trigger. An offset is
all that a batch needs to run again:

* `at`: a number that grows with each offset;
* `by`: the query and the process that made it;
* `log`: the number of the last file of the control log;
* `ticks`: the slots that are woken, as bits of a hexadecimal number.

A process doesn't know what is due in a state from an earlier process. So its first offset wakes every bucket.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import StructType

from seriatim.spark.control.due import Due, buckets_of
from seriatim.spark.control.log import COMMAND, FINISH, WAKE, ControlLog
from seriatim.spark.session.versions import STARTS_ARE_TOLD, SupportsTriggerAvailableNow
from seriatim.spark.state.buckets import bucket_ids

#: The columns of the source: a bucket, a kind, and the kind's content as JSON. A command for one group names no bucket.
CONTROL_SCHEMA = "bucket int, kind string, content string"
FORMAT = "seriatim-control"
#: The offset before the first batch.
FIRST_OFFSET: Mapping[str, Any] = {"at": 0, "by": "", "log": 0, "ticks": ""}
#: The kind of a row that wakes a bucket. The other kinds are those of the control log.
TICK = "tick"


@dataclass(frozen=True, slots=True)
class Controlled:
    id: str
    buckets: int
    #: Whether it is woken at each start, and when it tells that something is due.
    ticks: bool = True
    #: The folder of a pipeline's control log; None: there is none.
    log: Path | None = None
    #: The folder with the files of due times; None: the one for temporary files of the driver's machine.
    folder: Path | None = None

    def options(self) -> dict[str, str]:
        options = {"id": self.id, "buckets": str(self.buckets), "ticks": str(self.ticks)}
        folders = {"log": self.log, "folder": self.folder}
        return options | {name: str(path.absolute()) for name, path in folders.items() if path is not None}

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Controlled:
        paths = {name: Path(options[name]) if name in options else None for name in ("log", "folder")}
        return cls(options["id"], int(options["buckets"]), options["ticks"] == "True", paths["log"], paths["folder"])

    def due_file(self, by: str) -> Path:
        """Return the file of due times for a process of the source (`by`, as in its offsets). Its folder is private."""
        folder = self.folder or Path(tempfile.gettempdir(), f"seriatim-{self.id}")
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / by

    def is_by(self, by: object) -> bool:
        """Whether an offset was made for this operator, by any process."""
        return isinstance(by, str) and by.startswith(f"{self.id}-")


class ControlFormat(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return CONTROL_SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 -- Spark's name
        return _ControlReader(Controlled.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
        """Implements Spark's interface: where it isn't implemented, Spark takes the simple reader."""
        reader = _ControlReader(Controlled.of(self.options))
        return super().streamReader(schema) if STARTS_ARE_TOLD else _UntoldReader(reader)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Send due times to the driver through Spark, where the program runs on another machine."""
        return _Teller(Controlled.of(self.options), self.options["by"], Due.from_json(self.options["due"]))


class _Teller(DataSourceReader):
    """Reads no rows; it writes the file of due times, when Spark plans the read on the driver."""

    def __init__(self, controlled: Controlled, by: str, due: Due) -> None:
        self._file = controlled.due_file(by)
        self._due = due

    def partitions(self) -> Sequence[InputPartition]:
        self._due.write(self._file)
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())


class _ControlReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the control source of one query. An executor makes one, too, to read the rows of a batch that runs again."""

    def __init__(self, controlled: Controlled) -> None:
        self._controlled = controlled
        self._log = None if controlled.log is None else ControlLog.of_checkpoint(controlled.log)
        self._by = f"{controlled.id}-{uuid.uuid4().hex}"
        self._file: Path | None = None
        self._read_at: tuple[int, int] | None = None
        self._due = Due.unknown(controlled.buckets)
        # The last file of the log to read, for a query that ends with the present entries.
        self._last: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """The offset before the first batch. Spark asks again when it replays a first batch."""
        return dict(FIRST_OFFSET)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """Leave later entries to another run: the query wakes every bucket once, and then none."""
        self._last = self._log.last() if self._log is not None else 0

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        slots = self._slots(start)
        log = self._logged(start["log"])
        if not slots and log == start["log"]:
            return iter(()), start  # without new rows it has to be the very same offset
        bits = sum(1 << slot for slot in slots)
        end = {"at": start["at"] + 1, "by": self._by, "log": log, "ticks": f"{bits:x}" if bits else ""}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:  # noqa: N802 -- Spark's name
        """The rows of a batch: entries of the log in their order, then ticks."""
        if start == end:
            return iter(())
        rows: list[tuple[int | None, str, str | None]] = []
        entries = self._log.read(start["log"], end["log"]) if self._log is not None else []
        buckets = self._controlled.buckets
        if any(entry["kind"] == FINISH for entry in entries):
            rows += [(bucket, FINISH, None) for bucket in bucket_ids(buckets)]
        commands = (entry for entry in entries if entry["kind"] == COMMAND)
        for order, command in enumerate(commands):
            content = json.dumps({**command, "order": order})
            to: list[int] | list[None] = [None] if command["key"] is not None else bucket_ids(buckets)
            rows += [(bucket, COMMAND, content) for bucket in to]
        bits = int(end["ticks"] or "0", 16)
        slots = [slot for slot in range(bits.bit_length()) if bits >> slot & 1]
        calls = [entry for entry in entries if entry["kind"] == WAKE]
        woken = bucket_ids(buckets) if calls else buckets_of(slots, buckets)
        # Buckets of another number than now, which are emptied.
        former = {bucket for entry in calls if entry.get("former") for bucket in bucket_ids(entry["former"])}
        rows += [(bucket, TICK, None) for bucket in (*woken, *sorted(former.difference(woken)))]
        return iter(rows)

    def first_after_unknown(self) -> dict[str, Any]:
        """The first offset of a process that doesn't know where the last batch ended: it wakes every bucket."""
        log = self._log.last() if self._log is not None else 0
        if not self._controlled.ticks:
            return {**FIRST_OFFSET, "log": log}
        bits = (1 << len(self._due.moments)) - 1
        # Greater than the numbers of earlier processes.
        return {"at": time.time_ns() // 1_000_000, "by": self._by, "log": log, "ticks": f"{bits:x}"}

    def _slots(self, start: dict[str, Any]) -> list[int]:
        if not self._controlled.ticks:
            return []
        if start["by"] != self._by:
            return list(range(len(self._due.moments)))
        if self._last is not None:
            return []
        self._look()
        if self._due.at != start["at"]:
            return []  # the file is older than the last ticks
        # The time of a batch has whole milliseconds, and a due time must not lie after it.
        return self._due.slots_until(time.time_ns() // 1_000_000 * 1000)

    def _logged(self, number: int) -> int:
        """Return the number of the last file of the log to read, after a given one."""
        if self._log is None:
            return number
        last = self._log.last_after(number)
        return last if self._last is None else max(number, min(last, self._last))

    def _look(self) -> None:
        """Read the file of due times, if it has changed."""
        self._file = self._file or self._controlled.due_file(self._by)
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return
        if self._read_at != (status.st_ino, status.st_mtime_ns):
            self._due = Due.from_json(self._file.read_text(encoding="utf-8"))
            self._read_at = (status.st_ino, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class _Batch(InputPartition):
    start: dict[str, Any]
    end: dict[str, Any]


class _UntoldReader(DataSourceStreamReader):
    """The control source for a Spark that gives a source neither its starts nor the trigger `availableNow`. There Spark asks a source for
    one offset before it tells with which batch it goes on, if the query is to take what is there now, and takes no more than that.
    Otherwise it tells the last batch first.
    """

    def __init__(self, reader: _ControlReader) -> None:
        self._reader = reader
        self._end: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        return self._reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 -- Spark's name, and its signature before 4.2
        self._end = self._reader.first_after_unknown() if self._end is None else self._reader.read(self._end)[1]
        return self._end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the one partition of a batch; from this call the source learns the offset with which a query continues."""
        self._end = self._end or end
        return [_Batch(start, end)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return (
            self._reader.readBetweenOffsets(partition.start, partition.end)
            if isinstance(partition, _Batch)
            else iter(())
        )
