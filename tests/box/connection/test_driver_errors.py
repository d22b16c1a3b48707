"""Every public call raises errors of seriatim where PostgreSQL, or the driver, refuses: none of the driver's own."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import psycopg
import pytest

import seriatim as sq
from seriatim.box.session import Session
from seriatim.box.turns.delivery import Delivery
from seriatim.kernel.groups.verbs import Action
from seriatim.operations import (
    bulk,
    dead_letters,
    dialogs,
    events,
    faults,
    groups,
    instances,
    invariants,
    messages,
    queues,
    retention,
    set_aside,
    subscriptions,
    trace,
)
from seriatim.operations.grants import grant, revoke
from tests.box.shop import define, publish

pytestmark = pytest.mark.dear

BY = {"actor": "ann", "reason": "test"}
OPERATIONS = (
    bulk, dead_letters, dialogs, events, faults, groups, instances, invariants, messages, queues, retention, set_aside,
    subscriptions, trace,
)  # fmt: skip
MESSAGE = sq.Message(type="order", context={"customer": "c1", "version": 9})
#: How each method of a box is called; None: it asks nothing of PostgreSQL.
BOX = {
    "apply": None, "as_role": None, "check": None, "close": None, "define": [sq.Queue("other", policy=sq.Unordered())], "definitions": [],
    "drop": {"queue": "shop"}, "lease": ["shop"], "leased": None, "migrate": None,
    "more": None, "open": None, "peek": ["shop"], "publish": [MESSAGE], "session": None, "sessions": None,
    "replies": ["x"], "reply": ["x"], "request": [MESSAGE, {"reply": "x"}], "status_of": ["x"], "stop_receiving": None, "tick": [],
}  # fmt: skip
SESSION = {
    "answers": None, "begin_dialog": ["a", "b"], "begin_monolog": ["a", ["b"]], "close_group": [], "commit_and_receive": [], "dispense": ["till"],
    "end": ["00000000-0000-0000-0000-000000000000"], "handed_over": None, "has_ended": None,
    "history": ["00000000-0000-0000-0000-000000000000"],
    "move": ["00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"],
    "next_group": ["shop"], "publish": [MESSAGE], "publish_answers": [[MESSAGE], 0.0], "receive": ["shop"],
    "request": [MESSAGE, {"reply": "x"}], "save_instance": None,
    "send": ["00000000-0000-0000-0000-000000000000", "x"],
    "send_many": [[("00000000-0000-0000-0000-000000000000", "x", b"")]],
    "set_timer": ["00000000-0000-0000-0000-000000000000", 1.0],
}  # fmt: skip
DELIVERY = {
    "done": [],
    "done_through": [1],
    "postpone": ["1h"],
    "dead_letter": ["why"],
    "part": None,
    "put_back": [],
    "settle": None,
    "happens": None,
    "lent": None,
}
VERBS = [name for name, given in (DELIVERY | {"__iter__": []}).items() if given is not None]


def public(kind):
    return {name for name, one in inspect.getmembers(kind) if not name.startswith("_") and callable(one)}


def call(verb, given):
    """Call a verb, and take all that it gives."""
    options = given if isinstance(given, dict) else given[-1] if given and isinstance(given[-1], dict) else {}
    answer = verb(*(() if given is options else [one for one in given if one is not options]), **options)
    return list(answer) if isinstance(answer, Iterable) else answer


def ends(connection, pid):
    """End a backend of PostgreSQL; it is gone when this returns."""
    connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])


def told_by(verb, given):
    """The class of the error that a verb raises; None: it doesn't."""
    try:
        call(verb, given)
    except Exception as error:  # noqa: BLE001 -- which it is is asked
        return type(error)
    return None


@pytest.fixture
def gone(box):
    """A box that was dropped while it was open; then it knows queues and definitions still."""
    define(box)
    publish(box, 1, 2)
    with box.session() as tx:
        tx.receive("shop").put_back()
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {box.schema} CASCADE")
    return box


