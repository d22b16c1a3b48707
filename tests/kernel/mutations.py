"""One deliberate mistake for each rule. `test_mutations.py` makes each and sees that it is caught."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import seriatim

__all__ = ["MUTATIONS", "Mutation"]

_KERNEL = Path(seriatim.__file__).parent / "kernel"


@dataclass(frozen=True, slots=True)
class Mutation:
    """In kernel file `file` the text `old`, which occurs once, becomes `new`; that breaks `rule`."""

    rule: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """The file, in whichever room of the kernel it is."""
        (found,) = _KERNEL.rglob(self.file)
        return found

    def source(self) -> str:
        """The file's text as it is."""
        return self.path.read_text(encoding="utf-8")

    def made(self) -> tuple[str, str]:
        """The name of the module, and its text with the mistake."""
        module = ".".join(self.path.relative_to(_KERNEL.parents[1]).with_suffix("").parts)
        return module, self.source().replace(self.old, self.new)


_STANDARD = (
    Mutation(
        "what is released leaves with its contiguous run only",
        "standard.py",
        "free = sequence == groups.next[group] + step * sum_before(group, at.span)",
        "free = sequence >= groups.next[group] + step * sum_before(group, at.span) * 0",
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
        "mark(below, Disposition.LATE, Reason.BEFORE_OPENING",
        "mark(below, Disposition.INVALID, Reason.BEFORE_OPENING",
    ),
    Mutation(
        "the first in order of arrival fixes next",
        "standard.py",
        "first = put_first(groups.first.copy(), fresh, arrivals.group, arrivals.sequence)",
        "first = groups.first.copy()\n        first[arrivals.group[fresh]] = arrivals.sequence[fresh]",
    ),
    Mutation(
        "off-step is invalid, measured from the first number",
        "standard.py",
        "off = (sequence % step != first % step) |",
        "off = (sequence % step != 0 * first) |",
    ),
    Mutation(
        "a number without a successor is invalid",
        "standard.py",
        "mark(arrivals.overflow(step), Disposition.INVALID,",
        "mark(arrivals.overflow(1), Disposition.INVALID,",
    ),
    Mutation(
        "a message of more numbers than 64 bits can count is invalid",
        "arrivals.py",
        "_MAX - step + np.minimum(self.sequence, 0)",
        "_MAX - step",
    ),
    Mutation(
        "an off-step number is invalid even in a closed group",
        "standard.py",
        "    if step > 1:\n        off =",
        "    if step > 1 and not groups.has(Flag.CLOSED).any():\n        off =",
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
        "return [np.flatnonzero(~held.late & ~held.waits), np.flatnonzero(held.late & ~held.suspected)]",
        "return [np.flatnonzero(~held.late & ~held.waits)]",
    ),
    Mutation(
        "a full group rejects a late number only if it doesn't hold it",
        "standard.py",
        "~restarts.is_held(state, group, sequence, ends, late=True),",
        "late,",
    ),
    Mutation(
        "a number that was delivered late is a duplicate when it comes again",
        "standard.py",
        "return state.having(state.groups, state.held, skipped)\n\n\ndef _late_voids(",
        "return state\n\n\ndef _late_voids(",
    ),
    Mutation("and in the same call", "standard.py", "again = rows[~was_in]", "again = rows[:0]"),
    Mutation(
        "and if it left when its group was resumed",
        "standard.py",
        "skipped, _ = state.skipped.without(late.group, late.sequence, late.ends, policy.increment, state.groups.next)",
        "skipped = state.skipped",
    ),
    Mutation(
        "the rest of a range stays skipped on both sides of a number that was delivered late",
        "state.py",
        "[(end + step, high)] * (end < high)",
        "[(end + step, high)] * (end < low)",
    ),
    Mutation(
        "the halves of a range are a step away from the number",
        "state.py",
        "pieces = [(low, begin - step)] * (low < begin)",
        "pieces = [(low, begin)] * (low < begin)",
    ),
    Mutation(
        "a range is cut in two only where there is room for both halves",
        "state.py",
        "if behind - 1 + len(pieces) <= self.KEPT:",
        "if len(its) - 1 + len(pieces) <= self.KEPT + 1:",
    ),
    Mutation(
        "a hole that is filled names the numbers that came",
        "holes.py",
        "moved = np.minimum(was_last, after.groups.next - policy.increment)",
        "moved = was_last",
    ),
    Mutation(
        "below next is late only within a skipped range",
        "standard.py",
        "np.where(skipped, Disposition.LATE, Disposition.DUPLICATE)",
        "np.where(skipped, Disposition.LATE, Disposition.LATE)",
    ),
    Mutation(
        "the last 64 skipped ranges are remembered", "state.py", "KEPT: ClassVar[int] = 64", "KEPT: ClassVar[int] = 63"
    ),
    Mutation(
        "64 ranges and no more",
        "state.py",
        "ends[group] - np.arange(len(behind)) <= table.KEPT",
        "ends[group] - np.arange(len(behind)) <= table.KEPT + 1",
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
    Mutation("a suspended group holds what arrives", "standard.py", "free &= ~stopped[group]", "free &= True"),
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
        "opened = np.maximum(first_wait,",
        "opened = np.maximum(0 * first_wait,",
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
        "state.skipped.add(Ranges(owner[is_gone], before[is_gone], end[is_gone]), next_),",
        "state.skipped.add(Ranges(owner[is_gone], end[is_gone], end[is_gone]), next_),",
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
        "now_waits = np.maximum(now, held.take(at.row[waits]).first_arrival(len(state)))",
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
        "(~_has_next(state, arrivals)[rows] & ~restarts.is_held",
        "(True & ~restarts.is_held",
    ),
    Mutation(
        "a repeated number is a duplicate even when the group is full",
        "standard.py",
        "& ~restarts.is_held(state, group, sequence, ends)),",
        "& True),",
    ),
    Mutation(
        "capacity is how many are held",
        "standard.py",
        "full = state.held.counts(len(state)) >= policy.capacity",
        "full = state.held.counts(len(state)) > policy.capacity",
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
        "filled = np.flatnonzero(was & ~same & ~told & (after.groups.next > was_first))",
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
        "arrivals.group[first], arrivals.time[first] - 1)",
        "arrivals.group[first], arrivals.time[first] - 10**9)",
    ),
    Mutation(
        "at the same moment the message is first",
        "resequence.py",
        "arrivals.group[first], arrivals.time[first] - 1)",
        "arrivals.group[first], arrivals.time[first])",
    ),
    Mutation(
        "a group's own time never goes back",
        "resequence.py",
        "time = np.maximum(arrivals.time, state.groups.clock[arrivals.group])",
        "time = arrivals.time",
    ),
    Mutation("nor does it within a batch", "resequence.py", "time=running_latest(arrivals.group, time)", "time=time"),
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
        "(batch.sequence >= groups.mark[batch.group])",
        "(batch.sequence > groups.mark[batch.group])",
    ),
    Mutation(
        "lower ones join until the release",
        "best_effort.py",
        "waits = groups.has(Flag.FIXED)[batch.group] & (batch.sequence >= groups.mark[batch.group]) & ~late[kept]",
        "waits = groups.has(Flag.FIXED)[batch.group] & ~late[kept]",
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
        "began = put_first(np.full(len(state), NEVER, np.int64), ~late & message, group, arrivals.time)",
        "began = np.full(len(state), NEVER, np.int64)\n    began[group[~late & message]] = arrivals.time[~late & message]",
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
        "mark(complete[group], Disposition.DUPLICATE, Reason.SET_COMPLETE)",
        "pass",
    ),
    Mutation(
        "the size of a set is the place of its last message",
        "unit_of_work.py",
        "NOT_SAID, _places(policy, arrivals.sequence))",
        "NOT_SAID, arrivals.sequence)",
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
        "mark((known > 0) & (place > known), Disposition.INVALID, Reason.ABOVE_SIZE)",
        "pass",
    ),
    Mutation(
        "a number above the size it states is invalid",
        "unit_of_work.py",
        "mark((known == 0) & said & (place > size), Disposition.INVALID, Reason.ABOVE_SIZE)",
        "pass",
    ),
    Mutation(
        "a number below one is invalid",
        "unit_of_work.py",
        "mark(sequence < policy.start, Disposition.INVALID, Reason.BELOW_ONE if policy.start else Reason.BELOW_START)",
        "pass",
    ),
    Mutation("a number twice doesn't tell the size", "unit_of_work.py", "says[twice] = False", "pass"),
    Mutation(
        "held ones above a size that is told later are invalid",
        "unit_of_work.py",
        "over = unknown[held.group] & (size[held.group] > 0) & (before > size[held.group])",
        "over = unknown[held.group] & (before > 10**9)",
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
        "groups.ordinals(leaving.group, weight)",
        "groups.ordinals(leaving.group, weight * ~leaving.late)",
    ),
    Mutation(
        "held late ones leave in order of arrival",
        "late.py",
        "leaving = held.take(free).by_arrival()",
        "leaving = held.take(free)",
    ),
    Mutation("late ones that were held leave flagged", "late.py", "late=True,", "late=False,"),
    Mutation(
        "the first late message is the one that is skipped",
        "actions.py",
        "ref = int(state.held.ref[late].min())",
        "ref = int(state.held.ref[late].max())",
    ),
    Mutation(
        "with the last late message skipped the group goes on by itself",
        "actions.py",
        "if _stopping_late(policy, rest.held).any() or rest.held.late.any():",
        "if len(late):",
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
        "behind = behind.add(Ranges(empty_ints(1), _one(next_), _one(following - step)), _one(following))",
        "pass",
    ),
    Mutation(
        "a reset back takes numbers from there on out of the skipped ranges",
        "actions.py",
        "behind = behind.below(0, following)",
        "pass",
    ),
    Mutation(
        "a reset back lowers the first number", "actions.py", "first=_one(min(first, following))", "first=_one(first)"
    ),
    Mutation(
        "resume fits a suspended group only",
        "verbs.py",
        "    Action.RESUME: Verb(\n        frozenset({GroupState.SUSPENDED}),\n",
        "    Action.RESUME: Verb(\n        _ALL,\n",
    ),
    Mutation(
        "closed comes before all other states",
        "states.py",
        "    Shown(GroupState.CLOSED, (Fact.CLOSED,), unless=(Fact.COMPLETE, Fact.FAULTED)),\n"
        "    Shown(GroupState.SUSPENDED, (Fact.SUSPENDED,)),\n",
        "    Shown(GroupState.SUSPENDED, (Fact.SUSPENDED,)),\n"
        "    Shown(GroupState.CLOSED, (Fact.CLOSED,), unless=(Fact.COMPLETE, Fact.FAULTED)),\n",
    ),
    Mutation(
        "by arrival: a closed group takes nothing more in",
        "fifo.py",
        "goes = np.flatnonzero(~(aside | stopped))",
        "goes = np.flatnonzero(~stopped & (arrivals.weight > 0))",
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

_WEIGHTS = (
    Mutation(
        "an ordinal counts on by the weight",
        "state.py",
        "after = self.ordinal + sum_per_group(group, weight, len(self))",
        "after = self.ordinal + np.bincount(group, minlength=len(self))",
    ),
    Mutation(
        "within what leaves together, too",
        "state.py",
        "sum_before(group, weight) + 1",
        "sum_before(group, np.ones_like(weight)) + 1",
    ),
    Mutation(
        "by arrival, too",
        "fifo.py",
        "state.groups.ordinals(rows.group, rows.weight)",
        "state.groups.ordinals(rows.group, np.ones_like(rows.weight))",
    ),
    Mutation(
        "a void leaves nothing",
        "standard.py",
        "leaves = free & (message if held.through is None else at.messages)",
        "leaves = free & (at.row >= 0)",
    ),
    Mutation(
        "a void is one from the moment it is taken in",
        "standard.py",
        "disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING",
        "pass",
    ),
    Mutation(
        "nothing waits behind a hole that only voids lie behind",
        "standard.py",
        "waits = ~free & message",
        "waits = ~free",
    ),
    Mutation("nor is one skipped", "holes.py", "messages = at.weight > 0", "messages = at.weight >= 0"),
    Mutation(
        "a void takes up no room",
        "standard.py",
        "full = state.held.counts(len(state)) >= policy.capacity",
        "full = np.bincount(state.held.group, minlength=len(state)) >= policy.capacity",
    ),
    Mutation(
        "a full group takes a void in",
        "standard.py",
        "(disposition == Disposition.HELD) & (arrivals.weight > 0))\n    if not len(rows)",
        "(disposition == Disposition.HELD))\n    if not len(rows)",
    ),
    Mutation(
        "and a repeated number behind it is a duplicate",
        "standard.py",
        "wanted = moves | (arrivals.weight == 0)",
        "wanted = moves",
    ),
    Mutation(
        "a late void is late, whatever becomes of late messages",
        "standard.py",
        "~state.groups.has(OVER)[arrivals.group] & (arrivals.weight > 0)",
        "~state.groups.has(OVER)[arrivals.group]",
    ),
    Mutation(
        "a void is not collected in a round",
        "best_effort.py",
        "kept = np.flatnonzero((~late & message) | late_held)",
        "kept = np.flatnonzero(~late | late_held)",
    ),
    Mutation(
        "a set leaves without its voids",
        "unit_of_work.py",
        "leaving = held.take(out).messages()",
        "leaving = held.take(out)",
    ),
    Mutation(
        "a void above the size of its set is one all the same",
        "unit_of_work.py",
        "disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING\n    mark(",
        "mark(",
    ),
)

_TAKING_OUT = (
    Mutation(
        "a held number that is taken out stays taken",
        "actions.py",
        "skipped = _with_markers(policy, skipped, gone.take(~gone.late & ~gone.waits), groups.next)",
        "pass",
    ),
    Mutation(
        "a run of markers counts as so many numbers",
        "standard.py",
        "following[group[free]] = sequence[free] + step * at.span[free]",
        "following[group[free]] = sequence[free] + step",
    ),
    Mutation(
        "the number of a marker is a duplicate while it waits",
        "standard.py",
        "mark(marked, Disposition.DUPLICATE, Reason.TAKEN_BEFORE)",
        "mark(marked, Disposition.LATE, Reason.SKIPPED)",
    ),
    Mutation(
        "and late when it has passed, also within one call",
        "standard.py",
        "may &= _before_markers(state, arrivals)",
        "pass",
    ),
    Mutation(
        "a marker ends a hole",
        "holes.py",
        "at.group[rows], at.sequence[rows] - policy.increment)",
        "state.held.group[::-1], state.held.sequence[::-1] - policy.increment)",
    ),
    Mutation(
        "where all that waited was taken out no clock runs",
        "actions.py",
        "flags, since, reports = flags & ~int(Flag.FIXED), _one(NEVER), empty_ints(1)",
        "since = since if isinstance(policy, Standard) else _one(NEVER)",
    ),
    Mutation(
        "a set is complete with what was taken out of it",
        "unit_of_work.py",
        "count = np.bincount(state.held.group, minlength=len(state)) + _markers(state)",
        "count = np.bincount(state.held.group, minlength=len(state))",
    ),
    Mutation(
        "the number of a set that was taken out is a duplicate",
        "unit_of_work.py",
        "mark(state.skipped.contain(group, sequence), Disposition.DUPLICATE, Reason.TAKEN_BEFORE)",
        "pass",
    ),
    Mutation(
        "a reset forgets the markers that it passes over",
        "actions.py",
        "ahead = ahead.take(ahead.last >= following)",
        "pass",
    ),
    Mutation(
        "an operator's suspension isn't lifted by skipping a late message",
        "actions.py",
        "late = bool(_stopping_late(policy, state.held).any()) and not by_operator",
        "late = bool(_stopping_late(policy, state.held).any())",
    ),
    Mutation(
        "without a name only a message that stopped the group is skipped",
        "verbs.py",
        "if action is Action.SKIP_MESSAGE and not named and not self.by_message:",
        "if False:",
    ),
)

_READING = (
    Mutation("a text of digits is a number", "reading.py", "match = _WHOLE.fullmatch(text)", "match = None"),
    Mutation("a whole float is a number", "reading.py", "if not value.is_integer():", "if value.is_integer():"),
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
        "late = late.by_arrival()",
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
        "if not from_ & Flag.SUSPENDED:",
        "if from_ & Flag.SUSPENDED:",
    ),
    Mutation(
        "a reset forward tells the numbers that it skips",
        "actions.py",
        "for number in (next_, following - step))",
        "for number in (next_, following))",
    ),
)

