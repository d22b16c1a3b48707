"""The list of all metrics: their names, what they mean, their labels, and where their values come from.

The reference page, the alerts and the Grafana board are made from it (``python scripts/metrics_pages.py``). Names and labels are
stable: users have them in their rules and boards. A label is never a group, a message or the text of an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from seriatim.box.measures import BOUNDS, Measure


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """The source of a metric's values, in words of the reference."""

    BOX = "the box"
    PROCESS = "the processes"
    ITSELF = "the process that is asked"
    RUN = "the run of a pipeline"


@dataclass(frozen=True, slots=True)
class Metric:
    #: Its name. A counter's name ends with ``_total``.
    name: str
    kind: MetricKind
    #: Its meaning, in a sentence or two without a period at the end.
    help: str
    source: Source
    #: The figure of the box, the measure of the processes, or the field of the run.
    of: str
    #: The names of its labels: first the owner of the value, then the kind.
    labels: Sequence[str] = ()
    unit: Literal["", "seconds", "bytes", "messages", "groups", "rows", "records"] = ""

    @property
    def bounds(self) -> tuple[float, ...]:
        """The upper bounds of a histogram's buckets."""
        return BOUNDS[Measure(self.of)]


_ESTIMATED = "; estimated where seriatim_counts_estimated is 1"
_SINCE = "since the start of the process"
_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM

