"""Workers of two regions at once, some of which freeze and wake: each message is handled once, and each session in order."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from seriatim.errors import LeaseLost
from seriatim.kernel.regions.claims import JournalAnswer
from seriatim.regions.journal.values import QueueRules
from tests import soak
from tests.regions.journal.given import NAME, QUEUE, asked, claimed

_WORKERS, _RUN = 3, 3


class _Region:
    """A region that has a copy of each message, and workers."""

    def __init__(self, journal, name, sessions, numbers):
        self.journal, self.name = journal, name
        self.left = {f"s{at}": list(range(1, numbers + 1)) for at in range(sessions)}
        self.lock = threading.Lock()
        self.refused = 0

    def work(self, chance, everyone):
        while self.left:
            with self.lock:
                some = chance.sample(sorted(self.left), min(len(self.left), 4))
                rows = [row for key in some for row in asked(key, *self.left[key][: _RUN + 1])]
            found = claimed(self.journal, self.name, rows, mode=chance.choice(["session", "message"]))
            claims = {one.claim.id: one.claim for one in found if one.claim}
            if not claims and chance.random() < 0.3:  # a claim may be left by a worker that froze for good
                self.end_leases()
            for claim in claims.values():
                if chance.random() < 0.2:
                    self.freeze(everyone, chance)
                self.handle(claim)
            with self.lock:
                for one, row in zip(found, rows, strict=True):
                    if one.answer == JournalAnswer.OVER and row.number in self.left.get(row.session, ()):
                        self.left[row.session].remove(row.number)
                        if not self.left[row.session]:
                            del self.left[row.session]

    def end_leases(self):
        with self.journal.transaction() as tx:
            tx.connection.execute(
                "WITH held AS (SELECT name, queue, session FROM seriatim_journal.sessions WHERE state = 1"
                " ORDER BY name, queue, session FOR UPDATE) UPDATE seriatim_journal.sessions AS known SET lease_until = 0"
                " FROM held WHERE known.session = held.session"
            )

    def freeze(self, everyone, chance):
        """The worker says nothing for longer than its lease; somebody else takes what it has."""
        self.end_leases()
        other = chance.choice(everyone)
        with other.lock:
            rows = [row for key in sorted(other.left) for row in asked(key, *other.left[key][:1])]
        for one in claimed(other.journal, other.name, rows):
            if one.claim and chance.random() < 0.5:  # or it freezes, too
                other.handle(one.claim)

    def handle(self, claim):
        left = claim
        try:
            while left is not None:
                with self.journal.transaction() as tx:
                    tx.connection.execute(
                        "INSERT INTO handled (session, number) VALUES (%s, %s)", [left.session, left.first]
                    )
                    left = tx.complete(left, left.first)
        except LeaseLost:
            self.refused += 1


@pytest.mark.soak
def test_each_message_is_handled_once_and_each_session_in_order(journal, figures):
    # What is frozen here isn't broken.
    journal.define(NAME, QUEUE, QueueRules(attempts=1_000_000, retry_delay="50s", hole_timeout="150s"))
    sessions, numbers = soak.sized(200, 8), soak.sized(50, 6)
    with journal.transaction() as tx:
        tx.connection.execute("CREATE TABLE handled (at serial, session text, number bigint)")
    regions = [_Region(journal, name, sessions, numbers) for name in "ab"]
    chances = [random.Random(f"{soak.seed()} {at}") for at in range(2 * _WORKERS)]
    with ThreadPoolExecutor(2 * _WORKERS) as threads:
        for done in [threads.submit(regions[at % 2].work, chance, regions) for at, chance in enumerate(chances)]:
            done.result(timeout=600)
    handled = defaultdict(list)
    with journal.transaction() as tx:
        for session, number in tx.connection.execute("SELECT session, number FROM handled ORDER BY at"):
            handled[session].append(number)
    assert handled == {f"s{at}": list(range(1, numbers + 1)) for at in range(sessions)}
    taken_over = sum(one.take_overs for one in journal.sessions(limit=1_000))
    assert taken_over > 0
    figures(
        f"{sessions * numbers:,} messages, {taken_over} claims taken over, {sum(r.refused for r in regions)} completions refused"
    )
