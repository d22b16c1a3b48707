"""The actions of ``seriatim group`` on groups of a pipeline, and the option that chooses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from seriatim.cli.options.option import option
from seriatim.cli.shown.table import print_object, print_rows, tell
from seriatim.errors import UsageError
from seriatim.kernel.groups.verbs import IN_PIPELINES
from seriatim.operations.tables.pipelines import GROUP as PIPELINE_GROUP
from seriatim.pipeline.text.command import command

#: The option ``pipeline``.
which_pipeline = option(
    "--pipeline", "Of this pipeline, in place of a message box: its name, or its file.", metavar="NAME_OR_FILE"
)
#: Filters that only a box knows.
_OF_A_BOX = ("standing", "error", "error_class", "since", "until", "properties")


def not_with_dsn(dsn: str | None) -> None:
    if dsn is not None:
        raise UsageError("--pipeline and --dsn can't be combined", remedy="leave one of them out")


def list_groups_of_pipeline(pipeline: str, chosen: Mapping[str, Any], *, json_: bool) -> None:
    chosen = check_filters(chosen)
    from seriatim.operations.pipelines import groups as operations  # noqa: PLC0415 -- Spark is slow to import

    print_rows(PIPELINE_GROUP, operations.groups(pipeline, **chosen), json_=json_, limit=chosen["limit"])


def show_group_of_pipeline(pipeline: str, queue: str | None, key: str, *, dsn: str | None, json_: bool) -> None:
    not_with_dsn(dsn)
    from seriatim.operations.pipelines import groups as operations  # noqa: PLC0415 -- Spark is slow to import

    found = operations.group_view(pipeline, queue, key)
    if json_:
        print_object(PIPELINE_GROUP, found)
        return
    print_rows(PIPELINE_GROUP, [found])
    allowed = [action.command for action in IN_PIPELINES if found.allows(action)]
    click.echo(f"allowed: {', '.join(allowed)}")
    for action in operations.helps(found):
        helps = command("group", action.command, of=found.group, queue=found.queue, pipeline=pipeline)
        tell(f"helps: {helps}")


def check_filters(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that choose groups of a pipeline; others are refused."""
    for name in _OF_A_BOX:
        if chosen.get(name):
            option = "--property" if name == "properties" else f"--{name}"
            raise UsageError(
                f"{option} can't choose groups of a pipeline", remedy="--queue, --state, --key, --older-than"
            )
    return {name: value for name, value in chosen.items() if name not in _OF_A_BOX}
