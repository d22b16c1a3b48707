"""``seriatim group``: show one group, and act on it or on many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.commands.bulk import BULK_OPERATIONS, act_in_bulk
from seriatim.cli.commands.edits import EDITED, retry_file
from seriatim.cli.commands.groups import GROUP
from seriatim.cli.commands.pipeline_groups import (
    PIPELINE_ACTED,
    PIPELINE_GROUP,
    PIPELINE_OPERATION,
    act_in_pipeline,
    show_group_of_pipeline,
    which_pipeline,
)
from seriatim.cli.commands.standing import STANDING, tell
from seriatim.cli.options.choose import choosing, filter_of
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.options.why import confirmed, no_if_refused, said, says_why
from seriatim.cli.shown.plain import in_line
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Table, as_json, json_option
from seriatim.errors import UsageError
from seriatim.kernel.groups.states import Action
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.operations import bulk, bulk_operations
from seriatim.operations import groups as operations
from seriatim.operations.bulk import Refused
from seriatim.operations.tables import acted as declared
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    from seriatim.box.box import MessageBox
    from seriatim.operations.groups import GroupView, Operation

__all__ = ["ACTED", "OPERATION", "REFUSED", "group"]

OPERATION = Table.of(declared.OPERATION)
REFUSED = Table.of(declared.REFUSED)
ACTED = Table.of(declared.ACTED)

_FILTERS = ("queue", "state", "key", "older_than", "error", "error_class", "since", "until", "properties")
_WORDS = {
    Action.SUSPEND: "Suspend a group: it accepts messages, but hands none out. A locked group stops at the end of its turn.",
    Action.RESUME: "Resume a suspended group.",
    Action.RETRY: "Retry the message at which a faulted group stopped.",
    Action.SKIP_MESSAGE: "Move the message that blocks a group to the dead letters, and let the group go on.",
    Action.SKIP_HOLE: "Skip the missing numbers that a group waits for.",
    Action.ABORT: "Move all held and queued messages of a group to the dead letters.",
    Action.CLOSE: (
        "Close a group: new messages are late, except missing numbers below the highest one held. What it holds goes on by the usual "
        "rules and clocks; it is closed when it holds nothing."
    ),
}


#: Of an action: what else names groups, the help of --dry-run, the rest of its help, and the further tables that it prints.
_NOT_RETRYING: tuple[str, str, str, tuple[Table[Any], ...]] = (
    "--all", "With --all: change nothing; list the groups. With --pipeline also of one group.", "",
    (PIPELINE_OPERATION, PIPELINE_ACTED),
)  # fmt: skip
_RETRYING: tuple[str, str, str, tuple[Table[Any], ...]] = (
    "--all, or --edits FILE",
    "With --all or --edits: change nothing; list what would be done.",
    (
        "\n\nTo mend many messages, each in its own way, write them with `seriatim messages export --state faulted`, edit body "
        "and properties in the file, and give it with --edits. The file is checked as a whole first. A line that was not "
        "changed is retried as it is: delete the lines of messages that should not be retried. The original messages are kept."
    ),
    (EDITED,),
)


_dry_run_of_a_pipeline = click.option(
    "--dry-run", is_flag=True, help="With --pipeline: change nothing; tell what would be done."
)


@click.group("group", cls=Commands)
def group() -> None:
    """Show one group of a message box or a pipeline and mend it; mend several by their keys, or with --all many at once."""


@group.command("show")
@click.argument("group_", metavar="GROUP")
@click.option("--queue", default=None, help="The group's queue; required if several queues have a group with this key.")
@which_pipeline
@which_box
@json_option("Print one JSON object.", STANDING, PIPELINE_GROUP)
def _show(group_: str, *, queue: str | None, pipeline: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """Show GROUP: its state, the message or hole that blocks it, the backlog, the allowed actions, and the command
    that helps.
    """
    if pipeline is not None:
        show_group_of_pipeline(pipeline, queue, group_, dsn=dsn, json_=json_)
        return

    with opened(dsn, schema) as box:
        found = operations.standing(box, _queue_of(box, queue, group_), group_)
    if json_:
        STANDING.print_object(found)
    else:
        tell(found)


@group.command("reset")
@click.argument("group_", metavar="GROUP")
@click.option("--queue", default=None, help="The group's queue; required if several queues have a group with this key.")
@click.option("--next", "next_", type=int, required=True, help="The number with which the group goes on.")
@_dry_run_of_a_pipeline
@says_why
@which_pipeline
@which_box
@json_option("Print one JSON object.", OPERATION, PIPELINE_OPERATION)
def _reset(
    group_: str, *, queue: str | None, next_: int, dry_run: bool, actor: str | None, reason: str | None,
    pipeline: str | None, dsn: str | None, schema: str, json_: bool,
) -> None:  # fmt: skip
    """Reset the next number of GROUP: held messages below it become late, and passed numbers count as skipped."""
    if pipeline is not None:
        own, chosen = {"next": next_}, {"queue": queue}
        act_in_pipeline(
            pipeline, Action.RESET, [group_], own, chosen, why=(actor, reason), dsn=dsn, json_=json_, dry_run=dry_run
        )
        return
    _no_dry_run(dry_run, group_)
    who = said(actor, reason)
    with opened(dsn, schema) as box:
        _one(box, Action.RESET, queue, group_, who, {"next": next_}, json_=json_)


@group.command("restart")
@click.argument("group_", metavar="GROUP")
@click.option("--queue", default=None, help="The group's queue; required if several queues have a group with this key.")
@_dry_run_of_a_pipeline
@says_why
@which_pipeline
@which_box
@json_option("Print one JSON object.", OPERATION, PIPELINE_OPERATION)
def _restart(
    group_: str, *, queue: str | None, dry_run: bool, actor: str | None, reason: str | None, pipeline: str | None,
    dsn: str | None, schema: str, json_: bool,
) -> None:  # fmt: skip
    """Begin GROUP anew at the first number of its queue, because its producer has begun anew.

    The messages that counted come back from those that were set aside, and then what the group holds is judged.
    In a pipeline only what the group holds comes back.
    """
    if pipeline is not None:
        act_in_pipeline(
            pipeline, Action.RESTART, [group_], {}, {"queue": queue}, why=(actor, reason), dsn=dsn, json_=json_,
            dry_run=dry_run,
        )  # fmt: skip
        return
    _no_dry_run(dry_run, group_)
    who = said(actor, reason)
    with opened(dsn, schema) as box:
        _one(box, Action.RESTART, queue, group_, who, {}, json_=json_)


def _acting(action: Action, *more: Callable[..., Any]) -> None:
    """Add the command of an action on one group or on many; `more`: its own options."""

    def run(
        keys: tuple[str, ...], *, all_: bool, dry_run: bool, yes: bool, actor: str | None, reason: str | None,
        dsn: str | None, schema: str, json_: bool, pipeline: str | None = None, **given: Any,
    ) -> None:  # fmt: skip
        chosen = {name: given.pop(name) for name in _FILTERS}
        if (edits := given.pop("edits", None)) is not None:
            _check_alone(keys, all_, given["body"], *(chosen[name] for name in _FILTERS if name != "queue"))
            with opened(dsn, schema) as box:
                retry_file(box, edits, chosen["queue"], (actor, reason), dry_run=dry_run, json_=json_)
            return
        further = {"at_once": True} if given.pop("at_once", False) else {}
        no_wait = given.pop("no_wait")
        if no_wait and (not all_ or pipeline is not None):
            raise UsageError("--no-wait needs --all, on a message box", remedy="leave it out")
        own = {name: value for name, value in given.items() if value is not None}
        if "body" in own:
            own["body"] = own["body"].read()
        _check_named(keys, own, others, all_=all_)
        if pipeline is not None:
            act_in_pipeline(
                pipeline, action, keys, own | further, chosen, why=(actor, reason), dsn=dsn, json_=json_, all_=all_,
                dry_run=dry_run, yes=yes,
            )  # fmt: skip
            return
        if all_:
            _many(
                action, chosen, (actor, reason), further, dry_run=dry_run, yes=yes, waits=not no_wait, dsn=dsn, schema=schema,
                json_=json_,
            )  # fmt: skip
            return
        if dry_run or any(chosen[name] for name in _FILTERS if name != "queue"):
            raise UsageError(
                "filters and --dry-run need --all",
                remedy=f"to look at one group: {command('group', 'show', of=keys[0])}",
            )
        who = said(actor, reason)
        with opened(dsn, schema) as box:
            if len(keys) == 1:
                _one(box, action, chosen["queue"], keys[0], who, own | further, json_=json_)
            else:
                _several(box, action, chosen["queue"], keys, who, further, json_=json_)

    others, dry_run_help, told, tables = _RETRYING if action is Action.RETRY else _NOT_RETRYING
    run.__doc__ = (
        f"{_WORDS[action]}\n\nTakes one GROUP or several. With --all, acts on every group that matches the options and whose "
        "state allows the action; if these are more than 1,000, or with --no-wait, by a bulk operation, which goes on when "
        f"this command ends (see `seriatim bulk`).{told}"
    )
    decorators: tuple[Callable[..., Any], ...] = (
        click.argument("keys", metavar="[GROUP…]", nargs=-1),
        *more,
        click.option(
            "--all", "all_", is_flag=True, help="Act on all groups that match the options and whose state allows it."
        ),
        choosing,
        click.option("--dry-run", is_flag=True, help=dry_run_help),
        click.option("--yes", is_flag=True, help="With --all: don't ask for confirmation."),
        click.option(
            "--no-wait",
            is_flag=True,
            help="With --all: don't wait for the end; `seriatim serve` and workers do it. See `seriatim bulk`.",
        ),
        says_why,
        *(() if action is Action.RETRY else (which_pipeline,)),  # a pipeline has no handler, so nothing fails there
        which_box,
        json_option("Print JSON.", OPERATION, ACTED, BULK_OPERATIONS, *tables),
    )
    decorated: Callable[..., Any] = run
    for one in reversed(decorators):
        decorated = one(decorated)
    group.command(action.replace("_", "-"))(decorated)


_acting(Action.SUSPEND)
_acting(Action.RESUME)
_acting(
    Action.RETRY,
    click.option(
        "--edit", "body", type=click.File("rb"), help="Retry with the content of this file as the message's body."
    ),
    click.option(
        "--message",
        metavar="ID",
        help="Retry this message, of an unordered queue with a gate, where each message stops by itself.",
    ),
    click.option(
        "--edits",
        type=click.File("rb"),
        help="Retry each message of this file, a line for each, with its body and properties there; - is standard input.",
    ),
)
_acting(
    Action.SKIP_MESSAGE,
    click.option(
        "--message", metavar="ID", help="Take out this waiting message (default: the message that stopped the group)."
    ),
)
_acting(
    Action.SKIP_HOLE,
    click.option("--through", type=int, help="Skip only through this number (default: the whole hole)."),
)
_acting(Action.ABORT)
_acting(
    Action.CLOSE,
    click.option(
        "--now",
        "at_once",
        is_flag=True,
        help="Close it at once: nothing leaves any more, and what is there can only be aborted.",
    ),
)


def _no_dry_run(dry_run: bool, key: str) -> None:
    if dry_run:
        raise UsageError(
            "--dry-run needs --pipeline", remedy=f"to look at the group: {command('group', 'show', of=key)}"
        )


def _check_named(keys: Sequence[str], own: dict[str, Any], others: str, *, all_: bool) -> None:
    if all_ is bool(keys):
        raise UsageError("name either groups or --all", remedy=f"name a GROUP, or several, or give {others}")
    if own and (all_ or len(keys) > 1):
        what = "--message works" if "message" in own else "--through and --edit work"
        raise UsageError(f"{what} on one group only", remedy="leave them out, or name one GROUP")


def _check_alone(*others: object) -> None:
    if any(others):
        raise UsageError(
            "the file of --edits names the messages",
            remedy="leave out GROUP, --all, --edit and filters; --queue chooses those of one queue",
        )


def _queue_of(box: MessageBox, queue: str | None, key: str) -> str:

    return operations.only_group(box, key) if queue is None else queue


def _one(
    box: MessageBox, action: Action, queue: str | None, key: str, who: dict[str, str], own: dict[str, Any], *,
    json_: bool,
) -> None:  # fmt: skip

    done = operations.act(box, action, _queue_of(box, queue, key), key, **{**own, **who})
    click.echo(as_json(OPERATION.object_of(done)) if json_ else _line(done))


def _many(
    action: Action, given: dict[str, Any], why: tuple[str | None, str | None], further: dict[str, bool], *,
    dry_run: bool, yes: bool, waits: bool, dsn: str | None, schema: str, json_: bool,
) -> None:  # fmt: skip

    where = filter_of(**given)
    with opened(dsn, schema) as box:
        if where.queue is not None:
            box.definitions().queue(where.queue)
        views = bulk.chosen(box, action, where)
        if dry_run:
            if json_:
                ACTED.print_object({"action": action, "dry_run": True, "groups": views})
            else:
                GROUP.only("queue", "group", "state", "since", nothing=None).print(views)
                click.echo(f"{action.replace('_', '-')} would be done to {counted(len(views), 'group')}")
            return
        if views:
            confirmed(f"{action.replace('_', '-')} {counted(len(views), 'group')}?", yes=yes)
        if len(views) > bulk_operations.AT_ONCE or (views and not waits):
            act_in_bulk(
                box, action, views, _chosen_by(given), said(*why), at_once=bool(further), waits=waits, json_=json_
            )
            return
        done = _each(box, action, views, said(*why), further, quiet=json_) if views else []
    _tell_all(action, done, json_=json_)


def _chosen_by(given: dict[str, Any]) -> dict[str, str]:
    """The filter of a bulk operation, for people."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name == "properties":
            found |= {f"property {of}": str(one) for of, one in value.items()}
        elif value:
            found[name] = value if isinstance(value, str) else ", ".join(map(str, value))
    return found


