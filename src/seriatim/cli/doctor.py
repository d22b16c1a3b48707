"""``seriatim doctor``: check whether this machine can run pipelines."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from seriatim.cli.which import which_box
from seriatim.operations.doctor import Finding, State, examine

__all__ = ["doctor"]

_COLOURS = {State.OK: "green", State.WARNING: "yellow", State.WRONG: "red"}


@click.command()
@which_box
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.pass_context
def doctor(context: click.Context, *, dsn: str | None, schema: str, as_json: bool) -> None:
    """Check Java, Python, Spark, memory, disk and the message box.

    Reports each finding with its remedy. Exits with 1 if something is wrong.
    """
    findings: list[Finding] = []
    for finding in examine(dsn=dsn, schema=schema):
        findings.append(finding)
        if not as_json:
            _show(finding)
    wrong = sum(finding.state is State.WRONG for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": not wrong, "findings": [asdict(finding) for finding in findings]}, indent=2))
    elif wrong:
        click.echo(f"\n{wrong} of {len(findings)} things are wrong.")
    else:
        click.echo("\nReady. Try: seriatim demo")
    if wrong:
        context.exit(1)


def _show(finding: Finding) -> None:
    state = click.style(f"{finding.state.value:<8}", fg=_COLOURS[finding.state])
    click.echo(f"{state}{finding.name:<8} {finding.found}")
    if finding.remedy:
        click.echo(f"{'':17}→ {finding.remedy}")