_RESTARTS = (
    Mutation(
        "numbers that passed without a message for another cause are another event",
        "holes.py",
        "| (cause[1:] != cause[:-1])",
        "| (cause[1:] < cause[:-1])",
    ),
    Mutation(
        "numbers that passed without a message, side by side, are one event",
        "holes.py",
        "begins[1:] |= (first[1:] != last[:-1] + step)",
        "begins[1:] |= (first[1:] != last[:-1])",
    ),
    Mutation(
        "voids behind a hole that is skipped are told",
        "holes.py",
        "voids = passed_voids(at, passing, run, when[run], step)",
        "voids = no_events()",
    ),
    Mutation(
        "voids that pass by an action are told",
        "standard.py",
        "return state, left, voids",
        "return state, left, voids.take(voids.kind < 0)",
    ),
    Mutation(
        "what is below the start counts as a restart",
        "restarts.py",
        "Reason.BEFORE_OPENING, Reason.BELOW_START, Reason.TAKEN_BEFORE)",
        "Reason.BEFORE_OPENING, Reason.TAKEN_BEFORE)",
    ),
    Mutation(
        "what is before the opening counts as a restart",
        "restarts.py",
        "Reason.BEFORE_OPENING, Reason.BELOW_START, Reason.TAKEN_BEFORE)",
        "Reason.BELOW_START, Reason.TAKEN_BEFORE)",
    ),
    Mutation(
        "what was held aside comes behind the opening message, for a conflict",
        "conflicts.py",
        "came = _places(arrivals.ref, its.ref)",
        "came = its.ref",
    ),
    Mutation(
        "a repetition that follows one that counted counts for a restart",
        "restarts.py",
        "follows = number in (groups.first[group], suspect[group] + step)",
        "follows = number == groups.first[group]",
    ),
    Mutation(
        "a repetition that follows none that counted doesn't count for a restart",
        "restarts.py",
        "follows = number in (groups.first[group], suspect[group] + step)",
        "follows = number >= groups.first[group]",
    ),
    Mutation(
        "a message that leaves in its turn ends the suspicion of a restart, within a call",
        "restarts.py",
        "suspects[group], seen[group] = 0, released",
        "seen[group] = released",
    ),
    Mutation("and at its end", "restarts.py", "if total[group] > before:", "if total[group] < before:"),
    Mutation("and where nothing else has come", "state.py", "suspects[left] = 0", "suspects[left] = suspects[left]"),
    Mutation(
        "and of groups that only repeat nothing in the call",
        "restarts.py",
        "suspects[untouched] = 0",
        "suspects[untouched] += 0",
    ),
    Mutation(
        "a suspected restart is told once",
        "restarts.py",
        "if suspects[group] == policy.restart_after:",
        "if suspects[group] >= policy.restart_after:",
    ),
    Mutation(
        "a number is below next when it has passed in the same call, for a restart",
        "restarts.py",
        "(passage.moment[is_there] < rows)",
        "(passage.moment[is_there] < -1)",
    ),
    Mutation(
        "a repetition that doesn't count suspends no group for a restart",
        "restarts.py",
        "back[rows] = np.where(again, counts, True)",
        "back[rows] = True",
    ),
    Mutation(
        "where a restart may be suspected with it, an arrival is judged first",
        "restarts.py",
        "np.maximum(policy.restart_after - 1 - groups.suspects, begins)",
        "np.maximum(policy.restart_after - groups.suspects, begins)",
    ),
    Mutation(
        "a group that isn't suspended holds nothing for a restart but what completes the count",
        "restarts.py",
        "suspects_restart(policy, groups) & groups.has(Flag.SUSPENDED)",
        "suspects_restart(policy, groups)",
    ),
    Mutation(
        "a full group that rejects what would be held for a restart isn't suspended",
        "standard.py",
        "late_held[rows[new]] = back[rows[new]] = False",
        "late_held[rows[new]] = False",
    ),
    Mutation(
        "what is held for a restart repeats nothing",
        "standard.py",
        "np.flatnonzero(held.late & ~held.suspected)",
        "np.flatnonzero(held.late)",
    ),
    Mutation(
        "resumed, what was held for a restart is a duplicate",
        "actions.py",
        "Disposition.DUPLICATE, Reason.TAKEN_FOR_REPEATED, now",
        "Disposition.LATE, Reason.TAKEN_FOR_REPEATED, now",
    ),
    Mutation(
        "and the count of the restart is 0",
        "actions.py",
        "free = free.with_groups(suspects=empty_ints(1), suspect=_one(NOTHING))",
        "free = free.with_groups(suspect=_one(NOTHING))",
    ),
    Mutation(
        "ordinals go on after a restart",
        "incarnation.py",
        "fresh.with_groups(ordinal=before.ordinal, clock",
        "fresh.with_groups(clock",
    ),
    Mutation(
        "what a restart brings back is judged in order of arrival",
        "actions.py",
        'back = state.held.take(np.argsort(state.held.ref, kind="stable"))\n    time',
        "back = state.held\n    time",
    ),
    Mutation(
        "a void that a restart brings back isn't counted again",
        "actions.py",
        "~np.isin(outcome.decided.ref, back.ref[back.weight == 0])",
        "outcome.decided.ref >= 0",
    ),
    Mutation(
        "an operator's suspension keeps what is held for a restart apart, or aside",
        "actions.py",
        "waits=held.waits & (not isinstance(policy, BestEffort))",
        "waits=np.zeros(len(held), np.bool_)",
    ),
    Mutation(
        "no message has stopped a group that waits because of a restart",
        "actions.py",
        "return (held.late & ~held.suspected) |",
        "return held.late |",
    ),
)

