"""Processes of one kind, which are killed and replaced; that one fails otherwise is a failure of the test."""

from __future__ import annotations

import functools
import os
import random
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ParamSpec

import psycopg

import seriatim as sq
from seriatim.cli.main import EXIT_CODES
from tests.command import environment

#: How a process ends that found no server, or lost it at once (EX_TEMPFAIL): start it again.
NO_SERVER = 75
LOOK_S = 0.02
Arguments = ParamSpec("Arguments")


def ends_without_server(main: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Let a process end with `NO_SERVER` that could not open the box: no server, or one that was killed meanwhile."""

    @functools.wraps(main)
    def ending(*arguments: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            main(*arguments, **options)
        except (sq.EnvironmentProblem, sq.Unavailable) as error:
            print(error, file=sys.stderr)  # noqa: T201
            sys.exit(NO_SERVER)

    return ending


@contextmanager
def tells_when_unavailable() -> Iterator[None]:
    """Go on after a transaction that has to be repeated, and leave a line about it among the errors.

    A statement of the application's own fails with the driver's error.
    """
    try:
        yield
    except (sq.Unavailable, psycopg.OperationalError) as error:
        print(error, file=sys.stderr)  # noqa: T201


class Crew:
    """Processes that are started from the same words, but for their name.

    Args:
        words: a process's words, by its name.
        folder: where their errors go; made.
    """

    def __init__(self, words: Callable[[str], list[str]], folder: Path) -> None:
        self._words = words
        self._folder = folder
        folder.mkdir()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.finished: set[str] = set()
        self.killed = 0

    def start(self, name: str) -> None:
        """Start one; its errors go to a file of its name, behind those of one that had the name before."""
        with self._errors(name).open("ab") as errors:
            self.running[name] = subprocess.Popen(
                self._words(name),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                cwd=Path(__file__).parents[2],
                env=environment(),
            )

    def kill(self, chance: random.Random) -> str:
        """SIGKILL to one of them.

        Returns:
            its name.
        """
        name = chance.choice(sorted(self.running))
        process = self.running.pop(name)
        process.kill()
        process.wait()
        self.killed += 1
        return name

    def kill_all(self) -> None:
        """SIGKILL to all."""
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()
        self.running.clear()

    def look(self) -> None:
        """Start those again that found no server; fail if one ended with another error."""
        for name, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[name]
            if code in (NO_SERVER, EXIT_CODES[sq.Unavailable]):
                self.start(name)
            else:
                assert code == 0, f"{name} ended with {code}: {self._errors(name).read_text()}"
                self.finished.add(name)

    def told(self) -> list[str]:
        """The lines that any of them left among its errors."""
        return [line for file in sorted(self._folder.glob("*.err")) for line in file.read_text().splitlines()]

    def _errors(self, name: str) -> Path:
        return self._folder / f"{name}.err"


def wait_for_an_end(*crews: Crew) -> None:
    """Wait until a process has ended, or for `LOOK_S`."""
    handles = []
    try:
        for process in (process for crew in crews for process in crew.running.values()):
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(process.pid))
        select.select(handles, [], [], LOOK_S)
    finally:
        for handle in handles:
            os.close(handle)
