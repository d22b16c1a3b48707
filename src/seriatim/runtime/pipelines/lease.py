"""The lease of a pipeline that runs once in each region: its holder delivers.

The other run orders the same messages and keeps its state.

A thread asks for the lease and renews it. By its own monotonic clock a claim ends when its length has passed since it was asked for,
whether the journal answers or not; in the end the journal decides, which refuses a delivery under a claim that isn't the present one.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from seriatim.errors import LeaseLost, SeriatimError, Unavailable
from seriatim.pipeline.declared.pipeline import TABLE, JournalPlace, Pipeline
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.pipelines import OutputTable, PipelineClaim, PipelineView
from seriatim.regions.journal.schema import DEFAULT_SCHEMA
from seriatim.spark.control.lease_state import LeaseState
from seriatim.spark.deliver.claimed import StandsBy
from seriatim.spark.deliver.layout import flat_columns

#: How often a lease is renewed in its length.
_RENEWALS = 3
#: A run without the lease asks again after this share of its length, and at least once a second.
_ASKS, _LONGEST_LOOK_S = 5, 1.0
#: The longest wait for an answer of the journal, seconds; with a short lease a part of the lease.
_PATIENCE_S = 5.0
#: The types of properties in PostgreSQL; other types have Spark's names there.
_TYPES = {"string": "text", "double": "double precision", "timestamp": "timestamptz", "binary": "bytea"}


def output_table(pipeline: Pipeline, name: str) -> OutputTable:
    columns = {column: _TYPES.get(kind, kind) for column, kind in flat_columns(pipeline).items()}
    return OutputTable(name, columns)


class PipelineLease(threading.Thread):
    """The lease, and the deliveries under it. Carriers of several destinations use it at once; see `Lease`."""

    def __init__(
        self, journal: Journal, pipeline: str, place: JournalPlace, tables: Mapping[str, OutputTable],
        report: Callable[[LeaseState], None] = lambda _: None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(name="seriatim-lease", daemon=True)
        self._known = journal.pipelines
        self._pipeline = pipeline
        self._region = place.region
        self._lease_s = place.lease_s
        #: The tables of destinations that are delivered to the journal's database, by destination.
        self._tables = dict(tables)
        #: Called with each change of the lease's known state.
        self._told = report
        self._clock = clock
        self._holder = f"{socket.gethostname()}, process {os.getpid()}"
        self._lock = threading.Lock()
        self._claim: PipelineClaim | None = None
        #: The last claim that was given up: until another one takes its place, the journal may still know it.
        self._former: PipelineClaim | None = None
        self._until = 0.0
        #: The known state; replaced, never changed.
        self.state = LeaseState("waiting", self._region, reason="the journal hasn't been asked yet")
        self._ended = threading.Event()

    @property
    def look_s(self) -> float:
        return min(_LONGEST_LOOK_S, self._lease_s / _ASKS)

    def held(self) -> PipelineClaim | None:
        with self._lock:
            return self._claim if self._clock() < self._until else None

    def why(self) -> str:
        """See `DeliveryLease`; without the lease's end, which moves on."""
        state = self.state
        match state.state:
            case "active":
                return "the lease has to be asked for again"
            case "passive":
                return replace(state, until=None).in_words
        return state.in_words

    def through(self, destination: str, groups: Sequence[str]) -> Mapping[str, int]:
        if self.state.state == "waiting":
            raise StandsBy(self.why())  # it needn't be waited for once more by each destination
        with self._standing_by(None):
            return self._known.through(self._pipeline, destination, groups)

    def note(self, claim: Any, destination: str, through: Mapping[str, int]) -> None:
        with self._standing_by(claim):
            self._known.deliver(claim, destination, through)

    def insert(self, claim: Any, destination: str, through: Mapping[str, int], rows: Mapping[str, list[Any]]) -> None:
        with self._standing_by(claim):
            self._known.deliver(claim, destination, through, table=self._tables[destination], rows=rows)

    @contextmanager
    def _standing_by(self, claim: PipelineClaim | None) -> Iterator[None]:
        try:
            yield
        except LeaseLost as error:
            self._lose(claim)
            raise StandsBy(str(error)) from error
        except Unavailable as error:
            self._lose(claim)  # the server may still commit it: the next claim refuses that, or sees it
            raise StandsBy(f"nobody delivers: {error}") from error

    def _lose(self, claim: PipelineClaim | None) -> None:
        with self._lock:
            if claim is not None and self._claim is claim:  # otherwise this run has another claim by now
                self._former, self._claim, self._until = claim, None, 0.0

    def begin(self) -> None:
        """Ask for the lease once, and from then on in a thread."""
        for table in self._tables.values():
            self._known.check_table(table)
        self.ask()
        self.start()

    def end(self) -> None:
        """Give the lease back, so that the other run needn't wait for its end."""
        self._ended.set()
        if self.is_alive():
            self.join()
        self._lose(self._claim)
        if self._former is None:
            return
        try:
            self._known.give_back(self._former)
        except SeriatimError as error:
            LOG.warning("pipeline_lease_runs_out", pipeline=self._pipeline, region=self._region, error=error)

    def run(self) -> None:
        while not self._ended.wait(self._lease_s / _RENEWALS if self.held() is not None else self.look_s):
            self._ask_patiently()

    def _ask_patiently(self) -> None:
        try:
            self.ask()
        except Exception as error:  # noqa: BLE001 -- whatever it is, the next time may do
            if self.held() is None:  # otherwise it lasts until its time is over
                self._tell(LeaseState("waiting", self._region, reason=str(error)))

    def ask(self) -> None:
        claim, asked_at = self._claim, self._clock()
        if claim is not None and self.held() is not None and self._known.renew(claim):
            with self._lock:
                if self._claim is claim:  # a delivery may have found that it is lost
                    self._until = max(self._until, asked_at + self._lease_s)
            self._tell(self._as_active())
            return
        asked_at = self._clock()
        answer = self._known.claim(
            self._pipeline, self._region, self._holder, lease=self._lease_s, former=claim or self._former
        )
        if isinstance(answer, PipelineClaim):
            with self._lock:
                self._claim, self._until = answer, asked_at + self._lease_s
            self._tell(self._as_active())
            return
        self._lose(claim)
        self._tell(self._as_passive(answer))

    def _as_active(self) -> LeaseState:
        return LeaseState("active", self._region, self._region, self._holder)

    def _as_passive(self, view: PipelineView) -> LeaseState:
        until = view.lease_until
        text = None if until is None else until.replace(microsecond=0).isoformat().replace("+00:00", "Z")
        return LeaseState("passive", self._region, view.region, view.holder, text)

    def _tell(self, state: LeaseState) -> None:
        former, self.state = self.state, state
        self._told(state)
        if state.key == former.key:
            return
        match state.state:
            case "active":
                LOG.info("pipeline_active", pipeline=self._pipeline, region=self._region)
            case "passive":
                LOG.info(
                    "pipeline_passive",
                    pipeline=self._pipeline,
                    region=self._region,
                    holder=state.holder_region,
                    _is=state.in_words,
                )
            case _:
                LOG.error(
                    "pipeline_undecided",
                    pipeline=self._pipeline,
                    region=self._region,
                    error=state.reason,
                    _is=state.in_words,
                )


@contextmanager
def leased(pipeline: Pipeline, checkpoint: Path) -> Iterator[PipelineLease | None]:
    """The lease of a pipeline while the block runs; None: it has no claims, and delivers."""
    place = pipeline.claims
    if place is None:
        yield None
        return
    tables = {
        route.queue.name: output_table(pipeline, route.deliver.options["table"])
        for route in pipeline.route
        if route.deliver.format == TABLE
    }
    patience = max(1.0, min(_PATIENCE_S, place.lease_s / 2))
    with Journal.open(
        place.dsn, schema=place.schema or DEFAULT_SCHEMA, connections=1 + min(8, len(pipeline.route)), patience=patience
    ) as journal:
        lease = PipelineLease(journal, pipeline.name, place, tables, lambda state: state.keep(checkpoint))
        lease.begin()
        try:
            yield lease
        finally:
            lease.end()