_CONFLICTS = (
    Mutation(
        "another content conflicts",
        "conflicts.py",
        "np.where(own[known] == other[known], Likeness.EQUAL, Likeness.DIFFERENT)",
        "np.where(own[known] == other[known], Likeness.EQUAL, Likeness.EQUAL)",
    ),
    Mutation(
        "the same content doesn't conflict",
        "conflicts.py",
        "np.where(own[known] == other[known], Likeness.EQUAL, Likeness.DIFFERENT)",
        "np.where(own[known] == other[known], Likeness.DIFFERENT, Likeness.DIFFERENT)",
    ),
    Mutation(
        "what isn't known conflicts with nothing",
        "conflicts.py",
        "known = (own != 0) & (other != 0)",
        "known = own != 0",
    ),
    Mutation(
        "only the last that left are compared",
        "conflicts.py",
        "is_known[is_known] = self._rank[entry[is_known]] >= count[which[is_known]] - self._remember",
        "pass",
    ),
    Mutation(
        "what leaves in the same call, but later, makes nobody forget",
        "conflicts.py",
        "group * self._width + before + 1)",
        "group * self._width + self._width - 1)",
    ),
    Mutation(
        "what has left in the same call is compared as long as it is remembered",
        "conflicts.py",
        "(self._left.cause[at] < before)",
        "(self._left.cause[at] < -1)",
    ),
    Mutation(
        "conflicts of a group and a call are one event",
        "resequence.py",
        "    events = events.merged(EventKind.CONFLICT)\n    return Outcome",
        "    return Outcome",
    ),
    Mutation(
        "what leaves by an action is remembered",
        "standard.py",
        "state, released, passage = release(policy, state, before, Arrivals.empty(), now=now)",
        "state, released, passage = release(policy, state, before, Arrivals.empty(), now=now)\n    state = state.remembering(Remembered.empty(), 0)",
    ),
    Mutation(
        "what leaves with a timer is remembered",
        "holes.py",
        "Remembered.of(leaving), policy.remember",
        "Remembered.empty(), policy.remember",
    ),
    Mutation(
        "a repetition of known equal content counts for nothing",
        "restarts.py",
        "if not below or (repeats and likeness == Likeness.EQUAL):",
        "if not below:",
    ),
    Mutation(
        "a conflict counts, wherever it is",
        "restarts.py",
        "if repeats and likeness == Likeness.UNKNOWN and not follows:",
        "if repeats and likeness != Likeness.EQUAL and not follows:",
    ),
    Mutation(
        "a conflict suspends, wherever it is",
        "restarts.py",
        "counts = (like == Likeness.DIFFERENT) | ((like == Likeness.UNKNOWN) & follows)",
        "counts = (like != Likeness.EQUAL) & follows",
    ),
    Mutation(
        "a repetition of the same suspends nobody",
        "restarts.py",
        "counts = (like == Likeness.DIFFERENT) | ((like == Likeness.UNKNOWN) & follows)",
        "counts = (like == Likeness.DIFFERENT) | follows",
    ),
    Mutation(
        "what may be held for a restart is judged first, also if it repeats what is held",
        "restarts.py",
        "odd |= is_held(state, group, arrivals.sequence, arrivals.ends)",
        "odd |= False",
    ),
    Mutation(
        "a value that can't be written as JSON isn't compared",
        "fingerprint.py",
        "except (TypeError, ValueError, RecursionError):\n        return 0",
        "except (TypeError, ValueError, RecursionError):\n        return 1",
    ),
)

