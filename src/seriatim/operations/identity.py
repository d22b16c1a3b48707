"""The identity of a box: its id, the server on which it lives, what to do where it finds itself on another one, and its switch."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.operators import identity as operators
from seriatim.box.operators.identity import NewIdentity
from seriatim.box.operators.operator_log import Operator
from seriatim.box.views.box_identity import BoxIdentity, identity_of_box

__all__ = ["BoxIdentity", "NewIdentity", "disable", "enable", "forget", "identity", "new_id", "new_id_would"]


def identity(box: MessageBox) -> BoxIdentity | None:
    """The identity of a box. Every role that has a right in the box may ask.

    Returns:
        None only on a standby of a box that nobody has opened yet on its primary server, and after `forget`.
    """
    return box.access.within(identity_of_box)


def disable(box: MessageBox, *, actor: str, reason: str) -> bool:
    """Disable a box: until it is enabled it delivers nothing in its dialogs, and neither sends nor takes in anything over its links.

    Messages that are sent wait, with the reason; other boxes keep their messages for this box. Publishing, receiving and workers go on.
    Ends, errors, timers and lifetimes of dialogs within the box take effect. Only the owner of the box may call it.

    Args:
        box: the box.
        actor: the operator's name.
        reason: why; both are written to the operator log, and shown as long as the box is disabled.

    Returns:
        False if the box was disabled, or has no id yet; nothing is done then.

    Raises:
        UsageError: the actor or the reason is missing.
        EnvironmentProblem: the role isn't the owner of the box.
    """
    return box.access.within(operators.disable, Operator(actor, reason))


def enable(box: MessageBox, *, actor: str, reason: str) -> bool:
    """Enable a box that an operator has disabled: what waits is delivered. Or one that was moved, or whose server was upgraded: it keeps
    its id, and begins a new incarnation.

    Where the original still works elsewhere, two boxes have one id then. For a copy there is `new_id`. Only the owner of the
    box may call it.

    Args:
        box: the box.
        actor: the operator's name.
        reason: why; both are written to the operator log.

    Returns:
        False if the box wasn't disabled; nothing is done then.

    Raises:
        UsageError: the actor or the reason is missing.
        EnvironmentProblem: the role isn't the owner of the box.
    """
    done = box.access.within(operators.enable, Operator(actor, reason))
    _see(box)
    return done


def new_id(box: MessageBox, *, actor: str, reason: str) -> NewIdentity:
    """Give a copy of a box an id of its own, and enable it.

    Messages of dialogs that still wait to be delivered are deleted, because the original delivers them; the sides that had
    sent them fail with code -3. All other messages stay: the original has them, too. Only the owner of the box may call it.

    Args:
        box: the box.
        actor: the operator's name.
        reason: why; both are written to the operator log.

    Raises:
        UsageError: the actor or the reason is missing.
        EnvironmentProblem: the role isn't the owner of the box.
    """
    done = box.access.within(operators.new_id, Operator(actor, reason))
    _see(box)
    return done


def new_id_would(box: MessageBox) -> NewIdentity:
    """What `new_id` would delete; changes nothing. Only the owner of the box may call it.

    Raises:
        EnvironmentProblem: the role isn't the owner of the box.
    """
    return box.access.within(operators.new_id_would)


def forget(box: MessageBox) -> None:
    """Take its id from a box that becomes a template of databases: each copy takes an id of its own when it is first opened.

    The box itself takes another one when it is opened again. Only the owner of the box may call it.

    Raises:
        EnvironmentProblem: the role isn't the owner of the box.
    """
    with box.access.transaction() as transaction:
        transaction.do("forget_identity")


def _see(box: MessageBox) -> None:
    """Let `box.id` be what it is now."""
    with box.access.transaction() as transaction:
        box.access.identity.look(transaction.connection)
