"""Senders, copies and workers in any order, while parties don't answer or their answers are lost: what was answered is handled once, in order."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import seriatim as sq
from seriatim.errors import SeriatimError, Unavailable
from seriatim.kernel.regions.claims import JournalAnswer
from seriatim.regions.journal.values import WantedMessage, digest_of
from seriatim.regions.party import Party
from tests import soak
from tests.regions.two import NAME, Two, message

SESSIONS = ("s", "t")


class Wire:
    """Loses calls and answers, as often as chance says."""

    def __init__(self, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance, self.lost = chance, 0.0
        call = Party.call

        def lossy(party: Party[Any], work: Callable[[Any], Any], **options: Any) -> Any:
            if self.chance.random() < self.lost:
                raise Unavailable(f"{party.name} is away")
            found = call(party, work, **options)
            if self.chance.random() < self.lost:
                raise Unavailable(f"the answer of {party.name} is lost")
            return found

        monkeypatch.setattr(Party, "call", lossy)


class Handled:
    """What workers of both regions have handled."""

    def __init__(self, two: Two) -> None:
        self.two = two
        self.numbers: dict[str, list[tuple[int, str]]] = defaultdict(list)

    def work(self, region: str, most: int) -> int:
        """Ask the journal for the lowest message of each session in a box; returns how many copies are done."""
        box = self.two.boxes[region == "b"]
        rows = self.two.rows(
            box,
            """SELECT DISTINCT ON (group_key) group_key, sequence, its.message_id, body, entry_id, over_through, withdrawn
            FROM {0}.entries JOIN {0}.spool USING (arrival_id, position) JOIN {0}.region_numbers AS its USING (arrival_id, position)
            LEFT JOIN {0}.region_sessions AS known ON known.queue_id = entries.queue_id AND known.session = group_key
            ORDER BY group_key, sequence""",
        )[:most]
        done = 0
        for session, number, ident, body, entry, over, withdrawn in rows:
            asked = WantedMessage(session, number, ident, digest_of("status", None, body), 0, over, withdrawn)
            (answer,) = self.two.journal.claim(NAME, "status", region, [asked], mode="message")
            if answer.claim is not None:
                with self.two.journal.transaction() as tx:
                    tx.complete(answer.claim)
                self.numbers[session].append((number, ident))
            if answer.claim is not None or answer.answer is JournalAnswer.OVER:
                self.two.rows(box, "DELETE FROM {0}.entries WHERE entry_id = %s RETURNING 1", entry)
                done += 1
        return done


class _Applications:
    """Transactions of applications in both boxes, some of which take longer than their reservations."""

    def __init__(self, two: Two, chance: random.Random, senders: list[sq.Regions]) -> None:
        self.two, self.chance, self.senders = two, chance, senders
        self.begun: list[tuple[psycopg.Connection, sq.Message]] = []
        self.committed: set[str] = set()

    def publish(self, message: sq.Message) -> bool:
        """Publish in a transaction, which stays open; False: it was refused."""
        with self.chance.choice(self.two.boxes).access.connect() as other:
            connection = psycopg.connect(other.info.dsn)
        try:
            self.chance.choice(self.senders).publish(message, connection=connection)
        except SeriatimError:
            connection.close()
            return False
        self.begun.append((connection, message))
        return True

    def end_all(self) -> list[sq.Message]:
        """End all transactions; the messages that aren't sent."""
        return [one for _ in range(len(self.begun)) for one in self.end_one()]

    def end_one(self) -> list[sq.Message]:
        """Commit a transaction, or roll it back, in time or too late; the messages that aren't sent."""
        if not self.begun:
            return []
        connection, message = self.begun.pop(self.chance.randrange(len(self.begun)))
        if self.chance.random() < 0.3:
            with self.two.journal.transaction() as tx:
                tx.connection.execute(b"UPDATE seriatim_journal.entries SET due_at = due_at - 20000000 WHERE state = 1")
        commits = self.chance.random() < 0.8
        (connection.commit if commits else connection.rollback)()
        connection.close()
        if commits:
            self.committed.add(message.message_id)
        # Who doesn't know what became of its commit publishes the same once more.
        return [message] if not commits or self.chance.random() < 0.3 else []


@pytest.mark.soak
@pytest.mark.parametrize("way", ["own", "journal", "transactions"])
@pytest.mark.parametrize("at", range(soak.sized(20, 2, 1)))
def test_what_was_answered_is_handled_once(
    two: Two, monkeypatch: pytest.MonkeyPatch, at: int, way: str, figures: Callable[[str], None]
) -> None:
    numbers: Any = None if way == "own" else "journal"
    chance = random.Random(f"{soak.seed()} {at} {way}")
    wire, handled = Wire(chance, monkeypatch), Handled(two)
    senders = [
        sq.Regions(two.first, two.second, two.journal, name=NAME, patience="30s", retry_after=0, numbers=numbers, prefer=None, spread=0)
        for _ in range(2)
    ]  # fmt: skip
    applications = _Applications(two, chance, senders)
    answered: dict[str, tuple[str, int]] = {}
    open_: list[sq.Message] = []
    made = refused = 0
    for _ in range(soak.sized(300, 50, 25)):
        wire.lost = chance.choice((0.0, 0.0, 0.1, 0.3))
        step = chance.random()
        if step < 0.6:
            again = open_ and chance.random() < 0.5
            sent = (
                open_.pop(chance.randrange(len(open_))) if again else message(chance.choice(SESSIONS), ident=f"m{made}")
            )
            made += not again
            if way == "transactions" and chance.random() < 0.6:
                if not applications.publish(sent):
                    refused += 1
                    open_.append(sent)
                continue
            try:
                (found,) = chance.choice(senders).publish(sent)
            except SeriatimError:
                refused += 1
                open_.append(sent)
            else:
                known = answered.setdefault(found.message_id, (found.session, found.number))
                assert known == (found.session, found.number)
        elif way == "transactions" and step < 0.75:
            open_ += applications.end_one()
        elif step < 0.85:
            chance.choice(senders).tend()
        else:
            wire.lost = 0.0
            handled.work(chance.choice("ab"), 2)
    wire.lost = 0.0
    open_ += applications.end_all()
    with two.journal.transaction() as tx:  # reservations of senders that died end
        tx.connection.execute(b"UPDATE seriatim_journal.entries SET due_at = due_at - 20000000 WHERE state = 1")
    _finish(two, handled, made)
    for one in open_ if numbers is None else ():
        (found,) = senders[0].publish(one)
        answered[found.message_id] = (found.session, found.number)
    _finish(two, handled, made)
    figures(
        f"{made} messages, {refused} refused or unknown, {len(answered)} answered, {len(applications.committed)} committed"
    )
    _check(handled, answered, applications.committed)


def _check(handled: Handled, answered: dict[str, tuple[str, int]], committed: set[str]) -> None:
    """Each message was handled once and in order, and what was answered or committed was."""
    every = {(session, number): ident for session, its in handled.numbers.items() for number, ident in its}
    assert sum(map(len, handled.numbers.values())) == len(every) == len(set(every.values()))
    assert all(its == sorted(its) for its in handled.numbers.values())
    assert {ident: every.get(place) for ident, place in answered.items()} == {ident: ident for ident in answered}
    assert committed <= set(every.values())


def _finish(two: Two, handled: Handled, made: int) -> None:
    """Without faults: until nothing is left."""
    for _ in range(made + 10):
        copied = two.regions.tend()
        done = handled.work("a", 2) + handled.work("b", 2)
        if not done and not any(one.copied or one.over for one in copied):
            return
