"""A model of one session that is sent to two regions: boxes A and B, the journal J, two senders, a worker in each region.

A state is what is committed, and what senders and workers have in hand. A step is a commit, or something that happens to one of the parties.

* A sender X sends its messages one after another. Another sender Y takes over at any time; X may wake again. A sender asks two or three parties
  for the next number, then asks for votes. The first write to a box is the message with its row of the outbox. The outbox is worked off at any time at which both
  boxes are there. A sender may stop for good at any step: then it just takes no more of them.
* A party can be away, one at a time, so often. A vote's reply can be lost, so often: the sender takes the party for away, and the vote stays.
* A box can be restored, to nothing or to a backup. It votes again when J and the other box know its new incarnation and it knows their numbers.
* A worker takes the lowest message of its box and asks J for it. Its lease can end at any time, so often; the worker doesn't notice. The handler writes
  in J's database, in the transaction of the completion; or elsewhere, before it, to a system that refuses a token older than the newest that it has seen.
* The time of a hole may have run out at any time. J forgets a session by the watermarks of both regions. J itself can be restored and recovered.

The product's kernel decides who votes for what, which number is next, what a sender does next, what may be claimed and completed, which hole is skipped,
what is over after a recovery, and what may be forgotten. Its answers are remembered: the same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from seriatim.kernel.regions import claims, votes
from seriatim.kernel.regions.claims import JournalAnswer, SessionState
from seriatim.kernel.regions.votes import NO_NUMBER, Reply, SendStep, Vote
from seriatim.kernel.values.time import NEVER
from tests.models import forgetting
from tests.models.search import Label, Model

__all__ = ["Box", "Calm", "Journal", "Message", "Regions", "RegionsModel", "Sender", "Session", "Work", "with_vote"]

#: The parties, by their numbers: the boxes 0 and 1, and the journal.
JOURNAL = 2
_NAMES = "ABJ"
#: A message as the model knows it: its number, and its id: ten times the sender + its place among the sender's.
Message = tuple[int, int]
Messages = tuple[Message, ...]


class Box(NamedTuple):
    """A box: the highest number that it knows, the messages that it has voted for, those that it has, those that wait in its queue, those that the other box
    lacks, and through which number all is over.

    `floor`: the highest number that it has taken over since it was restored; it doesn't know whose these are. `incarnation`: one higher after each restore. `votes`: whether it votes; a restored one at first doesn't. `learned`: what it has taken over: the journal's
    numbers, then the other box's.
    """

    through: int = 0
    voted: Messages = ()
    has: Messages = ()
    queue: Messages = ()
    out: Messages = ()
    over: int = 0
    floor: int = 0
    incarnation: int = 0
    learned: int = 2

    @property
    def votes(self) -> bool:
        return self.learned == 2


class Session(NamedTuple):
    """The session as J knows it.

    `ids`: the messages of its numbers. `void`: the numbers that have none. `claim`: the serial of the claim that it is worked on under. `forgotten`: what was published before this place is too
    old to be claimed: a session had been forgotten before this row came.
    """

    done: int = 0
    through: int = 0
    ids: Messages = ()
    void: tuple[int, ...] = ()
    state: int = SessionState.IDLE
    claim: int = 0
    version: int = 0
    lease_over: bool = False
    used: int = 0
    forgotten: int = 0


class Journal(NamedTuple):
    """The journal.

    `session`: None if it is forgotten. `incarnation`: its own; `fences`: the incarnations of the boxes that it knows. `claims`: how many there were, ever.
    `outboxes`: whether each region's outbox had nothing as old as the last use of the session when it was reported last. `clean`: the same of what can be
    in its queue. `forgotten`: what was published before this place is too old to be claimed.
    """

    session: Session | None = None
    version: int = 0
    incarnation: int = 0
    fences: tuple[int, int] = (0, 0)
    outboxes: tuple[bool, bool] = (False, False)
    looked: tuple[bool, bool] = (False, False)
    clean: tuple[bool, bool] = (False, False)
    forgotten: int = 0


class Sender(NamedTuple):
    """A sender: how many messages it has sent or given up, the number that it tries, the replies to it, and the incarnations whose votes it counts."""

    sent: int = 0
    number: int = 0
    replies: tuple[int, int, int] = (0, 0, 0)
    incarnations: tuple[int, int] = (0, 0)
    tried: int = 0


class Work(NamedTuple):
    """What a worker has in hand, under a claim: its serial, its token, and whether the handler has written elsewhere."""

    message: Message
    serial: int
    token: tuple[int, int]
    has_written: bool = False


class Regions(NamedTuple):
    """A state.

    `published`: the ids, in the order of their first writes. `effects`: the writes of handlers that count, each with the serial of its claim.
    `failed`: those that failed for good, because their workers died. `seen`: the newest token that a system elsewhere has seen. `broken`: a law that a step has broken.
    """

    boxes: tuple[Box, Box] = (Box(), Box())
    journal: Journal = Journal()
    senders: tuple[Sender, ...] = ()
    workers: tuple[Work | None, Work | None] = (None, None)
    away: int | None = None
    backups: tuple[Box | None, Journal | None] = (None, None)
    published: tuple[int, ...] = ()
    answered: Messages = ()
    aside: Messages = ()
    effects: tuple[tuple[int, int, int], ...] = ()
    failed: Messages = ()
    seen: tuple[int, int] = (0, 0)
    serials: int = 0
    left: tuple[int, ...] = ()
    broken: str = ""


#: The places in `left`: how often each may still happen.
_AWAY, _LOST, _RESTORES, _EXPIRIES, _PURGES, _RECOVERIES = range(6)


class RegionsModel(Model[Regions]):
    """The model.

    Args:
        sends: how many messages each sender sends.
        away: how often a party goes away.
        lost: how often a reply to a vote is lost.
        restores: how often box A is restored.
        expiries: how often a lease ends under its holder.
        purges: how often J forgets the session.
        recoveries: how often J is restored.
        holes: whether the time of a hole can run out.
        elsewhere: whether handlers write elsewhere.
        backs_up: whether a restore has a backup; else what is restored is empty.
        works: whether there are workers.
        gives_up: whether a worker that died has used up the last attempt of its message; the session goes on without it.
    """

    def __init__(
        self, sends: tuple[int, ...] = (1, 1), *, away: int = 0, lost: int = 0, restores: int = 0, expiries: int = 0,
        purges: int = 0, recoveries: int = 0, holes: bool = False, elsewhere: bool = False, backs_up: bool = False,
        works: bool = True, gives_up: bool = False,
    ) -> None:  # fmt: skip
        self._sends = sends
        self._holes, self._elsewhere, self._backs_up, self._works = holes, elsewhere, backs_up, works
        self._gives_up, self._purges = gives_up, purges
        #: Only box A is restored.
        self._boxes_are_alike, self._senders_are_alike = not restores, sends[0] == sends[-1] and len(sends) == 2
        left = (away, lost, restores, expiries, purges, recoveries)
        self.start = Regions(senders=tuple(Sender() for _ in sends), left=left)

    def alike(self, state: Regions) -> Iterator[Regions]:
        """The state, and those in which the boxes, or the senders, have each other's names."""
        yield state
        if self._senders_are_alike:
            yield self._timed(_senders_swapped(state))
        if self._boxes_are_alike:
            yield (other := _boxes_swapped(state))
            if self._senders_are_alike:
                yield self._timed(_senders_swapped(other))

    def steps(self, state: Regions) -> Iterator[tuple[Label, Regions]]:
        """All that can happen next."""
        for label, after in self.happens(state):
            yield label, self._timed(after)

    def _timed(self, state: Regions) -> Regions:
        """The state, without times if nothing asks for them: they say what is too old for a session that was forgotten."""
        return state if self._purges else _timeless(state)

    def happens(self, state: Regions) -> Iterator[tuple[Label, Regions]]:
        """All that can happen next, with its times."""
        yield from self.calm(state)
        if state.away is None and state.left[_AWAY]:
            for party in range(3):
                yield (("{} goes away",), _NAMES[party]), _spent(state, _AWAY)._replace(away=party)
        yield from self._restores(state)
        session = state.journal.session
        if session and session.state == SessionState.WORKING and not session.lease_over and state.left[_EXPIRIES]:
            yield (
                (("the lease of claim {} ends",), session.claim),
                _of_session(_spent(state, _EXPIRIES), lease_over=True),
            )
        for at in range(len(state.senders)):
            yield from self._sender(state, at)

    def calm(self, state: Regions) -> Iterator[tuple[Label, Regions]]:
        """All that happens without faults and senders."""
        if state.away is not None:
            yield (("{} is back",), _NAMES[state.away]), state._replace(away=None)
        for here in (0, 1):
            yield from self._copies(state, here)
            if self._works:
                yield from self._works_on(state, here)
            yield from self._learns(state, here)
            yield from self._reports(state, here)
        yield from self._forgets(state)

    # ---- senders

    def _sender(self, state: Regions, at: int) -> Iterator[tuple[Label, Regions]]:
        sender, name = state.senders[at], "XYZ"[at]
        if sender.sent == self._sends[at]:
            return
        if not sender.number:
            for asked in self.asked(state):
                number = self.number(state, asked)
                if number != NO_NUMBER:
                    told = f"{name} asks {' and '.join(_NAMES[one] for one in asked)}: the next number is {{}}"
                    yield ((told,), number), _of_sender(state, at, sender._replace(number=number))
            return
        step = self.send_step(sender.replies)
        what = (sender.number, (at + 1) * 10 + sender.sent)
        if step == SendStep.ANSWER:
            yield self._is_answered(state, at, what)
        elif step == SendStep.GIVE_UP:
            yield ((f"{name} gives up {{}}",), what), _of_sender(state, at, Sender(sent=sender.sent + 1))
        elif step == SendStep.WITHDRAW:
            yield self._withdraws(state, at, what)
        else:
            boxes = [party for party in (0, 1) if sender.replies[party] == Reply.NOT_ASKED]
            for party in boxes if step == SendStep.ASK_BOX else (JOURNAL,):
                yield from self._asks(state, at, party, what)

    def _is_answered(self, state: Regions, at: int, what: Message) -> tuple[Label, Regions]:
        sender = state.senders[at]
        after = state._replace(answered=_with(state.answered, what))
        if sender.replies[0] == sender.replies[1] == Reply.FOR:
            for here in (0, 1):
                after = _of_box(after, here, out=_without(after.boxes[here].out, what))
        told = f"{'XYZ'[at]} is told that {{}} is sent"
        return ((told,), what), _of_sender(after, at, Sender(sent=sender.sent + 1))

    def _asks(self, state: Regions, at: int, party: int, what: Message) -> Iterator[tuple[Label, Regions]]:
        sender, name = state.senders[at], "XYZ"[at]
        if state.away == party or (party != JOURNAL and not state.boxes[party].votes):
            away = _of_sender(state, at, sender._replace(replies=_put(sender.replies, party, Reply.AWAY)))
            yield ((f"{name}: {{}} is away",), _NAMES[party]), away
            return
        vote = self.votes(state, sender, party, what)
        after = state
        if vote == Vote.GRANTED:
            after = with_vote(state, party, what)
        if vote in (Vote.GRANTED, Vote.HELD):
            if state.left[_LOST]:
                lost = sender._replace(replies=_put(sender.replies, party, Reply.AWAY))
                yield (
                    ((f"{name}: the vote of {{}} is lost on its way",), _NAMES[party]),
                    _of_sender(_spent(after, _LOST), at, lost),
                )
            sender = sender._replace(replies=_put(sender.replies, party, Reply.FOR))
            if party != JOURNAL:
                of = _put(sender.incarnations, party, state.boxes[party].incarnation)
                sender = sender._replace(incarnations=of)
            yield ((f"{name}: {{}} votes for {what}",), _NAMES[party]), _of_sender(after, at, sender)
        else:
            sender = sender._replace(replies=_put(sender.replies, party, Reply.AGAINST))
            yield ((f"{name}: {{}} refuses {what}",), _NAMES[party]), _of_sender(after, at, sender)

    def votes(self, state: Regions, sender: Sender, party: int, what: Message) -> int:
        """The vote of a party."""
        if party == JOURNAL:
            fences, voted = state.journal.fences, _session(state).ids
            through = _knows(state, JOURNAL)
        else:
            # A box knows the incarnation of the other one, if it was told before this one voted again.
            other = state.boxes[1 - party]
            fences = _put((0, 0), 1 - party, other.incarnation if other.learned == 2 else 0)
            voted, through = state.boxes[party].voted, state.boxes[party].through
        stale = any(
            sender.replies[one] == Reply.FOR and sender.incarnations[one] < fences[one]
            for one in (0, 1)
            if one != party
        )
        return _voted_by_kernel(what[0], through, what in voted, stale)

    def _withdraws(self, state: Regions, at: int, what: Message) -> tuple[Label, Regions]:
        """A refused message gets another number, once, if the journal bars it from this one, or nothing of it was written."""
        sender, name = state.senders[at], "XYZ"[at]
        raises = _of_sender(state, at, Sender(sent=sender.sent + 1))
        if Reply.FOR not in sender.replies and Reply.AWAY not in sender.replies:
            return ((f"{name} has written nothing of {{}}",), what), self._changes(state, at)
        if state.away == JOURNAL or not self.may_bar(sender.replies):
            return ((f"{name} doesn't know what became of {{}}, and raises",), what), raises
        vote = self.bars(state, sender, what)
        if vote == Vote.HELD:
            return ((f"{name} hears from J that {{}} is sent",), what), raises._replace(
                answered=_with(state.answered, what)
            )
        if vote == Vote.STALE:
            return ((f"{name} counts a vote from before a restore for {{}}, and raises",), what), raises
        after = self.barred(state, what)
        for here in (0, 1):
            box = after.boxes[here]
            in_hand = state.workers[here] is not None and state.workers[here].message == what  # type: ignore[union-attr]
            if state.away != here and not in_hand:
                gone = {
                    "has": _without(box.has, what),
                    "queue": _without(box.queue, what),
                    "out": _without(box.out, what),
                }
                after = _of_box(after, here, **gone)
        return ((f"J bars {{}}, which {name} withdraws",), what), self._changes(after, at)

    @staticmethod
    def _changes(state: Regions, at: int) -> Regions:
        """The sender tries another number, once."""
        sender = state.senders[at]
        return _of_sender(state, at, Sender(sent=sender.sent + sender.tried, tried=1 - sender.tried))

    # ---- boxes

    def _copies(self, state: Regions, here: int) -> Iterator[tuple[Label, Regions]]:
        there = 1 - here
        if state.away in (here, there):
            return
        for what in state.boxes[here].out:
            far = state.boxes[there]
            after = _of_box(state, here, out=_without(state.boxes[here].out, what))
            if what not in far.has:
                # A copy is a vote only where the box has voted for no other message with this number. Whose the number is the journal says.
                votes_too = self.copy_votes(far, what)
                after = _of_box(
                    after, there, has=_with(far.has, what), queue=_with(far.queue, what), through=max(far.through, what[0]),
                    voted=_with(far.voted, what) if votes_too else far.voted,
                )  # fmt: skip
            yield ((f"{_NAMES[here]}'s copy of {{}} comes to {_NAMES[there]}",), what), after

    def _restores(self, state: Regions) -> Iterator[tuple[Label, Regions]]:
        if self._backs_up and state.left[_RESTORES] and state.backups[0] is None and state.boxes[0].has:
            yield (("A backup of {} is made",), "A"), state._replace(backups=(state.boxes[0], state.backups[1]))
        if state.left[_RESTORES] and state.away is None and state.boxes[0].has:
            box = (state.backups[0] if self._backs_up else Box()) or None
            if box is not None:
                box = box._replace(incarnation=state.boxes[0].incarnation + 1, learned=self.learned_by_restore)
                after = _spent(state, _RESTORES)._replace(boxes=(box, state.boxes[1]), backups=(None, state.backups[1]))
                yield (("{} is restored",), "A"), after
        if state.left[_RECOVERIES] and state.journal.session:
            if state.backups[1] is None:
                yield (("A backup of {} is made",), "J"), state._replace(backups=(state.backups[0], state.journal))
            elif state.away is None:
                yield (("{} is restored, and recovered",), "J"), self._recovers(_spent(state, _RECOVERIES))

    def _recovers(self, state: Regions) -> Regions:
        old = state.backups[1]
        assert old is not None
        session = old.session or Session()
        done = _recovered(session.done, *(box.over for box in state.boxes))
        session = session._replace(
            done=done,
            through=max(done, session.through, *(box.through for box in state.boxes)),
            state=SessionState.IDLE,
            claim=0,
            lease_over=False,
        )
        journal = old._replace(session=session, incarnation=state.journal.incarnation + 1, fences=state.journal.fences)
        return state._replace(journal=journal, backups=(state.backups[0], None))

    def _learns(self, state: Regions, here: int) -> Iterator[tuple[Label, Regions]]:
        """A restored box takes over the numbers of the journal, which knows its incarnation from then on; then those of the other box."""
        box = state.boxes[here]
        if box.learned == 0 and state.away not in (here, JOURNAL):
            fences = _put(state.journal.fences, here, box.incarnation)
            after = state._replace(journal=state.journal._replace(fences=fences))
            through = max(box.through, _knows(state, JOURNAL))
            yield (
                (("{} takes over the numbers of J",), _NAMES[here]),
                _of_box(
                    after,
                    here,
                    through=through,
                    voted=(),
                    over=max(box.over, _session(state).done),
                    floor=through,
                    learned=1,
                ),
            )
        elif box.learned == 1 and state.away is None:
            through = max(box.through, state.boxes[1 - here].through)
            yield (
                (("{} takes over the other box's numbers",), _NAMES[here]),
                _of_box(state, here, through=through, voted=(), floor=through, learned=2),
            )

    # ---- workers

    def _works_on(self, state: Regions, here: int) -> Iterator[tuple[Label, Regions]]:
        box, work, name = state.boxes[here], state.workers[here], _NAMES[here]
        if state.away == JOURNAL:
            return
        if work is None:
            if box.queue and state.away != here:
                for what in box.queue:
                    if what[0] == box.queue[0][0]:
                        yield from self._takes(state, here, what)
            return
        if self._elsewhere and not work.has_written and self.writes_first(state, work):
            yield ((f"the handler at {name} writes {{}} elsewhere",), work.message), self._wrote(state, here, work)
            return
        counts = self.completes(_session(state), work)
        after = state._replace(workers=_put(state.workers, here, None))
        if not counts:
            yield ((f"the completion of {{}} at {name} is refused",), work.message), after
            return
        if work.serial != _session(state).claim:
            after = after._replace(broken=f"{work.message} was completed under claim {work.serial}, which is over")
        after = _of_session(after, done=work.message[0], state=SessionState.IDLE, claim=0, lease_over=False)
        after = _used(after)
        if not self._elsewhere:
            after = after._replace(effects=(*after.effects, (*work.message, work.serial)))
        yield ((f"the worker at {name} completes {{}}",), work.message), after

    def _wrote(self, state: Regions, here: int, work: Work) -> Regions:
        after = state._replace(workers=_put(state.workers, here, work._replace(has_written=True)))
        token = self.token(work)
        if token < state.seen:
            return after
        return after._replace(seen=token, effects=(*state.effects, (*work.message, work.serial)))

    def _takes(self, state: Regions, here: int, what: Message) -> Iterator[tuple[Label, Regions]]:
        name, box = _NAMES[here], state.boxes[here]
        session = _session(state)
        session = _settled(session._replace(done=_raised(session.done, box.over)))
        if (
            self._gives_up
            and what in session.ids
            and _lost(session.state, 0 if session.lease_over else 2, what[0] == session.done + 1)
        ):
            gone = session._replace(done=what[0], state=SessionState.IDLE, claim=0, lease_over=False)
            after = state._replace(journal=state.journal._replace(session=gone), failed=_with(state.failed, what))
            yield ((f"the worker that had {{}} has died, says {name}: it has failed for good",), what), _used(after)
            return
        answer = self.answer(session, what, session.forgotten, state.published.index(what[1]))
        queue = _without(box.queue, what)
        if answer == JournalAnswer.TAKEN:
            serial = state.serials + 1
            version = max(session.version, state.journal.version) + 1
            session = session._replace(
                state=SessionState.WORKING, claim=serial, version=version, lease_over=False, ids=_with(session.ids, what),
                through=max(session.through, what[0]),
            )  # fmt: skip
            work = Work(what, serial, (state.journal.incarnation, version))
            after = state._replace(
                journal=state.journal._replace(session=session), serials=serial, workers=_put(state.workers, here, work)
            )
            yield ((f"the worker at {name} claims {{}}",), what), _used(after)
        elif answer == JournalAnswer.OVER:
            after = _of_box(state, here, queue=queue, over=max(box.over, what[0]))
            yield ((f"{name} completes its copy of {{}}",), what), after
        elif answer == JournalAnswer.CONFLICT:
            after = _of_box(state, here, queue=queue)._replace(aside=_with(state.aside, what))
            yield ((f"{name} sets {{}} aside: it conflicts",), what), after
        elif answer == JournalAnswer.FORGOTTEN:
            after = _of_box(state, here, queue=queue)._replace(aside=_with(state.aside, what))
            yield ((f"{name} sets {{}} aside: it is too old",), what), after
        elif answer == JournalAnswer.AHEAD and self._holes and self.skips(session, what):
            after = state._replace(journal=state.journal._replace(session=session._replace(done=what[0] - 1)))
            after = _of_box(after, here, over=max(box.over, what[0] - 1))
            yield ((f"{name} has waited for a number before {{}}: it is skipped",), what), _used(after)

    # ---- forgetting

    def _reports(self, state: Regions, here: int) -> Iterator[tuple[Label, Regions]]:
        """A region reports in two steps: it reads what the other one has said of its outbox, and then looks at its own queue and outbox."""
        journal = state.journal
        if not state.left[_PURGES] or journal.session is None or state.away in (here, JOURNAL):
            return
        if not journal.looked[here] and journal.outboxes[1 - here]:
            yield (
                (("{} reads what the other region has reported",), _NAMES[here]),
                state._replace(journal=journal._replace(looked=_put(journal.looked, here, True))),
            )
        box = state.boxes[here]
        empty_out = not any(self._is_old(state, what) for what in box.out)
        empty_queue = not any(self._is_old(state, what) for what in box.queue)
        known_out = 2 if journal.looked[here] else 0
        mark = _watermark(2 if empty_queue else 0, known_out)
        after = journal._replace(
            outboxes=_put(journal.outboxes, here, empty_out),
            clean=_put(journal.clean, here, mark > 1),
            looked=_put(journal.looked, here, False),
        )
        if after != journal:
            yield (("{} reports what it still has",), _NAMES[here]), state._replace(journal=after)

    @staticmethod
    def _is_old(state: Regions, what: Message) -> bool:
        return state.published.index(what[1]) < _session(state).used

    def _forgets(self, state: Regions) -> Iterator[tuple[Label, Regions]]:
        journal = state.journal
        if not state.left[_PURGES] or journal.session is None or state.away == JOURNAL:
            return
        if journal.session.done and self.may_forget(journal):
            forgotten = max(journal.forgotten, journal.session.used)
            version = max(journal.version, journal.session.version)
            after = Journal(None, version, journal.incarnation, journal.fences, forgotten=forgotten)
            yield (("{} forgets the session",), "J"), _spent(state, _PURGES)._replace(journal=after)

    # ---- what the broken variants do otherwise

    #: What a box has taken over when it was restored.
    learned_by_restore = 0

    def asked(self, state: Regions) -> list[tuple[int, ...]]:
        """Whom a sender asks for the next number: any two who are there."""
        there = [one for one in range(3) if one != state.away and (one == JOURNAL or state.boxes[one].votes)]
        return [(one, other) for one in there for other in there if one < other]

    def number(self, state: Regions, asked: tuple[int, ...]) -> int:
        """The next number, by what these parties know."""
        return _next(*(_knows(state, one) if one in asked else NO_NUMBER for one in range(3)))

    def send_step(self, replies: tuple[int, int, int]) -> int:
        """What a sender does next."""
        return _send_step(replies)

    def may_bar(self, replies: tuple[int, int, int]) -> bool:
        """Whether a refused sender may have its message barred."""
        return _may_bar(replies[0], replies[1])

    def bars(self, state: Regions, sender: Sender, what: Message) -> int:
        """What the journal says to that."""
        fences = state.journal.fences
        stale = any(sender.replies[one] == Reply.FOR and sender.incarnations[one] < fences[one] for one in (0, 1))
        session = _session(state)
        published = state.published.index(what[1])
        return _barred(what in session.ids, stale, published, session.forgotten or NEVER)

    def barred(self, state: Regions, what: Message) -> Regions:
        """The journal makes a number void of which it knows nothing."""
        session = _session(state)
        number = what[0]
        if number <= session.done or number in session.void or any(number == known for known, _ in session.ids):
            return state
        void = tuple(sorted((*session.void, number)))
        session = _settled(session._replace(void=void, through=max(session.through, number)))
        return state._replace(journal=state.journal._replace(session=session))

    def copy_votes(self, box: Box, what: Message) -> bool:
        """Whether a copy that comes is a vote of its box."""
        return what[0] > max(box.over, box.floor) and all(number != what[0] for number, _ in box.voted)

    def answer(self, session: Session, what: Message, forgotten: int, published: int) -> int:
        """What the journal answers to a worker."""
        known = claims.Known.NOTHING
        for number, ident in session.ids:
            if number == what[0]:
                known = claims.Known.SAME if ident == what[1] else claims.Known.OTHER
        entry = claims.EntryState.KNOWN if known else claims.EntryState.VOID if what[0] in session.void else -1
        lease = 0 if session.lease_over else 2
        return _claimed(session.done, session.state, lease, forgotten or NEVER, what[0], known, entry, published)

    def completes(self, session: Session, work: Work) -> bool:
        """Whether a completion counts."""
        same = session.claim == work.serial
        return _completes(session.state, session.done, same, session.version == work.token[1], work.message[0])

    def writes_first(self, state: Regions, work: Work) -> bool:
        """Whether a handler writes elsewhere before the completion."""
        return True

    def token(self, work: Work) -> tuple[int, int]:
        """What a system elsewhere is told."""
        return work.token

    def skips(self, session: Session, what: Message) -> bool:
        """Whether a hole whose time has run out is skipped."""
        known = any(session.done < number < what[0] for number, _ in session.ids)
        return _skips(session.state, 0 if session.lease_over else 2, session.done, what[0], known)

    def may_forget(self, journal: Journal) -> bool:
        """Whether the journal forgets the session."""
        assert journal.session is not None
        return _forgettable(journal.session.state, *journal.clean)

    # ---- the laws

    def fault(self, state: Regions) -> str | None:
        """The law that the state breaks."""
        return state.broken or self._out_of_order(state) or self._set_aside(state)

    def _out_of_order(self, state: Regions) -> str | None:
        last, serial = 0, 0
        for number, ident, claim in state.effects:
            if number < last or (number == last and not self._elsewhere):
                return f"{number, ident} was handled after {last}"
            if claim < serial:
                return f"{number, ident} was handled under claim {claim}, after {serial}"
            last, serial = number, claim
        handled = {(number, ident) for number, ident, _ in state.effects}
        if len({number for number, _ in handled}) < len(handled):
            return "two messages were handled under one number"
        if len({ident for _, ident in handled}) < len(handled):
            return "a message was handled under two numbers"
        return None

    def _set_aside(self, state: Regions) -> str | None:
        handled = {(number, ident) for number, ident, _ in state.effects}
        if not self._elsewhere and handled & set(state.failed):
            return f"{handled & set(state.failed)} was handled after it had failed for good"
        numbers = [number for number, _ in state.answered]
        if len(set(numbers)) < len(numbers):
            return "two senders were told that they have one number"
        session = state.journal.session
        for what in state.answered:
            if what in state.aside and what not in handled:
                return f"{what} was answered, and is set aside"
            if session and session.done >= what[0] and what not in handled and what not in state.failed:
                return f"{what} was answered, and is over without having been handled"
        if (
            session
            and session.done
            and not self._holes
            and not session.void
            and not (state.answered or handled or state.failed)
        ):
            return "something is over, and nothing was handled"
        return None

    @staticmethod
    def done(state: Regions) -> bool:
        """Whether everything that was answered is handled."""
        return set(state.answered) <= {(number, ident) for number, ident, _ in state.effects} | set(state.failed)


