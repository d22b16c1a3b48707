"""Which failures of a handler a worker tries again, and what it says of them in its log."""

from __future__ import annotations

import logging
import sys
from functools import partial, wraps
from types import ModuleType

import pytest

import seriatim as sq
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.box.workers.steps import TurnEnded
from seriatim.kernel.operators.fault import ErrorClasses, FaultKind
from seriatim.runtime.workers.exclusion import EXCLUSION
from seriatim.runtime.workers.handlers import called
from seriatim.runtime.workers.raised import fault_of
from tests.box.shop import define, publish, rows
from tests.runtime.workers.test_turn import faulted
from tests.runtime.workers.test_worker import work


class OutOfStockError(Exception):
    pass


class Called:
    def __call__(self, message, tx):
        return message.nothing


def own(message, tx):
    return message.nothing


def below(message, tx):
    own(message, tx)


def imports(message, tx):
    import no_such_module  # noqa: F401


def decorated(handler):
    @wraps(handler)
    def around(message, tx):
        return handler(message, tx)

    return around


def raised(handler, classes=ErrorClasses()):  # noqa: B008 -- nobody changes it
    try:
        called(handler, object(), object())
    except Exception as error:  # noqa: BLE001 -- it is what is asked for
        return fault_of(error, "w", classes, handler)
    raise AssertionError


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (own, "bug"),
        (Called(), "bug"),
        (Called().__call__, "bug"),
        (decorated(own), "bug"),
        (partial(own), "bug"),
        (imports, "bug"),
        (lambda message: None, "bug"),  # it can't be called so
        (lambda message, tx: int([]), "bug"),
        (below, "unexpected"),
        (decorated(below), "unexpected"),
        (lambda message, tx: {}["x"], "unexpected"),
    ],
)
def test_a_mistake_in_the_handler_s_own_code_is_told_from_one_below_it(handler, kind):
    assert raised(handler).kind == kind


def test_errors_of_the_network_are_known_without_importing_the_libraries(monkeypatch):
    def failing(error):
        def handle(message, tx):
            raise error

        return raised(handle).kind

    assert failing(ConnectionRefusedError()) == FaultKind.TRANSIENT
    assert failing(sq.Unavailable("x")) == FaultKind.TRANSIENT
    for library, name in (("httpx", "NetworkError"), ("requests.exceptions", "Timeout")):
        kind = type(name, (Exception,), {})
        monkeypatch.delitem(sys.modules, library, raising=False)
        assert failing(kind()) == FaultKind.UNEXPECTED
        assert library not in sys.modules
        module = ModuleType(library)
        setattr(module, name, kind)
        monkeypatch.setitem(sys.modules, library, module)
        assert failing(type("Own", (kind,), {})()) == FaultKind.TRANSIENT


def test_who_ended_the_transaction_has_failed_for_good():
    assert fault_of(TurnEnded("x"), "w").kind == FaultKind.BUSINESS


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_an_error_is_tried_until_the_attempts_are_used_up_and_told_each_time(box, mode, caplog):
    define(box, retry=sq.Retry(3, delay=0.01))
    publish(box, 1, 2)
    attempts = []

    def handle(message, tx):
        attempts.append((message.sequence, message.attempt))
        if message.sequence == 1:
            raise RuntimeError("no room")

    work(box, handle, mode=mode, done=lambda: faulted(box))
    assert attempts == [(1, 1), (1, 2), (1, 3)]
    assert [row.kind for row in rows(box, "SELECT kind FROM {schema}.faults")] == ["unexpected"] * 3
    lines = [record for record in caplog.records if record.name == "seriatim.failures"]
    assert [record.levelno for record in lines] == [logging.WARNING, logging.WARNING, logging.ERROR]
    texts = [record.getMessage() for record in lines]
    (message_id,) = {row.message_id for row in rows(box, "SELECT message_id FROM {schema}.faults")}
    begin = f"queue 'shop', group 'c1', message {message_id}: attempt"
    failed = "failed (unexpected): RuntimeError: no room;"
    assert texts[0].startswith(f"{begin} 1 of 3 {failed} tried again in 0.0")
    assert texts[2].startswith(f"{begin} 3 of 3 {failed} group faulted")
    assert "\n" not in texts[0]
    assert "in handle" in texts[2]


