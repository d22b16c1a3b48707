"""The errors that seriatim raises, grouped by the person who has to act.

    SeriatimError
    ├── UsageError              the caller: a call, an option or a value is wrong
    │   ├── NotFound            ... what the call names doesn't exist: a queue, a group, a message
    │   ├── PolicyError         ... a policy's parameters
    │   ├── ColumnError         ... a frame's columns: missing, of the wrong type, or ours already
    │   ├── FilterError         ... a filter; names line and column of its text
    │   ├── ActionRefused       ... an operator's action isn't allowed in the state of the group
    │   │   └── GroupChanged    ... the group isn't any more as the operator has seen it
    │   ├── NumberRefused       ... a message of two regions didn't get its number
    │   ├── Unrouted            ... a message would reach no queue, and its publisher wants to be told
    │   └── DeclarationError    ... a pipeline file; names file and line
    ├── DeploymentError         the deployer: this machine, checkpoint or database doesn't fit
    │   ├── EnvironmentProblem  ... Java, Python of the workers, Spark, disk
    │   │   ├── MissingExtra    ... an extra of the package that isn't installed; an ImportError, too
    │   │   └── UntrustedData   ... data of the embedded PostgreSQL that this user hasn't made
    │   ├── BoxDisabled         ... a message box that isn't on the server that it remembers: moved, or a copy
    │   ├── LinkProtocolError   ... another box said something that isn't in the protocol of links
    │   ├── QueryFailed         ... a pipeline's query, at something that does not heal by itself
    │   ├── CheckpointMismatch  ... the checkpoint belongs to another pipeline or layout
    │   └── SchemaMismatch      ... the schema of a message box is older, newer, of another build, or no box
    │       └── BoxMigrated     ... a newer seriatim has migrated the box
    ├── Unavailable             nobody: a retry may succeed
    │   ├── QueueFull           ... a queue is full
    │   └── LeaseLost           ... the lease of a handler is lost: another worker gets its message
    ├── RequestFailed           an operator: a request was set aside, and nobody replies to it
    ├── Transient               nobody: a handler raises it, and gets the message again
    ├── Postpone                nobody: a handler raises it, and gets the message later, without an attempt
    ├── Business                an operator: a handler raises it; the queue's `errors` decides, by default the group stops
    ├── DeadLetter              an operator: a handler raises it, and its message is a dead letter
    └── InvariantBroken         the authors of seriatim: a bug

An error has the fault, its place and the remedy. It has a stable ``code``. It can be pickled,
because Spark sends errors from its workers to the driver.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeGuard

__all__ = [
    "ActionRefused",
    "BoxDisabled",
    "BoxMigrated",
    "Business",
    "CheckpointMismatch",
    "ColumnError",
    "DeadLetter",
    "DeclarationError",
    "DeploymentError",
    "EnvironmentProblem",
    "FilterError",
    "GroupChanged",
    "InvariantBroken",
    "LeaseLost",
    "LinkProtocolError",
    "MissingExtra",
    "NotFound",
    "NumberRefused",
    "PolicyError",
    "Postpone",
    "QueryFailed",
    "QueueFull",
    "RequestFailed",
    "SchemaMismatch",
    "SeriatimError",
    "Transient",
    "Unavailable",
    "Unrouted",
    "UntrustedData",
    "UsageError",
]

_LONGEST_SHOWN = 200
#: Which parameter an error is about, see `UsageError`.
Argument = str | tuple[str, ...]


def is_whole(value: object, least: float = float("-inf"), most: float = float("inf")) -> TypeGuard[int]:
    """Whether a value is a whole number within bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def shown(value: object, most: int = _LONGEST_SHOWN) -> str:
    """A value for an error's text: as Python writes it, cut to `most` characters.

    Python itself raises an error when it writes a whole number of more than 4,300 digits, or of its own limit.
    """
    try:
        text = repr(value)
    except ValueError:
        of = "" if isinstance(value, int) else f"a {type(value).__name__} with "
        text = f"{of}a whole number of more than {sys.get_int_max_str_digits():,} digits"
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deeply"
    return text if len(text) <= most else f"{text[:most]}…"


