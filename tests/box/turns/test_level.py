"""Queues that put each message type in order by itself: the group is the type and the key, and each type has its policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.definitions.live_changes import frozen
from seriatim.cli.main import main
from seriatim.kernel.groups.policy import remembering
from seriatim.operations import groups, invariants, queues
from seriatim.operations import groups as operations
from seriatim.pipeline.files.json_form import from_json, to_json
from tests.databases import box_with
from tests.runtime.workers.test_worker import until, working

POLICIES = {"note": sq.Fifo(), "paid": sq.Standard(start=10, increment=10, hole_timeout=0.01, on_hole="skip")}
FIELDS = {"customer": "string", "version": "long"}


def queue(by_type=POLICIES, **more):
    group = sq.Group("customer", by_type=by_type)
    return sq.Queue("shop", **{"policy": sq.Standard(), "group": group, "sequence": "version"} | more)


def with_shop(box):
    box.define(
        *(sq.MessageType(name, FIELDS) for name in ("order", "note", "paid", "a/b", "a%b")),
        queue(), sq.Subscription("shop", where="TRUE", to="shop"),
    )  # fmt: skip


shop = box_with(with_shop)


def publish(box, kind, *versions, customer="c1"):
    box.publish([sq.Message(type=kind, context={"customer": customer, "version": one}) for one in versions])


def received(box, **more):
    """All that is handed out, by group."""
    found = {}
    while True:
        with box.session() as tx:
            delivery = tx.receive("shop", limit=50, **more)
            if delivery is None:
                return found
            found.setdefault(delivery.group, []).extend(message.sequence for message in delivery)
            assert {message.type for message in delivery} <= {
                delivery.group.split("/")[0].replace("%2F", "/").replace("%25", "%")
            }


def test_each_type_is_in_order_by_its_own_policy(shop):
    publish(shop, "order", 3, 1, 2)
    publish(shop, "paid", 30, 10, 20)
    publish(shop, "note", 7, 5, 6)
    publish(shop, "order", 2, customer="c2")  # waits for its first
    assert received(shop) == {"order/c1": [1, 2, 3], "paid/c1": [10, 20, 30], "note/c1": [None] * 3}
    found = {view.group: view for view in operations.groups(shop, "shop")}
    assert {key: view.ordinal for key, view in found.items()} == {
        "order/c1": 3, "paid/c1": 3, "note/c1": 3, "order/c2": 0,
    }  # fmt: skip
    assert found["order/c2"].state == "waiting"
    assert (found["order/c1"].next, found["paid/c1"].next, found["note/c1"].next) == (4, 40, None)
    assert invariants.broken(shop) == []


def test_a_hole_of_one_type_times_out_by_its_own_policy(shop):
    publish(shop, "order", 2)
    publish(shop, "paid", 20)
    while not (found := received(shop, wait=0.2)):
        pass
    assert found == {"paid/c1": [20]}
    (waiting,) = operations.groups(shop, "shop", state="waiting")
    assert waiting.group == "order/c1"
    rows = states(shop)
    assert rows == {"order/c1": ("waiting", 1), "paid/c1": ("ready", 30)}


def states(box):
    with box.session() as tx:
        query = f"SELECT group_key, state, next FROM {box.schema}.groups"
        return {key: (state, following) for key, state, following in tx.connection.execute(query)}


def test_timers_of_several_types_are_due_together(shop):
    for customer in ("a", "b"):
        publish(shop, "order", 2, customer=customer)
        publish(shop, "paid", 20, customer=customer)
    found = received(shop)  # a slow machine sees their time go by

    def due():
        shop.tick()
        return all(states(shop)[f"paid/{customer}"][0] == "ready" for customer in ("a", "b"))

    until(due)
    assert found | received(shop) == {"paid/a": [20], "paid/b": [20]}
    assert [states(shop)[f"order/{customer}"] for customer in ("a", "b")] == [("waiting", 1)] * 2


def test_many_groups_of_several_types_are_judged_together(shop):
    for customer in range(40):
        for kind, numbers in (("order", (2, 1)), ("paid", (20, 10)), ("note", (1, 2))):
            publish(shop, kind, *numbers, customer=f"c{customer}")
    found = received(shop)
    assert len(found) == 120
    assert all(found[f"order/c{n}"] == [1, 2] and found[f"paid/c{n}"] == [10, 20] for n in range(40))
    assert invariants.broken(shop) == []


@pytest.mark.parametrize("kind", ["a/b", "a%b"])
def test_types_that_have_what_separates_them(shop, kind):
    publish(shop, kind, 2, 1, customer="x/y")
    (found,) = received(shop).items()
    assert found[1] == [1, 2]
    assert found[0].endswith("/x/y")


def test_keys_that_are_none(shop):
    shop.publish([sq.Message(type="order", context={"version": 1})])
    publish(shop, "order", 1, customer="c" * 1020)  # with the type it is too long
    assert received(shop) == {}
    (counts,) = queues.queues(shop)
    assert counts.invalid == 2


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_workers_and_faults(shop, mode):
    done = []

    def handle(message, tx):
        if message.type == "paid" and message.context["version"] == 20:
            raise sq.Business("no")
        done.append((message.type, message.context["version"]))

    publish(shop, "order", 3, 1, 2)
    publish(shop, "paid", 30, 10, 20)
    with working(sq.Worker(shop, "shop", handle, workers=2, mode=mode)):
        until(lambda: len(done) == 4 and operations.groups(shop, "shop", state="faulted"))
    assert [version for kind, version in done if kind == "order"] == [1, 2, 3]
    (faulted,) = operations.groups(shop, "shop", state="faulted")
    assert faulted.group == "paid/c1"
    operations.skip_message(shop, "shop", "paid/c1", actor="me", reason="wrong")
    assert received(shop) == {"paid/c1": [30]}
    operations.reset(shop, "shop", "paid/c1", actor="me", reason="again", next=50)
    with pytest.raises(sq.SeriatimError, match="55"):
        operations.reset(shop, "shop", "paid/c1", actor="me", reason="off its step", next=55)
    assert groups.forget(shop, "shop", "paid/c1") == 1
    assert invariants.broken(shop) == []


def test_sets_by_type(box):
    box.define(
        sq.MessageType("pair", FIELDS), sq.MessageType("trio", FIELDS),
        queue({"trio": sq.UnitOfWork(last="version = 3")}, policy=sq.UnitOfWork(size=2)),
        sq.Subscription("shop", where="TRUE", to="shop"),
    )  # fmt: skip
    publish(box, "pair", 2, 1)
    publish(box, "trio", 3, 1)
    with box.session() as tx:
        assert [one.sequence for one in tx.receive("shop")] == [1, 2]
    with box.session() as tx:
        assert tx.receive("shop") is None
    publish(box, "trio", 2)
    with box.session() as tx:
        assert [one.sequence for one in tx.receive("shop")] == [1, 2, 3]


def test_what_may_change(shop):
    publish(shop, "order", 1)
    publish(shop, "paid", 10)
    received(shop)
    assert shop.define(queue(POLICIES | {"note": sq.Fifo()})) == []
    slower = sq.Standard(start=10, increment=10, hole_timeout="1h")
    assert shop.define(queue(POLICIES | {"paid": slower}))
    for wrong in (
        queue(POLICIES | {"paid": sq.Fifo()}),
        queue(POLICIES | {"paid": sq.Standard(increment=2)}),
        queue(POLICIES | {"order": sq.Fifo()}),
        queue({}),
        queue(False),
    ):
        with pytest.raises(sq.ActionRefused):
            shop.define(wrong)
    assert "group.by_type" in frozen(queue(), queue(False))


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"by_type": "message"}, "by_type can't"),
        ({"by_type": {"a": "fifo"}}, "not a policy"),
        ({"by_type": {"a/b": sq.Fifo()}}, "has /"),
        ({"by_type": {"a": sq.Unordered()}}, "has no groups"),
        ({"by_type": {"a": sq.UnitOfWork(size=2)}}, "sets come whole"),
        ({"by_type": {"a": sq.BestEffort()}, "policy": sq.Fifo(), "sequence": None}, "needs a sequence"),
        ({"max_messages": 5}, "can't be full"),
        ({"by_type": 5}, "by_type can't be"),
    ],
)
def test_bad_input(more, what):
    with pytest.raises(sq.UsageError, match=what):
        queue(**more)


def test_what_needs_the_order_of_a_whole_queue(shop):
    with pytest.raises(sq.UsageError, match="a dialog has several"):
        shop.define(
            sq.Queue("talk", policy=sq.Fifo(), group=sq.Group("conversation_group", by_type=True)), sq.Contract("C", {"M": "any"}),
            sq.Service("S", queue="talk", contracts=["C"]),
        )  # fmt: skip
    with pytest.raises(sq.UsageError, match="an instance gets messages of several"):
        shop.define(sq.Subscription("start", where="type = 'order'", to="shop", starts="a:b", correlate=["customer"]))


def test_it_is_kept_and_read_from_files(shop, tmp_path):
    declared = shop.definitions().queue("shop").declared
    policies = {kind: remembering(one) for kind, one in POLICIES.items()}
    as_new = replace(queue(policies), keep="faults", policy=remembering(queue().policy))
    assert declared == as_new  # with what a new queue has
    assert from_json(sq.Queue, to_json(declared)) == declared
    file = tmp_path / "box.yaml"
    file.write_text("""
types:
  order: {properties: {customer: string, version: long}}
queues:
  filed:
    policy: standard
    sequence: version
    group:
      by: customer
      by_type:
        note: {policy: fifo}
        paid: {policy: standard, start: 10, increment: 10, hole_timeout: 10ms, on_hole: skip}
""")
    shop.apply(file)
    filed = shop.definitions().queue("filed").declared
    assert filed.group.by_type == policies
    file.write_text(file.read_text().replace("hole_timeout: 10ms", "window: 10ms"))
    with pytest.raises(sq.DeclarationError, match="standard takes no window"):
        shop.apply(file)


def test_operators_name_the_type_and_the_key(shop):
    publish(shop, "paid", 10)
    words = ["group", "show", "paid/c1", "--queue", "shop", "--dsn", shop.dsn, "--schema", shop.schema]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 0, shown.output
    assert "paid/c1" in shown.output
