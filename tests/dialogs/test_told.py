"""What is set aside of dialogs is told to whoever asks for failures: where they fail, and where their lifetime is over."""

from __future__ import annotations

import json

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.dialogs.clock import fire
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.box.pipelines.dialog_staging import DialogStaging, Speaker
from seriatim.box.pipelines.incoming import Incoming
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations.grants import grant
from tests.box.faults.test_failures import ask, failures
from tests.box.given_up import given_up
from tests.dialogs.talking import begun, far_of, let_expire, states, taken

OBJECT = sq.MessageType("AddItem", validation="valid_json", schema='{"type": "object", "additionalProperties": false}')


def short(found):
    return [(one["fault_kind"], one["dialog_sequence"], one["dead_letter"], one["error"]) for one in found]


def test_a_message_that_is_not_what_its_type_says_and_those_behind_it(talk):
    talk.define(OBJECT)
    ask(talk)
    handle = begun(talk, b"{}", b"[]", b"{}")
    far = far_of(talk, handle)
    assert taken(talk, "inventory", limit=1) == [("AddItem", b"{}")]
    assert taken(talk, "inventory") == []
    found = failures(talk)
    why = "the message 1 isn't a 'AddItem': not valid at $: it is not of type 'object'"
    assert short(found) == [("invalid", 1, False, found[0]["error"]), ("dead", 2, True, found[0]["error"])]
    assert found[0]["error"].startswith(why[:40])
    for one in found:
        assert (one["failed_queue"], one["failed_type"], one["handle"]) == ("inventory", "AddItem", str(far))
        assert (one["service"], one["far_service"], one["contract"]) == ("Inventory", "Orders", "AddItem")


def test_a_violation_may_have_a_nul_in_it(talk):
    talk.define(OBJECT)
    begun(talk, b'{"\\u0000": 1}', b"{}")
    assert taken(talk, "inventory") == []
    ((kind, body),) = taken(talk, "inventory")
    assert (kind, "isn't a 'AddItem'" in json.loads(body)["text"]) == ("Error", True)


def test_what_is_unread_when_the_lifetime_is_over(talk):
    ask(talk)
    handle = begun(talk, b"1", b"2", lifetime="1h")
    let_expire(talk, handle)
    talk.tick()
    assert short(failures(talk)) == [
        ("dead", number, True, "the lifetime of its dialog has ended") for number in (0, 1)
    ]
    talk.tick()
    assert failures(talk) == []


def test_it_waits_for_no_numbers_that_the_same_session_has_taken(talk):
    ask(talk)
    handle = begun(talk, b"1", lifetime="1h")
    let_expire(talk, handle)
    impatient = psycopg.conninfo.make_conninfo(talk.dsn, options="-c lock_timeout=3s")
    with sq.MessageBox.open(impatient, schema=talk.schema) as box, box.session() as tx:
        tx.dispense("box")
        assert [one.type for one in tx.receive("inventory")] == ["Error"]
    assert len(failures(talk)) == 1


def test_what_killed_its_worker_is_told_with_its_dialog(talk):
    ask(talk)
    handle = begun(talk, b"1")
    with psycopg.connect(talk.dsn) as connection:
        query = f"SELECT entry_id, group_key FROM {talk.schema}.entries"
        (entry_id, group) = connection.execute(query).fetchone()
    with talk.session() as tx:
        note_lost(
            tx.transaction,
            LostTurn("inventory", group, entry_id),
            Fault(FaultKind.POISON, "WorkerDied", "signal 9", "w1"),
            1.0,
        )
    (one,) = failures(talk)
    assert (one["fault_kind"], one["handle"], one["attempts"]) == ("poison", str(far_of(talk, handle)), 1)


def test_what_was_rolled_back_too_often(talk):
    talk.define(sq.Queue("inventory", group="conversation_group", retry=sq.Retry(rollbacks=2)))
    ask(talk)
    begun(talk, b"1", b"2")
    for _ in range(2):
        with given_up(talk.session()) as tx:
            assert len(tx.receive("inventory", limit=5)) == 2
    with given_up(talk.session()) as tx:
        assert tx.receive("inventory") is None
    (one,) = failures(talk)  # though who found it rolls back, as the group stays suspended
    assert (one["fault_kind"], one["error_class"], one["dialog_sequence"], one["attempts"]) == (
        "poison",
        "RolledBack",
        0,
        2,
    )
    assert (one["error"], one["dead_letter"]) == ("it was rolled back 2 times in a row", False)


def test_what_a_pipeline_can_not_send(talk):
    ask(talk)
    rows = pa.RecordBatch.from_pydict({"customer": [None, "a", "b"], "type": ["AddItem", "AddItem", "ItemAdded"]})
    speaker, incoming = Speaker("Orders", "Inventory", "AddItem"), Incoming(None, "customer")
    with DialogStaging(talk.dsn, talk.schema, speaker=speaker, incoming=incoming) as staging:
        assert staging.merge("w", 0, [staging.stage("w", 0, [rows])]) == 3
    assert {(one["fault_kind"], one["failed_type"], one["error"]) for one in failures(talk)} == {
        ("unrouted", "AddItem", "the group key is missing"),
        ("unrouted", "ItemAdded", 'only the target sends "ItemAdded" under the contract "AddItem"'),
    }


@pytest.fixture
def other(talk):
    """The box as a role has it: `other(publish=[…], …)`."""
    ask(talk)
    name = f"{talk.schema}_role"
    with psycopg.connect(talk.dsn, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN")

    def opened(**rights):
        grant(talk, name, publish=["alarms"], **rights)
        return sq.MessageBox.open(talk.dsn.replace("seriatim@", f"{name}@"), schema=talk.schema)

    yield opened
    with psycopg.connect(talk.dsn, autocommit=True) as owner:
        owner.execute(f"DROP SCHEMA {talk.schema} CASCADE")
        owner.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_of_what_a_role_may_not_receive_it_can_not_tell(talk, other, caplog):
    handle = begun(talk, b"1", b"2", lifetime="1h")
    with talk.session() as tx:
        tx.send(far_of(talk, handle), "ItemAdded", b"3")
    let_expire(talk, handle)
    with other(receive=["orders"]) as box:
        assert [kind for kind, _ in taken(box, "orders")] == ["Error"]  # who comes first ends it
    assert [(one["failed_queue"], one["failed_type"]) for one in failures(talk)] == [("orders", "ItemAdded")]
    assert "failures aren't published of queues that the role may not receive from: 2" in caplog.text


def test_who_may_receive_nothing_ends_dialogs_all_the_same(talk, other, caplog):
    handle = begun(talk, b"1", lifetime="1h")
    let_expire(talk, handle)
    with other() as box:
        assert fire(box._access) == 1
    assert set(states(talk).values()) == {"ER"}
    assert failures(talk) == []
    assert "that the role may not receive from: 1" in caplog.text