def _several(
    box: MessageBox, action: Action, queue: str | None, keys: Sequence[str], who: dict[str, str],
    further: dict[str, bool], *, json_: bool,
) -> None:  # fmt: skip

    _tell_all(action, _each(box, action, operations.named(box, keys, queue), who, further, quiet=json_), json_=json_)


def _each(
    box: MessageBox, action: Action, views: Sequence[GroupView], who: dict[str, str], further: dict[str, bool], *,
    quiet: bool,
) -> list[Operation | Refused]:  # fmt: skip

    done = bulk.each(box, action, views, at_once=bool(further), **who)
    return list(shown_progress(done, len(views), action.replace("_", "-"), quiet=quiet))


def _tell_all(action: Action, done: Sequence[Operation | Refused], *, json_: bool) -> None:
    if json_:
        ACTED.print_object({"action": action, "dry_run": False, "groups": done})
    else:
        for one in done:
            click.echo(_line(one))
        obeyed = sum(hasattr(one, "obeyed") for one in done)
        click.echo(f"{obeyed:,} of {counted(len(done), 'group')}: {action.replace('_', '-')}")
    no_if_refused(done)


def _line(done: Operation | Refused) -> str:

    place = in_line(f"{done.queue}, group {done.group}")
    if isinstance(done, Refused):
        return f"{place}: refused, {in_line(done.why)}"
    counts = ((done.released, "released"), (done.set_aside, "set aside"))
    told = "".join(f", {count:,} {what}" for count, what in counts if count)
    told += "".join(
        f", {missing_numbers(one.first, one.last)} skipped" for one in done.events if one.kind == "hole_skipped"
    )
    more = ", and more follow" if done.more else ""
    later = "" if done.obeyed else ", at the end of the turn"
    closing = ", closing" if done.action is Action.CLOSE and done.after != "closed" else ""
    return f"{place}: {done.before} → {done.after}{closing}{told}{more}{later}"
