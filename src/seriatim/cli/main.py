"""The command ``seriatim``: finds the commands and turns errors into one clear line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.nouns import VERBS, brought_to_commands, shown_by
from seriatim.errors import DeploymentError, InvariantBroken, SeriatimError, Unavailable, UntrustedData, UsageError
from seriatim.pipeline.text.plain import in_lines
from seriatim.pipeline.text.storable import fits_text

#: Exit codes, by the party who has to act. 1: the command did its work and the answer is no.
EXIT_CODES = {UsageError: 2, DeploymentError: 3, InvariantBroken: 4, Unavailable: 5}

_NAME = "seriatim"
#: The key under which a command's arguments are kept.
_GIVEN = "seriatim.cli.main.given"

# Each is a function of that name (with an underscore) in the module of that name, or of `_MODULES`, which is imported when it is called.
#: The commands by heading, with what the list says of each, which is also the help of a group: none of them is imported for it.
_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "If something stands still": {
        "console": "Serve pages that show in a browser why something stands still, and mend it.",
        "doctor": "Name what needs a hand, in seconds: groups that stand still, dead letters, queues that nobody works on, forgotten transactions.",
        "health": "Say whether a process is ready, or a box well: for containers and monitors.",
        "top": "Show a box at one glance, live: its queues with what waits, how long, and what needs a hand.",
        "find": "Find TEXT: a message id, a group's key, or the value of any property.",
        "groups": "List the groups that stand still, by queue and key: state and its age, next number, backlog, reason. Verbs: abort, close, reset, restart, resume, retry, show, skip-hole, skip-message, suspend.",
        "group": "",
        "connections": "List the connections to a box's database: whose, since when in a transaction, and how many groups it keeps locked. Verbs: end.",
        "connection": "",
        "bulk": "List actions on many groups that the box keeps, show one with its groups, begin, follow or cancel it.",
        "faults": "List the faults of handlers, newest first; with ID, show that fault and its traceback.",
        "dead-letters": "List dead letters, requeue them, or delete them.",
        "set-aside": "List messages of a pipeline that were not released, with reasons; put them back.",
        "unrouted": "List messages that matched no destination.",
        "trace": "Trace a message, or all messages of a group, step by step with timestamps.",
        "events": "List the events of groups, newest first: holes that are open, were overdue or skipped, suspensions, closings.",
        "log": "List what operators did, newest first: actor, action, reason and result.",
    },
    "Begin": {
        "demo": "Put a scrambled feed back in order, and mend a handler's failure.",
        "init": "Write a project that runs into DIR: a queue with a handler, a pipeline with sample data, tests.",
        "docs": "List the pages of the documents, or print one: `seriatim docs glossary`.",
    },
    "Pipelines": {
        "check": "Validate a pipeline file, or a port through which messages come in.",
        "run": "Run the pipeline in FILE until it is stopped; go on where the last run ended.",
        "pipeline": "List and show pipelines, end one, or convert its checkpoint.",
    },
    "Message box": {
        "box": "Set up a message box: create or migrate it, apply definitions, grant rights, purge, show its status and its id.",
        "publish": "Publish a message with the content BODY, and print the queues that it goes to.",
        "queues": "Count the messages in each queue of a message box, the groups that stand still, and the messages set aside. Verbs: activation, off, on, release, set, show.",
        "queue": "",
        "messages": "List, show and export the messages of a message box, without locks; requeue, resubmit or delete messages that were set aside.",
        "subscriptions": "List the subscriptions of a message box, with their states. Verbs: start, stop, unenlist.",
        "subscription": "",
        "types": "List the message types of a message box, with their properties and the check of their bodies.",
        "services": "List the services of a message box, with their queues and the contracts that they accept.",
        "contracts": "List the contracts of a message box, with the sender of each message type.",
        "dialogs": "List the dialogs of a message box, show one, end one, or clean up old ones.",
        "instances": "List and show the instances of a message box; suspend, resume or terminate one.",
        "schedules": "List the schedules of a message box: when each publishes next, and what it has published last. Verbs: pause, resume.",
        "schedule": "",
        "token": "Create, list and revoke the tokens of callers over HTTP.",
        "link": "Pair message boxes, so that queues of one can be published to in the other.",
        "transmission": "List the streams over links, those that wait first, each with its reason.",
        "ports": "List the ports through which messages come in: who reads each partition, what it has taken in, and why it stands still. Verbs: forget.",
        "port": "",
        "regions": "See and define two regions that have the same sessions, and copy between them.",
        "journal": "See the journal of two regions, and mend its sessions.",
    },
    "Workers": {
        "work": "Work on queues: call the handler with the messages of each group, in order, in transactions.",
        "serve": "Serve the queues that have an activation: start and stop their readers as the load requires.",
        "receive": "Take messages in through ports: publish them, commit, and then acknowledge them to their source.",
        "workers": "List the processes that work on queues: where, since when, with what in hand, and when they were last seen.",
    },
    "Shell": {"completion": "Print the script with which a shell completes commands and options."},
}
#: A list is in the module of the verbs on one of what it lists.
_MODULES: Mapping[str, str] = {**VERBS, **dict.fromkeys(("types", "contracts", "services"), "definitions")}
_COMMANDS = dict(sorted(row for rows in _SECTIONS.values() for row in rows.items()))


class _Text(click.types.StringParamType):
    """Text; bytes that are not UTF-8 would fail later, where the text is sent or printed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        if not fits_text(text):
            self.fail(f"{text!a} is not UTF-8", param, ctx)
        return text


