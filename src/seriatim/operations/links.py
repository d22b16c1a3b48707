"""Links to other boxes: pair two boxes, and see what is on the road between them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.links import transmission as rounds
from seriatim.box.links.certificates import public_key_in
from seriatim.box.links.transmission import LinkExchange, Roads
from seriatim.box.operators import links as operators
from seriatim.box.operators.operator_log import Operator
from seriatim.box.views.links import LinkView, StreamFilter, StreamView
from seriatim.errors import EnvironmentProblem, NotFound, UsageError, shown
from seriatim.operations.listing import listed
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.text.section import likely

__all__ = ["LinkExchange", "LinkView", "StreamView", "accept", "add", "remove", "status", "transmission", "transmit"]


def add(box: MessageBox, link: Link) -> LinkView:
    """Define a link, and ask the other box for its id. Only the owner of the box may call it.

    Args:
        box: the box.
        link: the link.

    Returns:
        the link as it stands then.

    Raises:
        UsageError, ActionRefused: as from `MessageBox.define`.
        EnvironmentProblem: the other box can't be reached, or refuses. The link is defined nevertheless, and it is tried again.
    """
    box.define(link)
    with box.access.transaction() as transaction:
        transaction.do("link_believe", of_name=link.name)
    done = transmit(box, link.name)
    if done[0].error is not None:
        raise EnvironmentProblem(
            f"link {link.name!r} is defined, and its first contact failed: {done[0].error}",
            remedy="it is tried again by seriatim serve; seriatim link status shows it",
        )
    return status(box, link.name)[0]


def accept(
    box: MessageBox,
    name: str,
    *,
    role: str | None = None,
    certificate: str | os.PathLike[str] | None = None,
    other: str,
    queues: Sequence[str] = (),
    services: Sequence[str] = (),
    trace: bool = False,
    replace: bool = False,
    actor: str,
    reason: str,
) -> LinkView:
    """Let a role of PostgreSQL, or the holder of the private key of a certificate, speak as another box. They may do nothing else here.

    A role may call two functions of the schema, three with `trace`. A key is for ``seriatim serve --listen``; a certificate that is renewed
    with the same key needs nothing.

    Args:
        box: the box.
        name: the name of the link here.
        role: the role by which the other box logs in; None: it calls over HTTPS.
        certificate: the path of the certificate by which the other box calls, PEM; None: it logs in by a role. Only its public key is kept.
        other: the id of the other box.
        queues: the queues into which it may send; the former ones are replaced.
        services: the services of the other box, as which it may speak in dialogs; the former ones are replaced. A service that this box has
            defined with `at` may speak from there anyway.
        trace: whether it may ask what became of its messages here: their places, times, and what handlers failed at, but no bodies. As the
            queues, what was said before is replaced.
        replace: whether the box may have another role or key from now on.
        actor: the operator's name.
        reason: why; both are written to the operator log.

    Raises:
        UsageError: a name or an id is invalid, there is no such role or queue, the file has no certificate in it, or both or neither of
            `role` and `certificate` are given.
        ActionRefused: the box has another role, key or link, or the role or key speaks as another box.
        EnvironmentProblem: the caller isn't the owner of the box.
    """
    by = Operator(actor, reason)
    if (role is None) == (certificate is None):
        raise UsageError("a box speaks by a role or by a certificate", remedy="give one of both")
    principal = operators.Principal(role, None if certificate is None else public_key_in(certificate))
    with box.access.transaction() as transaction:
        may = operators.Admission(queues, services, trace)
        operators.accept(transaction, by, name, principal, other, may, replace=replace)
    return status(box, name)[0]


def remove(box: MessageBox, name: str, *, force: bool = False, actor: str, reason: str) -> int:
    """Forget a link with its streams. Which numbers are over is forgotten, too: the pair is made anew.

    Args:
        box: the box.
        name: the name of the link.
        force: also if messages are on their way, which are gone, or dialogs are open: each fails here, and there with its next message.
        actor: the operator's name.
        reason: why; both are written to the operator log.

    Returns:
        how many messages that were on their way are gone.

    Raises:
        UsageError: there is no such link.
        ActionRefused: queues or services lead over it; or messages wait or dialogs are open, and it isn't forced.
        EnvironmentProblem: the caller isn't the owner of the box.
    """
    return box.access.within(operators.remove, Operator(actor, reason), name, force=force)


def status(box: MessageBox, name: str | None = None) -> list[LinkView]:
    """The links of a box, or the one of a name. Only the owner of the box may call it.

    Raises:
        UsageError: there is no such link.
        EnvironmentProblem: the caller isn't the owner of the box.
    """
    return box.access.within(_links, name)


@listed(StreamFilter)
def transmission(transaction: Transaction, chosen: StreamFilter) -> list[StreamView]:
    """List the streams over links, those that wait first, each with its reason.

    Only the owner of the box may do that.

    Raises:
        EnvironmentProblem: the caller isn't the owner of the box.
    """
    if chosen.name is not None:
        _links(transaction, chosen.name)
    return transaction.rows("stream_views", StreamView, **chosen.parameters())


def _links(transaction: Transaction, name: str | None) -> list[LinkView]:
    found = transaction.rows("link_views", LinkView)
    if name is None:
        return found
    mine = [one for one in found if one.link == name]
    if not mine:
        known = [one.link for one in found]
        raise NotFound(f"there is no link {shown(name)}", remedy=likely(name, known) or "seriatim link status")
    return mine


def transmit(box: MessageBox, link: str | None = None, *, at_once: bool = False) -> list[LinkExchange]:
    """Make one round over each link whose address this box has: send, fetch, and carry the acknowledgements of both boxes.

    `Transmitter` does it again and again. What goes wrong at another box is told in its round, and tried again later.

    Args:
        box: the box.
        link: the name of one link; None: all.
        at_once: also send what is to be tried again later.

    Raises:
        UsageError: there is no such link, or the other box has its address.
        EnvironmentProblem: the caller isn't the owner of the box.
        BoxDisabled: the box isn't on the server that it remembers.
        Unavailable: the database is away.
    """
    roads = Roads()
    try:
        return rounds.transmit(box.access, roads, only=link, at_once=at_once)
    finally:
        roads.close()