_CLOSING = (
    Mutation(
        "a closing group is closed when it holds nothing",
        "closing.py",
        "& (held.counts(len(state)) == 0)",
        "& (held.counts(len(state)) >= 0)",
    ),
    Mutation(
        "a closing group that is suspended isn't closed before it goes on",
        "closing.py",
        "ended = closing & ~state.groups.has(Flag.SUSPENDED | Flag.FAULTED)",
        "ended = closing & ~state.groups.has(Flag.FAULTED)",
    ),
    Mutation(
        "a set that closes its group isn't closed twice",
        "closing.py",
        "closed = ended & ~state.groups.has(Flag.CLOSED)",
        "closed = ended",
    ),
    Mutation(
        "a closed group isn't closing any more",
        "closing.py",
        "flags = np.where(ended | (closing & state.groups.has(Flag.CLOSED)), flags & ~int(Flag.CLOSING), flags)",
        "flags = np.where(ended & closed, flags & ~int(Flag.CLOSING), flags)",
    ),
    Mutation("a closing group takes in missing numbers", "closing.py", "return over & ~missing", "return over"),
    Mutation(
        "a closing group takes in nothing above the highest held one",
        "closing.py",
        "(sequence < highest[group])",
        "(sequence >= first)",
    ),
    Mutation(
        "a closing group takes in nothing below the lowest that it misses",
        "closing.py",
        "closing[group] & (sequence >= first)",
        "closing[group]",
    ),
    Mutation(
        "what was taken out of a closing group isn't missing",
        "closing.py",
        "missing &= ~state.skipped.contain(group, sequence)",
        "pass",
    ),
    Mutation(
        "a number that waits as late isn't the highest held one",
        "closing.py",
        "state.held.take(~state.held.late & ~state.held.waits & (state.held.weight > 0))",
        "state.held.take(~state.held.waits & (state.held.weight > 0))",
    ),
    Mutation(
        "nothing is missing below a void alone",
        "closing.py",
        "state.held.take(~state.held.late & ~state.held.waits & (state.held.weight > 0))",
        "state.held.take(~state.held.late & ~state.held.waits)",
    ),
    Mutation(
        "a number that comes twice isn't missing in a closing group",
        "closing.py",
        "twice = twice[state.groups.has(Flag.CLOSING)[arrivals.group[twice]]]",
        "twice = twice[:0]",
    ),
    Mutation(
        "a number above a size that is told is none that a closing group waits for",
        "unit_of_work.py",
        "return sum_before(arrivals.group, tells.astype(np.int64)) == 0",
        "return sum_before(arrivals.group, tells.astype(np.int64)) >= 0",
    ),
    Mutation(
        "a group that is closed at once is closed",
        "actions.py",
        "flags = (groups.flags | Flag.CLOSED) & ~int(Flag.CLOSING | Flag.COMPLETE | Flag.UNOPENED)",
        "flags = (groups.flags | Flag.CLOSING) & ~int(Flag.COMPLETE)",
    ),
    Mutation(
        "an abort closes a closing group",
        "actions.py",
        "after, more, told = go_on(policy, after, clock)",
        "more, told = no_messages(), no_events()",
    ),
    Mutation(
        "a hole that an operator skips closes a closing group with an event",
        "actions.py",
        "Events.concat([skipped, passed, opened])",
        "Events.concat([skipped, opened])",
    ),
    Mutation(
        "a timer closes a closing group",
        "resequence.py",
        "    after, decided, events = fire(policy, state, until)\n    after, closed = close_emptied(policy, after)\n",
        "    after, decided, events = fire(policy, state, until)\n    closed = no_events()\n",
    ),
)

