"""``seriatim health``: say by the exit code whether a box, or a process, is well; for containers and monitors."""

from __future__ import annotations

import json

import click

from seriatim.cli.commands.doctor import EXAMINED
from seriatim.cli.options.option import option
from seriatim.cli.options.which import which_box
from seriatim.cli.options.why import exit_if
from seriatim.cli.shown.table import json_option, tell
from seriatim.kernel.values.time import micros, seconds
from seriatim.operations.doctor import State
from seriatim.operations.health import box_health, process_health


@click.command()
@click.argument("address", required=False)
@option("--patience", "Time for which messages may be ready though nobody works on their queue.", default="60s")
@which_box
@json_option("Print one JSON object.", EXAMINED)
def health(*, address: str | None, patience: str, dsn: str | None, schema: str, json_: bool) -> None:
    """Say whether a process is ready, or a box well: for containers and monitors.

    With the ADDRESS that a process got by --metrics: whether it is ready, that is, it has looked for work lately, and its
    box is enabled and answers. Without: whether the box is enabled and answers, and somebody works on what is ready.

    \b
    Exit codes:
      0  well
      1  not well; the reasons are printed
      2  the address or an option is wrong
    """  # noqa: D301 -- click's mark of lines that stay as they are
    found = (
        box_health(dsn, schema, patience_s=seconds(micros(patience))) if address is None else process_health(address)
    )
    is_well = all(one.state is State.OK for one in found)
    if json_:
        click.echo(json.dumps(EXAMINED.object_of({"ok": is_well, "findings": found}), indent=2))
    else:
        for one in found:
            remedy = f" ({one.remedy})" if one.remedy and one.state is not State.OK else ""
            tell(f"{one.name}: {one.found}{remedy}")
    exit_if(not is_well)
