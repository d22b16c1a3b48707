"""A session that is sent to two regions: every state that the model can reach, and broken variants, each with the shortest way to its fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import pytest

from seriatim.kernel.regions.claims import SessionState
from seriatim.kernel.regions.votes import Reply, SendStep, Vote
from tests import soak
from tests.models.regions import Box, Calm, Journal, Message, Regions, RegionsModel, Sender, Session, Work, with_vote
from tests.models.search import Found, Label, search, stranded

#: What each search contains; those that take longer than seconds run at full size only.
_SMALL = {
    "two senders": {"sends": (1, 1), "works": False},
    "a party is away": {"sends": (2,), "away": 1},
    "a lease ends": {"sends": (2,), "expiries": 1},
    "workers die for good": {"sends": (2,), "expiries": 1, "gives_up": True},
    "handlers write elsewhere": {"sends": (2,), "expiries": 1, "elsewhere": True},
    "a box is restored": {"sends": (2,), "restores": 1},
    "the session is forgotten": {"sends": (1,), "purges": 1},
    "the journal is recovered": {"sends": (1,), "recoveries": 1, "elsewhere": True, "expiries": 1},
}
_LARGE = {
    "a party is away, and a lease ends": {"sends": (2,), "away": 1, "expiries": 1},
    "two senders and workers": {"sends": (1, 1)},
    "two senders, and holes are skipped": {"sends": (1, 1), "holes": True},
    "two senders, and a party is away": {"sends": (1, 1), "away": 1, "works": False},
    "two senders, and a party is away while workers work": {"sends": (1, 1), "away": 1},
    "two senders, and a reply is lost": {"sends": (1, 1), "lost": 1},
    "three numbers": {"sends": (2, 1), "works": False, "away": 1},
    "three numbers of one sender": {"sends": (3,), "away": 1, "expiries": 1},
    "two senders, and a box is restored": {"sends": (1, 1), "restores": 1, "works": False},
    "two senders, and a box is restored from a backup": {
        "sends": (1, 1),
        "restores": 1,
        "backs_up": True,
        "works": False,
    },
    "a box is restored, and a party is away": {"sends": (1, 1), "restores": 1, "away": 1, "works": False},
    "holes are skipped": {"sends": (2,), "away": 1, "lost": 1, "holes": True},
    "the session is forgotten, and goes on": {"sends": (2,), "purges": 1},
    "the session is forgotten, and a box is restored": {"sends": (1,), "purges": 1, "restores": 1, "backs_up": True},
    "the journal is recovered between two numbers": {"sends": (2,), "recoveries": 1, "elsewhere": True, "expiries": 1},
}
_SEARCHED = _SMALL | (_LARGE if soak.full() else {})


@lru_cache(1)  # the states of a large one are gigabytes
def _found(name: str) -> Found[Regions]:
    return search(RegionsModel(**_SEARCHED[name]))


@pytest.mark.soak
@pytest.mark.parametrize("name", _SEARCHED)
def test_what_was_answered_is_handled_once_and_in_order(name, figures):
    calm, found = Calm(**_SEARCHED[name]), _found(name)
    figures(f"{name}: {found}")
    assert found.fault is None, str(found)
    sizes = _SEARCHED[name]
    # What a restore has taken doesn't come back.
    is_live = not {"restores", "recoveries"} & sizes.keys()
    if is_live and sizes.get("works", True):
        # From every state, the faults over, one can be reached in which all that was answered is handled.
        assert stranded(calm, found.states, calm.done) == []


#: States that are alike are looked at once: searches in which each part can have the other's name.
_ALIKE = {
    "two senders": {"sends": (1, 1), "works": False, "away": 1},
    "two workers": {"sends": (1,), "expiries": 1, "elsewhere": True, "recoveries": 1},
    "a session is forgotten": {"sends": (1,), "purges": 1},
} | ({"two senders and workers": {"sends": (1, 1), "holes": True}} if soak.full() else {})


@pytest.mark.dear
@pytest.mark.parametrize("name", _ALIKE)
def test_states_that_are_alike_go_on_alike(name):
    model, calm = RegionsModel(**_ALIKE[name]), Calm(**_ALIKE[name])

    def following(one: RegionsModel, state: Regions) -> Counter[frozenset[Regions]]:
        return Counter(frozenset(model.alike(after)) for _, after in one.steps(state))

    states = search(model).states
    several = 0
    # A step as wide as a prime looks at states of each kind and depth.
    for state in list(states)[:: 1 if soak.full() else 101]:
        alike = set(model.alike(state))
        several += len(alike) > 1
        assert len({model.fault(one) for one in alike}) == len({calm.done(one) for one in alike}) == 1
        for one in (model, calm):
            following_each = [following(one, each) for each in alike]
            assert following_each.count(following_each[0]) == len(alike)
    assert several


@pytest.mark.dear
def test_a_search_leaves_out_nothing_but_names():
    class WithNames(RegionsModel):
        def alike(self, state: Regions) -> Iterator[Regions]:
            yield state

    sizes = _SMALL["two senders"]
    model = RegionsModel(**sizes)
    all_states, found = search(WithNames(**sizes)).states, _found("two senders").states
    assert {alike for state in found for alike in model.alike(state)} == set(all_states)
    assert len(found) < len(all_states) / 3


def test_the_searches_reach_what_they_are_about():
    found = _found("two senders")
    assert any(len(state.answered) == 2 for state in found.states)
    assert any(sender.tried for state in found.states for sender in state.senders)
    taken_over = search(RegionsModel((1,), expiries=1))
    assert any(all(state.workers) for state in taken_over.states)


def test_a_message_whose_worker_died_fails_for_good_and_the_late_worker_cannot_complete_it():
    found = _found("workers die for good")
    assert any(state.failed for state in found.states)
    assert any(state.failed and any(state.workers) for state in found.states)

    class CompletesAnyway(RegionsModel):
        def completes(self, session: Session, work: Work) -> bool:
            return True

    assert search(CompletesAnyway(**_SEARCHED["workers die for good"])).fault is not None


class CopiesVoteAboveAll(RegionsModel):
    """A copy is a vote only above all that its box knows, as `regions/box_votes.py` has it: then a box needn't know at once what was skipped."""

    def copy_votes(self, box: Box, what: Message) -> bool:
        return what[0] > max(box.through, box.over)


