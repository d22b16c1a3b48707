"""Which failures of a handler are tried again, and how often: what the kernel decides."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.kernel.operators.fault import ErrorClasses, FaultKind, Retry, attempts_of, kind_of, retry_delay

RETRY = Retry(attempts=5, delay=1.0, factor=2.0, ceiling=300.0, jitter=0.0)


class GoneError(LookupError):
    """Nearer than LookupError."""


SAID = ErrorClasses(transient=(LookupError, OSError), business=(GoneError, ValueError))


@pytest.mark.parametrize(
    ("error", "given", "kind"),
    [
        (RuntimeError("x"), {}, "unexpected"),
        (KeyError("x"), {}, "unexpected"),
        (TypeError("x"), {}, "unexpected"),
        (TypeError("x"), {"in_handler": True}, "bug"),
        (UnboundLocalError("x"), {"in_handler": True}, "bug"),
        (ModuleNotFoundError("x"), {"in_handler": True}, "bug"),
        (AttributeError("x"), {"in_handler": True}, "bug"),
        (RuntimeError("x"), {"in_handler": True}, "unexpected"),
        (sq.UsageError("x"), {}, "unexpected"),
        (SystemExit(3), {}, "unexpected"),
        (sq.Business("x"), {"passes": True}, "business"),
        (sq.Transient("x"), {}, "transient"),
        (RuntimeError("x"), {"passes": True}, "transient"),
        (AttributeError("x"), {"passes": True, "in_handler": True}, "transient"),
        (KeyError("x"), {"classes": SAID}, "transient"),
        (GoneError("x"), {"classes": SAID}, "business"),
        (UnicodeError("x"), {"classes": SAID, "passes": True}, "business"),
        (NameError("x"), {"classes": ErrorClasses(transient=(Exception,)), "in_handler": True}, "transient"),
        (sq.Transient("x"), {"classes": ErrorClasses(business=(sq.SeriatimError,))}, "transient"),
        (sq.Business("x"), {"classes": ErrorClasses(transient=(Exception,))}, "business"),
    ],
)
def test_the_kind_of_an_exception(error, given, kind):
    assert kind_of(error, **{"classes": ErrorClasses(), "passes": False, "in_handler": False} | given) == kind


@pytest.mark.parametrize(
    ("kind", "attempts", "pauses"),
    [
        (FaultKind.UNEXPECTED, 5, [1, 2, 4, 8]),
        (FaultKind.TRANSIENT, 5, [1, 2, 4, 8]),
        (FaultKind.BUG, 2, [1]),
        (FaultKind.BUSINESS, 1, []),
        (FaultKind.POISON, 5, [0, 0, 0, 0]),
        (FaultKind.TIMEOUT, 5, [0, 0, 0, 0]),
    ],
)
def test_how_often_each_kind_is_tried_and_with_which_pauses(kind, attempts, pauses):
    assert attempts_of(RETRY, kind) == attempts
    found = [retry_delay(RETRY, kind, attempt, None, 0.5) for attempt in range(1, attempts + 2)]
    assert found == [*(pause * 1_000_000 for pause in pauses), None, None]


def test_a_queue_with_one_attempt_tries_once():
    once = Retry(1, delay=0, factor=1.0, ceiling=0, jitter=0.0)
    assert [retry_delay(once, kind, 1, None, 0.5) for kind in FaultKind] == [None] * len(FaultKind)
    assert attempts_of(once, FaultKind.BUG) == 1


def test_the_pause_is_never_longer_than_it_says():
    retry = Retry(5, delay=1.0, factor=2.0, ceiling=3.0, jitter=0.5)
    assert [retry_delay(retry, FaultKind.UNEXPECTED, 3, None, chance) for chance in (0, 1)] == [3_000_000, 1_500_000]
    assert retry_delay(retry, FaultKind.TRANSIENT, 1, 60_000_000, 0.5) == 60_000_000  # what the handler asks for


def test_a_class_of_which_both_is_said_is_told():
    assert ErrorClasses((KeyError, OSError), (OSError,)).contradictions == [OSError]
