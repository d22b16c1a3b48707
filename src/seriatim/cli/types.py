"""``seriatim types``: list the message types with their properties."""

from __future__ import annotations

import click

from seriatim.cli.which import as_json, opened, which_box

__all__ = ["types"]


@click.command()
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def types(*, dsn: str | None, schema: str, json_: bool) -> None:
    """List the message types of a message box, with their properties and the check of their bodies."""
    from seriatim.pipeline.files.json_form import to_json  # noqa: PLC0415 -- what checks bodies, when it is needed

    with opened(dsn, schema) as box:
        found = [one for _, one in sorted(box.definitions().types.items())]
    if json_:
        click.echo(as_json([{"type": one.name} | _without(to_json(one), "version", "name") for one in found]))
        return
    for one in found:
        checked = "" if one.validation == "none" else f" ({one.validation})"
        click.echo(f"{one.name}{checked}")
        paths = {promotion.name: " or ".join(promotion.paths) for promotion in one.promotions()}
        for name, kind in one.types().items():
            click.echo(f"  {name}: {kind}" + (f", from {paths[name]}" if name in paths else ""))
    if not found:
        click.echo("there are no message types")


def _without(mapping: dict[str, object], *names: str) -> dict[str, object]:
    return {key: value for key, value in mapping.items() if key not in names}
