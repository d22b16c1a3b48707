"""A collector for `prometheus_client`: the metrics of a box and of a process, as the catalogue lists them.

An application that has a registry of its own adds it there: ``REGISTRY.register(Collector(box=BoxReading(…), watched=Watched()))``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector as PrometheusCollector

from seriatim.box.measures import Measure, Snapshot
from seriatim.metrics.box_reading import BoxReading, Reading
from seriatim.metrics.catalogue import BOX, PROCESS, PROCESS_ITSELF, RUN, Metric, MetricKind
from seriatim.metrics.run_watch import RunWatch
from seriatim.metrics.watched import Watched

#: The values of a metric, each with those of its labels.
_Values = Iterable[tuple[Sequence[str], float]]


class Collector(PrometheusCollector):
    def __init__(
        self, *, box: BoxReading | None = None, watched: Watched | None = None, run: RunWatch | None = None
    ) -> None:
        self._box = box
        self._watched = watched
        self._run = run

    def collect(self) -> Iterator[Family]:
        """Return all metrics with their present values; those of a box that doesn't answer are left out, and ``seriatim_up`` is 0."""
        reading = None if self._box is None else self._box.now()
        if reading is not None and reading.figures is not None:
            figures = {metric: _figures_of(metric, reading) for metric in BOX}
            yield from (_family(metric, values) for metric, values in figures.items())
        itself = self._itself(reading)
        yield from (_family(metric, itself[metric.of]) for metric in PROCESS_ITSELF if metric.of in itself)
        if self._watched is not None:
            snapshot = self._watched.snapshot()
            yield from (_measured(metric, snapshot) for metric in PROCESS)
        if self._run is not None:
            snapshot, values = self._run.snapshot(), self._run.values()
            for metric in RUN:
                yield (
                    _measured(metric, snapshot)
                    if metric.of in _MEASURES
                    else _family(metric, values.get(metric.of, ()))
                )

    def _itself(self, reading: Reading | None) -> Mapping[str, _Values]:
        values: dict[str, _Values] = {}
        if reading is not None:
            values["up"] = [((), float(reading.figures is not None))]
            values["law"] = [] if reading.broken is None else [((), reading.broken)]
            values["law_at"] = [] if reading.audited_at is None else [((), reading.audited_at)]
        if self._watched is not None:
            turns: dict[str, int] = {}
            longest: dict[str, float] = {}
            for work in self._watched.works():
                turns[work.queue] = turns.get(work.queue, 0) + 1
                longest[work.queue] = max(longest.get(work.queue, 0.0), work.since)
            looked = self._watched.snapshot().looked
            for queue in (*(self._watched.queues or ()), *looked):
                turns.setdefault(queue, 0)
            values["turns"] = [([queue], number) for queue, number in turns.items()]
            values["longest_turn"] = [([queue], seconds) for queue, seconds in longest.items()]
            now = time.monotonic()
            values["last_look"] = [([queue], now - moment) for queue, moment in looked.items()]
        return values


_MEASURES = frozenset(Measure)


def _figures_of(metric: Metric, reading: Reading) -> _Values:
    return [
        ([figure.name or "", figure.kind or ""][: len(metric.labels)], figure.value)
        for figure in reading.figures or ()
        if figure.figure == metric.of
    ]


def _family(metric: Metric, values: _Values) -> Family:
    made = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = made(metric.name, metric.help, labels=list(metric.labels))
    for labels, value in values:
        family.add_metric(list(labels), value)
    return family


def _measured(metric: Metric, snapshot: Snapshot) -> Family:
    if metric.kind is not MetricKind.HISTOGRAM:
        counts = {key[1:]: value for key, value in snapshot.counts.items() if key[0] == metric.of}
        if not metric.labels:  # it counts from 0, so that the first event is seen as an increase
            counts = {("", ""): sum(counts.values())}
        return _family(metric, [(list(labels)[: len(metric.labels)], value) for labels, value in counts.items()])
    family = HistogramMetricFamily(metric.name, metric.help, labels=list(metric.labels))
    for (measure, *labels), distribution in snapshot.distributions.items():
        if measure == metric.of:
            reached, buckets = 0, []
            for bound, count in zip([*map(str, map(float, metric.bounds)), "+Inf"], distribution.counts, strict=True):
                reached += count
                buckets.append((bound, reached))
            family.add_metric(labels[: len(metric.labels)], buckets, distribution.total)
    return family
