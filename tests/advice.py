"""Commands that texts advise: found in the texts, and read as the command line reads them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from seriatim.cli.main import main

__all__ = ["Advised", "advised", "incomplete"]

#: A word as `shlex.join` writes it. A text goes on behind a comma, a semicolon, a bracket or a backquote.
_WORD = re.compile(r"""[ ]((?:'[^'\n]*'|"[^"\n]*"|[^\s'"();,`<])+)""")
_BEGIN = re.compile(r"(?<![\w./'\"=-])seriatim(?= [a-z])")
_ROOT = click.Context(main, info_name="seriatim", resilient_parsing=True)


@dataclass(frozen=True)
class Advised:
    """A command in a text.

    Args:
        words: its words behind `seriatim`.
        path: those that name it.
        command: the command.
    """

    words: tuple[str, ...]
    path: tuple[str, ...]
    command: click.Command

    def __str__(self) -> str:
        return shlex.join(("seriatim", *self.words))

    def takes(self, option: str) -> bool:
        """Whether it has an option."""
        return any(option in one.opts for one in self.command.params)

    def with_options(self, *given: str, replaced: Mapping[str, str]) -> list[str]:
        """Its words with further options, and others in place of placeholders."""
        own = [replaced.get(one, one) for one in self.words[len(self.path) :]]
        return [*self.path, *given, *own]


def advised(text: str) -> Iterator[Advised]:
    """The commands in a text. Words without a command of that name are none."""
    for found in _BEGIN.finditer(text):
        words = [shlex.split(one)[0] for one in _words(text, found.end())]
        command: click.Command = main
        path: list[str] = []
        while isinstance(command, click.Group) and len(path) < len(words):
            sub = command.commands.get(words[len(path)]) or command.get_command(_ROOT, words[len(path)])
            if sub is None:
                break
            command = sub
            path.append(words[len(path)])
        if path:
            yield Advised((*path, *_own(command, words[len(path) :])), tuple(path), command)


def _words(text: str, at: int) -> Iterator[str]:
    while (found := _WORD.match(text, at)) is not None:
        at = found.end()
        word = found[1]
        yield word.rstrip(".:") or word
        if word.endswith(("." if not word.startswith(".") else "\n", ":")):
            return


def _own(command: click.Command, words: list[str]) -> Iterator[str]:
    """The words that a command takes; the text goes on behind them."""
    options = {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}
    places = [one.nargs for one in command.params if isinstance(one, click.Argument)]
    left = float("inf") if -1 in places else sum(places)
    rest, only_places = list(words), False
    while rest:
        word = rest.pop(0)
        if word == "--":
            only_places = True
        elif word.startswith("--") and not only_places:
            if (option := options.get(word)) is None or option.is_flag or not rest:
                yield word
                continue
            yield word
            word = rest.pop(0)
        elif left:
            left -= 1
        else:
            return
        yield word


def incomplete(one: Advised) -> str | None:
    """Why the command line doesn't read a command as it is written; None: it does."""
    if isinstance(one.command, click.Group):
        return None
    words = [word for word in one.words[len(one.path) :] if word != "--"]
    known = {name: option for option in one.command.params if isinstance(option, click.Option) for name in option.opts}
    places = 0
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            places += 1
        elif word not in known:
            return f"it has no option {word}"
        elif not known[word].is_flag and not words:
            return f"{word} has no value"
        elif not known[word].is_flag:
            words.pop(0)
    needed = sum(one.nargs for one in one.command.params if isinstance(one, click.Argument) and one.required)
    return f"{places} of {needed} arguments" if places < needed else None
