"""A definition that can't be used is stopped and named; it can be dropped and defined again, and all others go on."""

from __future__ import annotations

import json

import psycopg
import pytest

import seriatim as sq
from seriatim.box.definitions.route import broken_in
from seriatim.operations import doctor, groups, invariants, messages, queues, subscriptions
from seriatim.operations.grants import grant
from seriatim.pipeline.files.json_form import to_json
from tests.box.roles import as_role, in_sql, make, rows
from tests.databases import box_with

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long"})
OTHER = sq.MessageType("other", properties={"kind": "string"})
FINE = sq.Queue("fine", policy=sq.Standard(), group="customer", sequence="version")
QUEUE = sq.Queue("broken", policy=sq.Fifo(), group="kind", max_messages=100_000)
LEADS = sq.Subscription("leads", where="type = 'other'", to="broken")
CONTRACT = sq.Contract("broken", {"Ask": "any"})
SERVICE = sq.Service("broken", queue="inbox", contracts=["sound"])
DEFAULT = sq.Contract("DEFAULT", {"DEFAULT": "any"})


def prepare(box):
    box.define(
        ORDER,
        OTHER,
        FINE,
        QUEUE,
        LEADS,
        sq.Subscription("fine", where="type = 'order'", to="fine"),
        sq.Contract("sound", {"Ask": "any"}),
        CONTRACT,
        SERVICE,
        sq.Service("sound", queue="inbox too", contracts=["sound"]),
    )


box = box_with(prepare)

#: Where each kind of definition lies, which row is broken, and what defines it again.
PLACES = {
    "type": ("types", "type", "other", OTHER),
    "queue": ("queues", "queue", "broken", QUEUE),
    "subscription": ("known_subscriptions", "subscription", "leads", LEADS),
    "contract": ("known_contracts", "contract", "broken", CONTRACT),
    "service": ("known_services", "service", "broken", SERVICE),
    "default": ("known_contracts", "contract", "DEFAULT", DEFAULT),
}
DEEP = "[" * 5000 + "]" * 5000
RUBBISH = [
    *("[]", "null", "true", "0", '"x"', "{}", '{"version": 1}', '{"version": 99}', '{"version": null}', DEEP),
    *('{"version": 1, "name": "else"}', "1" + "0" * 5000, '["activation"]', '{"policy": "x", "max_messages": "y"}'),
]
#: A value of each key of a declaration that isn't one of it.
VALUES = ["null", "[]", "{}", '"\\u0001"', "-1", "1e300", "true", '["a", 1, null]', '{"name": "fifo", "x": 1}', DEEP]


def broken_rows(declared):
    """Definitions that are wrong from end to end, or at one key."""
    yield from RUBBISH
    sound = to_json(declared)
    for at, key in enumerate(sound):
        yield json.dumps({name: value for name, value in sound.items() if name != key})
        value = VALUES[at % len(VALUES)]
        yield "{" + ", ".join(f'"{k}": {value if k == key else json.dumps(v)}' for k, v in sound.items()) + "}"
    yield json.dumps({**sound, "more": 1})


def order(version):
    return sq.Message(type="order", context={"customer": "c1", "version": version})


def found(box, name):
    return {one.name: one for one in doctor.findings_at(box.dsn, box.schema)}[name]


def damage(box, place, definition):
    table, column, name, _ = PLACES[place]
    rows(box, f"UPDATE box.{table} SET definition = %s::jsonb WHERE {column} = %s", [definition, name])
    rows(box, "SELECT box.record_change('by hand')")