def checked_texts(command: click.Command) -> click.Command:
    """Make the options and arguments of a command and its sub-commands accept UTF-8 only; file names may be any bytes."""
    for one in command.params:
        if type(one.type) is click.types.StringParamType:
            one.type = _Text()
    for inner in getattr(command, "commands", {}).values():
        checked_texts(inner)
    return command


class _Commands(Commands):
    """The commands, imported late; errors of seriatim become messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def sections(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        # The verbs of a noun are told of beside the list that it stands for.
        return {heading: [one for one in names if one not in VERBS.values()] for heading, names in _SECTIONS.items()}

    def _rows(self, ctx: click.Context, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        yield from ((name, _COMMANDS[name]) for name in names)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, brought_to_commands(args, lambda name: self._verbs(ctx, name)))

    def hint(self, ctx: click.Context, name: str) -> str:
        command = shown_by(name.casefold())
        return super().hint(ctx, name) if command is None else f"see {_NAME} {command}"

    def _verbs(self, ctx: click.Context, name: str) -> list[str]:
        command = self.get_command(ctx, name)
        return command.list_commands(ctx) if isinstance(command, click.Group) else []

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = f"seriatim.cli.commands.{_MODULES.get(cmd_name, cmd_name).replace('-', '_')}"
        try:
            command = checked_texts(getattr(importlib.import_module(module), cmd_name.replace("-", "_")))
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            return None  # one command that is not there shall not take the others away
        command.help = command.help or _COMMANDS[cmd_name]  # a group has no help of its own
        if cmd_name in VERBS:
            verbs = ", ".join(self._verbs(ctx, VERBS[cmd_name]))
            command.epilog = f"Verbs: {verbs}. See {_NAME} {cmd_name} VERB --help."
        return command

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            try:
                return super().invoke(ctx)
            except UntrustedData as error:
                if not _trusted(error):
                    raise
            # The command hasn't touched data that aren't trusted, so it may run again.
            with self.make_context(ctx.info_name, ctx.meta[_GIVEN]) as again:
                return super().invoke(again)
        except SeriatimError as error:
            _tell(error)
            ctx.exit(_exit_code(error))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = [*args]
        return super().parse_args(ctx, args)


def _trusted(error: UntrustedData) -> bool:
    """Ask at a terminal whether the data are to be trusted, and note a yes."""
    from seriatim.box.server.embedded import trust  # noqa: PLC0415 -- the driver, when it is needed

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    click.echo(in_lines(f"{error.where}: {error.what}."), err=True)
    if not click.confirm("Do you trust them?", err=True):
        return False
    trust(Path(error.where))
    return True


def _tell(error: SeriatimError) -> None:
    if isinstance(error, InvariantBroken):
        click.echo(traceback.format_exc(), err=True)
        click.echo("This is a bug in seriatim. Please report it with the text above.", err=True)
    click.echo(f"{click.style('error', fg='red', bold=True)}: {in_lines(str(error))}", err=True)


def _exit_code(error: SeriatimError) -> int:
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Words such as group, hole and turn are explained by `{_NAME} docs glossary`; `{_NAME} docs` lists all pages.",
)
@click.version_option(package_name="seriatim", prog_name="seriatim")
def main() -> None:
    """Put scrambled messages back in order, per group, and deliver each once.

    Begin with `seriatim demo`; then write a pipeline file, `seriatim check` it and `seriatim run` it. A noun without a verb
    lists: `seriatim groups`; with a verb it acts on one: `seriatim group show KEY`.
    """