class Calm(RegionsModel):
    """The same, without faults and senders: for what happens when they are over."""

    def happens(self, state: Regions) -> Iterator[tuple[Label, Regions]]:
        """All that can happen next."""
        yield from self.calm(state)


# ---- bookkeeping


def _session(state: Regions) -> Session:
    return state.journal.session or Session(forgotten=state.journal.forgotten)


def _settled(session: Session) -> Session:
    """What follows `done` and is void is over, too."""
    return session._replace(done=_run_over(session.void, session.done)) if session.void else session


def _of_session(state: Regions, /, **changes: Any) -> Regions:
    return state._replace(journal=state.journal._replace(session=_session(state)._replace(**changes)))


def _used(state: Regions) -> Regions:
    """The session is used now: everything that was published is as old as that, and what the regions have reported says nothing of it."""
    journal = state.journal._replace(outboxes=(False, False), looked=(False, False), clean=(False, False))
    return _of_session(state._replace(journal=journal), used=len(state.published))


def _of_box(state: Regions, here: int, /, **changes: Any) -> Regions:
    return state._replace(boxes=_put(state.boxes, here, state.boxes[here]._replace(**changes)))


def _of_sender(state: Regions, at: int, sender: Sender) -> Regions:
    return state._replace(senders=_put(state.senders, at, sender))


