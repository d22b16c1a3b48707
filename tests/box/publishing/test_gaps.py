"""Recorded cases of reading a log whose numbers commit out of order, on ours, which can't.

In that system a number is taken when a transaction begins to write, so a reader sees gaps: transactions that are
still open, or were rolled back. It has to remember them, for as long as it guesses that they may come. Here the same
transactions are opened and committed in the same order; a number is given at commit, so a reader needs one cursor
and sees every message once, in the order of commits. Where theirs jumps, or refuses, ours is said beside it.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

import seriatim as sq

SUITE = "GapAwareTrackingToken"
#: No transaction takes 2⁶³ numbers by being late: numbers don't jump here.
MOST = 200


def recorded():
    folder = Path(os.environ.get("SERIATIM_SHARED", "../shared"))
    file = (folder if folder.is_absolute() else Path(__file__).parents[3] / folder) / "vectors" / "cases.json"
    if not file.is_file():
        reason = "the recorded data is not here (SERIATIM_SHARED names its folder)"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    cases = [case for case in json.loads(file.read_text(encoding="utf-8")) if SUITE in case["suite"]]
    return [pytest.param(case, id=case["case"]) for case in cases]


class Log:
    """Transactions that each write one message, and a reader with one cursor."""

    def __init__(self, box, stack):
        self._box = box
        self._stack = stack
        self.open = {}
        self.committed = []
        self.read = []

    def begin(self, name):
        connection = self._stack.enter_context(psycopg.connect(self._box.dsn))
        with self._box.session(connection) as tx:
            tx.publish([sq.Message(type="event", message_id=str(name))])
        self.open[name] = connection

    def commit(self, name):
        if name not in self.open:
            self.begin(name)
        self.open.pop(name).commit()
        self.committed += [] if str(name) in self.committed else [str(name)]

    def look(self):
        query = f"SELECT number, message_id FROM {self._box.schema}.messages WHERE number > %s ORDER BY number"
        with self._box.session() as tx:
            rows = tx.connection.execute(query, [len(self.read)]).fetchall()
        assert [number for number, _ in rows] == [len(self.read) + n + 1 for n in range(len(rows))]
        self.read += [name for _, name in rows]


@pytest.mark.parametrize("case", recorded())
def test_a_reader_needs_no_gaps(box, case):
    index, gaps = case["config"]["index"], case["config"]["gaps"]
    with ExitStack() as stack:
        log = Log(box, stack)
        for number in range(1, index + 1):
            if number in gaps:
                log.begin(number)
            else:
                log.commit(number)
        log.look()
        for step in case["steps"]:
            to = min(step["advance_to"], MOST)
            # Those between are begun, and not committed; one that was read before changes nothing (theirs: an error).
            for number in range(index + 1, min(to, index + 20)):
                log.begin(number)
            log.commit(to)
            log.look()
        assert log.read == log.committed
        open_before = len(log.open)
        for connection in log.open.values():
            connection.rollback()
        log.commit("after the others were rolled back")
        log.look()
        assert log.read == log.committed
    theirs = case["expect"].get("gaps")
    if isinstance(theirs, list):
        assert set(theirs) <= set(log.open)  # what they have to remember is what is open; ours forgets it
        assert open_before >= len(theirs)
