"""Mending many messages, each in its own way: exported, edited as lines of JSON, and retried in one go."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seriatim as sq
from seriatim.box.faults.faults import fail
from seriatim.box.views import exported
from seriatim.operations import edits, find, groups, invariants, messages, trace
from seriatim.operations.edits import NotRetried, Retried
from seriatim.operations.grants import grant
from tests.box.console import BUSINESS, BY, TRANSIENT, failing, publish, received, rows
from tests.box.roles import as_role, make
from tests.databases import box_with

ORDER = sq.MessageType(
    "order",
    properties={
        "customer": "string", "version": "long", "amount": "decimal(10,2)", "due": "timestamp", "weight": "double",
        "urgent": "boolean", "note": "string",
    },
    validation="valid_json",
    schema='{"type": "object"}',
)  # fmt: skip
FULL = {
    "amount": Decimal("12.50"), "due": datetime(2026, 3, 1, 14, 30, tzinfo=UTC), "weight": 0.1, "urgent": True,
    "note": "a\u2028b",
}  # fmt: skip


def prepare(box):
    box.define(
        ORDER,
        sq.Queue(
            "shop", policy=sq.Standard(), group="customer", sequence="version", priority="rank", keep="everything"
        ),
        sq.MessageType("rank", properties={"rank": "long"}),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
    )


box = box_with(prepare)


def stop(box, *customers, body=b'{"amount": "ten"}', **more):
    """Groups with two messages each, of which the first one failed for good."""
    properties = {**FULL, **more}
    box.publish(
        [
            sq.Message(
                type="order", message_id=f"{customer}-{n}", body=body,
                context={"customer": customer, "version": n, **properties},
            )
            for customer in customers
            for n in (1, 2)
        ]
    )  # fmt: skip
    for customer in customers:
        failing(box, group=customer, limit=1)


def lines(box, **chosen):
    """What an export writes, as objects."""
    return [json.loads(edits.line_of(one)) for one in edits.export(box, **chosen)]


def read(objects):
    return edits.read([json.dumps(one).encode() for one in objects], "x.jsonl")


def planned(box, objects):
    return edits.plan(box, read(objects))


def retried(box, objects):
    return list(edits.retry(box, planned(box, objects), **BY))


def handed(box, group):
    """The next message of a group, which is put back."""
    (first, *_) = [one.message for one in box.peek("shop", group=group)]
    return first


def test_the_export_has_the_message_at_which_each_group_stopped(box):
    stop(box, "c1", "c2")
    publish(box, 1, group="c3")
    (first, second) = lines(box, state="faulted")
    assert first | {"entry_id": 0} == {
        "queue": "shop", "group": "c1", "message_id": "c1-1", "entry_id": 0, "status": "faulted", "sequence": 1,
        "attempt": 1, "error": "ValueError: no such customer", "type": "order", "content_type": None,
        "context": {
            "customer": "c1", "version": 1, "amount": "12.50", "due": "2026-03-01T14:30:00+00:00", "weight": 0.1,
            "urgent": True, "note": "a\u2028b",
        },
        "body": '{"amount": "ten"}',
    }  # fmt: skip
    assert second["message_id"] == "c2-1"
    assert [one["message_id"] for one in lines(box, state="faulted", group="c2")] == ["c2-1"]
    assert len(lines(box)) == 5
    assert [one["message_id"] for one in lines(box, queue="shop", group="c1", status="queued")] == ["c1-2"]
    assert [one["message_id"] for one in lines(box, queue="shop", group="c1", status="faulted")] == ["c1-1"]
    assert [one["message_id"] for one in lines(box, error="no such")] == ["c1-1", "c2-1"]
    assert len(lines(box, properties={"customer": "c2"})) == 2
    assert lines(box, since=datetime(2100, 1, 1, tzinfo=UTC)) == lines(box, message_type="none") == []
    with pytest.raises(sq.UsageError, match="'closed' is not a state in which a message stops a group"):
        edits.export(box, state="closed")


def test_each_message_gets_its_own_body_and_properties_and_the_original_is_kept(box):
    stop(box, "c1", "c2", "c3")
    found = lines(box, state="faulted")
    for one, amount in zip(found, ("1.00", "2.00"), strict=False):
        one["body"] = json.dumps({"amount": amount})
    found[0]["context"] |= {"amount": "1.00", "due": None, "urgent": False}
    del found[0]["context"]["note"]
    look = planned(box, found)
    assert look.faults == ()
    changed = ("body", "context.amount", "context.due", "context.note", "context.urgent")
    assert [one.changed for one in look.planned] == [changed, ("body",), ()]
    assert {one.state for one in groups.groups(box, "shop")} == {"faulted"}  # nothing was done
    done = list(edits.retry(box, look, **BY))
    assert [(one.group, one.changed, one.before, one.after) for one in done] == [
        ("c1", changed, "faulted", "ready"), ("c2", ("body",), "faulted", "ready"), ("c3", (), "faulted", "ready"),
    ]  # fmt: skip
    with box.session() as tx:
        first, second = tx.receive("shop", group="c1", limit=2)
        assert (first.body, second.body) == (b'{"amount": "1.00"}', b'{"amount": "ten"}')
        assert dict(first.context) == {
            "customer": "c1", "version": 1, "amount": Decimal("1.00"), "due": None, "weight": 0.1, "urgent": False,
        }  # fmt: skip
        assert isinstance(first.context["amount"], Decimal)
        assert (first.sequence, first.attempt, second.context["due"]) == (1, 2, FULL["due"])
    assert [handed(box, one).body for one in ("c2", "c3")] == [b'{"amount": "2.00"}', b'{"amount": "ten"}']
    original, _ = messages.message(box, "c1-1")
    assert (original.body, original.context["note"]) == (b'{"amount": "ten"}', "a\u2028b")
    log = rows(box, "SELECT group_key, actor, reason, details FROM {schema}.operator_log ORDER BY operation_id")
    assert [row[:3] for row in log] == [(one, "ann", "ticket 4711") for one in ("c1", "c2", "c3")]
    assert log[0][3]["edited_properties"] == ["amount", "due", "note", "urgent"]
    assert (log[0][3]["edited_bytes"], log[0][3]["message_id"]) == (18, "c1-1")
    assert "edited_bytes" not in log[2][3]
    assert any(
        "with another body of 18 bytes and other properties (amount, due, note, urgent)" in one.text
        for one in trace.trace_message(box, "c1-1")
    )
    assert invariants.broken(box) == []


def test_an_edit_is_edited_again(box):
    stop(box, "c1")
    (one,) = lines(box, state="faulted")
    retried(box, [one | {"body": '{"amount": 1}'}])
    failing(box, group="c1", limit=1)
    (one,) = lines(box, state="faulted")
    assert one["body"] == '{"amount": 1}'
    one["context"]["note"] = "second"
    assert [each.changed for each in retried(box, [one])] == [("context.note",)]
    failing(box, group="c1", limit=1)
    groups.retry(box, "shop", "c1", body=b'{"amount": 3}', **BY)
    first = handed(box, "c1")
    assert (first.body, first.context["note"], first.context["weight"]) == (b'{"amount": 3}', "second", 0.1)


def test_a_hundred_take_as_many_statements_as_two(box, monkeypatch):
    counted = []
    for keys in (["a1", "a2"], [f"b{n}" for n in range(100)]):
        stop(box, *keys)
        found = lines(box, state="faulted")
        assert len(found) == len(keys)
        for n, one in enumerate(found):
            one["body"] = json.dumps({"amount": n})
            one["context"]["amount"] = str(n)
        with monkeypatch.context() as patched:
            calls = counting(patched)
            done = retried(box, found)
        # `settled` is read when what is known of it is some milliseconds old.
        counted.append(sum(b"settled::text" not in bytes(one) for one in calls))
        assert all(isinstance(one, Retried) and one.after == "ready" for one in done)
        assert [json.loads(handed(box, key).body)["amount"] for key in keys] == list(range(len(keys)))
        for key in keys:
            assert received(box, key) == [1, 2]
    assert counted[0] == counted[1] <= 20
    assert invariants.broken(box) == []


def counting(patched):
    """Every statement that a cursor sends from here on."""
    calls, execute = [], psycopg.Cursor.execute

    def counts(self, query, *arguments, **options):
        calls.append(query)
        return execute(self, query, *arguments, **options)

    patched.setattr(psycopg.Cursor, "execute", counts)
    return calls


FAULTS = (
    ({"group": "c9"}, "group can't be changed by an edit .*publish the message anew"),
    ({"sequence": 7}, "sequence can't be changed by an edit .*publish the message anew"),
    ({"type": "other"}, "type can't be changed by an edit"),
    ({"content_type": "text/plain"}, "content_type can't be changed"),
    ({"message_id": "c2-1"}, "is message 'c1-1', and not 'c2-1'"),
    ({"queue": "none"}, "there is no queue 'none'"),
    ({"queue": "other"}, "queue can't be changed by an edit"),
    ({"body": "[]"}, "the message is not what type 'order' says: body"),
    ({"body": "{"}, "the message is not what type 'order' says: body"),
    ({"body": {"amount": 10}}, "body can't be .* JSON in it is quoted"),
    ({"body_base64": "e30="}, "the body is there twice"),
    ({"entry_id": "one"}, "entry_id can't be 'one'"),
    ({"colour": "red"}, "there is no field 'colour'"),
    ({"context": []}, r"context can't be \[\] \(an object"),
    ({"context.version": 7}, "property 'version' can't be changed by an edit: queue 'shop' takes the sequence .*anew"),
    ({"context.customer": "c9"}, "property 'customer' can't be changed by an edit: queue 'shop' takes the group"),
    ({"context.location": "x"}, "property 'location' can't be changed by an edit: .* where the message is from"),
    ({"context.unique_key": "x"}, "property 'unique_key' can't be changed by an edit"),
    ({"context.amount": "ten"}, "the message is not what type 'order' says: property amount: 'ten' is not a number"),
    ({"context.amount": "123456789.00"}, "not what type 'order' says: property amount"),
    ({"context.urgent": 3}, "not what type 'order' says: property urgent"),
    ({"context.due": "soon"}, "not what type 'order' says: property due"),
    ({"context.colour": "red"}, "type 'order' declares no property 'colour'|declares no property colour"),
    ({"context.note": [1]}, "not what type 'order' says: property note"),
)


def test_each_line_that_cannot_be_is_told_and_nothing_is_done(box):
    box.define(sq.Queue("other", policy=sq.Fifo(), group="customer"))
    stop(box, "c1", "c2")
    one, fine = lines(box, state="faulted")
    texts = []
    for change, _ in FAULTS:
        edited = json.loads(json.dumps(one))
        for name, value in change.items():
            if name.startswith("context."):
                edited["context"][name.removeprefix("context.")] = value
            else:
                edited[name] = value
        (found,) = planned(box, [edited]).faults
        texts.append(found)
    for found, (_, told) in zip(texts, FAULTS, strict=True):
        with pytest.raises(sq.UsageError, match=told):
            raise found
        assert found.where == "x.jsonl:1"
    one["body"] = "[]"
    look = edits.plan(
        box, edits.read([b"\n", b"{]\n", json.dumps(one).encode(), json.dumps(fine).encode(), b"\xff"], "x")
    )
    assert [fault.where for fault in look.faults] == ["x:2", "x:3", "x:5"]
    with pytest.raises(sq.UsageError, match=r"x:2: the line is not JSON: .*, and 2 more messages can't be edited"):
        edits.retry(box, look, **BY)
    twice = planned(box, [fine, fine])
    assert [str(fault) for fault in twice.faults] == [
        "x.jsonl:2: message 'c2-1' is there twice, first at x.jsonl:1 (leave one of them)"
    ]
    with pytest.raises(sq.UsageError, match="is not reason"):
        edits.retry(box, planned(box, [fine]), actor="ann", reason="")
    assert {group.state for group in groups.groups(box, "shop")} == {"faulted"}


def test_a_message_that_does_not_stop_its_group_any_more_is_told_and_the_others_are_retried(box):
    stop(box, "c1", "c2", "c3", "c4", "c5")
    found = lines(box, state="faulted")
    (behind,) = (one for one in lines(box, group="c4") if one["message_id"] == "c4-2")
    groups.skip_message(box, "shop", "c1", **BY)
    groups.retry(box, "shop", "c2", **BY)
    groups.suspend(box, "shop", "c5", **BY)
    look = planned(box, [*found, behind])
    assert look.faults == ()
    groups.retry(box, "shop", "c3", **BY)
    assert received(box, "c3") == [1, 2]  # after the plan
    done = list(edits.retry(box, look, **BY))
    assert {(one.group, one.message_id): one.why for one in done if isinstance(one, NotRetried)} == {
        ("c1", "c1-1"): "message 'c1-1' is not in the queue any more",
        ("c2", "c2-1"): "cannot retry a group that is ready (allowed: suspend, reset, abort, close, requeue, restart)",
        ("c3", "c3-1"): "message 'c3-1' is not in the queue any more",
        ("c4", "c4-2"): "message 'c4-2' is not the one that stops the group",
        (
            "c5",
            "c5-1",
        ): "cannot retry a group that is suspended (allowed: suspend, resume, reset, abort, close, requeue, restart)",
    }
    assert [one.group for one in done if isinstance(one, Retried)] == ["c4"]
    assert groups.group_view(box, "shop", "c5").state == "suspended"
    assert invariants.broken(box) == []


def test_a_group_that_another_session_has_is_told(box):
    stop(box, "c1", "c2")
    look = planned(box, lines(box, state="faulted"))
    with box.session() as tx:
        tx.connection.execute(
            f"SELECT pg_advisory_xact_lock({box.schema}.group_lock(queue_id, 'c1')) FROM {box.schema}.queues WHERE queue = 'shop'"
        )
        first, second = edits.retry(box, look, **BY)
    assert first.why == "another session has the lock of the group (try again after that session has ended)"
    assert second.after == "ready"


def test_a_message_that_waits_for_its_next_attempt_is_edited_and_tried_now(box):
    stop(box, "c1")
    groups.retry(box, "shop", "c1", **BY)
    failing(box, TRANSIENT, group="c1", limit=1)
    assert groups.group_view(box, "shop", "c1").tries_again
    assert received(box, "c1") == []
    (one,) = lines(box, state="ready")
    (done,) = retried(box, [one | {"body": "{}"}])
    assert (done.before, done.after, done.changed) == ("ready", "ready", ("body",))
    assert handed(box, "c1").body == b"{}"
    assert received(box, "c1") == [1, 2]


def test_groups_that_hold_messages_go_on_as_their_rules_say(box):
    stop(box, "c1", "c2")
    publish(box, 3, 5, group="c1")
    failing_before = [view.held for view in groups.groups(box, "shop", key="c1")]
    done = retried(box, lines(box, state="faulted"))
    assert [(one.after, one.released) for one in done] == [("waiting", 1), ("ready", 0)]
    assert failing_before == [0]  # nobody had judged them yet
    assert received(box, "c1") == [1, 2, 3]
    assert invariants.broken(box) == []


def test_the_messages_of_a_set_are_edited_by_their_lines(box):
    box.define(
        sq.MessageType("piece", properties={"size": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size="size"), group="customer", sequence="version"),
        sq.Subscription("sets", where="type = 'piece'", to="sets"),
    )
    pieces = [{"customer": "s1", "version": n, "size": 2} for n in (1, 2)]
    kind = sq.MessageType("piece", properties={"size": "long", "customer": "string", "version": "long"})
    box.define(kind)
    box.publish([sq.Message(type="piece", message_id=f"p{one['version']}", body=b"x", context=one) for one in pieces])
    with box.session() as tx:
        fail(tx.transaction, tx.receive("sets", limit=10, group="s1"), 0, 2, BUSINESS)
    found = lines(box, queue="sets", state="faulted")
    assert [one["message_id"] for one in found] == ["p1", "p2"]
    (fault,) = planned(box, [found[0] | {"context": found[0]["context"] | {"size": 3}}]).faults
    assert "property 'size' can't be changed by an edit: queue 'sets' takes the size of sets from it" in str(fault)
    done = retried(box, [found[0] | {"body": "y"}, found[1]])
    assert [(one.message_id, one.changed) for one in done] == [("p1", ("body",)), ("p2", ())]
    assert done[0].operation_id == done[1].operation_id
    with box.session() as tx:
        assert [one.body for one in tx.receive("sets", limit=10)] == [b"y", b"x"]


def test_large_exports_and_files_go_in_portions(box, monkeypatch):
    keys = [f"c{n}" for n in range(7)]
    stop(box, *keys)
    whole = lines(box)
    for module, name, most in ((exported, "_PAGE", 3), (exported, "_BYTES", 40), (edits, "_PAGE", 3)):
        monkeypatch.setattr(module, name, most)
    assert lines(box) == whole
    found = lines(box, state="faulted")
    assert [one["group"] for one in found] == keys
    monkeypatch.setattr(edits, "_MOST_GROUPS", 2)
    done = retried(box, [one | {"body": json.dumps({"n": n})} for n, one in enumerate(found)])
    assert [(one.group, one.after) for one in done] == [(key, "ready") for key in keys]
    assert [handed(box, key).body for key in keys] == [b'{"n": %d}' % n for n in range(7)]
    transactions = rows(box, "SELECT count(*) FROM {schema}.operator_log GROUP BY at ORDER BY at")
    assert transactions == [(2,), (2,), (2,), (1,)]


def test_groups_of_several_policies_and_with_a_capacity(box):
    box.define(
        sq.Queue(
            "types",
            policy=sq.Standard(capacity=3),
            group=sq.Group("customer", by_type={"b": sq.Fifo()}),
            sequence="version",
        ),
        *(sq.MessageType(kind, properties={"customer": "string", "version": "long"}) for kind in ("a", "b")),
        sq.Subscription("types", where="type IN ('a', 'b')", to="types"),
    )

    def publish_all(*numbers):
        box.publish(
            [
                sq.Message(type=kind, body=b"x", context={"customer": customer, "version": n})
                for kind in ("a", "b")
                for customer in ("c1", "c2")
                for n in numbers
            ]
        )

    publish_all(1)
    for key in ("a/c1", "a/c2", "b/c1", "b/c2"):
        with box.session() as tx:
            fail(tx.transaction, tx.receive("types", group=key), 0, 1, BUSINESS)
    publish_all(2, 4, 5)
    done = retried(box, [one | {"body": "y"} for one in lines(box, queue="types", state="faulted")])
    assert [(one.group, one.after, one.released) for one in done] == [
        ("a/c1", "waiting", 1), ("a/c2", "waiting", 1), ("b/c1", "ready", 3), ("b/c2", "ready", 3),
    ]  # fmt: skip
    with box.session() as tx:
        assert [one.body for one in tx.receive("types", group="a/c2", limit=9)] == [b"y", b"x"]
    assert invariants.broken(box) == []


def test_what_finds_messages_by_a_property_finds_the_edited_value_too(box):
    stop(box, "c1", "c2")
    one, _ = lines(box, state="faulted")
    one["context"]["note"] = "mended"
    retried(box, [one])
    assert [each.message_id for each in messages.messages(box, properties={"note": "mended"})] == ["c1-1"]
    assert [each.message_id for each in find.find(box, "mended").messages] == ["c1-1"]
    assert [each.group for each in groups.groups(box, properties={"note": "mended"})] == ["c1"]
    assert lines(box, properties={"note": "mended"})[0]["message_id"] == "c1-1"


def test_rights(box):
    stop(box, "c1", "c2")
    make(box, "mender", "reader", "watcher", "hand")
    grant(box, "mender", operate=["shop"], see_bodies=["shop"])
    grant(box, "reader", see_bodies=["shop"])
    grant(box, "watcher", see=["shop"])
    grant(box, "hand", operate=["shop"])
    found = lines(box, state="faulted")
    for role in ("watcher", "hand"):
        with as_role(box, role) as own:
            for ask in (lambda: lines(own, state="faulted"), lambda: lines(own), lambda: planned(own, found)):
                with pytest.raises(sq.EnvironmentProblem, match=f'"{role}" may not see bodies of') as caught:
                    ask()
                assert f"seriatim box grant {role} --see-bodies" in caught.value.remedy
    with as_role(box, "reader") as own:
        assert lines(own, state="faulted") == found
        with pytest.raises(sq.EnvironmentProblem, match='"reader" may not operate on the queue "shop"'):
            retried(own, found)
    found[0]["body"] = "{}"
    found[0]["context"]["note"] = "mended"
    with as_role(box, "mender") as own:
        assert lines(own, state="faulted")[1] == found[1]
        assert [one.after for one in retried(own, found)] == ["ready", "ready"]
        failing(box, group="c1", limit=1)
        assert lines(own, state="faulted")[0]["context"]["note"] == "mended"
    assert rows(box, "SELECT DISTINCT role FROM {schema}.operator_log") == [("mender",)]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PROPERTIES = st.dictionaries(
    st.sampled_from(["note", "colour", "n", "due", "weight"]),
    st.one_of(
        st.none(), st.booleans(), TEXT, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
        st.datetimes(timezones=st.just(UTC)),
    ),
)  # fmt: skip


@pytest.mark.dear
def test_an_export_that_was_not_edited_changes_nothing_in_the_box(box):
    """Every kind of value, with a declared type and without; bodies that are text and that are not."""
    box.define(
        sq.Subscription("any", where="type = 'any'", to="loose"), sq.Queue("loose", policy=sq.Fifo(), group="customer")
    )
    draws = given(
        st.lists(st.tuples(PROPERTIES, st.binary(max_size=50) | TEXT.map(str.encode)), min_size=1, max_size=10)
    )
    number = iter(range(10**6))

    @settings(max_examples=5, deadline=None)
    @draws
    def run(contents):
        keys = [f"k{next(number)}" for _ in contents]
        box.publish(
            [
                sq.Message(type="any", body=body, context={**context, "customer": key})
                for key, (context, body) in zip(keys, contents, strict=True)
            ]
        )
        with box.session() as tx:
            for key in keys:
                fail(tx.transaction, tx.receive("loose", group=key), 0, 1, BUSINESS)
        lines = "".join(edits.line_of(one) + "\n" for one in edits.export(box, queue="loose", state="faulted")).encode()
        look = edits.plan(box, edits.read(io.BytesIO(lines)))
        assert look.faults == ()
        assert [(one.group, one.changed) for one in look.planned] == [(key, ()) for key in keys]
        assert {one.after for one in edits.retry(box, look, **BY)} == {"ready"}
        with box.session() as tx:
            for key, (context, body) in zip(keys, contents, strict=True):
                (one,) = tx.receive("loose", group=key)
                assert (dict(one.context), one.body) == ({**context, "customer": key}, body)

    run()
    assert rows(box, "SELECT FROM {schema}.edits") == []
