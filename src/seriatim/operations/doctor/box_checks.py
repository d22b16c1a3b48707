"""The checks of `seriatim doctor` on a message box: one function for each finding, in `CHECKS`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from seriatim.box.box import MessageBox
from seriatim.box.definitions.route import broken_in
from seriatim.box.publishing.schedules import schedules_ahead
from seriatim.box.views.clocks import TimesAhead, ahead_s, apart
from seriatim.box.views.invariants import broken_within
from seriatim.box.views.needs import RoleSetting
from seriatim.operations import identity, invariants, links, schedules
from seriatim.operations.doctor.finding import Checks, Finding, ok, warning, wrong
from seriatim.operations.faults import kept_faults
from seriatim.pipeline.declared.work_limits import TURN_LIMIT_S
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local
from seriatim.pipeline.text.secret import secret_in

#: The seconds that the check of a law may take; a larger box is checked only on request.
AUDIT_S = 2.0
#: Workers look for leases that have run out every second, and do their chores every minute.
_LONG_OVER_S = 120.0
#: A message is usually acknowledged by the other box within seconds.
_LONG_ON_THE_WAY_S = 60.0


#: The checks, in the order of the report.
CHECKS: Checks[MessageBox] = Checks()


@CHECKS.named("identity")
def _identity(box: MessageBox) -> Finding:
    """Check that the box is on the server that it remembers."""
    found = identity.identity(box)
    if found is None:
        return ok("no id yet: it takes one when it is first opened on a server that can be written")
    if found.disabled_by is not None:
        what = f"the box {found.id} is disabled, and delivers nothing in dialogs and over links: {found.why_disabled}"
        return warning(what, "seriatim box enable, once that is over")
    if not found.enabled:
        what = f"the box {found.id} is disabled, and nothing is published or received: {found.why_disabled}"
        remedy = (
            "if this is the box itself, moved, or its server was upgraded: seriatim box enable, which keeps its id; if it"
            " is a copy and the original goes on: seriatim box new-id, which gives it an id of its own and deletes what"
            " waits to be delivered in its dialogs"
        )
        return wrong(what, remedy)
    unknown = f"; not known: {' and '.join(found.unknown)}" if found.unknown else ""
    return ok(f"{found.id}, incarnation {found.incarnation:,}: {found.home}{unknown}")


@CHECKS.named("definitions", "all can be used")
def _definitions(box: MessageBox) -> Finding | None:
    definitions = box.definitions()
    broken = [str(one) for one in broken_in(definitions)]
    if broken:
        remedy = (
            "the definition is ignored until you define it again or drop it: seriatim box apply FILE, "
            "with --prune what the file lacks, or box.drop"
        )
        return wrong("; ".join(broken), remedy)
    told = [
        f"queue {name!r}: {what}"
        for name, queue in sorted(definitions.queues.items())
        if (activation := queue.declared.activation) is not None
        and activation.port is not None
        and (what := secret_in(activation.port)) is not None
    ]
    if told:
        remedy = "define the activation again with ${NAME}, and change the secret: it lies in the box"
        return warning("; ".join(told), remedy)
    return None


@CHECKS.named("laws")
def _laws(box: MessageBox) -> Finding:
    problems = box.access.within(broken_within, AUDIT_S)
    if problems is None:
        found = f"not checked: a statement takes longer than {AUDIT_S:g} s, because the box is large"
        return ok(found, "seriatim doctor --audit checks them, however long that takes")
    return _judged(problems)


def audit(box: MessageBox) -> Finding:
    """Check the laws of the box, however long it takes."""
    return replace(_judged(invariants.broken(box)), name="laws")


def _judged(problems: list[str]) -> Finding:
    if not problems:
        return ok("all messages and all bodies are accounted for")
    return wrong("; ".join(problems), "a bug of seriatim, or somebody wrote into its tables")


@CHECKS.named("tickets", "every message got its ticket with the commit that published it")
def _tickets(box: MessageBox) -> Finding | None:
    silent = invariants.silent_triggers(box)
    if silent:
        what = f"these triggers are switched off, or off in replication sessions: {', '.join(silent)}"
        return wrong(what, f"{_switched_on(silent)}; then seriatim box tick")
    if not (lost := invariants.never_numbered(box)):
        return None
    found = f"messages without a ticket, though their transactions have ended: {'; '.join(lost)}"
    remedy = "seriatim box tick gives them the next numbers; the triggers of the box had been switched off"
    return wrong(found, remedy)


def _switched_on(silent: Sequence[str]) -> str:
    """The statements that switch triggers on, each given as "NAME of TABLE"."""
    parted = (one.partition(" of ") for one in silent)
    return "; ".join(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}" for name, _, table in parted)


@CHECKS.named("faults")
def _faults(box: MessageBox) -> Finding:
    kept = kept_faults(box)
    since = "" if kept.since is None else f", the oldest of {local(kept.since)}"
    found = f"{kept.faults:,} kept{since}; the clean-up keeps faults for {counted(kept.kept_for.days, 'day')}"
    return ok(found)


@CHECKS.named("clock", "this machine's clock goes with the database's")
def _clock(box: MessageBox) -> Finding | None:
    with box.access.transaction() as transaction:
        found = apart(ahead_s(transaction))
    if found is None:
        return None
    remedy = "set the clock that is wrong by a time server: timedatectl set-ntp true"
    return warning(f"{found}; the box goes by the database's", remedy)


@CHECKS.named("time limits")
def _time_limits(box: MessageBox) -> Finding:
    found = box.access.within(lambda transaction: transaction.rows("role_settings", RoleSetting))
    short = [one for one in found if 0 < one.seconds < TURN_LIMIT_S]
    if not short:
        return ok(f"no role has one below the turn limit of {TURN_LIMIT_S:g} s")
    told = [f"role {one.role}: {one.name} = {one.value}" for one in short]
    first = short[0]
    remedy = (
        "handlers that take longer fail by statement_timeout and lock_timeout, and on an application's own connections by all of "
        f"them: ALTER ROLE {first.role} RESET {first.name}"
    )
    what = f"these are below the turn limit of {TURN_LIMIT_S:g} s: {'; '.join(told)}"
    return warning(what, remedy)


@CHECKS.named("times", "nothing counts from a time that is still to come")
def _times(box: MessageBox) -> Finding | None:
    """Find what waits for a time that was reckoned while the database's clock was ahead."""
    with box.access.transaction() as transaction:
        found, schedules_found = transaction.rows("times_ahead", TimesAhead), schedules_ahead(transaction)
    told = [
        f"{f'queue {one.queue!r}: ' if one.queue else ''}{counted(one.count, one.kind)}, until {local(one.until)}"
        for one in found
    ] + [f"schedule {name!r}" for name in schedules_found]
    if not told:
        return None
    what = f"these wait by a clock that was ahead: {'; '.join(told)}"
    return wrong(what, "see that the clock is right now; then seriatim box tick --now")