def _spent(state: Regions, what: int) -> Regions:
    return state._replace(left=_put(state.left, what, state.left[what] - 1))


def _put(several: tuple[Any, ...], place: int, one: Any) -> Any:
    return (*several[:place], one, *several[place + 1 :])


def _with(messages: Messages, what: Message) -> Messages:
    return messages if what in messages else tuple(sorted((*messages, what)))


def _without(messages: Messages, what: Message) -> Messages:
    return tuple(one for one in messages if one != what)


def _knows(state: Regions, party: int) -> int:
    """The highest number that a party knows."""
    if party != JOURNAL:
        return state.boxes[party].through
    session = _session(state)
    return max(session.through, session.done)


def with_vote(state: Regions, party: int, what: Message) -> Regions:
    """A party has voted for a message: a box has the message, too, and the other box lacks it so far."""
    if what[1] not in state.published:
        state = state._replace(published=(*state.published, what[1]))
    if party == JOURNAL:
        session = _session(state)
        return _of_session(state, ids=_with(session.ids, what), through=max(session.through, what[0]))
    box = state.boxes[party]
    return _of_box(
        state, party, through=max(box.through, what[0]), voted=_with(box.voted, what), has=_with(box.has, what), queue=_with(box.queue, what), out=_with(box.out, what)
    )  # fmt: skip