@pytest.mark.soak
@pytest.mark.parametrize("name", _SEARCHED if soak.full() else ("two senders", "a party is away", "a box is restored"))
def test_fewer_copies_may_be_votes(name, figures):
    sizes = _SEARCHED[name]
    found = search(CopiesVoteAboveAll(**sizes))
    figures(f"{name}: {found}")
    assert found.fault is None, str(found)


# ---- broken variants


class NumberOfOneBox(RegionsModel):
    """The next number is what one box knows, plus one; the sender answers what that box has."""

    def alike(self, state: Regions) -> Iterator[Regions]:
        yield state

    def asked(self, state: Regions) -> list[tuple[int, ...]]:
        return [(0,)] if state.away != 0 else [(1,)]

    def number(self, state: Regions, asked: tuple[int, ...]) -> int:
        return state.boxes[asked[0]].through + 1

    def send_step(self, replies: tuple[int, int, int]) -> int:
        return SendStep.ANSWER if Reply.FOR in replies else super().send_step(replies)


class TriesAgainAnyway(RegionsModel):
    """A message gets another number, and the journal isn't asked."""

    def bars(self, state: Regions, sender: Sender, what: Message) -> int:
        return Vote.GRANTED

    def barred(self, state: Regions, what: Message) -> Regions:
        return state


class BarsWithoutAVote(RegionsModel):
    """The journal makes a number void for a sender that counts no vote."""

    def _withdraws(self, state: Regions, at: int, what: Message) -> tuple[Label, Regions]:
        return super()._withdraws(self.barred(state, what), at, what)


