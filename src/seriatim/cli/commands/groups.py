"""``seriatim groups``: list the groups of a message box or a pipeline that stand still, or all."""

from __future__ import annotations

from typing import Any

import click

from seriatim.cli.commands.pipeline_groups import list_groups_of_pipeline, which_pipeline
from seriatim.cli.options.listing import counting, options_of
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import json_option, print_rows
from seriatim.errors import UsageError
from seriatim.operations import groups as operations
from seriatim.operations.tables import groups as declared
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.groups import GROUPS
from seriatim.operations.tables.pipelines import GROUP as PIPELINE_GROUP
from seriatim.pipeline.text.counted import counted

holder_of = declared.holder_of


@click.command("groups")
@options_of(operations.groups)
@click.option("--all", "all_", is_flag=True, help="List all groups, those that stand still first.")
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
        list_groups_of_pipeline(pipeline, chosen, state, all_=all_, limit=limit, dsn=dsn, json_=json_)
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
