"""``seriatim journal``: what the journal of two regions knows, and what an operator does there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command, options_of
from seriatim.cli.options.option import flag, option, together
from seriatim.cli.options.why import Why, confirmed, says_why
from seriatim.cli.shown.progress import shown_share
from seriatim.cli.shown.table import as_json, json_option, print_row, print_rows, tell
from seriatim.errors import NotFound, UsageError
from seriatim.kernel.regions.claims import Action
from seriatim.operations.tables import journal as tables
from seriatim.pipeline.text.counted import counted
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.operators import ActionResult
from seriatim.regions.journal.pipelines import DeliveredFilter
from seriatim.regions.journal.views import SessionView
from seriatim.regions.regions import Regions
from seriatim.regions.regions_file import load

#: What an operator does with a session.
VERBS = ("retry", "skip", "release", "suspend", "resume")
_SHOWN, _ALL = 5, 100_000
#: A box with many sessions has much to tell.
_PATIENCE_S = 60.0


def _which_journal(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a journal: ``dsn`` and ``schema``."""
    dsn = option("--dsn", "The database of the journal (default: $SERIATIM_JOURNAL).", envvar="SERIATIM_JOURNAL")
    schema = option("--schema", "Schema of the journal.", default="seriatim_journal")
    return dsn(schema(command))


@contextmanager
def _opened(dsn: str | None, schema: str) -> Iterator[Journal]:
    if dsn is None:
        raise UsageError("no journal is named", remedy="give --dsn, or set SERIATIM_JOURNAL")
    with Journal.open(dsn, schema=schema, create=False, connections=1) as found:
        yield found


