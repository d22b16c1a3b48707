"""A trace goes on in the box into which a message was sent, where that one has granted it; and tells nothing where it hasn't."""

from __future__ import annotations

import json

import psycopg
import pytest

import seriatim as sq
from seriatim.box.links.carrier import Carrier
from seriatim.operations import links
from seriatim.operations.links import transmit
from seriatim.operations.trace import trace_message
from seriatim.testing import work_off
from tests.box import roles
from tests.box.links import recorder
from tests.box.links.https_pairs import asked_over_tls, paired_over_https, received, request
from tests.box.links.pairs import Pair, carried, order, paired

_WHY = {"actor": "test", "reason": "a test"}


@pytest.fixture
def pair(databases):
    with paired(databases) as both:
        transmit(both.near)  # the first contact
        yield both


def _grant(pair: Pair, *, trace: bool = True) -> None:
    links.accept(pair.far, "near", role=pair.role, other=str(pair.near.id), queues=["orders"], trace=trace, **_WHY)


def _ask(pair: Pair, message_id: str, *, home: bytes | None = None, space: str = "") -> tuple:
    """What the door says to the link's role: kind, and heap."""
    question = _question(pair, message_id, home=home, space=space)
    with (
        psycopg.connect(roles.dsn_of(pair.far, pair.role), autocommit=True) as connection,
        connection.cursor(binary=True) as cursor,
    ):
        call = f"SELECT {pair.far.schema}.link_trace(%b::bytea)"
        head, _, heap = recorder.read(cursor.execute(call, [question]).fetchone()[0])
    return head[1], heap


def _question(pair: Pair, message_id: str, *, home: bytes | None = None, space: str = "") -> bytes:
    asked = recorder.trace(message_id.encode(), space.encode(), home or pair.near.id.bytes)
    return recorder.between(asked, pair.near.id.bytes, pair.far.id.bytes)


def _told(steps) -> list[tuple[str, str | None]]:
    return [(str(step.kind), step.link) for step in steps]


def test_a_trace_goes_on_in_the_other_box(pair: Pair):
    _grant(pair)
    assert links.status(pair.far)[0].traces
    one, two = pair.send(1, 2)
    transmit(pair.near)
    pair.far.tick()
    steps = trace_message(pair.near, one)
    # What isn't kept here any more, the other box knows.
    assert _told(steps) == [
        ("received", None), ("done", None), ("received", "far"), ("routed", "far"), ("waits", "far")
    ]  # fmt: skip
    assert f"over link far to box {pair.far.id}, acknowledged" in steps[1].text
    assert "at location link:near as order, ticket link:near/0/1" in steps[2].text
    assert (steps[3].queue, steps[3].group) == ("orders", "c1")
    assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]
    *_, last = trace_message(pair.near, two)
    assert (last.kind, last.link, last.at is None) == ("done", "far", False)
    assert _told(trace_message(pair.near, two, over_links=False)) == [("received", None), ("unknown", None)]


def test_what_handlers_fail_at_there_is_told_without_bodies(pair: Pair):
    _grant(pair)
    pair.far.define(sq.Queue("orders", group="customer", keep="everything", retry=sq.Retry(1)))
    (message_id,) = pair.near.publish([order(1)])
    transmit(pair.near)

    def fails(message, tx):
        raise ValueError("no such customer")

    work_off(pair.far, "orders", fails, fails=True)
    steps = trace_message(pair.near, message_id)
    assert [str(step.kind) for step in steps if step.link == "far"] == [
        "received",
        "routed",
        "released",
        "fault",
        "waits",
    ]
    (fault,) = [step for step in steps if step.kind == "fault"]
    assert "ValueError: no such customer" in fault.text
    kind, heap = _ask(pair, message_id)
    assert kind == recorder.STEPS
    told = json.loads(heap)
    assert told.keys() == {"received_at", "type", "ticket", "places", "faults"}
    assert told["faults"][0].keys() == {
        "queue", "group", "attempt", "kind", "error_class", "error", "at", "worker", "retry_at"
    }  # fmt: skip


def test_a_box_that_isnt_granted_it_is_told_the_same_of_all(pair: Pair):
    (message_id,) = pair.send(1)
    transmit(pair.near)
    before = trace_message(pair.near, message_id, over_links=False)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _ask(pair, message_id)
    assert trace_message(pair.near, message_id) == before
    # A role that may call everything is told the same of a message that is there, and of one that isn't.
    roles.rows(pair.far, f"GRANT EXECUTE ON FUNCTION {pair.far.schema}.link_trace(bytea) TO {pair.role}")
    assert _ask(pair, message_id) == _ask(pair, "nothing") == (recorder.REFUSAL, b"nothing is known of this")
    assert trace_message(pair.near, message_id) == before
    # It is taken back by accepting the box without it.
    _grant(pair)
    assert _ask(pair, message_id)[0] == recorder.STEPS
    _grant(pair, trace=False)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _ask(pair, message_id)
    assert not links.status(pair.far)[0].traces