METRICS: tuple[Metric, ...] = (
    Metric("seriatim_up", _G, "1 if the box answers with its figures, else 0", Source.ITSELF, "up"),
    Metric("seriatim_messages", _G, "Messages in a queue by status: arrived (not judged yet), held, queued (released), in_hand (of a "
           f"pipeline), faulted (stopped alone){_ESTIMATED}", Source.BOX, "messages", ("queue", "state"), "messages"),
    Metric("seriatim_set_aside_messages", _G, f"Messages that are set aside now, by disposition{_ESTIMATED}",
           Source.BOX, "set_aside", ("queue", "disposition"), "messages"),
    Metric("seriatim_groups", _G, "Groups with work (ready) and groups that stand still (suspended, faulted, timed_out, waiting), as their "
           f"last turn left them{_ESTIMATED}", Source.BOX, "groups", ("queue", "state"), "groups"),
    Metric("seriatim_counts_estimated", _G, "1 if the queue has so many messages or groups that its counts are estimated from a sample of "
           "the tables' blocks; ages of what stands still are then those of the sample", Source.BOX, "is_estimated", ("queue",)),
    Metric("seriatim_oldest_ready_seconds", _G, "How long the first message that can be handed out has waited; absent if nothing can be",
           Source.BOX, "ready_seconds", ("queue",), "seconds"),
    Metric("seriatim_oldest_standing_seconds", _G, "How long the first of the groups in this state has stood still; absent if none does",
           Source.BOX, "standing_seconds", ("queue", "state"), "seconds"),
    Metric("seriatim_holes", _G, f"Groups in which a number is missing{_ESTIMATED}", Source.BOX, "holes", ("queue",), "groups"),
    Metric("seriatim_holes_standing", _G, "How many of these holes stand still: from their time-out on, or without one after a minute"
           f"{_ESTIMATED}", Source.BOX, "standing_holes", ("queue",), "groups"),
    Metric("seriatim_hole_oldest_seconds", _G, "How long the oldest of these holes has been open; absent if there is none",
           Source.BOX, "hole_seconds", ("queue",), "seconds"),
    Metric("seriatim_queue_enabled", _G, "1 if the queue hands messages out, 0 if it is off", Source.BOX, "queue_enabled", ("queue",)),
    Metric("seriatim_queue_limit_messages", _G, "The number of messages at which the queue is full; absent if it has no limit",
           Source.BOX, "queue_limit", ("queue",), "messages"),
    Metric("seriatim_dialogs", _G, "Sides of dialogs by service and state (DI: the other side has ended, and the service hasn't; DO: the "
           "other way round; CD: both); estimated from a sample where there are very many", Source.BOX, "dialogs", ("service", "state")),
    Metric("seriatim_oldest_dialog_seconds", _G, "How long ago the oldest of these sides began; absent if there is none",
           Source.BOX, "dialog_seconds", ("service", "state"), "seconds"),
    Metric("seriatim_unanswered_dialogs", _G, "Sides of dialogs with another box that have said something which that box hasn't "
           "acknowledged for a minute", Source.BOX, "unanswered_dialogs", ("link",)),
    Metric("seriatim_oldest_unanswered_dialog_seconds", _G, "Since when the oldest of them waits for it; absent if there is none",
           Source.BOX, "unanswered_seconds", ("link",), "seconds"),
    Metric("seriatim_leases", _G, "Leases that workers hold", Source.BOX, "leases", ("queue",)),
    Metric("seriatim_queue_processes", _G, "Processes that work on the queue, by their heartbeats", Source.BOX, "processes", ("queue",)),
    Metric("seriatim_unrouted_messages", _G, "Messages that are in no queue, because no subscription matched or they are invalid; at most "
           "50,000 are counted", Source.BOX, "unrouted", (), "messages"),
    Metric("seriatim_port_up", _G, "1 if a process reads the partition of the port and goes on, else 0", Source.BOX, "port_up",
           ("port", "partition")),
    Metric("seriatim_published_total", _C, "Messages that were ever published at a location, by its tickets", Source.BOX, "published",
           ("location",), "messages"),
    Metric("seriatim_dispenser_next_number", _G, "The number of a location's next ticket", Source.BOX, "dispenser_next", ("location",)),
    Metric("seriatim_dispenser_epoch", _G, "The epoch of a location's next ticket", Source.BOX, "dispenser_epoch", ("location",)),
    Metric("seriatim_box_bytes", _G, "The size of a table of the box, with its indexes", Source.BOX, "bytes", ("table",), "bytes"),
    Metric("seriatim_oldest_transaction_seconds", _G, "How long the oldest transaction in the box's database has been open, anybody's; a "
           "role without pg_read_all_stats sees its own only", Source.BOX, "transaction_seconds", (), "seconds"),
    Metric("seriatim_law_broken", _G, "How many violations of the box's laws the last audit found, 0 if all is well; absent before the "
           "first one, and if the box is too large to be audited in 4 s (seriatim doctor --audit does it)", Source.ITSELF, "law"),
    Metric("seriatim_law_audited_timestamp_seconds", _G, "When the laws were last audited, at most every 10 minutes", Source.ITSELF,
           "law_at", (), "seconds"),
    Metric("seriatim_released_total", _C, f"Messages that the workers were handed out for the first time, {_SINCE}", Source.PROCESS,
           Measure.RELEASED, ("queue",), "messages"),
    Metric("seriatim_handled_total", _C, f"Messages that handlers got, each attempt counted, {_SINCE}", Source.PROCESS, Measure.HANDLED,
           ("queue",), "messages"),
    Metric("seriatim_set_aside_total", _C, "Messages that the workers set aside, by disposition (late, duplicate, rejected, dead …), "
           f"{_SINCE}; those that are invalid when they are published are counted in seriatim_set_aside_messages alone", Source.PROCESS,
           Measure.SET_ASIDE, ("queue", "disposition"), "messages"),
    Metric("seriatim_conflicts_total", _C, f"Messages that came again with another content, {_SINCE}", Source.PROCESS, Measure.CONFLICTS,
           ("queue",), "messages"),
    Metric("seriatim_faults_total", _C, f"Attempts that failed, by the kind of fault, {_SINCE}", Source.PROCESS, Measure.FAULTS,
           ("queue", "kind")),
    Metric("seriatim_wait_seconds", _H, "The time from publishing a message to its first hand-out, by the clock of the worker's machine",
           Source.PROCESS, Measure.WAIT, ("queue",), "seconds"),
    Metric("seriatim_hold_seconds", _H, "How long a hole, a round or a set had kept a group's messages back, when it ended",
           Source.PROCESS, Measure.HOLD, ("queue",), "seconds"),
    Metric("seriatim_process_seconds", _H, "The time of one call of a handler, by outcome: done, failed, postponed", Source.PROCESS,
           Measure.PROCESS, ("queue", "outcome"), "seconds"),
    Metric("seriatim_turn_messages", _H, "The number of messages that a turn was handed", Source.PROCESS, Measure.TURN, ("queue",),
           "messages"),
    Metric("seriatim_leases_lost_total", _C, f"Leases that were lost before their messages were done, {_SINCE}", Source.PROCESS,
           Measure.LEASES_LOST, ("queue",)),
    Metric("seriatim_turns", _G, "Turns that are under way", Source.ITSELF, "turns", ("queue",)),
    Metric("seriatim_longest_turn_seconds", _G, "How long the longest of these has gone on; absent if there is none", Source.ITSELF,
           "longest_turn", ("queue",), "seconds"),
    Metric("seriatim_last_look_seconds", _G, "How long ago the workers last looked for work in the queue, and the box answered",
           Source.ITSELF, "last_look", ("queue",), "seconds"),
    Metric("seriatim_processes_replaced_total", _C, f"Worker processes that died and were replaced, {_SINCE}", Source.PROCESS,
           Measure.REPLACED, ()),
    Metric("seriatim_port_messages_total", _C, "Messages that a port has received, by what became of them: taken, left_out (it had come "
           f"before), id_reused and refused (of those that were taken), {_SINCE}", Source.PROCESS, Measure.PORT_MESSAGES,
           ("port", "outcome"), "messages"),
    Metric("seriatim_run_batch_seconds", _H, "The time of a batch with messages", Source.RUN, Measure.BATCH, ("pipeline",), "seconds"),
    Metric("seriatim_run_rows_total", _C, "Messages of a destination by what became of them: arrived, released, late, duplicate, invalid, "
           f"rejected, dead, void, copy, {_SINCE}", Source.RUN, Measure.ROWS, ("destination", "disposition"), "rows"),
    Metric("seriatim_run_held_messages", _G, "Messages that a destination's groups hold", Source.RUN, "held", ("destination",),
           "messages"),
    Metric("seriatim_run_holes", _G, "Groups in which a number is missing, of all destinations", Source.RUN, "holes", (), "groups"),
    Metric("seriatim_run_waiting_rows", _G, "Released messages that a destination hasn't got yet", Source.RUN, "waiting",
           ("destination",), "rows"),
    Metric("seriatim_run_port_failing", _G, "1 if the destination's port fails, else 0", Source.RUN, "failing", ("destination",)),
    Metric("seriatim_run_delivers", _G, "1 if this run has the lease of its pipeline and delivers; 0 if the other region's does, or nobody "
           "can know (claims: journal; absent otherwise)", Source.RUN, "delivers", ("pipeline", "region")),
    Metric("seriatim_run_behind_records", _G, "How far the run is behind its source, where Spark's source tells that (Kafka: the "
           "partition that is furthest behind)", Source.RUN, "behind", (), "records"),
    Metric("seriatim_run_last_batch_timestamp_seconds", _G, "When the last batch with messages ended", Source.RUN, "last_batch", (),
           "seconds"),
)  # fmt: skip

BOX = tuple(metric for metric in METRICS if metric.source is Source.BOX)
PROCESS = tuple(metric for metric in METRICS if metric.source is Source.PROCESS)
PROCESS_ITSELF = tuple(metric for metric in METRICS if metric.source is Source.ITSELF)
RUN = tuple(metric for metric in METRICS if metric.source is Source.RUN)
