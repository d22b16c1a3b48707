"""Random histories of claims, failures, votes, reservations and operators: the journal answers what a journal in memory answers."""

from __future__ import annotations

import copy
import random

import pytest

from seriatim.errors import ActionRefused, LeaseLost
from seriatim.kernel.regions.claims import Action
from tests import soak
from tests.regions.journal.given import NAME, QUEUE, asked, let_pass, numbered
from tests.regions.journal.oracle import Oracle

_SESSIONS = ("r", "s", "t")
_LEASE = 100.0


class _History:
    """One history; what can be done next is drawn by weight."""

    def __init__(self, journal, chance):
        self.journal, self.chance = journal, chance
        self.oracle = Oracle(attempts=2, retry=50, hole=150)
        self.claims = []  # ours with theirs, some of which have ended
        self.kept = []
        self.done = dict.fromkeys((verb.__name__ for verb, _ in self._verbs()), 0)

    def _verbs(self):
        return (
            (self.claim, 6), (self.complete, 5), (self.renew, 1), (self.give_back, 1), (self.fail, 2), (self.vote, 2),
            (self.reserve, 1), (self.confirm, 1), (self.bar, 1), (self.act, 2), (self.wait, 2),
        )  # fmt: skip

    def step(self):
        verbs, weights = zip(*self._verbs(), strict=True)
        (verb,) = self.chance.choices(verbs, weights)
        if verb():
            self.done[verb.__name__] += 1
            self.compare()

    def compare(self):
        found = {one.session: one for one in self.journal.sessions(name=NAME, queue=QUEUE)}
        assert found.keys() == self.oracle.sessions.keys()
        for key, one in self.oracle.sessions.items():
            ours = found[key]
            assert (ours.done_through, ours.sent_through, ours.state, ours.version) == (
                one.done,
                one.sent,
                one.state,
                one.version,
            )
            assert (ours.hole_since is None) == (one.hole is None)
            for entry in self.journal.entries(NAME, QUEUE, key, limit=1_000):
                for number in range(entry.first_number, entry.number + 1):
                    theirs = one.numbers[number]
                    assert (entry.message_id, entry.attempts) == (theirs.ident, theirs.attempts)
                    if theirs.state in ("skipped", "void"):  # a range that is skipped may have void numbers in it
                        assert entry.state in ("skipped", "void")
                    elif theirs.state in ("failed", "reserved"):
                        assert entry.state == theirs.state

    def _ident(self, number):
        # Rarely another message of the same number.
        return "x" if self.chance.random() < 0.1 else "m"

    def claim(self):
        rows, expected = [], []
        most = self.chance.choice([1, 1_000])
        for session in self.chance.sample(_SESSIONS, self.chance.randint(1, 3)):
            it = self.oracle.sessions.get(session)
            near = 0 if it is None else it.done
            numbers = sorted(self.chance.sample(range(max(1, near - 1), near + 6), self.chance.randint(1, 5)))
            theirs = [(number, self._ident(number)) for number in numbers]
            rows += [one for number, ident in theirs for one in asked(session, number, ident=ident)]
            expected.append((theirs, *self.oracle.claim(session, [(n, f"{i}{n}") for n, i in theirs], _LEASE, most)))
        found = self.journal.claim(NAME, QUEUE, "a", rows, lease=_LEASE, mode="message" if most == 1 else "session")
        assert [one.answer for one in found] == [answer for _, answers, _ in expected for answer in answers]
        at = 0
        for theirs, _, held in expected:
            ours = {one.claim.id: one.claim for one in found[at : at + len(theirs)] if one.claim}
            at += len(theirs)
            assert bool(ours) == (held is not None)
            self.claims += [(claim, held) for claim in ours.values()]
            if held:
                (claim,) = ours.values()
                assert (claim.first, claim.last) == (held.first, held.last)
        return True

    def _some_claim(self):
        return self.chance.choice(self.claims[-6:]) if self.claims else (None, None)

    def complete(self):
        ours, theirs = self._some_claim()
        if ours is None:
            return False
        through = self.chance.randint(ours.first, ours.last)
        if self.oracle.complete(theirs, through, _LEASE):
            with self.journal.transaction() as tx:
                left = tx.complete(ours, through)
            self.claims.remove((ours, theirs))
            if left is not None:
                self.claims.append((left, type(theirs)(theirs.session, theirs.claim, left.first, left.last)))
        else:
            with self.journal.transaction() as tx, pytest.raises(LeaseLost):
                tx.complete(ours, through)
        return True

    def renew(self):
        some = {ours.id: (ours, theirs) for ours, theirs in self.claims[-4:]}.values()
        lost = [ours for ours, theirs in some if not self.oracle.renew(theirs, _LEASE)]
        assert self.journal.renew([ours for ours, _ in some]) == lost
        return True

    def give_back(self):
        ours, theirs = self._some_claim()
        if ours is None:
            return False
        self.oracle.give_back(theirs)
        self.journal.give_back([ours])
        return True

    def fail(self):
        ours, theirs = self._some_claim()
        if ours is None:
            return False
        passes = self.chance.random() < 0.7
        expected = self.oracle.fail(theirs, passes=passes)
        if expected is None:
            with pytest.raises(LeaseLost):
                self.journal.fail(ours, ours.first, "bad", passes=passes)
        else:
            assert self.journal.fail(ours, ours.first, "bad", passes=passes).name.lower() == expected
        return True

    def vote(self):
        rows, expected = [], []
        for session in self.chance.sample(_SESSIONS, self.chance.randint(1, 2)):
            it = self.oracle.sessions.get(session)
            first = max(1, (0 if it is None else it.through) + self.chance.randint(0, 2))
            theirs = [(number, self._ident(number)) for number in range(first, first + self.chance.randint(1, 3))]
            rows += [numbered(session, number, ident) for number, ident in theirs]
            expected += self.oracle.vote(session, [(number, f"{ident}{number}") for number, ident in theirs])
        assert [one.vote for one in self.journal.vote(NAME, QUEUE, rows)] == expected
        return True

    def reserve(self):
        session = self.chance.choice(_SESSIONS)
        expected = self.oracle.reserve(session, _LEASE)
        (found,) = self.journal.reserve(NAME, QUEUE, {session: 1}, lease=_LEASE)[session]
        assert found.number == expected
        self.kept.append(found)
        return True

    def confirm(self):
        if not self.kept:
            return False
        one = self.kept.pop(self.chance.randrange(len(self.kept)))
        holds = self.oracle.confirm(one.session, one.number, f"m{one.number}")
        message = numbered(one.session, one.number)
        assert self.journal.confirm(NAME, QUEUE, [(one, message)]) == ([] if holds else [one])
        return True

    def bar(self):
        session = self.chance.choice(_SESSIONS)
        it = self.oracle.sessions.get(session)
        number, ident = max(1, (0 if it is None else it.done) + self.chance.randint(0, 4)), self._ident(0)
        expected = self.oracle.bar(session, number, f"{ident}{number}")
        assert self.journal.bar(NAME, QUEUE, [numbered(session, number, ident)], age=0) == [expected]
        return True

    def act(self):
        if not self.oracle.sessions:
            return False
        session, action = self.chance.choice([*self.oracle.sessions]), self.chance.choice([*Action])
        before = copy.deepcopy(self.oracle.sessions[session])
        self.oracle.settle(self.oracle.sessions[session])
        done = self.oracle.sessions[session].done
        through = self.chance.choice([None, done + 2]) if action == Action.SKIP else None
        if self.oracle.act(session, action.name.lower(), through):
            self._act(session, action, through)
        else:
            self.oracle.sessions[session] = before  # what is refused changes nothing
            with pytest.raises(ActionRefused):
                self._act(session, action, through)
        return True

    def _act(self, session, action, through):
        self.journal.act(NAME, QUEUE, session, action, actor="ann", reason="why", through=through)

    def wait(self):
        seconds = self.chance.choice([30, 60, 110])
        self.oracle.now += seconds
        let_pass(self.journal, seconds)
        return True


@pytest.mark.soak
def test_the_journal_answers_what_a_journal_in_memory_answers(journal, figures):
    history = _History(journal, random.Random(soak.seed()))
    for _ in range(soak.sized(20_000, 400)):
        history.step()
    assert all(history.done.values()), history.done
    figures(", ".join(f"{verb}: {times:,}" for verb, times in history.done.items()))
