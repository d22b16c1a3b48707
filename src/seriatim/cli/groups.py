"""``seriatim groups``: list the groups of a message box that stand still, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.choose import ERRORS, by_error, choosing
from seriatim.cli.table import Column, Table, json_only, json_option, text_only
from seriatim.cli.which import opened, which_box
from seriatim.errors import UsageError
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    from seriatim.operations.groups import GroupView

__all__ = ["GROUP", "GROUPS", "groups", "holder_of"]


def _state(view: GroupView) -> str:
    return f"{view.state} by {holder_of(view)}" if view.state == "locked" else view.state


def holder_of(view: GroupView) -> str:
    """Who has a locked group: the worker of its lease, or the connection with the lock, by its name and address."""
    if view.leased_by is not None:
        return view.leased_by
    name = view.locked_name or "a connection without a name"
    address = "" if view.locked_host is None else f" at {view.locked_host}"
    return f"{name}{address} (database process {view.locked_by})"


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
    *json_only("locked_name", "locked_host", "due_in_s", "suspects", "restart_suspected"),
    *json_only("unopened", "postponed", "postponed_until"),
    Column("places", None, optional=True),
    Column("open_places", "open places", after="missing", optional=True),
    Column("open_number", "oldest open", after="open places", optional=True),
    Column("open_since", "open since", after="oldest open", optional=True),
    Column("closing", shown=lambda one: "yes" if one.closing else None, after="state", optional=True),
    text_only(
        "reason",
        lambda one: one.reason,
        "why it is suspended or faulted, or waits for its next attempt or its opening, or is postponed or due too late, or its producer seems "
        "to have begun anew",
    ),
    row="seriatim.box.views.groups:GroupView",
)
GROUPS = GROUP.extended("A group in the list", *json_only("waiting"))


@click.command("groups")
@choosing
@click.option("--all", "all_", is_flag=True, help="List all groups, those that stand still first.")
@by_error
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="List at most this many."
)
@which_box
@json_option("Print a JSON list.", GROUPS, ERRORS)
def groups(
    *, queue: str | None, state: tuple[str, ...], all_: bool, by: str | None, limit: int, dsn: str | None, schema: str,
    json_: bool, **chosen: Any,
) -> None:  # fmt: skip
    """List the groups that stand still, by queue and key: state and its age, next number, backlog, reason.

    They hand nothing out until something happens: they are stopped (suspended or faulted), or wait for a missing number.
    Groups whose producer seems to have begun anew are listed, too.
    With --all or --state, lists other groups, too.
    """
    from seriatim.operations import groups as operations  # noqa: PLC0415 -- the driver, when it is needed

    if all_ and state:
        raise UsageError("--all and --state can't be combined", remedy="leave one of them out")
    with opened(dsn, schema) as box:
        if queue is not None:
            box.definitions().queue(queue)
        if by is not None:
            states = None if all_ else state or operations.STOPPED
            ERRORS.print(operations.groups_by_error(box, queue, state=states, **chosen), json_=json_)
            return
        suspected = None if state else True
        found = operations.groups(
            box, queue, state=state or operations.STOPPED, suspected=suspected, limit=limit, **chosen
        )
        if all_ and len(found) < limit:
            others = set(operations.GroupState) - operations.STOPPED
            found += operations.groups(box, queue, state=others, suspected=False, limit=limit - len(found), **chosen)
        is_narrowed = any(value for name, value in chosen.items() if name != "key")
        counts = not (all_ or state or json_ or is_narrowed)
        there = operations.count(box, queue, key=chosen["key"]) if counts else len(found)
    GROUPS.print(found, json_=json_, limit=limit)
    if there > len(found):
        click.echo(
            f"{len(found):,} of {counted(there, 'group')} shown: only groups that stand still; --all lists all",
            err=True,
        )
