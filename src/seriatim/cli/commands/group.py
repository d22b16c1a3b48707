"""``seriatim groups`` and ``seriatim group``: list the groups that stand still, or all; show one group, and act on it or on many."""

from __future__ import annotations

from typing import IO, Any

import click

from seriatim.cli.commands.acting import GroupCommand, acts, its_queue
from seriatim.cli.commands.edits import EDITED, retry_file
from seriatim.cli.commands.pipeline_groups import (
    list_groups_of_pipeline,
    not_with_dsn,
    show_group_of_pipeline,
    which_pipeline,
)
from seriatim.cli.commands.standing import tell_standing
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import counting, options_of
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import json_option, print_object, print_rows
from seriatim.errors import UsageError
from seriatim.kernel.groups.verbs import Action
from seriatim.operations import groups as operations
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.groups import GROUPS
from seriatim.operations.tables.pipelines import GROUP as PIPELINE_GROUP
from seriatim.operations.tables.standing import STANDING
from seriatim.pipeline.text.counted import counted


@click.command("groups")
@options_of(operations.groups)
@flag("--all", "all_", "List all groups, those that stand still first.")
@counting("error", operations.groups_by_error)
@which_pipeline
@which_box
@json_option("Print a JSON list.", GROUPS, ERRORS, PIPELINE_GROUP)
def groups(
    *, all_: bool, by: str | None, limit: int, pipeline: str | None, dsn: str | None, schema: str, json_: bool, **chosen: Any
) -> None:  # fmt: skip
    """List the groups that stand still, by queue and key: state and its age, next number, backlog, reason.

    They hand nothing out until something happens: they are stopped (suspended or faulted), or wait for a missing number.
    Groups whose producer seems to have begun anew are listed, too.
    With --all or --state, lists other groups, too.
    """
    state = chosen.pop("state")
    if all_ and state:
        raise UsageError("--all and --state can't be combined", remedy="leave one of them out")
    if pipeline is not None:
        if by is not None:
            raise UsageError("--by can't be combined with --pipeline", remedy="no handler of it fails: leave --by out")
        not_with_dsn(dsn)
        chosen |= {"state": state or None, "waits": not (all_ or state), "limit": limit}
        list_groups_of_pipeline(pipeline, chosen, json_=json_)
        return
    with opened(dsn, schema) as box:
        if by is not None:
            states = None if all_ else state or operations.STOPPED
            print_rows(ERRORS, operations.groups_by_error(box, state=states, **chosen), json_=json_)
            return
        suspected = None if state else True
        found = operations.groups(box, state=state or operations.STOPPED, suspected=suspected, limit=limit, **chosen)
        if all_ and len(found) < limit:
            others = set(operations.GroupState) - operations.STOPPED
            found += operations.groups(box, state=others, suspected=False, limit=limit - len(found), **chosen)
        is_narrowed = any(value for name, value in chosen.items() if name not in ("queue", "key"))
        counts = not (all_ or state or json_ or is_narrowed)
        there = operations.count(box, chosen["queue"], key=chosen["key"]) if counts else len(found)
    print_rows(GROUPS, found, json_=json_, limit=limit)
    if there > len(found):
        click.echo(
            f"{len(found):,} of {counted(there, 'group')} shown: only groups that stand still; --all lists all",
            err=True,
        )


group = Commands(
    "group",
    help="Show one group of a message box or a pipeline and mend it; mend several by their keys, or with --all many at once.",
)


@group.command("show")
@click.argument("group_", metavar="GROUP")
@its_queue
@which_pipeline
@which_box
@json_option("Print one JSON object.", STANDING, PIPELINE_GROUP)
def show(group_: str, *, queue: str | None, pipeline: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """Show GROUP: its state, the message or hole that blocks it, the backlog, the allowed actions, and the command
    that helps.
    """
    if pipeline is not None:
        show_group_of_pipeline(pipeline, queue, group_, dsn=dsn, json_=json_)
        return

    with opened(dsn, schema) as box:
        found = operations.standing(box, operations.only_group(box, group_) if queue is None else queue, group_)
    if json_:
        print_object(STANDING, found)
    else:
        tell_standing(found)


@acts(group, Action.SUSPEND)
def suspend(command: GroupCommand) -> None:
    """Suspend a group: it accepts messages, but hands none out. A locked group stops at the end of its turn."""
    command.act()


@acts(group, Action.RESUME)
def resume(command: GroupCommand) -> None:
    """Resume a suspended group."""
    command.act()


@acts(
    group,
    Action.RETRY,
    option(
        "--edits",
        "Retry each message of this file, a line for each, with its body and properties there; - is standard input.",
        type=click.File("rb"),
    ),
    dry_run="With --all or --edits: change nothing; list what would be done.",
    tables=[EDITED],
)
def retry(command: GroupCommand, *, edits: IO[bytes] | None) -> None:
    """Retry the message at which a faulted group stopped.

    To mend many messages, each in its own way, write them with `seriatim messages export --state faulted`, edit body and properties
    in the file, and give it with --edits. The file is checked as a whole first. A line that was not changed is retried as it is: delete
    the lines of messages that should not be retried. The original messages are kept.
    """
    if edits is None:
        command.act("--all, or --edits FILE")
        return
    if command.keys or command.all_ or command.given or command.is_filtered:
        raise UsageError(
            "the file of --edits names the messages",
            remedy="leave out GROUP, --all, --edit and filters; --queue chooses those of one queue",
        )
    with opened(command.dsn, command.schema) as box:
        retry_file(box, edits, command.chosen["queue"], command.why, dry_run=command.dry_run, json_=command.json_)


@acts(group, Action.SKIP_MESSAGE)
def skip_message(command: GroupCommand) -> None:
    """Move the message that blocks a group to the dead letters, and let the group go on."""
    command.act()


@acts(group, Action.SKIP_HOLE)
def skip_hole(command: GroupCommand) -> None:
    """Skip the missing numbers that a group waits for."""
    command.act()


@acts(group, Action.ABORT)
def abort(command: GroupCommand) -> None:
    """Move all held and queued messages of a group to the dead letters."""
    command.act()


@acts(group, Action.CLOSE)
def close(command: GroupCommand) -> None:
    """Close a group: new messages are late, except missing numbers below the highest one held. What it holds goes on by the usual
    rules and clocks; it is closed when it holds nothing.
    """
    command.act()


@acts(group, Action.RESET)
def reset(command: GroupCommand) -> None:
    """Reset the next number of GROUP: held messages below it become late, and passed numbers count as skipped."""
    command.act()


@acts(group, Action.RESTART)
def restart(command: GroupCommand) -> None:
    """Begin GROUP anew at the first number of its queue, because its producer has begun anew.

    The messages that counted come back from those that were set aside, and then what the group holds is judged.
    In a pipeline only what the group holds comes back.
    """
    command.act()