class BarsForAnOldVote(RegionsModel):
    """The journal makes a number void for a sender that counts a vote from before a restore."""

    def bars(self, state: Regions, sender: Sender, what: Message) -> int:
        newest = tuple(box.incarnation for box in state.boxes)
        return super().bars(state, sender._replace(incarnations=newest), what)


class CopyIsAlwaysAVote(RegionsModel):
    """A box that has voted for one message takes a copy of another for its vote."""

    def copy_votes(self, box: Box, what: Message) -> bool:
        return True


class VotesForWhatIsOver(RegionsModel):
    """A copy is a vote of a box that knows that its number was skipped."""

    def copy_votes(self, box: Box, what: Message) -> bool:
        return super().copy_votes(box._replace(over=0), what)


class VotesForWhatItTookOver(RegionsModel):
    """A copy is a vote of a restored box that has taken over its number, and not whose it is."""

    def copy_votes(self, box: Box, what: Message) -> bool:
        return super().copy_votes(box._replace(floor=0), what)


class RestoredBoxVotesAtOnce(RegionsModel):
    """A restored box votes without having learned the numbers of the others."""

    learned_by_restore = 2


class OldVotesCount(RegionsModel):
    """A party lets a sender count votes from before a restore."""

    def votes(self, state: Regions, sender: Sender, party: int, what: Message) -> int:
        newest = tuple(box.incarnation for box in state.boxes)
        return super().votes(state, sender._replace(incarnations=newest), party, what)


class OnlyTheHighestId(RegionsModel):
    """The journal knows the id of the highest number only."""

    def answer(self, session: Session, what: Message, forgotten: int, published: int) -> int:
        ids = tuple(one for one in session.ids if one[0] == session.through)
        return super().answer(session._replace(ids=ids), what, forgotten, published)


class CompletesWithoutItsClaim(RegionsModel):
    """A completion is compared with the state of the session, and not with its claim."""

    def completes(self, session: Session, work: Work) -> bool:
        return session.state == SessionState.WORKING and work.message[0] == session.done + 1


class ClaimsWhatIsTooOld(RegionsModel):
    """A message that is older than what the journal has forgotten can be claimed."""

    def answer(self, session: Session, what: Message, forgotten: int, published: int) -> int:
        return super().answer(session, what, 0, published)


class ForgetsWhatWaits(RegionsModel):
    """The journal forgets a session by time alone, also while a message waits."""

    def may_forget(self, journal: Journal) -> bool:
        return journal.session is not None and journal.session.state == SessionState.IDLE


class ForgetsByTime(ForgetsWhatWaits, ClaimsWhatIsTooOld):
    """The same, and what comes then can be claimed, however old it is."""


class LooksAtTheQueueOnly(ClaimsWhatIsTooOld):
    """A region reports that it has everything without knowing of the other's outbox."""

    def alike(self, state: Regions) -> Iterator[Regions]:
        yield state

    def may_forget(self, journal: Journal) -> bool:
        return super().may_forget(journal._replace(clean=(journal.clean[0], True)))


class BoxSkipsAlone(RegionsModel):
    """A hole is skipped by the box that waits, although the journal knows the number."""

    def skips(self, session: Session, what: Message) -> bool:
        return True


class JournalFirst(RegionsModel):
    """The number is completed before what the handler writes elsewhere."""

    def writes_first(self, state: Regions, work: Work) -> bool:
        return False


class TokenWithoutTheIncarnation(RegionsModel):
    """A system elsewhere is told the version of the claim only."""

    def token(self, work: Work) -> tuple[int, int]:
        return (0, work.token[1])


def _begun(*voted: tuple[int, Message], senders: tuple[Sender, ...], **changes: object) -> Regions:
    """A state in which parties have voted for messages."""
    state = Regions(senders=senders)
    for party, what in voted:
        state = with_vote(state, party, what)
    return state._replace(**changes)