# ---- states that are alike


def _timeless(state: Regions) -> Regions:
    """The state without the order in which things were published, and when the session was used."""
    state = state._replace(published=tuple(sorted(state.published)))
    return _of_session(state, used=0) if state.journal.session else state


def _swapped(two: tuple[Any, Any]) -> tuple[Any, Any]:
    return two[1], two[0]


def _boxes_swapped(state: Regions) -> Regions:
    """The state in which A has the name of B."""
    journal = state.journal
    return state._replace(
        boxes=_swapped(state.boxes),
        journal=journal._replace(
            fences=_swapped(journal.fences), outboxes=_swapped(journal.outboxes), looked=_swapped(journal.looked), clean=_swapped(journal.clean)
        ),
        senders=tuple(_with_boxes_swapped(one) for one in state.senders),
        workers=_swapped(state.workers),
        away=1 - state.away if state.away in (0, 1) else state.away,
    )  # fmt: skip


@cache
def _with_boxes_swapped(sender: Sender) -> Sender:
    first, second, journal = sender.replies
    return sender._replace(replies=(second, first, journal), incarnations=_swapped(sender.incarnations))


def _senders_swapped(state: Regions) -> Regions:
    """The state in which X has the name of Y."""
    return state._replace(
        boxes=tuple(_box_of_others(box) for box in state.boxes),
        journal=_journal_of_others(state.journal),
        senders=_swapped(state.senders),
        workers=tuple(work and work._replace(message=_of_other(work.message)) for work in state.workers),
        backups=(
            state.backups[0] and _box_of_others(state.backups[0]),
            state.backups[1] and _journal_of_others(state.backups[1]),
        ),
        published=tuple(_id_of_other(ident) for ident in state.published),
        answered=_of_others(state.answered),
        aside=_of_others(state.aside),
        effects=tuple((number, _id_of_other(ident), claim) for number, ident, claim in state.effects),
        failed=_of_others(state.failed),
    )


