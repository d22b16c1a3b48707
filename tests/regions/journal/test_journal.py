"""A journal to its users: claims, failures, holes, votes, reservations, operators, forgetting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row, tuple_row

import seriatim as sq
from seriatim.box.postgres.statements import statement
from seriatim.errors import ActionRefused, LeaseLost, UsageError
from seriatim.kernel.regions.claims import Action, EntryState, JournalAnswer
from seriatim.kernel.regions.votes import Vote
from seriatim.regions.journal import forgetting, votes
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import QueueRules, Token, WantedMessage, digest_of
from tests.blocked import wait_until_blocked
from tests.regions.journal.given import NAME, QUEUE, answers, asked, claim_of, claimed, let_pass, numbered

_WHO = {"actor": "ann", "reason": "a test"}


def _session(journal, session="s"):
    (found,) = journal.sessions(name=NAME, queue=QUEUE, session=session)
    return found


def _handled(journal):
    with journal.transaction() as tx:
        return [row[0] for row in tx.connection.execute("SELECT what FROM handled ORDER BY at")]


def _complete(journal, claim, through=None):
    with journal.transaction() as tx:
        return tx.complete(claim, through)


# ---- claims


def test_a_claim_has_the_numbers_that_follow_and_each_completion_raises_them(journal):
    found = claimed(journal, "a", asked("s", 3, 1, 2, 5))
    assert answers(found) == [JournalAnswer.TAKEN, JournalAnswer.TAKEN, JournalAnswer.TAKEN, JournalAnswer.AHEAD]
    claim = claim_of(found)
    assert (claim.first, claim.last, claim.token) == (1, 3, Token(1, 1))
    left = _complete(journal, claim, 1)
    assert (left.first, left.last) == (2, 3)
    assert (_session(journal).done_through, _session(journal).state) == (1, "working")
    with pytest.raises(LeaseLost):
        _complete(journal, claim, 1)
    left = _complete(journal, left, 2)
    assert _complete(journal, left) is None
    assert (_session(journal).done_through, _session(journal).state) == (3, "idle")
    assert answers(claimed(journal, "b", asked("s", 1, 2, 3, 5))) == [JournalAnswer.OVER] * 3 + [JournalAnswer.AHEAD]


def test_another_region_waits_for_the_lease_and_takes_over(journal):
    old = claim_of(claimed(journal, "a", asked("s", 1, 2)))
    waits = claimed(journal, "b", asked("s", 1, 2))
    assert answers(waits) == [JournalAnswer.WORKING] * 2
    assert 90_000_000 < waits[0].again <= 100_000_000
    assert journal.renew([old]) == []
    let_pass(journal, 101)
    new = claim_of(claimed(journal, "b", asked("s", 1, 2)))
    assert new.token > old.token
    assert _session(journal).take_overs == 1
    assert journal.renew([old, new]) == [old]
    with pytest.raises(LeaseLost):
        _complete(journal, old)
    _complete(journal, new)
    assert _session(journal).done_through == 2


def test_what_a_handler_wrote_goes_with_a_completion_that_is_refused(journal):
    with journal.transaction() as tx:
        tx.connection.execute("CREATE TABLE handled (what text, at serial)")
    old = claim_of(claimed(journal, "a", asked("s", 1)))
    with journal.transaction() as tx:
        tx.connection.execute("INSERT INTO handled VALUES ('a')")
        # Neither a heartbeat nor a take-over waits for the handler's transaction.
        assert journal.renew([old]) == []
        let_pass(journal, 101)
        new = claim_of(claimed(journal, "b", asked("s", 1)))
        with journal.transaction() as theirs:
            theirs.connection.execute("INSERT INTO handled VALUES ('b')")
            theirs.complete(new)
        with pytest.raises(LeaseLost):
            tx.complete(old)
    assert _handled(journal) == ["b"]


def test_a_completion_is_undone_with_what_the_handler_wrote_before_it(journal):
    first = claim_of(claimed(journal, "a", asked("s", 1)))
    with suppress(ZeroDivisionError), journal.transaction() as tx:
        tx.connection.execute("SELECT 1")
        tx.complete(first)
        raise ZeroDivisionError
    assert journal.renew([first]) == []
    with journal.transaction() as tx:  # alone it is a transaction of its own
        assert tx.complete(first) is None
    assert journal.renew([first]) == [first]


def test_claims_by_message_have_one_number_and_another_region_may_have_the_next(journal):
    found = claimed(journal, "a", asked("s", 1, 2), mode="message")
    assert answers(found) == [JournalAnswer.TAKEN, JournalAnswer.AHEAD]
    _complete(journal, claim_of(found))
    found = claimed(journal, "b", asked("s", 1, 2), mode="message")
    assert answers(found) == [JournalAnswer.OVER, JournalAnswer.TAKEN]


def test_a_claim_that_is_given_back_is_free_at_once(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    journal.give_back([claim])
    assert answers(claimed(journal, "b", asked("s", 1))) == [JournalAnswer.TAKEN]
    journal.give_back([claim])
    assert _session(journal).region == "b"


def test_a_number_that_isnt_the_claims_is_refused(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1, 2)))
    with pytest.raises(UsageError, match="can't be completed"):
        _complete(journal, claim, 3)


def test_a_second_message_under_one_number_conflicts_for_ever(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    assert answers(claimed(journal, "b", asked("s", 1, ident="x"))) == [JournalAnswer.CONFLICT]
    assert answers(claimed(journal, "b", asked("s", 1, body=b"another"))) == [JournalAnswer.CONFLICT]
    _complete(journal, claim)
    assert answers(claimed(journal, "b", asked("s", 1, ident="x"))) == [JournalAnswer.CONFLICT]
    assert answers(claimed(journal, "b", asked("s", 1))) == [JournalAnswer.OVER]
    assert _session(journal).conflicts == 3


def test_a_digest_tells_the_type_the_content_type_and_the_body_apart():
    told = {digest_of(*one) for one in [("ab", None, b"c"), ("a", None, b"bc"), ("a", "", b"bc"), ("a", "b", b"c")]}
    assert len(told) == 4


def test_any_number_of_sessions_takes_as_many_statements_as_one(journal):
    def statements(work):
        before = statement.cache_info()
        found = work()
        after = statement.cache_info()
        return found, after.hits + after.misses - before.hits - before.misses

    one, few = statements(lambda: claimed(journal, "a", asked("one", 1) + asked("other", 1)))
    rows = [row for at in range(300) for row in asked(f"s{at}", 1, 2)]
    many, same = statements(lambda: claimed(journal, "a", rows))
    assert (few, set(answers(one + many))) == (same, {JournalAnswer.TAKEN})
    held = [found.claim for found in many[::2]]
    assert statements(lambda: journal.renew(held)) == ([], 1)


# ---- failures


def test_a_message_that_fails_is_tried_again_and_then_stops_its_session_in_both_regions(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1, 2)))
    assert journal.fail(claim, 1, "away") == EntryState.PENDING
    waits = claimed(journal, "b", asked("s", 1, 2))
    assert answers(waits) == [JournalAnswer.LATER, JournalAnswer.AHEAD]
    assert 40_000_000 < waits[0].again <= 50_000_000
    let_pass(journal, 51)
    claim = claim_of(claimed(journal, "b", asked("s", 1, 2)))
    assert journal.fail(claim, 1, "away again") == EntryState.FAILED
    assert answers(claimed(journal, "a", asked("s", 1))) == [JournalAnswer.SUSPENDED]
    shown = _session(journal)
    assert (shown.state, shown.fault, shown.attempts) == ("suspended", "away again", 2)
    assert shown.waits_for == "message 1 has failed: retry or skip"
    with pytest.raises(ActionRefused, match="retry it, or skip it"):
        journal.act(NAME, QUEUE, "s", Action.RESUME, **_WHO)
    journal.act(NAME, QUEUE, "s", Action.RETRY, **_WHO)
    _complete(journal, claim_of(claimed(journal, "a", asked("s", 1, 2))))
    assert _session(journal).done_through == 2


def test_a_message_that_failed_for_good_is_over_where_the_queue_says_so(journal):
    journal.define(NAME, QUEUE, QueueRules(errors="continue"))
    claim = claim_of(claimed(journal, "a", asked("s", 1, 2)))
    assert journal.fail(claim, 1, "bad", passes=False) == EntryState.FAILED
    found = claimed(journal, "b", asked("s", 1, 2))
    assert answers(found) == [JournalAnswer.OVER, JournalAnswer.TAKEN]
    assert found[0].entry == EntryState.FAILED
    with pytest.raises(LeaseLost):
        journal.fail(claim, 2, "bad")


# ---- holes


def test_a_hole_is_skipped_when_its_time_has_run_out_unless_the_journal_knows_a_number_in_it(journal):
    assert answers(claimed(journal, "a", asked("s", 3) + asked("t", 3))) == [JournalAnswer.AHEAD] * 2
    assert "which no region has" in _session(journal).waits_for
    journal.vote(NAME, QUEUE, [numbered("t", 2)])
    let_pass(journal, 151)
    assert answers(claimed(journal, "b", asked("s", 3) + asked("t", 3))) == [JournalAnswer.TAKEN, JournalAnswer.AHEAD]
    assert "messages 1 to 2 (m2), which were sent" in _session(journal, "t").waits_for
    found = claimed(journal, "a", asked("s", 1, 2))
    assert [(one.answer, one.entry) for one in found] == [(JournalAnswer.OVER, EntryState.SKIPPED)] * 2
    assert [(one.first_number, one.number, one.state) for one in journal.entries(NAME, QUEUE, "s")] == [
        (3, 3, "working"),
        (1, 2, "skipped"),
    ]


def test_a_hole_is_skipped_also_where_nothing_behind_it_is_claimed(journal):
    assert journal.bar(NAME, QUEUE, [numbered("s", 2)], age=0) == [Vote.GRANTED]  # 2 is nobody's
    assert answers(claimed(journal, "a", asked("s", 3))) == [JournalAnswer.AHEAD]
    let_pass(journal, 151)
    assert answers(claimed(journal, "a", asked("s", 2, ident="x"))) == [JournalAnswer.OVER]
    session = _session(journal)
    assert (session.done_through, session.hole_since) == (1, None)


def test_the_time_of_a_hole_begins_anew_with_the_next_hole(journal):
    claimed(journal, "a", asked("s", 2))
    let_pass(journal, 100)
    _complete(journal, claim_of(claimed(journal, "b", asked("s", 1))))
    assert _session(journal).hole_since is None
    claimed(journal, "a", asked("s", 3))
    let_pass(journal, 100)
    assert answers(claimed(journal, "a", asked("s", 3))) == [JournalAnswer.AHEAD]


def test_a_hole_that_is_told_during_a_claim_is_over_with_it(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1, 2)))
    journal.tell(NAME, QUEUE, "b", asked("s", 2))
    assert _session(journal).hole_since is not None
    _complete(journal, _complete(journal, claim, 1))
    assert _session(journal).hole_since is None
    let_pass(journal, 200)
    assert answers(claimed(journal, "a", asked("s", 4))) == [JournalAnswer.AHEAD]  # 3 is missing since now only
    claim = claim_of(claimed(journal, "a", asked("t", 1)))
    journal.tell(NAME, QUEUE, "b", asked("t", 3))
    journal.fail(claim, 1, "a mistake", most=1, goes_on=True)
    assert _session(journal, "t").hole_since is None


def test_what_a_box_knows_to_be_over_counts_where_the_journal_went_back(journal):
    _complete(journal, claim_of(claimed(journal, "a", asked("s", 1))))
    found = claimed(journal, "b", asked("s", 2, 3, over=3))
    assert answers(found) == [JournalAnswer.OVER] * 2
    assert answers(claimed(journal, "b", asked("s", 4, 5, over=3))) == [JournalAnswer.TAKEN] * 2


# ---- votes and reservations


def _votes(journal, *messages, **settings):
    return [one.vote for one in journal.vote(NAME, QUEUE, list(messages), **settings)]


def test_a_vote_is_refused_where_the_number_or_a_higher_one_is_anothers(journal):
    assert _votes(journal, numbered("s", 1), numbered("s", 2), numbered("t", 5)) == [Vote.GRANTED] * 3
    assert _votes(journal, numbered("s", 1), numbered("t", 5)) == [Vote.HELD] * 2
    assert _votes(journal, numbered("s", 1, "x"), numbered("s", 3), numbered("t", 6)) == [
        Vote.REFUSED, Vote.REFUSED, Vote.GRANTED,
    ]  # fmt: skip
    assert journal.through(NAME, QUEUE, ["s", "t", "u"]) == {"s": 2, "t": 6}


def test_a_claim_is_a_vote_and_a_vote_is_kept_by_a_claim(journal):
    claimed(journal, "a", asked("s", 1))
    assert _votes(journal, numbered("s", 1, "x")) == [Vote.REFUSED]
    _votes(journal, numbered("t", 1), numbered("t", 2))
    assert answers(claimed(journal, "b", asked("t", 1, ident="x"))) == [JournalAnswer.CONFLICT]


def test_a_vote_of_a_call_from_before_a_restore_is_stale(journal):
    journal.fence(NAME, "a", 2)
    journal.fence(NAME, "a", 1)
    assert _votes(journal, numbered("s", 1), counted={"a": 1}) == [Vote.STALE]
    assert _votes(journal, numbered("s", 1), counted={"a": 2}) == [Vote.GRANTED]


@pytest.mark.parametrize("act", ["vote", "bar"])
def test_a_box_that_was_restored_waits_for_calls_that_count_its_former_votes(journal, journal_dsn, monkeypatch, act):
    journal.fence(NAME, "a", 1)
    lock, restored = votes.lock, []

    def locked_late(statements, *arguments, **options):
        if not restored:
            restored.append(others.submit(journal.fence, NAME, "a", 2))
            wait_until_blocked(journal_dsn, by=statements.connection)
        return lock(statements, *arguments, **options)

    monkeypatch.setattr(votes, "lock", locked_late)
    with ThreadPoolExecutor(1) as others:
        if act == "vote":
            assert _votes(journal, numbered("s", 1), counted={"a": 1}) == [Vote.GRANTED]
        else:
            assert journal.bar(NAME, QUEUE, [numbered("s", 1)], age=0, counted={"a": 1}) == [Vote.GRANTED]
        restored[0].result()
    assert _votes(journal, numbered("s", 2), counted={"a": 1}) == [Vote.STALE]


def test_a_message_is_barred_from_a_number_that_isnt_its_own(journal):
    _votes(journal, numbered("s", 2))
    asked_for = [numbered("s", 1), numbered("s", 2), numbered("s", 2, "x"), numbered("t", 3)]
    assert journal.bar(NAME, QUEUE, asked_for, age=0) == [Vote.GRANTED, Vote.HELD, Vote.GRANTED, Vote.GRANTED]
    # 1 is void, so that the session goes on at 2, which is the other message's; so is 3 of the other session.
    found = claimed(journal, "a", asked("s", 1, 2) + asked("t", 1, 2, 3))
    assert answers(found) == [JournalAnswer.OVER] + [JournalAnswer.TAKEN] * 3 + [JournalAnswer.OVER]
    _complete(journal, found[3].claim)
    assert answers(claimed(journal, "b", asked("t", 3, 4))) == [JournalAnswer.OVER, JournalAnswer.TAKEN]
    assert _votes(journal, numbered("t", 3)) == [Vote.REFUSED]
    journal.fence(NAME, "a", 2)
    assert journal.bar(NAME, QUEUE, [numbered("s", 5)], age=0, counted={"a": 1}) == [Vote.STALE]


def test_a_reservation_is_confirmed_in_time_or_its_number_is_over(journal):
    kept = journal.reserve(NAME, QUEUE, {"s": 3}, lease=100)["s"]
    assert [one.number for one in kept] == [1, 2, 3]
    assert journal.confirm(NAME, QUEUE, [(kept[1], numbered("s", 2))]) == []
    assert answers(claimed(journal, "a", asked("s", 1, 2))) == [JournalAnswer.LATER, JournalAnswer.AHEAD]
    assert _session(journal).waits_for == "a sender that has reserved 1"
    let_pass(journal, 101)
    assert journal.confirm(NAME, QUEUE, [(kept[0], numbered("s", 1))]) == [kept[0]]
    found = claimed(journal, "a", asked("s", 1, 2, 4))
    assert answers(found) == [JournalAnswer.OVER, JournalAnswer.TAKEN, JournalAnswer.AHEAD]
    assert found[0].entry == EntryState.VOID
    _complete(journal, claim_of(found[1:]))
    assert answers(claimed(journal, "a", asked("s", 4))) == [JournalAnswer.TAKEN]  # 3 is void, too


# ---- operators


def test_an_operator_skips_the_next_number_or_all_through_one(journal):
    _votes(journal, numbered("s", 2))
    done = journal.act(NAME, QUEUE, "s", Action.SKIP, **_WHO)
    assert (done.done_through, done.detail) == (1, "skipped 1")
    done = journal.act(NAME, QUEUE, "s", Action.SKIP, through=5, **_WHO)
    assert (done.done_through, done.detail) == (5, "skipped 2 to 5; known: m2")
    assert answers(claimed(journal, "a", asked("s", 1, 2, 4, 6))) == [JournalAnswer.OVER] * 3 + [JournalAnswer.TAKEN]
    with pytest.raises(ActionRefused, match=r"cannot skip a session that is working \(allowed: release, suspend\)"):
        journal.act(NAME, QUEUE, "s", Action.SKIP, **_WHO)
    assert [one.action for one in journal.log(name=NAME, queue=QUEUE, session="s")] == ["skip", "skip"]


def test_a_session_whose_messages_are_lost_names_them_and_goes_on_behind_them(journal):
    """Region a had claimed 1 to 3 and is gone for good; region b has 5 and 6 only, and the journal knows the ids of those that a had."""
    claimed(journal, "a", asked("s", 1, 2, 3))
    let_pass(journal, 101)
    assert answers(claimed(journal, "b", asked("s", 6))) == [JournalAnswer.AHEAD]
    assert (
        _session(journal).waits_for
        == "messages 1 to 5 (m1, m2, m3), which were sent, and which no region has: is one away?"
    )
    assert answers(claimed(journal, "b", asked("s", 5, 6))) == [JournalAnswer.AHEAD] * 2
    shown = _session(journal)
    assert shown.waits_for == "messages 1 to 4 (m1, m2, m3), which were sent, and which no region has: is one away?"
    assert (shown.next_number, shown.hole_through, shown.missing_ids) == (1, 4, ["m1", "m2", "m3"])
    assert shown.commands == [f"seriatim journal skip s --queue {QUEUE} --name {NAME} --through 4"]
    done = journal.act(NAME, QUEUE, "s", Action.SKIP, missing=True, **_WHO)
    assert (done.detail, done.skipped_from, done.skipped_through, done.message_ids) == (
        "skipped 1 to 4; known: m1, m2, m3",
        1,
        4,
        ("m1", "m2", "m3"),
    )
    assert answers(claimed(journal, "b", asked("s", 5, 6))) == [JournalAnswer.TAKEN] * 2
    assert _session(journal).hole_through is None
    let_pass(journal, 101)
    assert _session(journal).waits_for == "the lease is over: any region takes it over"
    with pytest.raises(ActionRefused, match="no region has told that a number is missing"):
        journal.act(NAME, QUEUE, "s", Action.SKIP, missing=True, **_WHO)


def test_an_operator_takes_a_session_out_of_a_workers_hands(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    journal.act(NAME, QUEUE, "s", Action.RELEASE, **_WHO)
    with pytest.raises(LeaseLost):
        _complete(journal, claim)
    journal.act(NAME, QUEUE, "s", Action.SUSPEND, **_WHO)
    assert answers(claimed(journal, "b", asked("s", 1))) == [JournalAnswer.SUSPENDED]
    journal.act(NAME, QUEUE, "s", Action.RESUME, **_WHO)
    assert answers(claimed(journal, "b", asked("s", 1))) == [JournalAnswer.TAKEN]
    with pytest.raises(UsageError, match="no session 'x'"):
        journal.act(NAME, QUEUE, "x", Action.RESUME, **_WHO)


def test_a_recovery_ends_all_claims_and_takes_over_what_the_boxes_know(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    done = journal.recover(NAME, {QUEUE: {"s": 4, "t": 2}}, **_WHO)
    assert (done.incarnation, done.stopped, done.raised) == (2, 1, 2)
    with pytest.raises(LeaseLost):
        _complete(journal, claim)
    found = claimed(journal, "b", asked("s", 4, 5) + asked("t", 3))
    assert answers(found) == [JournalAnswer.OVER, JournalAnswer.TAKEN, JournalAnswer.TAKEN]
    assert claim_of(found[1:]).token > claim.token


# ---- forgetting


def _report(journal, region, *, outbox=0.0, queue=0.0):
    others = journal.others_outbox(NAME, region)
    assert journal.report(NAME, region, 1, outbox_age=outbox, queue_age=queue, others=others)


def _both_report(journal, **ages):
    for region in ("a", "b", "a"):
        _report(journal, region, **ages)


def test_a_session_is_forgotten_when_both_regions_have_nothing_as_old(journal):
    _complete(journal, claim_of(claimed(journal, "a", asked("s", 1))))
    let_pass(journal, 1_000)
    assert journal.purge(NAME, 500).sessions == 0
    _report(journal, "a")
    _report(journal, "b", outbox=2_000)  # a copy is on its way to A
    _report(journal, "a")
    assert journal.purge(NAME, 500).sessions == 0
    _both_report(journal)
    assert journal.purge(NAME, 2_000).sessions == 0
    assert journal.purge(NAME, 500).sessions == 1
    assert journal.sessions(name=NAME) == []


def test_sessions_are_forgotten_in_portions_whatever_the_order_of_their_keys(journal, monkeypatch):
    monkeypatch.setattr(forgetting, "PORTION", 2)
    keys = ["b", "B", "a", "Z", "ä", "z", "_"]
    for key in keys:
        _complete(journal, claim_of(claimed(journal, "a", asked(key, 1))))
    claimed(journal, "a", asked("m", 1))  # is at work
    let_pass(journal, 1_000)
    _both_report(journal)
    assert journal.purge(NAME, 500).sessions == len(keys)
    assert [one.session for one in journal.sessions(name=NAME)] == ["m"]


def test_a_session_that_was_forgotten_goes_on_and_what_is_too_old_for_it_is_not_claimed(journal):
    old = claim_of(claimed(journal, "a", asked("s", 1)))
    _complete(journal, old)
    let_pass(journal, 1_000)
    _both_report(journal)
    journal.purge(NAME, 500)
    assert answers(claimed(journal, "a", asked("s", 1, age=2_000))) == [JournalAnswer.FORGOTTEN]
    assert journal.bar(NAME, QUEUE, [numbered("s", 1)], age=2_000) == [Vote.STALE]
    found = claimed(journal, "b", asked("s", 2, over=1))
    assert answers(found) == [JournalAnswer.TAKEN]
    assert claim_of(found).token > old.token
    assert answers(claimed(journal, "b", asked("t", 8, over=7))) == [JournalAnswer.TAKEN]


def test_an_operator_can_forget_without_a_region_that_is_gone(journal):
    _complete(journal, claim_of(claimed(journal, "a", asked("s", 1))))
    let_pass(journal, 1_000)
    _report(journal, "b")
    _report(journal, "a")
    journal.fence(NAME, "b", 2)  # it was restored since: what it has reported counts no more
    assert journal.purge(NAME, 500).sessions == 0
    with pytest.raises(UsageError, match="needs an actor"):
        journal.purge(NAME, 500, without="b")
    with pytest.raises(UsageError, match="no region 'c'"):
        journal.purge(NAME, 500, without="c", **_WHO)
    assert journal.purge(NAME, 500, without="b", **_WHO).sessions == 1
    assert journal.log(name=NAME)[0].action == "purge without b"


def test_the_ids_of_numbers_that_are_over_are_forgotten_and_that_they_are_over_is_not(journal):
    _complete(journal, claim_of(claimed(journal, "a", asked("s", 1, 2))))
    let_pass(journal, 1_000)
    assert journal.purge(NAME, 500).numbers == 2
    assert answers(claimed(journal, "b", asked("s", 1, ident="x"))) == [JournalAnswer.OVER]


# ---- bad input


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: WantedMessage("", 1, "m", bytes(32)), "a session can't be ''"),
        (lambda: WantedMessage(None, 1, "m", bytes(32)), "a session can't be None"),
        (lambda: WantedMessage("é" * 600, 1, "m", bytes(32)), "is too long"),
        (lambda: WantedMessage("s", "1", "m", bytes(32)), "number of a message can't be '1'"),
        (lambda: WantedMessage("s", 2**63, "m", bytes(32)), "number of a message can't be"),
        (lambda: WantedMessage("s", 1, "m", b"short"), "no SHA-256"),
        (lambda: QueueRules(increment=0), "increment can't be 0"),
        (lambda: QueueRules(errors="stop"), "errors can't be 'stop'"),
        (lambda: QueueRules(hole_timeout=0), "hole_timeout can't be 0"),
        (lambda: QueueRules(retry_delay=-1), "retry_delay can't be -1"),
    ],
)
def test_what_cant_be_a_value_is_refused(wrong, says):
    with pytest.raises(UsageError, match=says):
        wrong()


def test_calls_that_cant_be_answered_are_refused(journal):
    with pytest.raises(UsageError, match="asked for twice"):
        claimed(journal, "a", asked("s", 1) + asked("s", 1, ident="x"))
    with pytest.raises(UsageError, match="have one number"):
        journal.vote(NAME, QUEUE, [numbered("s", 1), numbered("s", 1, "x")])
    with pytest.raises(UsageError, match="knows no queue 'other'"):
        journal.claim(NAME, "other", "a", asked("s", 1))
    with pytest.raises(UsageError, match="begins at 1 in steps of 1"):
        journal.define(NAME, QUEUE, QueueRules(start=10))
    with pytest.raises(UsageError, match="a lease can't be 0"):
        claimed(journal, "a", asked("s", 1), lease=0)
    assert answers(claimed(journal, "a", asked("s", 0))) == [JournalAnswer.INVALID]
    assert claimed(journal, "a", []) == []


def test_a_worker_that_dies_has_used_up_an_attempt_of_the_number_in_work(journal):
    for region, attempts in (("a", 0), ("b", 1)):
        found = claimed(journal, region, asked("s", 1, 2))
        assert answers(found) == [JournalAnswer.TAKEN, JournalAnswer.TAKEN]
        assert [one.attempts for one in journal.entries(NAME, QUEUE, "s")] == [0, attempts]
        let_pass(journal, 200)
    assert answers(claimed(journal, "a", asked("s", 1, 2))) == [JournalAnswer.SUSPENDED, JournalAnswer.SUSPENDED]
    last = journal.entries(NAME, QUEUE, "s")[-1]
    assert (last.attempts, last.state, last.fault) == (2, "failed", "its worker in region b died, or lost its claim")
    assert _session(journal).take_overs == 2


def test_a_lease_that_is_over_counts_nothing_as_long_as_nobody_takes_over(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    let_pass(journal, 200)
    assert answers(claimed(journal, "b", asked("s", 2))) == [JournalAnswer.AHEAD]
    with journal.transaction() as tx:
        tx.complete(claim)
    assert _session(journal).done_through == 1


def test_a_number_is_postponed_in_both_regions_without_an_attempt(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    journal.postpone(claim, 1, "50s")
    (answer,) = claimed(journal, "b", asked("s", 1))
    assert (answer.answer, answer.entry) == (JournalAnswer.LATER, EntryState.PENDING)
    let_pass(journal, 60)
    assert answers(claimed(journal, "b", asked("s", 1))) == [JournalAnswer.TAKEN]
    assert [one.attempts for one in journal.entries(NAME, QUEUE, "s")] == [0]
    with pytest.raises(sq.LeaseLost):
        journal.postpone(claim, 1, "50s")


def test_a_failure_may_count_less_attempts_than_the_queue_says_or_let_the_session_go_on(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    assert journal.fail(claim, 1, "a mistake", most=1, goes_on=True) == EntryState.FAILED
    assert (_session(journal).done_through, _session(journal).state) == (1, "idle")


def test_holes_are_told_without_a_claim(journal):
    (answer,) = journal.tell(NAME, QUEUE, "a", asked("s", 3))
    assert (answer.answer, answer.through) == (JournalAnswer.AHEAD, 0)
    assert _session(journal).hole_since is not None
    let_pass(journal, 200)
    (answer,) = journal.tell(NAME, QUEUE, "a", asked("s", 3))
    assert (answer.answer, answer.claim, answer.through) == (JournalAnswer.AHEAD, None, 2)
    session = _session(journal)
    assert (session.state, session.done_through, session.hole_since) == ("idle", 2, None)


def test_a_handler_ends_its_transaction_neither_by_calls_nor_by_statements(journal):
    with journal.transaction() as tx:
        with pytest.raises(sq.UsageError, match="can't commit"), tx.lent():
            tx.connection.commit()
        with pytest.raises(sq.UsageError, match="can't commit each statement"), tx.lent():
            tx.connection.autocommit = True
        with pytest.raises(sq.UsageError, match="can't commit in two phases"), tx.lent():
            tx.connection.tpc_begin("parcels")
        with tx.lent(), tx.connection.transaction():  # a savepoint, also as the first of its statements
            tx.connection.execute("CREATE TABLE kept (n int)")
        with pytest.raises(sq.UsageError, match="has ended the transaction"), tx.lent():
            tx.connection.execute("COMMIT")


def _begins_otherwise(connection):
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    connection.read_only = connection.deferrable = True


def _reads_otherwise(connection):
    connection.cursor_factory = psycopg.ClientCursor
    connection.server_cursor_factory = psycopg.RawServerCursor
    connection.row_factory = dict_row


def _as_set(journal):
    """How a transaction begins, by PostgreSQL and by the driver."""
    with journal.transaction() as tx, tx.connection.cursor(row_factory=tuple_row) as cursor:
        its = tx.connection
        settings = cursor.execute(
            "SELECT current_user, ARRAY(SELECT pg_listening_channels()), array_agg(name || ' = ' || setting ORDER BY name)"
            " FROM pg_settings WHERE name LIKE 'transaction_%' OR name IN ('TimeZone', 'synchronous_commit', 'statement_timeout')"
        ).fetchone()
        return settings, its.cursor_factory, its.server_cursor_factory, its.row_factory


@pytest.mark.parametrize(
    "changes",
    [
        _begins_otherwise,
        _reads_otherwise,
        lambda connection: connection.execute("SET ROLE pg_monitor"),
        lambda connection: connection.execute(b"SET statement_timeout = '200ms'"),
        lambda connection: connection.cursor().execute("SELECT 1; SET synchronous_commit = local"),
        lambda connection: connection.execute("SELECT set_config('TimeZone', %s, false)", ["Asia/Tokyo"]),
        lambda connection: connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier("parcels"))),
    ],
)
def test_what_a_handler_changes_on_its_connection_holds_for_no_later_transaction(journal_dsn, changes):
    with Journal.open(journal_dsn, create=False, connections=1) as journal:
        before = _as_set(journal)
        with journal.transaction() as tx, tx.lent():
            changes(tx.connection)
        assert _as_set(journal) == before


def test_only_a_connection_that_a_handler_has_changed_is_replaced(journal_dsn):
    def pids():
        with journal.transaction() as one, journal.transaction() as other:
            return {one.connection.info.backend_pid, other.connection.info.backend_pid}

    with Journal.open(journal_dsn, create=False) as journal:
        before = pids()
        with journal.transaction() as tx, tx.lent():
            tx.connection.execute("SET LOCAL statement_timeout = '200ms'")
        assert pids() == before
        with journal.transaction() as tx, tx.lent():
            tx.connection.execute("SET statement_timeout = '200ms'")
        assert len(pids() & before) == 1


def test_a_number_is_completed_whatever_cursors_its_handler_has_chosen(journal):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    with journal.transaction() as tx:
        with tx.lent():
            _reads_otherwise(tx.connection)
            tx.connection.execute("CREATE TABLE handled (at int)")
        tx.complete(claim)
    assert _session(journal).done_through == 1


def test_an_answer_is_waited_for_for_a_while_only(journal, journal_dsn):
    claim = claim_of(claimed(journal, "a", asked("s", 1)))
    with Journal.open(journal_dsn, create=False, patience=1.0) as impatient, impatient.transaction() as other:
        other.connection.execute(
            "SELECT pg_sleep(1.3) FROM seriatim_journal.sessions FOR UPDATE"
        )  # a handler's may take long
        with pytest.raises(sq.Unavailable, match="answered for"):
            impatient.renew([claim])
    assert journal.renew([claim]) == []
