"""``seriatim init``: write a project that runs, to start from."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from seriatim.cli.options.option import flag
from seriatim.errors import UsageError
from seriatim.extras import installation, is_chosen

#: Templates whose names a package can't have.
_RENAMED = {"gitignore": ".gitignore"}


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@flag("--force", "Write into a folder that isn't empty; files of the same names are replaced.")
def init(folder: Path, *, force: bool) -> None:
    """Write a project that runs into DIR: a queue with a handler, a pipeline with sample data, tests.

    Lists the commands to begin with. Nothing is started.
    """
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise UsageError("the folder isn't empty", where=str(folder), remedy="name a new one, or give --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [_write(text, folder / place) for place, text in _templates(files("seriatim.cli") / "project")]
    except OSError as error:
        where = str(error.filename or folder)
        raise UsageError(
            f"can't write the project: {error.strerror}", where=where, remedy="name a new folder"
        ) from error
    click.echo(f"{folder}: wrote {', '.join(sorted(str(one.relative_to(folder)) for one in written))}\n")
    steps = list(_next(folder))
    width = max(len(command) for command, _ in steps)
    click.echo("Next:")
    for command, use in steps:
        click.echo(f"  {command:<{width}}  # {use}" if use else f"  {command}")


def _templates(folder: Traversable, below: Path = Path()) -> Iterator[tuple[Path, Traversable]]:
    """The files of the project, each with its place in it."""
    for one in folder.iterdir():
        if one.is_dir() and one.name != "__pycache__":  # an installer may have compiled them
            yield from _templates(one, below / one.name)
        elif one.is_file():
            yield below / _RENAMED.get(one.name, one.name), one


def _write(template: Traversable, place: Path) -> Path:
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(template.read_bytes())
    return place


def _next(folder: Path) -> Iterator[tuple[str, str]]:
    """Commands that can be pasted, each with its use; first what has to be installed for it."""
    python = Path(sys.executable)
    own = python.with_name("seriatim")
    python_, seriatim = _word(python), _word(own) if own.exists() else f"{_word(python)} -m seriatim"
    yield f"cd {shlex.quote(str(folder))}", ""
    if "SERIATIM_DSN" not in os.environ and not is_chosen("embedded"):
        yield f"{python_} -m {installation('embedded')}", "or: export SERIATIM_DSN=postgresql://…"
    yield f"{python_} publish.py", "publish the samples to the queue"
    yield f"{seriatim} work orders --handler orders:handle", "handle them in order; Ctrl-C stops it"
    yield f"{seriatim} groups", "which customers wait or have stopped, and why"
    if not is_chosen("spark"):
        yield f"{python_} -m {installation('spark')}", "for the pipeline, with Java 17"
    yield f"{seriatim} run pipeline.yaml --once", "the same order, in files"
    yield "cat README.md", "what has happened to each message, and how to mend it"


def _word(program: Path) -> str:
    """The program as a word of a command: its name, if a shell finds it by that."""
    found = shutil.which(program.name)
    return program.name if found is not None and Path(found) == program else shlex.quote(str(program))
