"""``seriatim doctor``: check whether this machine can run pipelines."""

from __future__ import annotations

import json

import click

from seriatim.cli.table import Column, Table, json_only, json_option
from seriatim.cli.which import which_box
from seriatim.operations.doctor import Finding, State, examine

__all__ = ["EXAMINED", "doctor"]

_FINDING: Table[Finding] = Table(
    "A finding", *json_only("name", "state", "found", "remedy"), row="seriatim.operations.finding:Finding"
)
EXAMINED: Table[dict[str, object]] = Table(
    "The findings of the doctor",
    Column("ok", None, kind="bool", meaning="false: something is wrong"),
    Column("findings", None, rows=_FINDING, meaning="the findings, in order"),
)

_COLOURS = {State.OK: "green", State.WARNING: "yellow", State.WRONG: "red"}


@click.command()
@which_box
@json_option("Print one JSON object instead of lines.", EXAMINED)
@click.pass_context
def doctor(context: click.Context, *, dsn: str | None, schema: str, json_: bool) -> None:
    """Check Java, Python, Spark, memory, disk and the message box.

    Reports each finding with its remedy. Exits with 1 if something is wrong.
    """
    findings: list[Finding] = []
    for finding in examine(dsn=dsn, schema=schema):
        findings.append(finding)
        if not json_:
            _show(finding)
    wrong = sum(finding.state is State.WRONG for finding in findings)
    if json_:
        click.echo(json.dumps(EXAMINED.object_of({"ok": not wrong, "findings": findings}), indent=2))
    elif wrong:
        click.echo(f"\n{wrong} of {len(findings)} things are wrong.")
    else:
        click.echo("\nReady. Try: seriatim init DIR")
    if wrong:
        context.exit(1)


def _show(finding: Finding) -> None:
    state = click.style(f"{finding.state.value:<8}", fg=_COLOURS[finding.state])
    click.echo(f"{state}{finding.name:<8} {finding.found}")
    if finding.remedy:
        click.echo(f"{'':17}→ {finding.remedy}")