_STAYS = (
    Mutation(
        "the opening message leaves first", "stays.py", "part[heads] = 0\n    part = ", "part[heads] = 2\n    part = "
    ),
    Mutation(
        "what is held before the opening leaves behind it by arrival",
        "stays.py",
        "held = held.by_arrival()\n        at = held.group",
        "held = held.take(np.lexsort((-held.ref, held.group)))\n        at = held.group",
    ),
    Mutation(
        "with a number as start an opening message below it opens nothing",
        "stays.py",
        "fits = (start == NOTHING) | ((line.sequence >= start)",
        "fits = (start == NOTHING) | ((line.sequence >= NOTHING)",
    ),
    Mutation(
        "an opening message off the step opens nothing",
        "stays.py",
        "& (line.sequence % step == start % step))",
        "& (line.sequence % step >= 0))",
    ),
    Mutation(
        "a group begins anew from its start",
        "incarnation.py",
        "fresh = new_state(policy, len(rows))",
        "fresh = new_state(policy, len(rows), before.next if isinstance(policy, Standard) else None)",
    ),
    Mutation(
        "a group that begins anew has no skipped numbers",
        "incarnation.py",
        "return state.replace(rows, fresh)",
        "return state.replace(rows, fresh.having(skipped=state.select(rows).skipped))",
    ),
    Mutation(
        "no clock is seen in a group that isn't opened",
        "stays.py",
        "state = state.with_groups(since=np.where(unopened, NEVER, state.groups.since))",
        "pass",
    ),
    Mutation(
        "the clock of what waits for an opening begins with the first",
        "stays.py",
        "begins = np.where(since != NEVER, since, np.where(first == NEVER, groups.clock, first))",
        "begins = groups.clock",
    ),
    Mutation(
        "what isn't opened in time is late",
        "stays.py",
        "waiting = ripe[aside.group] & (aside.time <= moments[aside.group])",
        "waiting = ripe[aside.group] & (aside.time < moments[aside.group] - 1_000_000)",
    ),
    Mutation(
        "and what came after that time isn't",
        "stays.py",
        "waiting = ripe[aside.group] & (aside.time <= moments[aside.group])",
        "waiting = ripe[aside.group] & (aside.time <= FOREVER)",
    ),
    Mutation(
        "no clock runs before the opening while a group is suspended",
        "stays.py",
        "runs = has & ~groups.has(_STOPPED)",
        "runs = has",
    ),
    Mutation(
        "in a closing group what comes after a held opening message is held, too",
        "stays.py",
        "behind = closing[line.group] & (has_next[line.group] | (place >= first[line.group]))",
        "behind = closing[line.group] & (place >= first[line.group])",
    ),
    Mutation(
        "capacity counts before the opening",
        "stays.py",
        "room = policy.capacity - aside.counts(len(inner))",
        "room = policy.capacity - 0 * aside.counts(len(inner))",
    ),
    Mutation(
        "no capacity rejects what was held before the opening",
        "stays.py",
        "exempt = replace(policy, capacity=None)\n    now &=",
        "pass\n    now &=",
    ),
    Mutation(
        "what comes after a closing message has left is late",
        "stays.py",
        "passes = np.arange(len(line)) <= let_go[line.group]",
        "passes = np.arange(len(line)) <= len(line)",
    ),
    Mutation(
        "what leaves behind a closing message in the same moment is late",
        "stays.py",
        "behind = closes & (rows > place[out.group])",
        "behind = closes & (rows > len(out))",
    ),
    Mutation(
        "what is held above a closing message is late",
        "stays.py",
        "return state, Decided.concat([out, late]), Events.concat(",
        "return state, Decided.concat([out, late.take(slice(0))]), Events.concat(",
    ),
    Mutation(
        "no number passes behind a closing message",
        "stays.py",
        "Events.concat([events.take(~never), closed])",
        "Events.concat([events, closed])",
    ),
    Mutation(
        "the closing message that leaves first closes", "stays.py", "rows = rows[says][::-1]", "rows = rows[says]"
    ),
    Mutation(
        "a timer that lets a closing message go is the last", "stays.py", "until[ends] = out.cause[place[ends]]", "pass"
    ),
    Mutation("a hole behind a closing message doesn't open", "stays.py", "        events = events.take(~never)\n", ""),
    Mutation(
        "what is held for the next stay is judged when the group has closed",
        "stays.py",
        "is_woken = groups.has(Flag.CLOSED) & groups.has(Flag.COMPLETE)\n    shut",
        "is_woken = groups.has(Flag.CLOSED) & False\n    shut",
    ),
    Mutation(
        "a group that isn't opened opens at resume",
        "stays.py",
        "is_woken[line.group[_opening(policy, state, line)]] = True",
        "pass",
    ),
    Mutation(
        "a void before the opening is one at once, and once",
        "stays.py",
        "again = (line.ref[own] == out.ref) & line.aside[own] & (line.weight[own] == 0)",
        "again = (line.ref[own] != out.ref)",
    ),
    Mutation(
        "the ordinal doesn't count what is late behind a closing message",
        "stays.py",
        "ordinal[ends] = out.ordinal[at]",
        "pass",
    ),
)

