"""One deliberate mistake for each rule. `test_mutations.py` makes each and sees that it is caught."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MUTATIONS", "Mutation"]


@dataclass(frozen=True, slots=True)
class Mutation:
    """In kernel file `file` the text `old`, which occurs once, becomes `new`; that breaks `rule`."""

    rule: str
    file: str
    old: str
    new: str


_STANDARD = (
    Mutation(
        "what is released leaves with its contiguous run only",
        "standard.py",
        "free = sequence == groups.next[group] + step * rank_in_group(group)",
        "free = sequence >= groups.next[group] + step * rank_in_group(group) * 0",
    ),
    Mutation(
        "below the start is invalid",
        "standard.py",
        "mark(below, Disposition.INVALID, Reason.BELOW_START)",
        "mark(below, Disposition.DUPLICATE, Reason.BELOW_START)",
    ),
    Mutation(
        "with start='first' lower ones are late",
        "standard.py",
        "mark(below, Disposition.LATE, Reason.BEFORE_FIRST)",
        "mark(below, Disposition.INVALID, Reason.BEFORE_FIRST)",
    ),
    Mutation(
        "the first in order of arrival fixes next",
        "standard.py",
        "rows = np.flatnonzero(fresh)[::-1]",
        "rows = np.flatnonzero(fresh)",
    ),
    Mutation(
        "off-step is invalid, measured from the first number",
        "standard.py",
        "mark(sequence % step != first % step,",
        "mark(sequence % step != 0 * first,",
    ),
    Mutation(
        "a number without a successor is invalid",
        "standard.py",
        "mark(sequence > _MAX - step, Disposition.INVALID,",
        "mark(sequence > _MAX - 1, Disposition.INVALID,",
    ),
    Mutation(
        "an off-step number is invalid even in a closed group",
        "standard.py",
        "    if step > 1:\n        mark(",
        "    if step > 1 and not groups.has(Flag.CLOSED).any():\n        mark(",
    ),
    Mutation(
        "of equal numbers the first arrival is kept",
        "standard.py",
        "again[rows[1:]] = (sequence[1:] == sequence[:-1]) & (group[1:] == group[:-1])",
        "again[rows[:-1]] = (sequence[1:] == sequence[:-1]) & (group[1:] == group[:-1])",
    ),
    Mutation(
        "a number that is held as late is a duplicate when it comes again",
        "standard.py",
        "return [np.flatnonzero(~held.late), np.flatnonzero(held.late)]",
        "return [np.flatnonzero(~held.late)]",
    ),
    Mutation(
        "a full group rejects a late number only if it doesn't hold it",
        "standard.py",
        "~_is_held(state, group, sequence, late=True),",
        "late,",
    ),
    Mutation(
        "a number that was delivered late is a duplicate when it comes again",
        "standard.py",
        "return State(state.groups, state.held, skipped)\n\n\ndef _cut(",
        "return state\n\n\ndef _cut(",
    ),
    Mutation(
        "and in the same call",
        "standard.py",
        "again = rows[~was_in]",
        "again = rows[:0]",
    ),
    Mutation(
        "and if it left when its group was resumed",
        "standard.py",
        "skipped, _ = state.skipped.without(late.group, late.sequence, policy.increment)",
        "skipped = state.skipped",
    ),
    Mutation(
        "the rest of a range stays skipped on both sides of a number that was delivered late",
        "state.py",
        "[(number + step, last)] * (number < last)",
        "[(number + step, last)] * (number < first)",
    ),
    Mutation(
        "the halves of a range are a step away from the number",
        "state.py",
        "pieces = [(first, number - step)] * (first < number)",
        "pieces = [(first, number)] * (first < number)",
    ),
    Mutation(
        "a range is cut in two only where there is room for both halves",
        "state.py",
        "if len(its) - 1 + len(pieces) <= self.KEPT:",
        "if len(its) - 1 + len(pieces) <= self.KEPT + 1:",
    ),
    Mutation(
        "a hole that is filled names the numbers that came",
        "holes.py",
        "came = np.minimum(was_last, after.groups.next - policy.increment)",
        "came = was_last",
    ),
    Mutation(
        "below next is late only within a skipped range",
        "standard.py",
        "np.where(skipped, Disposition.LATE, Disposition.DUPLICATE)",
        "np.where(skipped, Disposition.LATE, Disposition.LATE)",
    ),
    Mutation(
        "the last 64 skipped ranges are remembered",
        "state.py",
        "KEPT: ClassVar[int] = 64",
        "KEPT: ClassVar[int] = 63",
    ),
    Mutation(
        "64 ranges and no more",
        "state.py",
        "<= self.KEPT)",
        "<= self.KEPT + 1)",
    ),
    Mutation(
        "a late message of a suspended group is held, not delivered",
        "standard.py",
        'held = late & state.stopped()[arrivals.group] if policy.late == "deliver" else late',
        'held = late & False if policy.late == "deliver" else late',
    ),
    Mutation(
        "from the late message on that suspends its group nothing leaves",
        "standard.py",
        "free &= moment < cut[group]",
        "free &= moment <= cut[group] + 1",
    ),
    Mutation(
        "delivered late ones take their place among what leaves",
        "standard.py",
        "np.lexsort((leaving.sequence, leaving.cause, leaving.group))",
        "np.lexsort((leaving.cause, leaving.sequence, leaving.group))",
    ),
    Mutation(
        "a suspended group holds what arrives",
        "standard.py",
        "free &= ~stopped[group]",
        "free &= True",
    ),
    Mutation(
        "no clock runs while suspended",
        "standard.py",
        "since, reports = np.where(idle, NEVER, since), np.where(idle, 0, reports)",
        "since, reports = np.where(idle & False, NEVER, since), np.where(idle, 0, reports)",
    ),
    Mutation(
        "whenever next moves and is still missing the clock begins afresh",
        "standard.py",
        "fresh = has_hole & (moved | (groups.since == NEVER))",
        "fresh = has_hole & (groups.since == NEVER)",
    ),
    Mutation(
        "only when next moves the clock begins afresh",
        "standard.py",
        "since = np.where(fresh, at, np.where(has_hole, groups.since, NEVER))",
        "since = np.where(has_hole, at, NEVER)",
    ),
    Mutation(
        "a hole opens at the arrival after which something waits and next is missing",
        "standard.py",
        "opened = np.maximum(first_wait, last_move)",
        "opened = np.maximum(0 * first_wait, last_move)",
    ),
    Mutation(
        "a hole that is filled has no clock",
        "standard.py",
        "at, np.where(has_hole, groups.since, NEVER))",
        "at, groups.since)",
    ),
    Mutation(
        "a hole is reported at its time-out and after each further period",
        "holes.py",
        "return np.where(running, groups.since + (groups.reports + 1) * micros(policy.hole_timeout), FOREVER)",
        "return np.where(running, groups.since + (groups.reports + 2) * micros(policy.hole_timeout), FOREVER)",
    ),
    Mutation(
        "on_hole acts with the last of the reports",
        "holes.py",
        "timeout, total = micros(policy.hole_timeout or 0), policy.hole_retries + 1",
        "timeout, total = micros(policy.hole_timeout or 0), policy.hole_retries + 2",
    ),
    Mutation(
        "with the last report the group is timed out",
        "holes.py",
        "done = (reports > policy.hole_retries) & (reports > groups.reports)",
        "done = reports > groups.reports",
    ),
    Mutation(
        "what is skipped is recorded",
        "holes.py",
        "state.skipped.add(Ranges(owner[gone], before[gone], end[gone])),",
        "state.skipped.add(Ranges(owner[gone], end[gone], end[gone])),",
    ),
    Mutation(
        "the hole behind a skipped one begins at that due time",
        "holes.py",
        "since = np.where(moved, next_open, groups.since)",
        "since = np.where(moved & remain, until, np.where(moved, NEVER, groups.since))",
    ),
    Mutation(
        "but no earlier than the first message behind it has arrived",
        "holes.py",
        "begins = np.where(nth == 0, since, np.maximum(since, behind))",
        "begins = since",
    ),
    Mutation(
        "which may be a message further behind",
        "holes.py",
        "behind = -running_latest(owner[-1] - owner[::-1], -first[::-1])[::-1]",
        "behind = first",
    ),
    Mutation(
        "nor does one that opens as of a due time open before",
        "standard.py",
        "now_waits = np.maximum(now, held.take(waiting[~free]).first_arrival(len(state)))",
        "now_waits = now",
    ),
    Mutation(
        "a hole that opens late delays those behind it",
        "holes.py",
        "return running_latest(owner, begins - passed) + passed",
        "return np.maximum(begins, since + passed)",
    ),
    Mutation(
        "a hole that follows is reported from its own beginning",
        "holes.py",
        "already = np.where(nth == 0, groups.reports[owner], 0)",
        "already = groups.reports[owner]",
    ),
    Mutation(
        "next itself is never rejected",
        "standard.py",
        "(sequence != state.groups.next[group]) & ~_is_held",
        "(sequence != state.groups.next[group] - 99) & ~_is_held",
    ),
    Mutation(
        "a repeated number is a duplicate even when the group is full",
        "standard.py",
        "& ~_is_held(state, group, sequence),",
        "& True,",
    ),
    Mutation(
        "capacity is how many are held",
        "standard.py",
        "minlength=len(state)) >= policy.capacity",
        "minlength=len(state)) > policy.capacity",
    ),
    Mutation(
        "capacity counts in order of arrival",
        "standard.py",
        "return np.where(room > 0, rank_in_group(group) < room, untouched)",
        "return np.ones(len(arrivals), np.bool_)",
    ),
    Mutation(
        "a hole that was there and whose next has moved is filled",
        "holes.py",
        "filled = np.flatnonzero(was & ~same & (after.groups.next > was_first))",
        "filled = np.flatnonzero(was & ~is_)",
    ),
    Mutation(
        "a hole that stays is not opened again",
        "holes.py",
        "opened = np.flatnonzero(is_ & ~same)",
        "opened = np.flatnonzero(is_)",
    ),
)

_TIME = (
    Mutation(
        "what is due before a message's time fires before it",
        "resequence.py",
        "until[arrivals.group[first]] = arrivals.time[first] - 1",
        "until[arrivals.group[first]] = arrivals.time[first] - 10**9",
    ),
    Mutation(
        "at the same moment the message is first",
        "resequence.py",
        "until[arrivals.group[first]] = arrivals.time[first] - 1",
        "until[arrivals.group[first]] = arrivals.time[first]",
    ),
    Mutation(
        "a group's own time never goes back",
        "resequence.py",
        "time = np.maximum(arrivals.time, state.groups.clock[arrivals.group])",
        "time = arrivals.time",
    ),
    Mutation(
        "nor does it within a batch",
        "resequence.py",
        "time=running_latest(arrivals.group, time)",
        "time=time",
    ),
    Mutation(
        "no timer is passed over within a batch",
        "standard.py",
        "limit = np.minimum(due(policy, state), fresh + period)",
        "limit = due(policy, state)",
    ),
    Mutation(
        "an earlier now counts as the latest one",
        "sequencer.py",
        "self._now = max(self._now, micros(now))",
        "self._now = micros(now)",
    ),
)

_BEST_EFFORT = (
    Mutation(
        "strictly below the highest released in an earlier round is late",
        "best_effort.py",
        "late = closed | (sequence < groups.next[group])",
        "late = closed | (sequence <= groups.next[group])",
    ),
    Mutation(
        "equal to the fixed highest waits for the next round",
        "best_effort.py",
        "(taken.sequence >= groups.mark[taken.group])",
        "(taken.sequence > groups.mark[taken.group])",
    ),
    Mutation(
        "lower ones join until the release",
        "best_effort.py",
        "waits = groups.has(Flag.FIXED)[taken.group] & (taken.sequence >= groups.mark[taken.group]) & ~late[kept]",
        "waits = groups.has(Flag.FIXED)[taken.group] & ~late[kept]",
    ),
    Mutation(
        "the release is a buffer behind the window",
        "best_effort.py",
        "np.where(groups.has(Flag.FIXED), window + buffer, window)",
        "np.where(groups.has(Flag.FIXED), window, window)",
    ),
    Mutation(
        "a round begins with its first message",
        "best_effort.py",
        "begins = np.flatnonzero(~late)[::-1]",
        "begins = np.flatnonzero(~late)",
    ),
    Mutation(
        "the next round begins at the end of the one before if messages wait",
        "best_effort.py",
        "np.where(remain, begins, NEVER), groups.since)",
        "np.where(remain, groups.since, NEVER), groups.since)",
    ),
    Mutation(
        "and no earlier than its first message has arrived",
        "best_effort.py",
        "begins = np.maximum(moments, kept.first_arrival(len(state)))",
        "begins = moments",
    ),
    Mutation(
        "what waited belongs to the next round",
        "best_effort.py",
        "kept.with_columns(waits=kept.waits & ~ended[kept.group])",
        "kept",
    ),
    Mutation(
        "of a round without a window at most max_rows leave",
        "best_effort.py",
        "out &= rank_in_group(held.group) < policy.max_rows",
        "out &= rank_in_group(held.group) <= policy.max_rows",
    ),
    Mutation(
        "a late message suspends its group if that is asked for",
        "best_effort.py",
        "flags[group[late_held]] |= Flag.SUSPENDED",
        "flags[group[late_held]] |= 0",
    ),
    Mutation(
        "a round that is suspended begins anew at resume",
        "best_effort.py",
        "since = np.where(remain & ~state.stopped(), now, NEVER)",
        "since = np.where(remain & ~state.stopped(), now + 1_000_000, NEVER)",
    ),
)

_UNIT_OF_WORK = (
    Mutation(
        "nothing is released before the set is complete",
        "unit_of_work.py",
        "(count == state.groups.mark)",
        "(count >= state.groups.mark - 1)",
    ),
    Mutation(
        "after completion everything is a duplicate",
        "unit_of_work.py",
        "mark(groups.has(Flag.COMPLETE)[group], Disposition.DUPLICATE, Reason.SET_COMPLETE)",
        "pass",
    ),
    Mutation(
        "a later contradiction about the size is invalid",
        "unit_of_work.py",
        "mark((known > 0) & said & (size != known), Disposition.INVALID, Reason.SIZE_CONTRADICTED)",
        "pass",
    ),
    Mutation(
        "a number above the size is invalid",
        "unit_of_work.py",
        "mark((known > 0) & (sequence > known), Disposition.INVALID, Reason.ABOVE_SIZE)",
        "pass",
    ),
    Mutation(
        "a number above the size it states is invalid",
        "unit_of_work.py",
        "mark((known == 0) & said & (sequence > size), Disposition.INVALID, Reason.ABOVE_SIZE)",
        "pass",
    ),
    Mutation(
        "a number below one is invalid",
        "unit_of_work.py",
        "mark(sequence < 1, Disposition.INVALID, Reason.BELOW_ONE)",
        "pass",
    ),
    Mutation(
        "a number twice doesn't tell the size",
        "unit_of_work.py",
        "says[twice] = False",
        "pass",
    ),
    Mutation(
        "held ones above a size that is told later are invalid",
        "unit_of_work.py",
        "over = unknown[held.group] & (size[held.group] > 0) & (held.sequence > size[held.group])",
        "over = unknown[held.group] & (held.sequence > 10**9)",
    ),
    Mutation(
        "the time-out counts from the first arrival",
        "unit_of_work.py",
        "since = np.where(groups.since == NEVER, began, groups.since)",
        "since = np.where(began == NEVER, groups.since, began)",
    ),
    Mutation(
        "after the time-out the group is closed",
        "unit_of_work.py",
        "np.where(ripe, groups.flags | Flag.CLOSED, groups.flags)",
        "np.where(ripe, groups.flags, groups.flags)",
    ),
)

_GROUPS = (
    Mutation(
        "ordinals count late deliveries too",
        "standard.py",
        "next=following, last=last, ordinal=groups.ordinal + counts,",
        "next=following, last=last, ordinal=groups.ordinal + left,",
    ),
    Mutation(
        "held late ones leave in order of arrival",
        "late.py",
        "np.lexsort((leaving.ref, leaving.group))",
        "np.lexsort((leaving.sequence, leaving.group))",
    ),
    Mutation(
        "late ones that were held leave flagged",
        "late.py",
        "late=True,",
        "late=False,",
    ),
    Mutation(
        "the first late message is the one that is skipped",
        "actions.py",
        "first = late[np.argmin(state.held.ref[late])]",
        "first = late[np.argmax(state.held.ref[late])]",
    ),
    Mutation(
        "with the last late message skipped the group goes on by itself",
        "actions.py",
        "if len(late) > 1:",
        "if len(late) > 0:",
    ),
    Mutation(
        "a hole is skipped on the step only",
        "actions.py",
        "if not first <= end <= last or (end - first) % policy.increment:",
        "if not first <= end <= last:",
    ),
    Mutation(
        "a reset counts what it passes over as skipped",
        "actions.py",
        "skipped = skipped.add(Ranges(empty_ints(1), _one(next_), _one(following - step)))",
        "pass",
    ),
    Mutation(
        "a reset back takes numbers from there on out of the skipped ranges",
        "actions.py",
        "skipped = skipped.below(0, following)",
        "pass",
    ),
    Mutation(
        "a reset back lowers the first number",
        "actions.py",
        "first=_one(min(first, following))",
        "first=_one(first)",
    ),
    Mutation(
        "resume fits a suspended group only",
        "states.py",
        "Action.RESUME: frozenset({GroupState.SUSPENDED}),",
        "Action.RESUME: _ALL,",
    ),
    Mutation(
        "closed comes before all other states",
        "states.py",
        '    CLOSED = "closed"\n    SUSPENDED = "suspended"\n',
        '    SUSPENDED = "suspended"\n    CLOSED = "closed"\n',
    ),
    Mutation(
        "by arrival: a closed group takes nothing more in",
        "fifo.py",
        "goes = np.flatnonzero(~closed & ~stopped)",
        "goes = np.flatnonzero(~stopped)",
    ),
    Mutation(
        "a key has at most 1 KiB of UTF-8",
        "sequence.py",
        "if len(raw) > MAX_KEY_BYTES:",
        "if len(key) > MAX_KEY_BYTES:",
    ),
    Mutation(
        "true is not a number",
        "reading.py",
        "        case bool():\n            pass\n        case str():\n            number",
        "        case str():\n            number",
    ),
    Mutation(
        "over groups what set a message free decides the order",
        "sequencer.py",
        "return decided.take(np.lexsort((cause, at)))",
        "return decided",
    ),
)

_READING = (
    Mutation(
        "a text of digits is a number",
        "reading.py",
        "found = _WHOLE.fullmatch(text)",
        "found = None",
    ),
    Mutation(
        "a whole float is a number",
        "reading.py",
        "if not value.is_integer():",
        "if value.is_integer():",
    ),
    Mutation(
        "a float that isn't exact is no number",
        "reading.py",
        "if abs(value) <= LARGEST_EXACT[bits] else Reason.SEQUENCE_INEXACT",
        "if True else Reason.SEQUENCE_INEXACT",
    ),
    Mutation(
        "a whole decimal is a number, another is none",
        "reading.py",
        "    if value != value.to_integral_value():\n",
        "    if False:\n",
    ),
    Mutation(
        "a size that is no number is invalid",
        "sequencer.py",
        "return of_size(size) if isinstance(size, Reason) else max(size, 0)",
        "return NOT_SAID if isinstance(size, Reason) else max(size, 0)",
    ),
)

_EVENTS = (
    Mutation(
        "a group that a late message suspends is told with its number",
        "late.py",
        "Events.of(EventKind.SUSPENDED, first.group, first.sequence, first.sequence, at)",
        "Events.of(EventKind.SUSPENDED, first.group, None, None, at)",
    ),
    Mutation(
        "of late messages it is the first to come that suspends",
        "late.py",
        "late = late.take(np.lexsort((late.ref, late.group)))",
        "late = late.take(np.lexsort((-late.ref, late.group)))",
    ),
    Mutation(
        "a group that is suspended already isn't suspended again",
        "actions.py",
        "fresh = np.flatnonzero(~groups.has(Flag.SUSPENDED))",
        "fresh = empty_ints(1)",
    ),
    Mutation(
        "only the end of a suspension is a resumption",
        "actions.py",
        "if from_ is not Flag.SUSPENDED:",
        "if from_ is not Flag.FAULTED:",
    ),
    Mutation(
        "a reset forward tells the numbers that it skips",
        "actions.py",
        "for number in (next_, following - step))",
        "for number in (next_, following))",
    ),
)

MUTATIONS = _STANDARD + _TIME + _BEST_EFFORT + _UNIT_OF_WORK + _GROUPS + _READING + _EVENTS