@pytest.mark.dear
@pytest.mark.parametrize("place", PLACES)
def test_others_go_on_beside_a_row_with_rubbish(box, place):
    *_, name, declared = PLACES[place]
    kind = "contract" if place == "default" else place
    told = []
    for definition in broken_rows(declared):
        damage(box, place, definition)
        if not any((one.kind, one.name) == (kind, name) for one in broken_in(box.definitions())):
            continue  # what was left out has a default
        told.append(definition)
        number = len(told)
        box.publish([order(number), sq.Message(type="other", context={"kind": "k"})])
        with box.session() as tx:
            assert [one.context["version"] for one in tx.receive("fine")] == [number], definition[:300]
        with box.session() as tx:
            handle = tx.begin_dialog("sound", "sound", contract="sound")
            tx.send(handle, "Ask", b"")
        assert {one.queue for one in queues.queues(box)} >= {"fine", "broken"}
        assert groups.groups(box)
        queues.activations(box)
        box.tick()
    assert set(RUBBISH) <= set(told)
    assert len(told) > len(RUBBISH) + 3
    finding = found(box, "definitions")
    assert (finding.state, f"{kind} {name!r}: " in finding.found) == ("wrong", True)
    box.define(sq.Subscription("more", where="customer = 'c2'", to="fine"), sq.Queue("more", policy=sq.Unordered()))
    box.drop(subscription="more", queue="more")
    assert invariants.broken(box) == []
    assert [one.what for one in box.define(declared)] == ["changed"]
    assert broken_in(box.definitions()) == ()
    assert found(box, "definitions").state == "ok"
    assert box.define(declared) == []


@pytest.mark.parametrize(
    "definition", ["[]", DEEP, '{"version": 1, "name": "else"}'], ids=["a list", "deep", "not whole"]
)
def test_each_can_be_dropped(box, definition):
    for place in PLACES:
        damage(box, place, definition)
    assert len(broken_in(box.definitions())) == len(PLACES)
    box.drop(subscription="leads", service="broken")
    box.drop(type="other", queue="broken", contract="broken")
    assert [(one.kind, one.name) for one in broken_in(box.definitions())] == [("contract", "DEFAULT")]
    with pytest.raises(sq.ActionRefused, match="every box has it"):
        box.drop(contract="DEFAULT")
    with pytest.raises(sq.ActionRefused, match="can't change"):
        box.define(sq.Contract("DEFAULT", {"DEFAULT": "initiator"}))


def test_a_file_mends_and_prunes_them(box, tmp_path):
    for place in PLACES:
        damage(box, place, "[]")
    file = tmp_path / "box.yaml"
    file.write_text(
        "types: {order: {properties: {customer: string, version: long}}}\n"
        "queues: {fine: {policy: standard, group: customer, sequence: version}}\n"
        "subscriptions: {fine: {where: \"type = 'order'\", to: fine}}\n"
        "contracts: {sound: {Ask: any}}\n"
        "services: {sound: {queue: inbox too, contracts: [sound]}}\n"
    )
    gone = {str(one) for one in box.apply(file, prune=True) if one.what == "dropped"}
    assert gone == {
        *("dropped type other", "dropped queue broken", "dropped queue inbox", "dropped subscription leads"),
        *("dropped contract broken", "dropped service broken"),
    }


def test_nothing_is_lost_of_what_comes_meanwhile(box):
    """A message of a type that can't be read is unrouted, one for a queue that can't be read is invalid there: both are kept."""
    other = [sq.Message(type="other", message_id=f"m{n}", context={"kind": "k"}) for n in range(3)]
    damage(box, "type", "[]")
    box.publish(other[0])
    (kept,) = messages.messages(box, status="unrouted")
    assert (kept.message_id, kept.reason) == ("m0", "the definition of the type 'other' can't be used")
    box.define(OTHER)
    assert messages.resubmit(box).routed == 1
    damage(box, "queue", "[]")
    box.publish([other[1], order(1)])
    (kept,) = messages.messages(box, status="invalid")
    assert (kept.message_id, kept.queue) == ("m1", "broken")
    assert kept.reason == "the definition of the queue 'broken' can't be used"
    with (
        pytest.raises(sq.SchemaMismatch, match="queue 'broken': its definition can't be used") as caught,
        box.session() as tx,
    ):
        tx.receive("broken")
    assert "seriatim doctor" in caught.value.remedy
    box.define(QUEUE)
    assert messages.resubmit(box, queue="broken").routed == 1
    with box.session() as tx:
        assert [one.message_id for one in tx.receive("broken", limit=9)] == ["m0", "m1"]
    damage(box, "subscription", "[]")
    box.publish(other[2])
    assert [one.message_id for one in messages.messages(box, status="unrouted")] == ["m2"]
    with pytest.raises(sq.SchemaMismatch, match="subscription 'leads'"):
        subscriptions.start(box, "leads")
    box.define(LEADS)
    assert messages.resubmit(box).routed == 1