_COPIES = (
    Mutation(
        "what the other region shows is a copy",
        "copies.py",
        "disposition[copied], reason[copied] = Disposition.COPY, Reason.COPIED",
        "pass",
    ),
    Mutation(
        "what the same region shows again is a duplicate",
        "copies.py",
        "copied = rows[again[rows] & ((known[run] | _earlier(run, regions)) & regions == 0)]",
        "copied = rows[again[rows]]",
    ),
    Mutation(
        "and in one call",
        "copies.py",
        "((known[run] | _earlier(run, regions)) & regions == 0)",
        "(known[run] & regions == 0)",
    ),
    Mutation(
        "a region that has shown a copy doesn't show it again",
        "copies.py",
        "changed = fresh | (seen != known)",
        "changed = fresh",
    ),
    Mutation(
        "another id under a number is a conflict, and no copy",
        "copies.py",
        "(likeness != Likeness.DIFFERENT) & (region > 0)",
        "(region > 0)",
    ),
    Mutation(
        "and no sight of its number",
        "copies.py",
        "rows = np.flatnonzero(is_taken | again)",
        "rows = np.flatnonzero(is_taken | (disposition == Disposition.DUPLICATE))",
    ),
    Mutation(
        "what is taken in anew is new, whatever was known",
        "copies.py",
        "known = np.where(fresh, 0, _shown(",
        "known = np.where(fresh & False, 0, _shown(",
    ),
    Mutation(
        "a number of which nothing is known both have shown",
        "copies.py",
        "shown = np.full(len(number), BOTH, np.int64)",
        "shown = np.full(len(number), 0, np.int64)",
    ),
    Mutation(
        "copies in a closed group are none the later",
        "standard.py",
        "shut &= ~copies.known_again(",
        "shut &= True | copies.known_again(",
    ),
    Mutation("nor of what a closing group holds", "copies.py", "| skipped | held", "| skipped"),
    Mutation(
        "nor of what it has taken in since", "closing.py", "        twice = twice[~known[twice]]\n", "        pass\n"
    ),
    Mutation(
        "copies don't count for a restart",
        "restarts.py",
        "(judged.disposition[rows] != Disposition.COPY) &",
        "(judged.disposition[rows] != -1) &",
    ),
    Mutation(
        "nothing counts for a restart in a closed group",
        "restarts.py",
        "rows = rows[~before.groups.has(OVER)[arrivals.group[rows]]]",
        "pass",
    ),
    Mutation(
        "copies aren't held back where a restart suspends",
        "restarts.py",
        "below &= ~are_copies(policy, state, arrivals, below & (reason == Reason.TAKEN_BEFORE))",
        "pass",
    ),
    Mutation("but what a region shows again is", "copies.py", "rows = rows[(shown & region[rows]) == 0]\n", "\n"),
    Mutation("and what conflicts is", "copies.py", "rows = rows[like != Likeness.DIFFERENT]", "pass"),
    Mutation(
        "of two in a call the first is a copy",
        "copies.py",
        "copies[rows[_starts(arrivals.group[rows], arrivals.sequence[rows], region[rows])]] = True",
        "copies[rows] = True",
    ),
    Mutation(
        "what a restart has held says its region",
        "standard.py",
        "bits: Ints | int = batch.bits if merged or isinstance(policy, StandardStays) else",
        "bits = batch.bits if isinstance(policy, StandardStays) else",
    ),
    Mutation(
        "a void without a region has no copies", "copies.py", "region[region == 0] = BOTH", "region[region == 0] = 0"
    ),
    Mutation(
        "of a run that is cut the rest stays",
        "state.py",
        "pieces = self.take(whose[order]).with_columns(first=begin[order], last=end[np.lexsort((end, whose))])",
        "pieces = self.take(rows)",
    ),
    Mutation(
        "the halves of a run belong to its region",
        "state.py",
        "[rows, row])\n        end =",
        "[rows, row * 0])\n        end =",
    ),
    Mutation("runs of two regions aren't one", "state.py", " | (both.regions[1:] != both.regions[:-1])", ""),
    Mutation(
        "runs with a hole between them aren't one",
        "state.py",
        "begins[1:] |= both.first[1:] != both.last[:-1] + step",
        "pass",
    ),
    Mutation(
        "by arrival the other region's is a copy",
        "copies.py",
        "np.where(shown, Disposition.DUPLICATE, Disposition.COPY)[again]",
        "np.where(shown, Disposition.DUPLICATE, Disposition.DUPLICATE)[again]",
    ),
    Mutation(
        "by arrival the same region's is a duplicate",
        "copies.py",
        "np.where(shown, Disposition.DUPLICATE, Disposition.COPY)[again]",
        "np.where(shown, Disposition.COPY, Disposition.COPY)[again]",
    ),
    Mutation(
        "by arrival ids are remembered for the horizon, no longer",
        "copies.py",
        "known[known] = arrivals.time[rows[known]] - sights.time[at[known]] <= horizon",
        "known[known] = True",
    ),
    Mutation("and as long", "copies.py", "sights.time[at[known]] <= horizon", "sights.time[at[known]] < horizon"),
    Mutation(
        "by arrival the horizon begins with the first sight",
        "copies.py",
        "sights = sights.with_columns(regions=regions)",
        "sights = sights.with_columns(regions=regions, time=np.full(len(regions), arrivals.time.max() if len(arrivals) else 0))",
    ),
    Mutation(
        "by arrival what a region has shown of an id is kept",
        "copies.py",
        "regions[at[old]] = seen[known[starts]]",
        "pass",
    ),
    Mutation(
        "by arrival a closed group takes no sight in",
        "copies.py",
        "counts = known | ~state.groups.has(OVER)[arrivals.group[rows]]",
        "counts = known | True",
    ),
    Mutation(
        "by arrival a call is cut at the horizon", "fifo.py", "return copies.within_horizon(policy, arrivals)", "pass"
    ),
    Mutation(
        "by arrival what is known isn't late",
        "fifo.py",
        "closed = groups.has(OVER)[group] & ~known",
        "closed = groups.has(OVER)[group]",
    ),
)

MUTATIONS = (
    *_STANDARD,
    *_TIME,
    *_BEST_EFFORT,
    *_UNIT_OF_WORK,
    *_GROUPS,
    *_READING,
    *_EVENTS,
    *_WEIGHTS,
    *_TAKING_OUT,
    *_RESTARTS,
    *_CONFLICTS,
    *_COPIES,
    *_CLOSING,
    *_STAYS,
)