def meant(written: object, known: Collection[str]) -> str:
    """The hint "did you mean …?", if one of the known names is close to what is written, in capitals or not; else empty.

    Close is what differs in one letter, or in a quarter of them; a name that is farther away would mislead.
    """
    if not isinstance(written, str):
        return ""
    by_fold = {name.casefold(): name for name in known}
    close = get_close_matches(written.casefold(), by_fold, n=1, cutoff=2 / 3 if len(written) <= 3 else 3 / 4)
    return f"did you mean {by_fold[close[0]]!r}?" if close else ""


def entry_of(parameter: str, key: object) -> str:
    """The argument of an error that is about an entry of a mapping, see `UsageError`."""
    return f"{parameter}.{key}" if isinstance(key, str) else parameter


class SeriatimError(Exception):
    """The root of the tree.

    Args:
        what: the error, as one sentence without a full stop.
        where: file:line, column, queue or group; may be empty.
        remedy: what to do about it; may be empty.
    """

    code = "seriatim"

    def __init_subclass__(cls, *, code: str | None = None, **more: Any) -> None:
        """A class without a code of its own has that of its base."""
        super().__init_subclass__(**more)
        if code is not None:
            cls.code = code

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.remedy})" if self.remedy else ""
        return f"{place}{self.what}{advice}"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.what, where=self.where, remedy=self.remedy, **self._more()), ()

    def _more(self) -> dict[str, Any]:
        """What it was made with besides, by name."""
        return {}


class UsageError(SeriatimError, code="usage"):
    """The caller has to change something.

    Args:
        what: the error, as one sentence without a full stop.
        where: file:line, column, queue or group; may be empty.
        remedy: what to do about it; may be empty.
        argument: the name of the parameter that is at fault; of several that contradict each other all names, first the one to change.
            An entry of a mapping follows it behind a dot: ``"properties.amount"``. Empty: the error isn't about a parameter.

    Attributes:
        arguments: the same, as a tuple.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "", argument: Argument = ()) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.arguments = (argument,) if isinstance(argument, str) else argument

    def _more(self) -> dict[str, Any]:
        return {"argument": self.arguments}


class NotFound(UsageError, code="not-found"):
    """A queue, a group, a message or another thing that the call names doesn't exist."""


class PolicyError(UsageError, code="policy"):
    """A policy's parameters are wrong or contradict each other."""


class ColumnError(UsageError, code="column"):
    """A column is missing, has the wrong type, or has a name that seriatim adds itself."""


class FilterError(UsageError, code="filter"):
    """A filter's text is wrong; ``where`` ends with line:column within it."""


class ActionRefused(UsageError, code="action-refused"):
    """An operator's action isn't allowed in the state of the group."""


class GroupChanged(ActionRefused, code="group-changed"):
    """A group has changed since the operator looked; nothing was done."""


class NumberRefused(UsageError, code="number-refused"):
    """A message of two regions didn't get its number: another one has it, or a higher one; or it was void before it was confirmed.

    The message isn't handed out under this number.
    """


class Unrouted(UsageError, code="unrouted"):
    """A message would reach no queue, or be invalid there, and its publisher wants to be told; the call published nothing."""


class DeclarationError(UsageError, code="declaration"):
    """A pipeline file is wrong; ``where`` is file:line."""


class DeploymentError(SeriatimError, code="deployment"):
    """An administrator has to change something on the machine, in the checkpoint or in the database."""


class EnvironmentProblem(DeploymentError, code="environment"):
    """Java, the workers' Python, Spark, PostgreSQL or the disk is not as it has to be."""


class MissingExtra(EnvironmentProblem, ImportError, code="missing-extra"):
    """An extra of the package is needed and not installed; the remedy is the command that installs it."""


class UntrustedData(EnvironmentProblem, code="untrusted"):
    """The data of an embedded PostgreSQL were not created by this user; the remedy names the command to trust them."""