def test_what_does_not_go_with_the_rest_any_more_is_stopped_with_it(box):
    """By hand somebody has made a filter that is none, and types and queues that don't go together."""
    with pytest.raises(sq.UsageError):
        box.define(sq.Subscription("none", where="kind = ", to="fine"))
    for name, where in (("none", "kind = "), ("unknown", "nobody = 1")):
        declared = to_json(sq.Subscription(name, where=where, to="fine"))
        rows(box, "SELECT box.subscribe(%s, 'fine', %s, 'started')", [name, json.dumps(declared)])
    clash = to_json(sq.MessageType("zz", properties={"version": "string"}))
    rows(box, "INSERT INTO box.types VALUES ('zz', %s)", [json.dumps(clash)])
    misfit = to_json(sq.Queue("zz", policy=sq.Fifo(), group="nobody"))
    rows(box, "INSERT INTO box.queues (queue, definition) VALUES ('zz', %s)", [json.dumps(misfit)])
    rows(box, "SELECT box.record_change('by hand')")
    assert [(one.kind, one.name) for one in broken_in(box.definitions())] == [
        ("queue", "zz"), ("subscription", "none"), ("subscription", "unknown"), ("type", "zz")
    ]  # fmt: skip
    box.publish([order(1), sq.Message(type="zz", context={"version": "1"})])
    with box.session() as tx:
        assert len(tx.receive("fine")) == 1
    assert [one.type for one in messages.messages(box, status="unrouted")] == ["zz"]
    box.define(sq.Subscription("more", where="customer = 'c2'", to="fine"))
    # But what is given has to go with the rest.
    for wrong in (
        sq.Subscription("none", where="kind = 'a' AND", to="fine"),
        sq.MessageType("zz", properties={"version": "double"}),
        sq.Queue("zz", policy=sq.Fifo(), group="anybody"),
    ):
        with pytest.raises(sq.UsageError):
            box.define(wrong)
    box.drop(type="zz", queue="zz", subscription=["none", "unknown"])
    assert broken_in(box.definitions()) == ()


SOUND = to_json(sq.Subscription("z", where="TRUE", to="fine"))
#: What a role could say of a subscription.
WRONG = [
    *([], None, 1, "x", {}, {"name": "z"}, {**SOUND, "more": 1}, {**SOUND, "version": 2}, {**SOUND, "name": "other"}),
    *({**SOUND, "to": "broken"}, {**SOUND, "where": " "}, {**SOUND, "where": 7}, {**SOUND, "where": "x" * 100_001}),
    *({**SOUND, "state": "running"}, {**SOUND, "starts": 1}, {**SOUND, "starts": "m:f"}, {**SOUND, "correlate": ["a"]}),
    *({**SOUND, "correlate": "a"}, {**SOUND, "starts": "m:f", "correlate": [1]}),
    {key: value for key, value in SOUND.items() if key != "starts"},
]


def test_sql_checks_a_subscription_where_it_is_written(box):
    make(box, "reader")
    grant(box, "reader", subscribe=["fine"], types=["order"])
    call = "SELECT box.subscribe(%s, %s, %s, %s)"
    for wrong in WRONG:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match='subscription "z" can\'t be defined'):
            in_sql(box, "reader", call, ["z", "fine", json.dumps(wrong), "started"])
    for wrong in (
        ["", "fine", "started"],
        ["x" * 129, "fine", "started"],
        ["z", "fine", "running"],
        ["z", None, "started"],
    ):
        name, to, state = wrong
        declared = json.dumps({**SOUND, "name": name, "to": to})
        with pytest.raises((psycopg.errors.InvalidParameterValue, psycopg.errors.InsufficientPrivilege)):
            in_sql(box, "reader", call, [name, to, declared, state])
    in_sql(box, "reader", call, ["z", "fine", json.dumps({**SOUND, "where": "not a filter ("}), "started"])
    in_sql(box, "reader", "SELECT box.record_change('z')")
    assert box.publish(order(1))
    assert [str(one)[:18] for one in broken_in(box.definitions())] == ["subscription 'z': "]
    with as_role(box, "reader") as own:
        own.define(sq.Subscription("z", where="TRUE", to="fine"))
    assert broken_in(box.definitions()) == ()
    box.drop(subscription="z")
