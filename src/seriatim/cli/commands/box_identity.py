"""``seriatim box disable``, ``enable`` and ``new-id``: a box that delivers nothing, and one that was moved or copied."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.box.operators.identity import NewIdentity
from seriatim.box.views.box_identity import BoxIdentity
from seriatim.cli.options.option import flag
from seriatim.cli.options.which import acts_on_box
from seriatim.cli.options.why import Why, confirmed
from seriatim.cli.shown.table import Column, Table, json_only, print_object, tell
from seriatim.operations import identity
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local

IDENTITY: Table[BoxIdentity] = Table(
    "The identity of a box",
    *json_only("since"),
    Column(
        "enabled",
        None,
        kind="bool",
        meaning="whether the box is on the server that it remembers, and nobody has disabled it",
    ),
    *json_only(system_identifier_here="the same of the server on which the box is now"),
    *json_only(database_oid_here="likewise", timeline_here="likewise", folder_here="likewise"),
    row=BoxIdentity,
)
ENABLED: Table[dict[str, object]] = Table(
    "A box that was enabled or disabled",
    Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
    Column("was_disabled", None, kind="bool", meaning="whether it was disabled before"),
    Column("identity", None, rows=IDENTITY, kind="BoxIdentity", meaning="the box as it is now"),
)
NEW_ID: Table[NewIdentity] = Table(
    "A new id of a box", Column("dry_run", None, kind="bool", meaning="true: nothing was done"), row=NewIdentity
)
_DRY_RUN = "Change nothing; show what would be done."


@click.command("disable")
@flag("--dry-run", _DRY_RUN)
@flag("--yes", "Don't ask for confirmation.")
@acts_on_box(ENABLED)
def disable(box: MessageBox, *, dry_run: bool, yes: bool, why: Why, json_: bool) -> None:
    """Disable a box: until seriatim box enable nothing is delivered in its dialogs, and nothing goes over its links.

    Messages that are sent wait, with the reason; other boxes keep their messages for this box. Publishing, receiving and workers go on.
    """
    found = identity.identity(box)
    was_disabled = found is not None and not found.enabled
    if not was_disabled and not dry_run:
        confirmed(f"disable {_named(found)}? what its dialogs and links carry will wait", yes=yes)
        identity.disable(box, **why())
        found = identity.identity(box)
    _tell_enabled(found, "disable", dry_run=dry_run, was_disabled=was_disabled, json_=json_)


@click.command("enable")
@flag("--dry-run", _DRY_RUN)
@flag("--yes", "Don't ask for confirmation.")
@acts_on_box(ENABLED)
def enable(box: MessageBox, *, dry_run: bool, yes: bool, why: Why, json_: bool) -> None:
    """Enable a box that was disabled, or moved to another server, or whose server was upgraded by pg_upgrade.

    After seriatim box disable it delivers what waits. A box that was moved keeps its id, and begins a new incarnation. The box
    that it was moved from must not be used any more: two boxes with one id are a mistake. If this box is a copy of one that
    goes on working, use seriatim box new-id.
    """
    found = identity.identity(box)
    was_disabled = found is not None and not found.enabled
    if was_disabled and not dry_run:
        if found is not None and found.disabled_by is None:
            confirmed(f"enable {_named(found)}? its original must not be used any more", yes=yes)
        identity.enable(box, **why())
        found = identity.identity(box)
    _tell_enabled(found, "enable", dry_run=dry_run, was_disabled=was_disabled, json_=json_)


def _tell_enabled(found: BoxIdentity | None, verb: str, *, dry_run: bool, was_disabled: bool, json_: bool) -> None:
    if json_:
        print_object(ENABLED, {"dry_run": dry_run, "was_disabled": was_disabled, "identity": found})
        return
    if was_disabled == (verb == "disable"):
        click.echo(f"the box is {verb}d: there is nothing to do")
    elif dry_run:
        click.echo(f"would {verb} {_named(found)}")
    tell(*identity_lines(found))


@click.command("new-id")
@flag("--dry-run", _DRY_RUN)
@flag("--yes", "Don't ask for confirmation.")
@acts_on_box(NEW_ID)
def new_id(box: MessageBox, *, dry_run: bool, yes: bool, why: Why, json_: bool) -> None:
    """Give a copy of a box an id of its own, and enable it.

    Deletes messages of dialogs that still wait to be delivered, because the original delivers them; the sides that had sent
    them fail. All other messages stay, and the original has them, too: purge or drop what this copy must not handle.
    For the original itself, moved, use seriatim box enable.
    """
    done = identity.new_id_would(box)
    if not dry_run:
        which = "this box" if done.former_id is None else f"box {done.former_id}"
        confirmed(f"give {which} a new id, and delete {_deleted(done)}?", yes=yes)
        done = identity.new_id(box, **why())
    if json_:
        print_object(NEW_ID, done, dry_run=dry_run)
    elif dry_run:
        click.echo(f"would give the box a new id, and delete {_deleted(done)}")
    else:
        click.echo(f"the box is {done.id} now; deleted {_deleted(done)}")


def identity_lines(found: BoxIdentity | None) -> list[str]:
    """Who a box is, and where it lives, in lines for people."""
    if found is None:
        return ["it has no id yet: a standby of a box that nobody has opened"]
    since = local(found.since)
    lines = [f"box {found.id}, incarnation {found.incarnation:,} since {since}", f"lives on: {found.home}"]
    if found.unknown:
        lines.append(f"not known, so that a copy can't be told by it: {' and '.join(found.unknown)}")
    if not found.enabled:
        lines.append(f"disabled: {found.why_disabled}")
        if found.disabled_by is None:
            lines.append("moved here, or the server upgraded: seriatim box enable; a copy: seriatim box new-id")
    return lines


def _named(found: BoxIdentity | None) -> str:
    return "the box" if found is None else f"box {found.id}"


def _deleted(done: NewIdentity) -> str:
    return f"{counted(done.messages, 'message')} of {counted(done.dialogs, 'dialog')}, which the original delivers"
