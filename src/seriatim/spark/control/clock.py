"""The driver's side of time: add the control source to a query, and after each batch tell the source when buckets are due.

A listener of the session's queries gets the observed metrics of each batch, and writes the due times into a file, which the
source reads at each trigger. Through Spark Connect the program may run on another machine than the driver, and a listener's
thread would keep it from ending. There a thread asks for the progress of the queries, and sends the due times through Spark:
as options of a read of the control source, which writes the file on the driver's machine.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, Row, SparkSession

from seriatim.pipeline.text.event_log import LOG
from seriatim.spark.control.due import Due, metrics, told_by
from seriatim.spark.control.source import FIRST_OFFSET, FORMAT, ControlFormat, Controlled
from seriatim.spark.session import versions

_METRICS = "seriatim due "
#: How often the progress of queries is asked for through Spark Connect.
_ASK_S = 0.5
#: How often in a row a request may fail before the session counts as gone.
_FAILURES = 20
_clocks: WeakKeyDictionary[SparkSession, _Clock] = WeakKeyDictionary()
_lock = threading.Lock()


def controlled(session: SparkSession, buckets: int, *, ticks: bool, log: Path | None) -> tuple[Controlled, DataFrame]:
    made = Controlled(uuid.uuid4().hex, buckets, ticks, log, None if _is_remote(session) else _folder())
    clock = _clock_of(session)
    if ticks:
        clock.add(made)
    return made, session.readStream.format(FORMAT).options(**made.options()).load()


def observed(decided: DataFrame, of: Controlled) -> DataFrame:
    """Return the operator's output; Spark collects the due times in it as metrics."""
    return decided.observe(_METRICS + of.id, *metrics(of.buckets))


def control_offset(progress: Mapping[str, Any]) -> dict[str, Any] | None:
    """The offset at which a batch ended in the control source, by its progress event; None: the query has no such source, or is new."""
    return next((offset for source in progress["sources"] if (offset := _offset(source)) is not None), None)


def rows_of(progress: Mapping[str, Any]) -> int:
    """The number of rows that the batch of a progress event has read from control sources: they are no messages."""
    return sum(source["numInputRows"] for source in progress["sources"] if _offset(source) is not None)


def _values(observed: Row | Mapping[str, Any]) -> Mapping[str, Any]:
    """Observed metrics by their names. Through Spark Connect the row may be one of its values and its schema."""
    values = observed.asDict() if isinstance(observed, Row) else observed
    if set(values) != {"values", "schema"}:
        return values
    names = [field["name"] for field in values["schema"]["fields"]]
    return dict(zip(names, values["values"], strict=True))


def _offset(source: Mapping[str, Any]) -> dict[str, Any] | None:
    offset = versions.offset(source["endOffset"])
    return offset if isinstance(offset, dict) and set(offset) == set(FIRST_OFFSET) else None


class _Clock:
    """The due times of a session's queries. In it `by` is the process of a control source, as in the source's offsets."""

    def __init__(self) -> None:
        #: The sources, by the name of their metrics.
        self._of: dict[str, Controlled] = {}
        #: The last due times, by the process.
        self._known: dict[str, Due] = {}
        #: For each run of a query the processes of its sources.
        self._runs: defaultdict[str, dict[str, Controlled]] = defaultdict(dict)

    def add(self, of: Controlled) -> None:
        self._of[_METRICS + of.id] = of

    def take_in(self, progress: Mapping[str, Any]) -> list[tuple[Controlled, str, Due]]:
        """Take in a progress event; return the due times after its batch, for each operator."""
        told = []
        # Spark leaves the metrics out where a query has none.
        for name, observed in progress.get("observedMetrics", {}).items():
            of = self._of.get(name)
            if of is None:
                continue
            for source in progress["sources"]:
                offset = _offset(source)
                if offset is not None and of.is_by(offset["by"]):
                    by = offset["by"]
                    known = self._known.get(by) or Due.unknown(of.buckets)
                    due = Due(offset["at"], tuple(told_by(_values(observed), of.buckets, known.moments)))
                    self._known[by] = due
                    self._runs[str(progress["runId"])][by] = of
                    told.append((of, by, due))
        return told

    def forget(self, run: str) -> list[tuple[Controlled, str]]:
        """Forget the due times of a query that has ended; return the processes of its control sources."""
        removed = self._runs.pop(run, {})
        for by in removed:
            del self._known[by]
        return [(of, by) for by, of in removed.items()]


