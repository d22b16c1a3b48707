"""``seriatim doctor``: check this machine and its message box, and name what needs a hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import nullcontext
from textwrap import indent
from typing import Any

import click
from rich.console import Console

from seriatim.cli.options.option import flag, option
from seriatim.cli.options.own_name import own_name
from seriatim.cli.options.which import which_box
from seriatim.cli.options.why import exit_if
from seriatim.cli.shown.table import Column, Table, json_option
from seriatim.operations.box_here import is_here
from seriatim.operations.doctor import Finding, State, advice, examine, is_project
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.plain import in_line

_FINDING: Table[Finding] = Table("A finding", row=Finding)
EXAMINED: Table[dict[str, object]] = Table(
    "The findings of the doctor",
    Column("ok", None, kind="bool", meaning="false: something is wrong or needs a hand"),
    Column("findings", None, rows=_FINDING, meaning="the findings, in order"),
)

#: The exit code of a UsageError.
_USAGE = 2

_COLOURS = {State.OK: "green", State.WARNING: "yellow", State.WRONG: "red"}


@click.command()
@option("--explain", "Check nothing; say what a finding means, and which command mends it.", metavar="FINDING")
@flag("--all", "all_", "Also list the checks that are ok.")
@flag("--pipelines", "Start Spark, too, as a pipeline does. It can take a minute.")
@flag("--audit", "Check the laws of a large box to the end, however long it takes.")
@which_box
@json_option("Print one JSON object instead of lines.", EXAMINED)
def doctor(*, explain: str | None, all_: bool, json_: bool, **given: Any) -> None:
    """Name what needs a hand, in seconds: groups that stand still, dead letters, queues that nobody works on, forgotten
    transactions.

    Also checks Python, Java, memory, disk, and the definitions and laws of the message box. Shows what is wrong first, then what is worth a
    look, each with its remedy. Exits with 1 if something is wrong or needs a hand, and with 2 if there is nothing here to look at: no
    message box, and no pipeline has run.
    """
    if explain is not None:
        _explain(explain)
        return

    findings = _examined(examine(**given))
    if not json_:
        _show_all(findings, with_ok=all_)
    wrong = sum(finding.state is State.WRONG for finding in findings)
    odd = [finding.name for finding in findings if finding.state is State.WARNING]
    nothing_here = not (is_here(given["dsn"]) or is_project())
    if json_:
        click.echo(json.dumps(EXAMINED.object_of({"ok": not wrong, "findings": findings}), indent=2))
    elif wrong:
        named = ", ".join(finding.name for finding in findings if finding.state is State.WRONG)
        click.echo(f"{wrong} of {len(findings)} checks need a hand: {named}.")
    elif nothing_here:
        click.echo("This machine is ready, but there is no message box here. Begin a project: seriatim init DIR")
    elif odd:
        click.echo(f"Nothing needs a hand now. Worth a look: {', '.join(odd)}.")
    else:
        click.echo("Nothing needs a hand.")
    exit_if(wrong)
    exit_if(nothing_here, _USAGE)


def _examined(found: Iterable[Finding]) -> list[Finding]:
    """All findings; meanwhile a terminal shows how many checks are done."""
    errors = Console(stderr=True)
    findings: list[Finding] = []
    with errors.status("looking …") if errors.is_terminal else nullcontext() as status:
        for finding in found:
            findings.append(finding)
            if status is not None:
                status.update(f"{len(findings)} checks done; the last one: {finding.name}")
    return findings


def _show_all(findings: list[Finding], *, with_ok: bool) -> None:
    """Those that need a hand first."""
    for state in (State.WRONG, State.WARNING, *([State.OK] if with_ok else [])):
        of_state = [finding for finding in findings if finding.state is state]
        for finding in of_state:
            _show(finding)
        if of_state:
            click.echo()
    if not with_ok:
        fine = sum(finding.state is State.OK for finding in findings)
        click.echo(f"{counted(fine, 'check is', 'checks are')} ok ({own_name()} doctor --all lists them).")


def _show(finding: Finding) -> None:
    state = click.style(f"{finding.state.value:<8}", fg=_COLOURS[finding.state])
    click.echo(f"{state}{finding.name:<13} {in_line(finding.found)}")
    if finding.remedy:
        click.echo(f"{'':22}→ {in_line(finding.remedy)}")
    if finding.page:
        click.echo(f"{'':22}  more: {own_name()} doctor --explain {finding.page.partition('#')[2]}")


def _explain(name: str) -> None:
    """Print what the page that says what to do when has on a finding."""
    found = advice(name)
    for heading, text in (("what you see", found.seen), ("why", found.why), ("what to do", found.remedy)):
        click.echo(f"{heading}:\n{indent(text, '  ')}")