def test_a_mistake_in_the_code_is_tried_twice_and_what_is_said_counts_more(box):
    define(box, retry=sq.Retry(delay=0), errors="continue")
    publish(box, *range(1, 6))
    calls = []

    def handle(message, tx):
        calls.append(message.sequence)
        match message.sequence:
            case 1:
                return message.nothing
            case 2:
                raise OutOfStockError
            case 3:
                raise KeyError("x")  # a LookupError
            case 4 if message.attempt == 1:
                raise sq.Transient(retry_after=0)

    name = f"{__name__}:{OutOfStockError.__name__}"
    work(box, handle, workers=1, faults=sq.FaultKinds(transient=[sq.Unavailable], business=[name, "LookupError"]))
    assert calls == [1, 1, 2, 3, 4, 4, 5]
    query = "SELECT DISTINCT sequence, kind FROM {schema}.faults ORDER BY sequence"
    assert [tuple(row) for row in rows(box, query)] == [(1, "bug"), (2, "business"), (3, "business"), (4, "transient")]
    assert len(rows(box, "SELECT FROM {schema}.aside WHERE disposition = 'dead'")) == 3


def test_what_the_database_refuses_at_the_commit_is_tried_again_after_a_pause(box):
    define(box, retry=sq.Retry(2, delay=0.01, jitter=0))
    rows(box, "CREATE TABLE {schema}_heads (v int PRIMARY KEY)")
    rows(box, "CREATE TABLE {schema}_lines (v int REFERENCES {schema}_heads DEFERRABLE INITIALLY DEFERRED)")
    publish(box, 1, 2)

    def handle(message, tx):
        tx.connection.execute(f"INSERT INTO {box.schema}_lines VALUES (%s)", [message.sequence])
        if message.attempt == 2:
            with box.session() as other:  # what was missing has come meanwhile
                other.connection.execute(f"INSERT INTO {box.schema}_heads VALUES (1), (2) ON CONFLICT DO NOTHING")

    work(box, handle, workers=1)
    query = "SELECT sequence, attempt, error_class, retry_at - at AS pause FROM {schema}.faults"
    ((sequence, attempt, error_class, pause),) = [tuple(row) for row in rows(box, query)]
    assert (sequence, attempt, error_class) == (1, 1, "ForeignKeyViolation")
    assert pause.total_seconds() == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            lambda: sq.FaultKinds(business=["tests.runtime.workers.test_tried_again:own"]),
            "is not a class of exceptions",
        ),
        (lambda: sq.FaultKinds(business=["tests.nowhere:Error"]), "there is no module 'tests.nowhere'"),
        (
            lambda: sq.FaultKinds(transient=["NoSuchError"]),
            "transient: 'NoSuchError' doesn't name a class of exceptions",
        ),
        (lambda: sq.FaultKinds(transient="ValueError"), "transient can't be 'ValueError'"),
        (
            lambda: sq.FaultKinds(transient=[OSError], business=["OSError"]),
            "OSError can't be both transient and business",
        ),
        (lambda: sq.FaultKinds(transient=["int"]), "int is not a class of exceptions"),
        (lambda: [OSError], "faults can't be"),
    ],
)
def test_what_is_no_class_of_exceptions_is_refused(box, given, told):
    define(box)
    with pytest.raises(sq.UsageError, match=told):
        sq.Worker(box, "shop", own, faults=given())


@pytest.mark.parametrize("mode", ["transactional", "leased"])
@pytest.mark.parametrize(("kind", "alone"), [("poison", True), ("timeout", True), ("unexpected", False)])
def test_the_last_attempt_is_made_alone_where_one_has_ended_its_worker(box, kind, alone, mode):
    define(box, retry=sq.Retry(2, delay=0))
    publish(box, 1)
    (row,) = rows(box, "SELECT entry_id FROM {schema}.entries")
    with box.session() as tx:
        note_lost(
            tx.transaction,
            LostTurn("shop", "c1", row.entry_id),
            Fault(FaultKind(kind), "WorkerDied", "signal 9", "w"),
            1.0,
        )
    found = []
    work(box, lambda message, tx: found.append((message.attempt, EXCLUSION._is_alone)), mode=mode)
    assert found == [(2, alone)]