def _id_of_other(ident: int) -> int:
    sender, place = divmod(ident, 10)
    return (3 - sender) * 10 + place


def _of_other(what: Message) -> Message:
    return what[0], _id_of_other(what[1])


@cache
def _of_others(messages: Messages) -> Messages:
    return tuple(sorted(map(_of_other, messages)))


@cache
def _box_of_others(box: Box) -> Box:
    return box._replace(
        voted=_of_others(box.voted), has=_of_others(box.has), queue=_of_others(box.queue), out=_of_others(box.out)
    )


@cache
def _journal_of_others(journal: Journal) -> Journal:
    session = journal.session
    return journal._replace(session=session and session._replace(ids=_of_others(session.ids)))


# ---- what the kernel decides


def _row(*values: Any) -> list[Any]:
    return [np.array([value]) for value in values]


@cache
def _voted_by_kernel(number: int, through: int, same: bool, stale: bool) -> int:
    return int(votes.voted(votes.VoteRequests(*_row(0, number, through, same, stale, False)))[0])


@cache
def _next(*through: int) -> int:
    found = votes.next_numbers(
        [np.array([one]) for one in through], [np.array([one != NO_NUMBER]) for one in through], np.array([1])
    )
    return int(found[0])


@cache
def _may_bar(first: int, second: int) -> bool:
    return bool(votes.may_bar(*_row(first, second))[0])


