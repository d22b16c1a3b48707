"""The definitions of links, and which queues lead over them. Nobody routes by links: they are read by themselves."""

from __future__ import annotations

import json
from collections.abc import Collection

from seriatim.box.definitions.change import Change, Kind, changed_fields
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.postgres.statements import Statements
from seriatim.errors import ActionRefused, NotFound, SchemaMismatch, UsageError
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.files.json_form import from_json, to_json
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.section import likely


def linked(statements: Statements) -> dict[str, Link | None]:
    """The links of a box by name; None for one that the other box has made, or that can't be read."""
    return {
        name: None if definition is None else _link_from(definition) for name, definition in statements.rows("links")
    }


def declared(statements: Statements) -> list[str]:
    return [name for name, definition in statements.rows("links") if definition is not None]


def put(statements: Statements, new: Link) -> Change | None:
    """Make a link, or change one, in the transaction; None if it is so already."""
    there = linked(statements)
    old = there.get(new.name)
    fields = () if old is None else changed_fields(old, new)
    if old is not None and not fields:
        return None
    own, peer = statements.one("link_ends", name=new.name)
    if new.box is not None and new.box == str(own):
        raise UsageError(f"link {new.name!r}: its other end is this box itself", remedy="give the id of the other box")
    if new.box is not None and peer is not None and new.box != str(peer):
        raise ActionRefused(
            f"link {new.name!r} leads to the box {peer}, and can't lead to {new.box}",
            remedy="its streams are that box's: drop it, or give another one another name",
        )
    statements.do(
        "define_link", name=new.name, definition=json.dumps(to_json(new)), box=new.box, queues=list(new.queues)
    )
    return Change("changed" if new.name in there else "added", Kind.LINK, new.name, fields)


def drop(statements: Statements, name: str, *, force: bool = False) -> int:
    """Forget a link; with `force` also with what waits and with open dialogs, which fail. Return how many messages are gone."""
    queues, waiting, dialogs = statements.one("link_use", name=name)
    if queues:
        raise ActionRefused(
            f"link {name!r} can't be dropped: queues lead over it: {', '.join(queues[:5])}",
            remedy="drop them first, or together with it",
        )
    if (waiting or dialogs) and not force:
        what = f"messages wait: {waiting:,}" if waiting else f"it has {counted(dialogs, 'open dialog')}"
        raise ActionRefused(
            f"link {name!r} can't be dropped: {what}",
            remedy="wait until messages are acknowledged, and end dialogs; or remove it with what waits, and with an Error "
            f"for each dialog: {command('link', 'remove', name)} --force",
        )
    statements.do("drop_link", of_name=name)
    return int(waiting)


def check_place(statements: Statements, old: BoxQueue | None, new: Queue) -> None:
    """Refuse to move a queue to another box while messages wait in it."""
    if old is None or old.declared.at == new.at:
        return
    if statements.value("link_queue_in_use", queue_id=old.queue_id):
        raise ActionRefused(
            f"queue {new.name!r}: at can't change: messages wait in it, or are on their way",
            remedy="define another queue, and let the subscriptions lead there",
        )


def check_remote(statements: Statements, after: Definitions, given: Collection[str]) -> None:
    """Refuse queues that lead over a missing link, and uses that a queue of another box can't have."""
    remote = {name: at.link for name, one in after.queues.items() if (at := one.declared.at) is not None}
    if not remote:
        return
    there = linked(statements)
    for name, link in remote.items():
        if name in given and link not in there:
            raise NotFound(
                f"there is no link {link!r}",
                where=f"queue {name!r}",
                remedy=likely(link, there) or "define it: sq.Link(…)",
            )
        if after.queues[name].serves:
            raise UsageError(
                f"queue {name!r} is in another box, and a service has its queue here",
                remedy="give the service another queue",
            )
        if name in after.ways or name in after.gates:
            raise UsageError(
                f"queue {name!r} is in another box, and can't be a gate or lie on the way to one",
                remedy="take it out of gate and through: what leaves to another box leaves its gate",
            )
    for name, subscription in after.subscriptions.items():
        if subscription.declared.to in remote and (
            subscription.declared.starts is not None or subscription.declared.correlate
        ):
            raise UsageError(
                f"subscription {name!r} starts or finds instances, and its queue is in another box",
                remedy="let it lead there without starts and correlate",
            )


def check_far(statements: Statements, given: Collection[Service]) -> None:
    """Refuse services of other boxes that lead over a missing link."""
    there = linked(statements) if any(one.at for one in given) else {}
    for one in given:
        for link in one.at:
            if link not in there:
                remedy = likely(link, there) or "define it: sq.Link(…)"
                raise NotFound(f"there is no link {link!r}", where=f"service {one.name!r}", remedy=remedy)


def _link_from(definition: str) -> Link | None:
    try:
        return from_json(Link, json.loads(definition))
    except (SchemaMismatch, ValueError, RecursionError):
        return None