def _on_journal(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a journal, which is opened for the function and is its first argument."""

    @wraps(function)
    def run(*arguments: Any, dsn: str | None, schema: str, **options: Any) -> Any:
        with _opened(dsn, schema) as of:
            return function(of, *arguments, **options)

    return _which_journal(run)


def _which_session(command: Callable[..., Any]) -> Callable[..., Any]:
    queue = option("--queue", "Its queue, if several have a session with this key.")
    name = option("--name", "The name of its regions, if several have such a session.")
    return click.argument("session")(queue(name(command)))


def _found(of: Journal, session: str, queue: str | None, name: str | None) -> SessionView:
    found = of.sessions(name=name, queue=queue, session=session)
    if not found:
        raise NotFound(f"the journal knows no session {session!r}", remedy="seriatim journal list shows them")
    if len(found) > 1:
        places = ", ".join(f"{one.queue} of {one.name}" for one in found[:_SHOWN])
        raise UsageError(f"several queues have a session {session!r}: {places}", remedy="give --queue or --name")
    return found[0]


journal = Commands("journal")
journal.add_command(list_command("list", Journal.sessions, tables.SESSIONS, on=_on_journal))
journal.add_command(list_command("log", Journal.log, tables.LOGGED, on=_on_journal))


@journal.command("show")
@_which_session
@option("--limit", "Show at most this many numbers.", type=click.IntRange(1, 100_000), default=20)
@_on_journal
@json_option("Print one JSON object.", tables.SESSIONS, tables.ENTRIES, tables.LOGGED)
def _show(of: Journal, session: str, *, queue: str | None, name: str | None, limit: int, json_: bool) -> None:
    """Show a session, its newest numbers, and what operators did with it."""
    found = _found(of, session, queue, name)
    numbers = of.entries(found.name, found.queue, session, limit=limit)
    logged = of.log(name=found.name, queue=found.queue, session=session)
    if json_:
        told = {"numbers": tables.ENTRIES.objects_of(numbers), "log": tables.LOGGED.objects_of(logged)}
        click.echo(as_json(tables.SESSIONS.object_of(found) | told))
        return
    print_rows(tables.SESSIONS, [found])
    tell(*(f"helps: {one}" for one in found.commands))
    click.echo()
    print_rows(tables.ENTRIES, numbers)
    if logged:
        click.echo()
        print_rows(tables.LOGGED, logged)


@journal.command("regions")
@click.argument("name")
@_on_journal
@json_option("Print a JSON list.", tables.REGIONS)
def _regions(of: Journal, name: str, *, json_: bool) -> None:
    """List what the regions of NAME have reported, on which forgetting waits."""
    print_rows(tables.REGIONS, of.regions(name), json_=json_)


@journal.command("pipelines")
@_on_journal
@json_option("Print a JSON list.", tables.PIPELINES)
def _pipelines(of: Journal, *, json_: bool) -> None:
    """List the pipelines that run in both regions: which region delivers, since when, and until when it has the lease."""
    print_rows(tables.PIPELINES, of.pipelines.known(), json_=json_)


@journal.command("delivered")
@click.argument("pipeline")
@options_of(DeliveredFilter)
@json_option("Print a JSON list.", tables.DELIVERED)
@_on_journal
def _delivered(of: Journal, pipeline: str, *, json_: bool, **given: Any) -> None:
    """List through which numbers the groups of a PIPELINE that runs in both regions are delivered."""
    print_rows(tables.DELIVERED, of.pipelines.delivered(pipeline, **given), json_=json_, limit=given["limit"])


@journal.command("forget-delivered")
@click.argument("pipeline")
@click.argument("destination")
@click.argument("group")
@says_why
@_on_journal
@json_option("Print one JSON object.", tables.DELIVERED)
def _forget_delivered(of: Journal, pipeline: str, destination: str, group: str, *, why: Why, json_: bool) -> None:
    """Forget through which number a GROUP of a PIPELINE is delivered, so that it can begin again with a lower one.

    For a group that was begun anew in the pipelines of both regions. If it wasn't, what is delivered may be delivered again.
    """
    done = of.pipelines.forget_delivered(pipeline, destination, group, **why())
    print_row(
        tables.DELIVERED, done, f"{group}: it was delivered through {done.through}; that is forgotten", json_=json_
    )


def _acts(function: Callable[[Callable[[Action], ActionResult]], ActionResult]) -> click.Command:
    """The command of an action on one session; the function gets what performs one."""

    @wraps(function)
    def run(of: Journal, session: str, *, queue: str | None, name: str | None, why: Why, json_: bool) -> None:
        found = _found(of, session, queue, name)
        done = function(lambda action: _act(of, found, action, why()))
        print_row(tables.ACTION, done, _line(done), json_=json_)

    options = together(_which_session, says_why, _on_journal, json_option("Print one JSON object.", tables.ACTION))
    return journal.command(function.__name__)(options(run))


@_acts
def retry(act: Callable[[Action], ActionResult]) -> ActionResult:
    """Try the failed message of a session again, at once, in whichever region has it."""
    return act(Action.RETRY)


@_acts
def release(act: Callable[[Action], ActionResult]) -> ActionResult:
    """End the claim of a session, so that any region may have it; what its holder completes is refused."""
    return act(Action.RELEASE)


@_acts
def suspend(act: Callable[[Action], ActionResult]) -> ActionResult:
    """Hand out no message of a session, in either region, until it is resumed."""
    return act(Action.SUSPEND)


@_acts
def resume(act: Callable[[Action], ActionResult]) -> ActionResult:
    """Hand out the messages of a suspended session again."""
    return act(Action.RESUME)


def _line(done: ActionResult) -> str:
    return f"{done.session}: {done.detail}; done through {done.done_through}, {done.state}"


@journal.command("skip")
@click.argument("session", required=False)
@option("--queue", "Its queue, if several have a session with this key; with --all: of this queue.")
@option("--name", "The name of its regions, likewise.")
@option("--through", "The last number that is skipped.", type=int, metavar="NUMBER")
@flag("--missing", "Skip all numbers that no region has, as far as they have told.")
@flag("--all", "all_", "Skip the missing numbers of all sessions that wait for such numbers.")
@flag("--dry-run", "With --all: change nothing; list the sessions with their missing numbers.")
@flag("--yes", "With --all: don't ask for confirmation.")
@says_why
@_on_journal
@json_option("Print one JSON object; with --all a list.", tables.ACTION, tables.SESSIONS)
def _skip(
    of: Journal, session: str | None, *, queue: str | None, name: str | None, through: int | None, missing: bool, all_: bool,
    dry_run: bool, yes: bool, why: Why, json_: bool,
) -> None:  # fmt: skip
    """Skip the next number of SESSION, or a range of numbers: they count as over in both regions, and are shown with the ids of
    their messages.

    A region that is only away may still have the messages: it completes its copies without handling them when it is back.
    """
    if all_ is (session is not None):
        raise UsageError("name either a session or --all", remedy="seriatim journal list --standing lists the sessions")
    if (missing or all_) and through is not None:
        raise UsageError("--through and --missing can't be combined", remedy="leave one of them out")
    if dry_run and not all_:
        raise UsageError("--dry-run needs --all", remedy="to look at one session: seriatim journal list --standing")
    if session is None:
        _skip_all(of, {"name": name, "queue": queue}, why, dry_run=dry_run, yes=yes, json_=json_)
        return
    done = _act(of, _found(of, session, queue, name), Action.SKIP, why(), through=through, missing=missing)
    print_row(tables.ACTION, done, _line(done), json_=json_)


def _skip_all(of: Journal, chosen: dict[str, Any], why: Why, *, dry_run: bool, yes: bool, json_: bool) -> None:
    found = [
        one
        for one in of.sessions(**chosen, stands=True, limit=_ALL)
        if one.hole_through is not None and one.state != "suspended" and one.commands
    ]
    if dry_run:
        print_rows(tables.SESSIONS, found, json_=json_, limit=_ALL)
        return
    if found:
        confirmed(f"skip the missing numbers of {counted(len(found), 'session')}?", yes=yes)
    who = why() if found else {}
    done = [_act(of, one, Action.SKIP, who, missing=True) for one in found]
    if json_:
        print_rows(tables.ACTION, done, json_=True, limit=_ALL)
        return
    tell(*map(_line, done))
    click.echo(f"skipped the missing numbers of {counted(len(done), 'session')}")


def _act(of: Journal, one: SessionView, action: Action, who: Mapping[str, str], **given: Any) -> ActionResult:
    return of.act(one.name, one.queue, one.session, action, actor=who["actor"], reason=who["reason"], **given)


@journal.command("resubmit")
@click.argument("file_", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("message_id", metavar="ID")
@option("--queue", "Its queue, if several have this dead letter.")
@option("--number", "The number that it gets (default: the next one of its session).", type=int)
@says_why
@json_option("Print one JSON object.", tables.RESUBMITTED)
def _resubmit(file_: Path, message_id: str, *, queue: str | None, number: int | None, why: Why, json_: bool) -> None:
    """Publish the content of a dead letter again, under another id and number, to the regions that FILE declares; delete the dead letter.

    Its own number is over in the journal. A sender that numbers the session itself has to go on behind the new number.
    """
    with Regions.from_file(file_) as regions:
        done = regions.resubmit(message_id, queue=queue, number=number, **why())
    text = f"{message_id}: published as {done.new_id}, number {done.number} of session {done.session}"
    print_row(tables.RESUBMITTED, done, text, json_=json_)
    if done.left is not None and not json_:
        tell(f"the dead letter may be left there: {done.left}; run this once more", err=True)


@journal.command("recover")
@click.argument("name", required=False)
@option(
    "--regions", "regions_file", "Ask the boxes of the regions that this file declares; it names the journal, too.",
    type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
)  # fmt: skip
@option(
    "--without", "without", "With --regions: don't ask this region's box. What only it knows to be over may be handed out once more.",
    type=click.Choice(["a", "b"]), multiple=True,
)  # fmt: skip
@option(
    "--known",
    'What is known to be over besides: lines of JSON, {"queue": …, "session": …, "through": …}.',
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@flag("--yes", "Don't ask for confirmation.")
@says_why
@_which_journal
@json_option("Print one JSON object.", tables.RECOVERY)
def _recover(
    name: str | None, *, regions_file: Path | None, without: tuple[str, ...], known: Path | None, yes: bool, why: Why,
    dsn: str | None, schema: str, json_: bool,
) -> None:  # fmt: skip
    """Begin a new incarnation after the journal was restored or has lost something: end all claims, take over what is known to be over.

    With --regions FILE both boxes are asked what they know; NAME isn't needed then. Stop the workers before, and start them afterwards.
    """
    told = {} if known is None else _known(known)
    question = "recover the journal? all claims end, also those of other regions that it serves"
    if regions_file is not None:
        with _of_file(regions_file, name) as regions:
            confirmed(question, yes=yes)
            with shown_share("recover", quiet=json_) as progress:
                done = regions.recover(without=without, known=told, progress=progress, **why())
    else:
        if without:
            raise UsageError("--without needs --regions", remedy="name the file that declares the regions")
        if name is None or known is None:
            raise UsageError(
                "nobody says what is over", remedy="--regions FILE asks both boxes; or give NAME and --known FILE"
            )
        with _opened(dsn, schema) as of:
            confirmed(question, yes=yes)
            done = of.recover(name, told, **why())
    print_row(tables.RECOVERY, done, json_=json_)
    for one in () if json_ else without:
        click.echo(
            f"region {one} wasn't asked: what only its box knows to be over may be handed out once more", err=True
        )


@contextmanager
def _of_file(file: Path, name: str | None) -> Iterator[Regions]:
    """The regions of a file, with patience for many sessions."""
    source = click.get_current_context().get_parameter_source
    for given in ("dsn", "schema"):
        if source(given) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(f"--{given} and --regions can't be combined", remedy="the file names the journal")
    arguments = dict(load(file).arguments)
    arguments["patience"] = max(arguments.get("patience", 0), _PATIENCE_S)
    with Regions(**arguments) as found:
        if name not in (None, found.name):
            raise UsageError(
                f"the file declares the regions {found.name!r}, not {name!r}",
                where=str(file),
                remedy="leave out the name",
            )
        yield found


@journal.command("purge")
@click.argument("name")
@option("--forget-after", "For how long a session was unused, and a number was over.", default="30d")
@option("--without", "Don't wait for the reports of a region that is gone.", metavar="REGION")
@says_why
@_on_journal
@json_option("Print one JSON object.", tables.FORGOTTEN)
def _purge(of: Journal, name: str, *, forget_after: str, without: str | None, why: Why, json_: bool) -> None:
    """Forget sessions of which nothing can come any more, and ids of numbers that have been over for long.

    With --without: what that region still has is set aside when it comes back, since the journal can't say whether it was handled.
    """
    who = {} if without is None else why()
    print_row(tables.FORGOTTEN, of.purge(name, forget_after, without=without, **who), json_=json_)


def _known(path: Path) -> dict[str, dict[str, int]]:
    """What a file says to be over; of several lines of one session the highest number."""
    found: dict[str, dict[str, int]] = {}
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        match _parsed(line):
            case {"queue": str(queue), "session": str(session), "through": int(through)}:
                of_queue = found.setdefault(queue, {})
                of_queue[session] = max(through, of_queue.get(session, through))
            case _:
                raise UsageError(
                    "the line isn't what a recovery needs",
                    where=f"{path}:{at}",
                    remedy='{"queue": "status", "session": "1Z999", "through": 7}',
                )
    return found


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
