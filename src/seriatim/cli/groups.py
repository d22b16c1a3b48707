"""``seriatim groups``: list the groups of a message box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.choose import choosing
from seriatim.cli.table import Column, Table, json_only, json_option, text_only
from seriatim.cli.which import opened, which_box

if TYPE_CHECKING:
    from seriatim.operations.groups import GroupView

__all__ = ["GROUP", "GROUPS", "groups"]


def _state(view: GroupView) -> str:
    holder = view.leased_by if view.locked_by is None else view.locked_by
    return f"{view.state} by {holder}" if view.state == "locked" else view.state


def _missing(view: GroupView) -> str | None:
    first, last = view.next, view.hole_through
    if last is None:
        return None
    return str(first) if first == last else f"{first}..{last}"


GROUP: Table[GroupView] = Table(
    "A group",
    Column("queue"),
    Column("group"),
    Column("state", shown=_state),
    Column("since"),
    *json_only("locked", "locked_by"),
    Column("next"),
    text_only("missing", _missing, "the missing numbers, from `next` through `hole_through`"),
    Column("arrived"),
    Column("held"),
    Column("queued"),
    *json_only("in_hand", "hole_since", "hole_through", "last_released", "ordinal", "incarnation"),
    Column("due_at", "due", after="missing"),
    Column("touched_at", "touched"),
    *json_only("suspended_by", "suspended_because", "error", "leased_by", "leased_until", "late", "retry_at", "obeyed"),
    text_only("reason", lambda one: one.reason, "why it is suspended or faulted, or waits for its next attempt"),
    row="seriatim.box.views.groups:GroupView",
)
GROUPS = GROUP.extended("A group in the list", *json_only("waiting"))


@click.command("groups")
@choosing
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="List at most this many."
)
@which_box
@json_option("Print a JSON list.", GROUPS)
def groups(*, queue: str | None, limit: int, dsn: str | None, schema: str, json_: bool, **chosen: Any) -> None:
    """List groups by queue and key: state and its age, next number, backlog, reason for stopping."""
    from seriatim.operations import groups as operations  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        if queue is not None:
            box.definitions().queue(queue)
        found = operations.groups(box, queue, limit=limit, **chosen)
    GROUPS.print(found, json_=json_, limit=limit)