@cache
def _barred(same: bool, stale: bool, published: int, forgotten: int) -> int:
    return int(votes.barred(*_row(same, stale, published, forgotten))[0])


@cache
def _run_over(void: tuple[int, ...], done: int) -> int:
    numbers = np.array([one for one in void if one > done], np.int64)
    return int(claims.run_over(np.zeros(len(numbers), np.int64), numbers, np.array([done]), np.array([1]))[0])


@cache
def _send_step(replies: tuple[int, int, int]) -> int:
    return int(votes.send_steps(*_row(*replies))[0])


@cache
def _claimed(
    done: int, state: int, lease: int, forgotten: int, number: int, known: int, entry: int, published: int
) -> int:
    sessions = claims.Sessions(*_row(1, 1, done, state, lease, forgotten))
    asked = claims.ClaimRequests(*_row(0, number, known, entry, 0, published))
    return int(claims.claimed(sessions, asked, now=1, most=1).answer[0])


@cache
def _lost(state: int, lease: int, is_next: bool) -> bool:
    return bool(claims.lost(*_row(state, lease), asked=np.array([is_next]), now=1)[0])


@cache
def _completes(state: int, done: int, same_claim: bool, same_version: bool, number: int) -> bool:
    return bool(claims.completes(claims.Holders(*_row(state, done, 1, same_claim, same_version, number, number)))[0])


@cache
def _skips(state: int, lease: int, done: int, lowest: int, known: bool) -> bool:
    return bool(claims.holes_to_skip(claims.Holes(*_row(state, lease, done, 1, lowest, known, 0, 1)), now=1)[0])


@cache
def _forgettable(state: int, first: bool, second: bool) -> bool:
    marks = (2 if first else 0, 2 if second else 0)
    return bool(forgetting.forgettable(*_row(state, 1), 2, 1, *marks)[0])


@cache
def _watermark(own: int, others: int) -> int:
    return forgetting.watermark(own, others)


@cache
def _raised(done: int, over: int) -> int:
    return int(claims.raised(*_row(done, over))[0])


@cache
def _recovered(*done: int) -> int:
    return int(claims.recovered(*_row(*done))[0])