def test_every_method_of_a_box_that_is_gone(gone):
    assert public(sq.MessageBox) == BOX.keys()
    told = {name: told_by(getattr(gone, name), given) for name, given in BOX.items() if given is not None}
    assert [name for name, kind in told.items() if kind is not sq.SchemaMismatch] == []


def test_every_operation_in_a_box_that_is_gone(gone):
    told = [
        (f"{module.__name__.rpartition('.')[2]}.{name}", refused(gone, operation))
        for module in OPERATIONS
        for name in module.__all__
        if inspect.isfunction(operation := getattr(module, name))
    ]
    assert [name for name, kind in told if kind not in (sq.SchemaMismatch, "no box")] == [
        "invariants.long_transactions"
    ]
    assert len(told) > 50


GIVEN = {
    "box": None, "queue": "shop", "group": "c1", "entry_id": 1, "entry_ids": [1], "instance_id": 1, "fault_id": 1,
    "message_id": "x", "next": 1, "through": 1, "action": Action.SUSPEND, "actor": "ann", "reason": "test",
    "where": groups.GroupFilter(), "period": "1d", "seconds": 1.0,
}  # fmt: skip


def refused(box, operation):
    """The class of the error that an operation raises; or that it is called with other things than a box."""
    wanted = {
        name for name, one in inspect.signature(operation).parameters.items() if one.default is inspect.Parameter.empty
    }
    if "box" not in wanted or not wanted <= GIVEN.keys():
        return "no box"
    return told_by(operation, {name: box if name == "box" else GIVEN[name] for name in wanted})


def unavailable(work):
    """That a piece of work says that the server was away; what it does is undone."""
    with pytest.raises(sq.Unavailable):
        work()


@pytest.mark.dear
def test_every_verb_of_a_session_whose_backend_was_ended(box):
    assert public(Session) == SESSION.keys()
    define(box)
    publish(box, 1, 2)

    def in_session(name, given, connection=None):
        with box.session(connection) as tx:
            tx.receive("shop")
            ends(other, tx.connection.info.backend_pid)
            unavailable(lambda: call(getattr(tx, name), given))
            raise sq.Unavailable("as the verb")

    with psycopg.connect(box.dsn, autocommit=True) as other:
        for name, given in SESSION.items():
            if given is not None:
                unavailable(lambda name=name, given=given: in_session(name, given))
            if given is not None and name != "commit_and_receive":
                with psycopg.connect(box.dsn) as connection:
                    unavailable(lambda name=name, given=given, to=connection: in_session(name, given, to))
    assert invariants.broken(box) == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("whose", ["box", "application"])
def test_a_delivery_whose_backend_was_ended(box, verb, whose):
    assert public(Delivery) == DELIVERY.keys()
    define(box)
    publish(box, 1, 2)

    def in_session(connection):
        with box.session(connection if whose == "application" else None) as tx:
            delivery = tx.receive("shop", limit=2)
            ends(other, tx.connection.info.backend_pid)
            unavailable(lambda: call(getattr(delivery, verb), DELIVERY.get(verb, [])))
            raise sq.Unavailable("as the verb")

    with psycopg.connect(box.dsn, autocommit=True) as other, psycopg.connect(box.dsn) as connection:
        unavailable(lambda: in_session(connection))
    with box.session() as tx:
        assert [one.attempt for one in tx.receive("shop", limit=2)] == [1, 1]


@pytest.mark.parametrize("verb", VERBS)
def test_a_delivery_whose_right_was_revoked(box, verb):
    define(box)
    publish(box, 1, 2)
    name = f"{box.schema}_reader"

    def in_session():
        with opened.session() as tx:
            delivery = tx.receive("shop", limit=2)
            revoke(box, name)
            call(getattr(delivery, verb), DELIVERY.get(verb, []))

    with psycopg.connect(box.dsn, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN")
        grant(box, name, receive=["shop"])
        theirs = box.dsn.replace("postgresql://seriatim@", f"postgresql://{name}@")
        with sq.MessageBox.open(theirs, schema=box.schema) as opened, pytest.raises(sq.EnvironmentProblem):
            in_session()
        owner.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
    with box.session() as tx:
        assert len(tx.receive("shop", limit=2)) == 2