@CHECKS.named("leases", "no expired lease is left")
def _leases(box: MessageBox) -> Finding | None:
    if not (over := invariants.leases_run_out(box, _LONG_OVER_S)):
        return None
    remedy = "start workers for these queues, or run seriatim box tick, which counts the attempts"
    return wrong("; ".join(over), remedy)


@CHECKS.named("schedules")
def _schedules(box: MessageBox) -> Finding:
    found = schedules.schedules(box)
    failed = [
        f"{one.schedule!r} has published nothing since {one.failed_at}: {one.error}" for one in found if one.error
    ]
    if failed:
        return wrong("; ".join(failed), "mend what it names; it is tried again every minute")
    overdue = [repr(one.schedule) for one in found if one.state == "overdue"]
    if overdue:
        what = f"these were due minutes ago, and nobody publishes for them: {', '.join(overdue)}"
        return wrong(what, "start seriatim serve, as the owner of the box")
    paused = sum(one.paused_at is not None for one in found)
    return ok(f"{len(found):,}, of which paused: {paused:,}")


@CHECKS.named("links")
def _links(box: MessageBox) -> Finding:
    found = links.status(box)
    failed = [f"{one.link!r} is {one.state}: {one.last_error}" for one in found if one.state == "down"]
    failed += [f"{one.link!r} is unpaired" for one in found if one.state == "unpaired"]
    if failed:
        what = "look at seriatim link status; the other box has to accept this one"
        return wrong("; ".join(failed), what)
    if older := [
        f"{one.link!r} ({one.box}, at {one.older_at:%Y-%m-%d %H:%M:%S})" for one in found if one.older_at is not None
    ]:
        what = (
            f"two boxes live under one id, or one was restored to an older state, which is refused: {', '.join(older)}"
        )
        told = "end the wrong one; to accept the link once more believes the one that speaks next"
        return wrong(what, told)
    now = datetime.now(UTC)
    left = [
        repr(one.link)
        for one in found
        if one.oldest is not None
        and one.has_address
        and _is_long_ago(one.oldest, now)
        and _is_long_ago(one.last_sent, now)
    ]
    if left:
        what = f"messages wait, and nobody transmits: {', '.join(left)}"
        return wrong(what, "start seriatim serve, as the owner of the box")
    refused = [
        f"{one.link!r}: {one.refused}"
        for one in found
        if one.refused is not None and not _is_long_ago(one.refused_at, now)
    ]
    slow = [
        f"{one.link!r} has {counted(one.unacknowledged + one.waiting, 'message')} that wait"
        + (f": {one.last_error}" if one.last_error else "")
        for one in found
        if one.ending or (one.oldest is not None and _is_long_ago(one.oldest, now))
    ]
    accepting = (
        "accept what the other box may use, with all that it might before: seriatim link accept NAME; define what it names; or have"
        " that changed there"
    )
    warned = [f"{one.link!r}: {what}" for one in found for what in one.warnings]
    for texts, remedy in (
        (refused, accepting),
        (slow, "seriatim transmission --waiting tells why"),
        (warned, "let the queue here group by what that one groups by, under another name"),
    ):
        if texts:
            return warning("; ".join(texts), remedy)
    gone_back = sum(one.restored for one in found)
    told = f", of which {counted(gone_back, 'stream')} couldn't be made whole after a restore" if gone_back else ""
    return ok(f"{len(found):,}{told}")


def _is_long_ago(moment: datetime | None, now: datetime) -> bool:
    return moment is None or (now - moment).total_seconds() > _LONG_ON_THE_WAY_S
