"""Write the filters of lists into the reference: the options into `cli.md`, the parameters into `operations.md`. A test compares.

Run ``python -m scripts.filters_page`` after a change to a `Listing`. What stands around them is written by hand.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from seriatim.box.views.listing import Choice, Limit
from seriatim.cli.main import main
from seriatim.cli.options.listing import FilterOption

_REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
CLI, OPERATIONS = _REFERENCE / "cli.md", _REFERENCE / "operations.md"
_HEAD = "| option | |\n|---|---|\n"


def cli_page() -> str:
    """The page of commands: the table of a command that lists begins with its filters."""
    lists = {
        name: options for name, options in _lists(main) if any(isinstance(one.filter.kind, Limit) for one in options)
    }
    parts = re.split(r"(?m)^(?=## )", CLI.read_text(encoding="utf-8"))
    return "".join(_with_filters(part, lists) for part in parts)


def _lists(group: click.Group, before: str = "") -> Iterator[tuple[str, list[FilterOption]]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _lists(command, f"{name} ")
        elif command is not None:
            yield f"{before}{name}", [one for one in command.params if isinstance(one, FilterOption)]


def _with_filters(section: str, lists: dict[str, list[FilterOption]]) -> str:
    heading = re.match(r"## `seriatim ([a-z-]+(?: [a-z-]+)?)", section)
    options = lists.get(heading[1]) if heading else None
    if not options or _HEAD not in section:
        return section
    above, _, below = section.partition(_HEAD)
    names = {one.opts[0] for one in options}
    kept = [line for line in below.split("\n") if not _is_of(line, names)]
    return above + _HEAD + "".join(map(_row, options)) + "\n".join(kept)


def _is_of(line: str, names: set[str]) -> bool:
    """Whether a line is a row about these options alone."""
    found = set(re.findall(r"`(--[a-z-]+)", line.split(" | ", maxsplit=1)[0])) if line.startswith("| `--") else set()
    return bool(found) and found <= names


def _others(kind: Choice) -> str:
    """The other names of the values: a few by themselves."""
    few = ", ".join(f"`{one}`" for one in kind.aliases)
    return "" if not kind.aliases else ", or its name" if len(kind.aliases) > 2 else f", or {few}"


def _row(one: FilterOption) -> str:
    kind = one.filter.kind
    metavar = "" if one.is_flag else f" {kind.metavar or one.opts[0].removeprefix('--').upper()}"
    told = (one.help or "").rstrip(".").replace("|", r"\|").replace("*", r"\*")
    if isinstance(kind, Choice):
        told += f": {', '.join(f'`{value}`' for value in kind.values)}{_others(kind)}"
    default = f" ({one.default:,})" if isinstance(one.filter.kind, Limit) else ""
    return f"| `{one.opts[0]}{metavar}` | {told[:1].lower()}{told[1:]}{default} |\n"


def operations_page() -> str:
    """The page of functions: those that list, with their parameters."""
    parts = re.split(r"(?m)^(?=## )", OPERATIONS.read_text(encoding="utf-8"))
    return "".join(map(_with_parameters, parts))


def _with_parameters(section: str) -> str:
    heading = re.match(r"## `(\w+)`", section)
    if not heading:
        return section
    module = importlib.import_module(f"seriatim.operations.{heading[1]}")

    def written(found: re.Match[str]) -> str:
        function = getattr(module, found[1], None)
        if not hasattr(function, "__offers__"):
            return found[0]
        names, is_keyword = list[str](), False
        for name, one in inspect.signature(function).parameters.items():
            names += ["*"] if one.kind is one.KEYWORD_ONLY and not is_keyword else []
            is_keyword = one.kind is one.KEYWORD_ONLY
            names.append(name)
        return f"`{found[1]}({', '.join(names)})`"

    return re.sub(r"`(\w+)\(box[^)`]*\)`", written, section)


if __name__ == "__main__":
    CLI.write_text(cli_page(), encoding="utf-8")
    OPERATIONS.write_text(operations_page(), encoding="utf-8")