def test_only_what_came_over_the_link_is_told(pair: Pair):
    _grant(pair)
    pair.far.publish([sq.Message(type="order", message_id="own", context={"to": "orders", "customer": "c1", "nth": 1})])
    pair.near.publish(
        [sq.Message(type="order", message_id="mine", context={"to": "orders", "customer": "c1", "nth": 2})]
    )
    transmit(pair.near)
    assert _ask(pair, "mine")[1] != b"{}"
    for message_id, home, space in (
        ("own", None, ""), ("own", pair.far.id.bytes, ""), ("mine", pair.far.id.bytes, ""), ("mine", None, "other"), ("x" * 1024, None, "")
    ):  # fmt: skip
        assert _ask(pair, message_id, home=home, space=space) == (recorder.STEPS, b"{}")
    # What came by another link isn't its own.
    roles.rows(pair.far, "UPDATE box.known_links SET link = 'other'")
    assert _ask(pair, "mine") == (recorder.STEPS, b"{}")
    for bad in (recorder.trace(b""), recorder.frame(recorder.FETCH)):
        with pair.near.access.transaction() as transaction:
            answer = bytes(transaction.value("link_trace_as", of_public_key=None, frame=bad))
        assert recorder.read(answer)[0][1] == recorder.REFUSAL


def test_what_is_kept_of_nothing_is_told_to_the_box_of_the_message_only(pair: Pair):
    _grant(pair)
    pair.far.define(sq.Queue("orders", group="customer", keep="nothing"))
    (message_id,) = pair.send(1)
    transmit(pair.near)
    assert carried(pair.far) == [("c1", 1, False)]
    steps = trace_message(pair.near, message_id)
    assert _told(steps)[2:] == [("received", "far"), ("unknown", "far")]
    roles.rows(pair.far, "UPDATE box.message_ids SET id_space = 'link:00000000-0000-4000-8000-000000000001:'")
    other = bytes.fromhex("00000000000040008000000000000001")
    assert _ask(pair, message_id, home=other) == (recorder.STEPS, b"{}")


def test_another_version_and_a_box_that_is_away_end_the_trace_here(databases, monkeypatch):
    with paired(databases, keep_sent="1d") as pair:
        transmit(pair.near)
        _grant(pair)
        (message_id,) = pair.send(1)
        transmit(pair.near)
        here = trace_message(pair.near, message_id, over_links=False)
        assert "acknowledged" in here[-1].text
        for answer in (
            b"",
            b"[]",
            b'{"received_at": 1}',
            b'{"received_at": "2020-01-01"}',
            b"\xff",
            b'{"received_at": null}',
        ):
            lie = recorder.frame(recorder.STEPS, heap=answer)
            with monkeypatch.context() as told:
                told.setattr(
                    Carrier,
                    "trace",
                    lambda _, __, lie=lie: recorder.between(lie, pair.far.id.bytes, pair.near.id.bytes),
                )
                assert trace_message(pair.near, message_id) == here, answer
        roles.rows(pair.far, "DROP FUNCTION box.link_trace(bytea)")
        assert trace_message(pair.near, message_id) == here
        roles.rows(
            pair.near,
            'UPDATE box.known_links SET definition = definition || \'{"dsn": "host=/nowhere user=x dbname=y"}\'',
        )
        *same, last = trace_message(pair.near, message_id)
        assert same == here
        assert "can't be asked" in last.text


def test_the_same_over_https(databases, tmp_path):
    with paired_over_https(databases, tmp_path) as pair:
        accepted = {
            "certificate": pair.near_files.certificate,
            "other": str(pair.near.id),
            "queues": ["orders"],
            **_WHY,
        }
        transmit(pair.near)
        (message_id,) = pair.send(1)
        transmit(pair.near)
        before = trace_message(pair.near, message_id, over_links=False)
        assert trace_message(pair.near, message_id) == before
        with asked_over_tls(pair.port, pair.near_files) as connection:
            for asked in (message_id, "nothing"):
                connection.sendall(request("/link/trace", _question(pair, asked)))
                status, body = received(connection)
                assert (status, recorder.read(body)[2]) == (200, b"nothing is known of this")
        links.accept(pair.far, "near", trace=True, **accepted)
        pair.far.tick()
        assert _told(trace_message(pair.near, message_id))[-2:] == [("routed", "far"), ("waits", "far")]
        unknown = pair.authority.issued("unknown")
        with asked_over_tls(pair.port, unknown) as connection:
            connection.sendall(request("/link/trace", _question(pair, message_id)))
            assert received(connection) == (403, b"this key isn't known\n")


def test_a_role_speaks_as_one_box(pair: Pair):
    other = "00000000-0000-4000-8000-000000000001"
    with pytest.raises(sq.ActionRefused, match="speaks as another box, over link 'near'"):
        links.accept(pair.far, "next", role=pair.role, other=other, **_WHY)
    with pytest.raises(psycopg.errors.UniqueViolation):
        roles.rows(
            pair.far,
            f"INSERT INTO box.known_links (link, peer, role) VALUES ('next', '{other}', '{pair.role}'::regrole)",
        )
    roles.make(pair.far, f"{pair.role}_2")
    try:
        links.accept(pair.far, "next", role=f"{pair.role}_2", other=other, **_WHY)
        # A role that another box has had is free when the pair is gone.
        pair.far.drop(queue="answers")
        links.remove(pair.far, "near", **_WHY)
        links.accept(pair.far, "next", role=pair.role, other=other, replace=True, **_WHY)
    finally:
        roles.rows(pair.far, f"DROP OWNED BY {pair.role}_2")
        roles.rows(pair.far, f"DROP ROLE {pair.role}_2")