class _Listener:
    """Writes the due times of a session's queries for their control sources. It implements Java's interface itself: PySpark's listener
    would ask the JVM for each part of each event, in dozens of calls a batch.
    """

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 -- Spark's name
        """Implements Spark's interface."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 -- Spark's name
        """Write the due times after a batch."""
        try:
            for of, by, due in self._clock.take_in(json.loads(event.progress().json())):
                due.write(of.due_file(by))
        except (Py4JError, ConnectionError):
            LOG.debug("spark_ended", exc_info=True)  # the caller that waits for the query reports it
        except OSError:
            LOG.exception("due_not_told")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 -- Spark's name
        """Implements Spark's interface."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 -- Spark's name
        with suppress(OSError, Py4JError):
            for of, by in self._clock.forget(event.runId().toString()):
                of.due_file(by).unlink(missing_ok=True)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def _clock_of(session: SparkSession) -> _Clock:
    with _lock:
        if session not in _clocks:
            clock = _Clock()
            _register(session)
            if _is_remote(session):
                threading.Thread(target=_ask, args=(session, clock), name="seriatim-clock", daemon=True).start()
            else:
                _listen(session, _Listener(clock))
            _clocks[session] = clock
        return _clocks[session]


def _listen(session: SparkSession, listener: _Listener) -> None:
    ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call] # noqa: SLF001 -- as addListener does
    jvm: Any = session._jvm  # noqa: SLF001
    wrapped = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener)
    session._jsparkSession.streams().addListener(wrapped)  # noqa: SLF001


def _register(session: SparkSession) -> None:
    """Register the format in a session. Spark refuses a name that another session has, if that is the active one."""
    if _is_remote(session):
        session.dataSource.register(ControlFormat)
        return
    jvm: Any = session._jvm  # noqa: SLF001 -- nothing public activates a session
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)  # noqa: SLF001
    try:
        session.dataSource.register(ControlFormat)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _ask(session: SparkSession, clock: _Clock) -> None:
    """Ask for the progress of queries, and send the due times, until the session or the program ends."""
    seen: dict[str, int] = {}
    failures, pause = 0, threading.Event()
    while failures < _FAILURES:
        pause.wait(_ASK_S)
        if not threading.main_thread().is_alive():
            return
        try:
            _ask_once(session, clock, seen)
            failures = 0
        except Exception:  # noqa: BLE001 -- gRPC raises whatever broke the connection
            failures += 1
            LOG.debug("due_not_told", exc_info=True)


def _ask_once(session: SparkSession, clock: _Clock, seen: dict[str, int]) -> None:
    for query in session.streams.active:
        newest: dict[str, tuple[Controlled, Due]] = {}
        for progress in query.recentProgress:
            if progress["batchId"] > seen.get(str(query.runId), -1) and progress.get("observedMetrics"):
                seen[str(query.runId)] = progress["batchId"]
                newest |= {by: (of, due) for of, by, due in clock.take_in(progress)}
        for by, (of, due) in newest.items():
            # Planning this read writes the file, see `ControlFormat.reader`; it returns no rows.
            options = of.options() | {"by": by, "due": due.to_json()}
            session.read.format(FORMAT).options(**options).load().collect()


def _is_remote(session: SparkSession) -> bool:
    return not hasattr(session, "_sc")


@cache
def _folder() -> Path:
    """A private folder of this process, which is on the driver's machine."""
    made = Path(tempfile.mkdtemp(prefix="seriatim-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
