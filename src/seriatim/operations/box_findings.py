"""What `seriatim doctor` checks on a message box: one function for each finding, listed in `CHECKS`."""

from __future__ import annotations

from collections.abc import Callable

from seriatim.box.box import MessageBox
from seriatim.box.definitions.route import broken_in
from seriatim.operations import invariants
from seriatim.operations.faults import kept_faults
from seriatim.operations.finding import Finding, State
from seriatim.pipeline.text.secret import secret_in

__all__ = ["CHECKS"]

#: A transaction that is open for longer holds back vacuum for too long.
_LONG_TURN_S = 5.0
#: Workers look for leases that have run out every second, and do their chores every minute.
_LONG_OVER_S = 120.0


def _definitions(box: MessageBox) -> Finding:
    """Check that all definitions can be used and contain no secret."""
    definitions = box.definitions()
    broken = [str(one) for one in broken_in(definitions)]
    if broken:
        remedy = "it takes no part until it is defined again, or dropped: seriatim box apply FILE, with --prune what the file lacks, or box.drop(…)"
        return Finding("definitions", State.WRONG, "; ".join(broken), remedy)
    told = [
        f"queue {name!r}: {what}"
        for name, queue in sorted(definitions.queues.items())
        if (activation := queue.declared.activation) is not None
        and activation.port is not None
        and (what := secret_in(activation.port)) is not None
    ]
    if told:
        remedy = "define the activation again with ${NAME}, and change the secret: it lies in the box"
        return Finding("definitions", State.WARNING, "; ".join(told), remedy)
    return Finding("definitions", State.OK, "all of them can be used")


def _id_spaces(box: MessageBox) -> Finding:
    """Check for roles that still publish in the owner's id space, as before id spaces existed."""
    roles = invariants.roles_of_the_owners_space(box)
    if not roles:
        return Finding(
            "id spaces", State.OK, "the message ids of each role are compared in the id space that it was given"
        )
    found = f"message ids of these roles are compared with all others of the owner's, as before the upgrade: {', '.join(roles)}"
    remedy = "give each one of its own: seriatim box grant ROLE --id-space ROLE; or keep it: --id-space ''"
    return Finding("id spaces", State.WARNING, found, remedy)


def _laws(box: MessageBox) -> Finding:
    """Check the laws of the box."""
    problems = invariants.broken(box)
    if not problems:
        return Finding(
            "laws", State.OK, "every message of every group, released or not, and every body is accounted for"
        )
    return Finding("laws", State.WRONG, "; ".join(problems), "a bug of seriatim, or somebody wrote into its tables")


def _tickets(box: MessageBox) -> Finding:
    """Check that every commit numbers its messages: triggers and tickets."""
    silent = invariants.silent_triggers(box)
    if silent:
        what = f"don't fire, or not in the session of a replica: {', '.join(silent)}"
        return Finding("tickets", State.WRONG, what, "ALTER TABLE … ENABLE ALWAYS TRIGGER …, then seriatim box tick")
    lost = invariants.never_numbered(box)
    if not lost:
        return Finding("tickets", State.OK, "every message got its ticket with the commit that published it")
    found = f"published by transactions that have ended, and never numbered: {'; '.join(lost)}"
    remedy = "seriatim box tick gives them the next numbers; somebody had switched off the triggers of the box"
    return Finding("tickets", State.WRONG, found, remedy)


def _turns(box: MessageBox) -> Finding:
    long = invariants.long_transactions(box, _LONG_TURN_S)
    if not long:
        return Finding("turns", State.OK, f"no transaction is older than {_LONG_TURN_S:g} s")
    remedy = "it holds back vacuum, and the groups that it has: do what takes long outside of the transaction"
    return Finding("turns", State.WARNING, "; ".join(long), remedy)


def _faults(box: MessageBox) -> Finding:
    """Count the recorded faults of handlers; for information, since old faults are normal."""
    kept = kept_faults(box)
    since = "" if kept.since is None else f", the oldest of {kept.since.astimezone().isoformat(' ', 'seconds')}"
    found = f"{kept.faults:,} written down{since}; the clean-up keeps those of {kept.kept_for.days:,} days"
    return Finding("faults", State.OK, found)


def _leases(box: MessageBox) -> Finding:
    over = invariants.leases_run_out(box, _LONG_OVER_S)
    if not over:
        return Finding("leases", State.OK, "none has run out that nobody has taken away")
    remedy = "start workers of these queues, or seriatim box tick: it counts the attempts"
    return Finding("leases", State.WARNING, "; ".join(over), remedy)


#: The checks by the names of their findings, in the order of the report.
CHECKS: dict[str, Callable[[MessageBox], Finding]] = {
    "definitions": _definitions,
    "id spaces": _id_spaces,
    "laws": _laws,
    "tickets": _tickets,
    "turns": _turns,
    "faults": _faults,
    "leases": _leases,
}
