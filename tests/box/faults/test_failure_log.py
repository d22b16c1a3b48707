"""What a failing handler leaves in the log: a line each, and of many how many were left out."""

from __future__ import annotations

import logging

import pytest

from seriatim.box.faults.failure_log import FailureLog
from seriatim.box.faults.faults import Fault, FaultResult, Then
from seriatim.kernel.operators.fault import FaultKind

FAULT = Fault(
    FaultKind.UNEXPECTED, "RuntimeError", "no\nroom \x1b[31m", "w1", "Traceback …\n  in handle\x1b[0m\nRuntimeError: no"
)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(clock):
    return FailureLog(3, 1.0, clock)


def told(caplog):
    found = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "seriatim.failures"]
    caplog.clear()
    return found


FAILED = "failed (unexpected): RuntimeError: no room \\x1b[31m"
OPERATOR = "it waits for an operator (seriatim"


@pytest.mark.parametrize(
    ("group", "result", "level", "line"),
    [
        ("c1", FaultResult("m1", 2, 5, Then.RETRY, 2_000_000), logging.WARNING,
         f"queue 'shop', group 'c1', message m1: attempt 2 of 5 {FAILED}; tried again in 2 s"),
        (None, FaultResult("m1", 1, 5, Then.RETRY, 0), logging.WARNING,
         f"queue 'shop', message m1: attempt 1 of 5 {FAILED}; tried again at once"),
        ("c1", FaultResult("m1", 1, 1, Then.DEAD), logging.ERROR,
         f"queue 'shop', group 'c1', message m1: attempt 1 {FAILED}; set aside: it is a dead letter"),
        ("c1", FaultResult("m1", 5, 5, Then.SUSPENDED), logging.ERROR,
         f"queue 'shop', group 'c1', message m1: attempt 5 of 5 {FAILED}; group faulted: {OPERATOR} group show c1 --queue shop)"),
        ("c 1", FaultResult("m1", 5, 5, Then.STOPPED), logging.ERROR,
         f"queue 'shop', group 'c 1', message m1: attempt 5 of 5 {FAILED}; queue turned off: {OPERATOR} queue on shop)"),
    ],
)  # fmt: skip
def test_a_line_says_what_failed_and_what_happens_next(log, caplog, group, result, level, line):
    log.tell("shop", group, FAULT, result)
    ((found, text),) = told(caplog)
    first, *traceback = text.split("\n")
    assert (found, first) == (level, line)
    # Only where it isn't tried again.
    assert traceback == ([] if result.will_retry else ["Traceback …", "  in handle\\x1b[0m", "RuntimeError: no"])


def test_of_many_it_says_how_many_were_left_out(log, clock, caplog):
    again, dead = FaultResult("m", 1, 5, Then.RETRY, 1), FaultResult("m", 5, 5, Then.DEAD)
    for _ in range(10):
        log.tell("shop", "c1", FAULT, again)
    for _ in range(5):  # those that failed for good aren't lost among the others
        log.tell("shop", "c1", FAULT, dead)
    assert len(told(caplog)) == 6
    clock.now = 0.9
    log.look()
    assert told(caplog) == []
    clock.now = 1.5
    log.look()
    left = "9 more failures within 1.5 s are left out here, 2 of them for good; `seriatim faults` lists all"
    assert told(caplog) == [(logging.WARNING, left)]
    log.tell("shop", "c1", FAULT, again)
    log.look(ends=True)
    assert len(told(caplog)) == 1


def test_what_is_left_at_the_end_is_said(log, caplog):
    for _ in range(4):
        log.tell("shop", "c1", FAULT, FaultResult("m", 1, 5, Then.RETRY, 1))
    log.look(ends=True)
    assert "1 more failures" in told(caplog)[-1][1]


def test_a_long_traceback_is_cut_from_its_beginning(log, caplog):
    what = Fault(FaultKind.BUG, "E", "x" * 10_000, "w", "y" * 10_000 + "end")
    log.tell("shop", None, what, FaultResult("m", 2, 2, Then.DEAD))
    ((_, text),) = told(caplog)
    line, traceback = text.split("\n")
    assert len(line) < 700
    assert len(traceback) == 8_001
    assert traceback.endswith("end")