class BoxDisabled(DeploymentError, code="box-disabled"):
    """A message box isn't on the server that it remembers: it was moved, or is a copy. Nothing is published or received there
    until an administrator has said which; the remedy names both commands.
    """


class LinkProtocolError(DeploymentError, code="link-protocol"):
    """Bytes from another box aren't what the protocol of links says, are damaged, or have a version that this box doesn't know. Nothing
    of them was used.
    """


class QueryFailed(DeploymentError, code="query-failed"):
    """A pipeline's query failed permanently, or at every retry."""


class CheckpointMismatch(DeploymentError, code="checkpoint"):
    """A checkpoint was written by another pipeline, layout or kind of policy."""


class SchemaMismatch(DeploymentError, code="schema"):
    """The schema of a message box doesn't fit this seriatim: it is older, newer, of another build, or no box at all. The remedy
    names the command that helps.
    """


class BoxMigrated(SchemaMismatch, code="box-migrated"):
    """A newer seriatim has migrated the message box: this process has to be restarted with that version."""


class Unavailable(SeriatimError, code="unavailable"):
    """A message box was unreachable for a moment, or two transactions collided: repeat the transaction."""


class QueueFull(Unavailable, code="queue-full"):
    """A queue is full; the call published nothing. Publish again later."""


class LeaseLost(Unavailable, code="lease-lost"):
    """A lease ran out, was ended or taken away, or is another principal's: nothing was changed, and a handler's writes are rolled back."""


class RequestFailed(SeriatimError, code="request-failed"):
    """A request was set aside, as a dead letter or by its queue's rules: no reply comes, unless an operator puts it back.

    Args:
        what: the error; it has the reason why the request was set aside, such as the fault of its handler.
        where: the queue.
        remedy: what to do about it.
        request_id: the attribute ``id``: the id of the request, under which `MessageBox.reply` finds a reply that comes after all.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "", request_id: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.id = request_id

    def _more(self) -> dict[str, Any]:
        return {"request_id": self.id}


class Transient(SeriatimError, code="transient"):
    """A handler failed, and a retry may succeed: it gets the message again, after a delay.

    Args:
        what: what was wrong.
        where: file:line, host, or another place; may be empty.
        remedy: what to do about it; may be empty.
        retry_after: seconds, or ``"30s"``, until the next attempt; None: the queue's retry delay.
    """

    def __init__(
        self,
        what: str = "the handler asked for another attempt",
        *,
        where: str = "",
        remedy: str = "",
        retry_after: float | str | None = None,
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.retry_after = retry_after

    def _more(self) -> dict[str, Any]:
        return {"retry_after": self.retry_after}


class Postpone(SeriatimError, code="postpone"):
    """A handler says "not now": its message, or batch, is handed out again after a delay, and nothing is counted.

    What the handler wrote is rolled back; the messages of its turn before it stay done. The group waits with its message.

    Args:
        delay: seconds, ``"15s"``, or a `timedelta`, from 0 to 10,000 days.
        what: why.
        where: file:line, host, or another place; may be empty.
        remedy: what to do about it; may be empty.
    """

    def __init__(
        self,
        delay: float | str | timedelta,
        what: str = "the handler postponed its message",
        *,
        where: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.delay = delay

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.delay, self.what, where=self.where, remedy=self.remedy), ()


class DeadLetter(SeriatimError, code="dead-letter"):
    """A handler makes its message a dead letter, whatever the queue's `errors` say; the attempt counts, and its group goes on.

    What the handler wrote is rolled back. Of a batch of several messages it isn't known which one is meant: they are handed out
    again one by one, at once.

    Args:
        what: why.
        where: file:line, host, or another place; may be empty.
        remedy: what to do about it; may be empty.
    """

    def __init__(self, what: str = "the handler set the message aside", *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)


class Business(SeriatimError, code="business"):
    """A handler failed, and a retry won't help: an operator has to look at the message or its subject."""

    def __init__(self, what: str = "the handler refused the message", *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)


class InvariantBroken(SeriatimError, code="bug"):
    """A bug in seriatim: one of its own invariants doesn't hold."""
