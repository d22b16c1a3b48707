"""Groups, as a list and one alone."""

from __future__ import annotations

from seriatim.box.views.groups import GroupView
from seriatim.operations.tables.table import Column, Table, columns, json_only, text_only
from seriatim.pipeline.text.counted import numbers_text


def _state(view: GroupView) -> str:
    return f"{view.state} by {holder_of(view)}" if view.state == "locked" else view.state


def holder_of(view: GroupView) -> str:
    """Who has a locked group: the worker of its lease, or the connection with the lock, by its name and address."""
    if view.leased_by is not None:
        return view.leased_by
    name = view.locked_name or "a connection without a name"
    address = "" if view.locked_host is None else f" at {view.locked_host}"
    idle = "" if (view.locked_idle_s or 0) < 1 else f", idle for {view.locked_idle_s:,.0f} s"
    return f"{name}{address} (database process {view.locked_by}{idle})"


GROUP: Table[GroupView] = Table(
    "A group",
    *columns("queue", "group"),
    Column("state", shown=_state),
    Column("since"),
    Column("next", "next number"),
    text_only(
        "missing",
        lambda one: numbers_text(one.next, one.hole_through),
        "the missing numbers, from `next` through `hole_through`",
    ),
    *columns("arrived", "held", "queued"),
    Column("due_at", "due", after="missing"),
    Column("touched_at", "touched"),
    *json_only("stands", "unopened", "postponed", "postponed_until", "gathers"),
    Column("places", None, optional=True),
    Column("open_places", after="missing", optional=True),
    Column("open_number", "oldest open", after="open places", optional=True),
    Column("open_since", after="oldest open", optional=True),
    Column("regions", None, optional=True),
    Column("closing", shown=lambda one: "yes" if one.closing else None, after="state", optional=True),
    text_only(
        "reason",
        lambda one: one.reason,
        "why it is suspended or faulted, or waits for its next attempt or its opening, or is postponed or due too late, "
        "or its producer seems to have begun anew",
    ),
    row=GroupView,
)
GROUPS = GROUP.extended("A group in the list", *json_only("waiting"))
