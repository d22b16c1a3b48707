"""The actions of ``seriatim group`` on groups of a pipeline, and the option that chooses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.options.why import confirmed, said
from seriatim.cli.shown.plain import in_line
from seriatim.cli.shown.table import Table, as_json
from seriatim.errors import UsageError
from seriatim.kernel.groups.states import Action
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.operations.tables import pipelines as declared
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    from seriatim.operations.pipelines.found import FoundPipeline
    from seriatim.operations.pipelines.groups import Operation, Refused

__all__ = [
    "PIPELINE_ACTED",
    "PIPELINE_GROUP",
    "PIPELINE_OPERATION",
    "act_in_pipeline",
    "list_groups_of_pipeline",
    "not_with_dsn",
    "show_group_of_pipeline",
    "which_pipeline",
]

PIPELINE_OPERATION = Table.of(declared.OPERATION)
PIPELINE_ACTED = Table.of(declared.ACTED)
PIPELINE_GROUP = Table.of(declared.GROUP)

#: The option ``pipeline``.
which_pipeline = click.option(
    "--pipeline",
    metavar="NAME_OR_FILE",
    default=None,
    help="Of this pipeline, in place of a message box: its name, or its file.",
)
#: Filters that only a box knows.
_OF_A_BOX = ("error", "error_class", "since", "until", "properties")


def act_in_pipeline(
    pipeline: str,
    action: Action,
    keys: Sequence[str],
    own: dict[str, Any],
    chosen: dict[str, Any],
    *,
    why: tuple[str | None, str | None],
    dsn: str | None,
    json_: bool,
    all_: bool = False,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Act on groups of a pipeline, and print what came of it."""
    not_with_dsn(dsn)
    from seriatim.operations.pipelines import groups as operations  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.operations.pipelines.found import find  # noqa: PLC0415

    found = find(pipeline)
    if all_:
        _many(found, action, chosen, own, why=why, json_=json_, dry_run=dry_run, yes=yes)
        return
    if any(chosen.get(name) for name in chosen if name != "queue"):
        raise UsageError("filters need --all", remedy="name groups, or choose them with --all")
    who: dict[str, Any] = said(why[0], why[1] if not dry_run or why[1] else "a dry run")
    if len(keys) == 1:
        done = operations.act(found, action, chosen["queue"], keys[0], dry_run=dry_run, **own, **who)
        click.echo(as_json(PIPELINE_OPERATION.object_of(done)) if json_ else _line(done))
        return
    if dry_run:
        raise UsageError("--dry-run works on one group, or with --all", remedy="name one GROUP, or give --all")
    queue = found.queue(chosen["queue"])
    at_once = bool(own.get("at_once"))
    groups = [(queue, key) for key in dict.fromkeys(keys)]
    _tell_all(action, list(operations.each(found, action, groups, at_once=at_once, **who)), json_=json_)


def not_with_dsn(dsn: str | None) -> None:
    """Refuse the option of a box beside that of a pipeline."""
    if dsn is not None:
        raise UsageError("--pipeline and --dsn can't be combined", remedy="leave one of them out")


def list_groups_of_pipeline(
    pipeline: str,
    chosen: dict[str, Any],
    states: Sequence[str],
    *,
    all_: bool,
    limit: int,
    dsn: str | None,
    json_: bool,
) -> None:
    """List groups of a pipeline: those that stand still or hold messages, or all."""
    not_with_dsn(dsn)
    _check_filters(chosen)
    from seriatim.operations.pipelines import groups as operations  # noqa: PLC0415 -- Spark is slow to import

    waits = not all_ and not states
    found = operations.groups(pipeline, state=states or None, waits=waits, limit=limit, **chosen)
    PIPELINE_GROUP.print(found, json_=json_, limit=limit)


def show_group_of_pipeline(pipeline: str, queue: str | None, key: str, *, dsn: str | None, json_: bool) -> None:
    """Show one group of a pipeline, and the actions that it allows."""
    not_with_dsn(dsn)
    from seriatim.operations.pipelines import groups as operations  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.spark.control.commands import OBEYED_HERE  # noqa: PLC0415

    found = operations.group_view(pipeline, queue, key)
    if json_:
        PIPELINE_GROUP.print_object(found)
        return
    PIPELINE_GROUP.print([found])
    allowed = [action.replace("_", "-") for action in OBEYED_HERE if found.allows(action)]
    click.echo(f"allowed: {', '.join(allowed)}")


def _check_filters(chosen: dict[str, Any]) -> None:
    for name in _OF_A_BOX:
        if chosen.pop(name, None):
            option = "--property" if name == "properties" else f"--{name}"
            raise UsageError(
                f"{option} can't choose groups of a pipeline", remedy="--queue, --state, --key, --older-than"
            )


def _many(
    found: FoundPipeline,
    action: Action,
    chosen: dict[str, Any],
    own: dict[str, Any],
    *,
    why: tuple[str | None, str | None],
    json_: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    from seriatim.operations.pipelines import groups as operations  # noqa: PLC0415 -- Spark is slow to import

    _check_filters(chosen)
    actor = said(why[0], why[1] or "")["actor"]
    views = operations.chosen(found, action, actor=actor, **chosen)
    if dry_run:
        if json_:
            PIPELINE_ACTED.print_object({"action": action, "dry_run": True, "groups": views})
        else:
            PIPELINE_GROUP.only("queue", "group", "state", "since", nothing=None).print(views)
            click.echo(f"{action.replace('_', '-')} would be done to {counted(len(views), 'group')}")
        return
    if views:
        confirmed(f"{action.replace('_', '-')} {counted(len(views), 'group')}?", yes=yes)
    groups = [(one.queue, one.group) for one in views]
    who: dict[str, Any] = said(*why) if views else {}
    at_once = bool(own.get("at_once"))
    done = list(operations.each(found, action, groups, at_once=at_once, **who)) if views else []
    _tell_all(action, done, json_=json_)


def _tell_all(action: Action, done: Sequence[Operation | Refused], *, json_: bool) -> None:
    from seriatim.operations.pipelines.groups import Refused  # noqa: PLC0415 -- Spark is slow to import

    if json_:
        PIPELINE_ACTED.print_object({"action": action, "dry_run": False, "groups": done})
    else:
        for one in done:
            click.echo(_line(one))
        obeyed = sum(not isinstance(one, Refused) and not one.queued for one in done)
        queued = sum(not isinstance(one, Refused) and one.queued for one in done)
        later = f", {queued:,} queued" if queued else ""
        click.echo(f"{obeyed:,} of {counted(len(done), 'group')}: {action.replace('_', '-')}{later}")
    if any(isinstance(one, Refused) for one in done):
        click.get_current_context().exit(1)


def _line(done: Operation | Refused) -> str:
    from seriatim.operations.pipelines.groups import Refused  # noqa: PLC0415 -- Spark is slow to import

    place = in_line(f"{done.queue}, group {done.group}")
    if isinstance(done, Refused):
        return f"{place}: refused, {in_line(done.why)}"
    if done.queued:
        return f"{place}: queued as {in_line(done.operation_id)}; see seriatim log --pipeline {in_line(done.pipeline)}"
    counts = ((done.released, "released"), (done.set_aside, "set aside"))
    told = "".join(f", {count:,} {what}" for count, what in counts if count)
    told += "".join(
        f", {missing_numbers(one.first, one.last)} skipped" for one in done.events if one.kind == "hole_skipped"
    )
    closing = ", closing" if done.action is Action.CLOSE and done.after != "closed" else ""
    would = "would be " if done.dry_run else ""
    return f"{place}: {would}{done.before} → {done.after}{closing}{told}"
