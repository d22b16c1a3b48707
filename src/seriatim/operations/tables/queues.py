"""The counts of queues."""

from __future__ import annotations

from seriatim.box.definitions.queue_settings import QueueSettings
from seriatim.box.views.queue_counts import QueueCounts
from seriatim.operations.tables.table import Column, Table, columns, json_only, text_only
from seriatim.operations.tables.texts import SET_ASIDE, set_aside_counts
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import period_of


def _stopped(counts: QueueCounts) -> str:
    return f"{counts.stopped:,}" + (f", and {counted(counts.faulted, 'message')}" if counts.faulted else "")


SETTINGS: Table[QueueSettings] = Table("The settings of a queue", row=QueueSettings)
COUNTS: Table[QueueCounts] = Table(
    "The counts of a queue",
    *columns("queue", "policy"),
    Column("enabled", "state", shown=lambda one: f"{'on' if one.enabled else 'off'}{', full' if one.is_full else ''}"),
    *columns("arrived", "held", "queued", "in_hand"),
    text_only("set aside", set_aside_counts, "the messages that were set aside, by disposition"),
    *json_only(**{one: f"messages that were set aside as {one}" for one in SET_ASIDE[:-1]}, dead="its dead letters"),
    Column("oldest"),
    Column("stopped", "stopped groups", shown=_stopped, after="in hand"),
    Column("waiting_groups", after="stopped groups"),
    Column("age_s", "age", shown=lambda one: None if one.age_s is None else period_of(one.age_s)),
    Column("processes", shown=lambda one: "nobody" if one.is_idle else one.processes or None),
    *json_only("standing_holes", "is_idle", "void"),
    Column("open_places", after="waiting groups", optional=True),
    Column("oldest_open", after="open places", optional=True),
    row=QueueCounts,
    nothing="there are no queues",
)