_FOR = Reply.FOR
#: Y has written to B: the two votes that X and Y still get decide whose the number is.
_Y_HAS_WRITTEN = _begun((1, (1, 20)), senders=(Sender(), Sender(number=1, replies=(0, _FOR, 0))))
#: X has written to A, which was restored since, and votes again; B is away.
_A_WAS_RESTORED = Regions(
    boxes=(Box(incarnation=1), Box()),
    journal=Journal(fences=(1, 0)),
    senders=(Sender(number=1, replies=(_FOR, 0, 0)), Sender()),
    published=(10,),
    away=1,
)
_X_IS_ANSWERED = _begun((0, (1, 10)), (1, (1, 10)), senders=(Sender(sent=1), Sender()), answered=((1, 10),))
#: X has counted the vote of A, which was restored since and has learned nothing so far; the vote of J is still to come.
_A_KNOWS_NOTHING = Regions(
    boxes=(Box(incarnation=1, learned=0), Box()),
    senders=(Sender(number=1, replies=(_FOR, Reply.AWAY, 0)), Sender()),
    published=(10,),
)
_BOTH_HAVE_WRITTEN = _begun(
    (0, (1, 10)), (1, (2, 20)), senders=(Sender(number=1, replies=(_FOR, 0, 0)), Sender(number=2, replies=(0, _FOR, 0)))
)
_A_HAS_A_BACKUP = _X_IS_ANSWERED._replace(
    backups=(_X_IS_ANSWERED.boxes[0], None), senders=(Sender(sent=1), Sender(sent=1))
)
#: X has written to B, which is away, and has ended; Y goes on with A and the journal.
_X_HAS_ENDED = _begun((1, (1, 10)), senders=(Sender(sent=1), Sender()), away=1)


@pytest.mark.parametrize(
    ("broken", "sizes", "start", "says"),
    [
        (NumberOfOneBox, {"away": 1, "works": False}, None, "one number"),
        (TriesAgainAnyway, {}, _Y_HAS_WRITTEN, "under two numbers"),
        (BarsWithoutAVote, {}, _Y_HAS_WRITTEN, "answered"),
        (BarsForAnOldVote, {}, _A_WAS_RESTORED._replace(away=None), "answered"),
        (CopyIsAlwaysAVote, {}, _Y_HAS_WRITTEN, "answered"),
        (VotesForWhatIsOver, {"holes": True}, _BOTH_HAVE_WRITTEN, "without having been handled"),
        (VotesForWhatItTookOver, {"works": False}, _A_KNOWS_NOTHING, "one number"),
        (RestoredBoxVotesAtOnce, {"restores": 1, "works": False}, _X_IS_ANSWERED, "answered"),
        (OldVotesCount, {"works": False}, _A_WAS_RESTORED, "answered"),
        (OnlyTheHighestId, {"sends": (1, 2)}, _X_HAS_ENDED, "answered"),
        (CompletesWithoutItsClaim, {"sends": (1,), "expiries": 1}, None, "which is over"),
        (ForgetsByTime, {"sends": (1,), "purges": 1}, None, "was handled after"),
        (ForgetsWhatWaits, {"sends": (2,), "purges": 1}, None, "is set aside"),
        (LooksAtTheQueueOnly, {"sends": (1,), "purges": 1}, None, "was handled after"),
        (ClaimsWhatIsTooOld, {"purges": 1, "restores": 1, "backs_up": True}, _A_HAS_A_BACKUP, "was handled after"),
        (BoxSkipsAlone, {"sends": (2,), "away": 1, "holes": True}, None, "without having been handled"),
        (JournalFirst, {"sends": (1,), "elsewhere": True}, None, "nothing was handled"),
        (
            TokenWithoutTheIncarnation,
            {"sends": (1,), "elsewhere": True, "recoveries": 1, "expiries": 1},
            None,
            "under claim",
        ),
    ],
)
def test_each_broken_variant_is_caught(broken, sizes, start, says, figures):
    model = broken(**sizes)
    if start is not None:
        model.start = start._replace(left=model.start.left)
    found = search(model)
    figures(f"{broken.__name__}: {found}")
    assert says in str(found.fault)
