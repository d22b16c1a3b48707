"""Gates in the definitions of a box: what can be one, what can be on the way to one, and when that may change."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.cli.commands.check import check
from seriatim.operations import invariants
from seriatim.pipeline.declared.queue import CONVERSATION_GROUP
from tests.box.gates.test_origin import OUT, PRICE, WORK, gated, order, out

__all__ = ["gated"]

OTHER = replace(WORK, name="other", gate=sq.Gate("other out", through=[]))
OTHER_OUT = replace(OUT, name="other out")
DESK = sq.Service("desk", queue="desk")


#: What is refused, beside what is defined already, and what is said of it.
REFUSED = (
    ([replace(WORK, gate="aud")], "there is no queue 'aud', which is to be its gate (did you mean 'audit'?)"),
    ([replace(OUT, policy=sq.Fifo(), sequence=None)], "queue 'out' can't be a gate: it is fifo, and a gate is standard"),
    ([replace(OUT, policy=sq.Standard(start=2))], "start is 2 and increment 1, and places are 1, 2, 3 …"),
    ([replace(OUT, policy=sq.Standard(start="first"))], "start is first and increment 1"),
    ([replace(OUT, policy=sq.Standard(increment=2))], "start is 1 and increment 2"),
    ([replace(OUT, policy=sq.Standard(capacity=9))], "it has a capacity, which would reject what has a place"),
    ([replace(OUT, group="kind")], "its group is kind and its sequence origin_ordinal, and not origin_group"),
    ([replace(OUT, sequence="part")], "its group is origin_group and its sequence part"),
    ([replace(OUT, group=replace(OUT.group, default="x"))], "it has a default group"),
    ([replace(OUT, group=replace(OUT.group, expire_after="1d"))], "it has an expire_after, and its groups are forgotten with those of its origin"),
    ([replace(OUT, group=replace(OUT.group, closes="kind = 'last'"))], "messages open or close its groups"),
    ([replace(OUT, group=replace(OUT.group, by_type=True))], "it puts each type in order by itself"),
    ([replace(OTHER, gate="out")], "gate 'out' is that of queue "),
    ([replace(OUT, gate="last"), replace(OUT, name="last", gate="out")], "gate 'out' is that of queue "),
    ([replace(OUT, name="x", gate="y"), replace(OUT, name="y", gate="x")], "its gate leads to itself: x → y → x"),
    ([replace(WORK, gate=replace(WORK.gate, through=["prise"]))], "there is no queue 'prise', which is to be on the way to its gate"),
    ([OTHER_OUT, OTHER, replace(WORK, gate=replace(WORK.gate, through=["other"]))], "queue 'other' can't be on the way to a gate: it has a gate"),
    ([OTHER_OUT, OTHER, replace(WORK, gate=replace(WORK.gate, through=["other out"]))], "it is the gate of queue 'other'"),
    ([OTHER_OUT, replace(OTHER, gate=replace(OTHER.gate, through=["price"]))], "queue 'price' is on the way of queue "),
    ([DESK, replace(WORK, gate=replace(WORK.gate, through=["desk"]))], "queue 'desk' can't be on the way to a gate: it is the queue of a service"),
    (
        [sq.Queue("desk", sq.Fifo(), group=CONVERSATION_GROUP, gate="other out"), OTHER_OUT, DESK],
        "a queue with a gate can't be that of a service",
    ),
)  # fmt: skip


def test_what_does_not_fit_is_refused(gated):
    before = gated.definitions()
    for defined, told in REFUSED:
        with pytest.raises(sq.UsageError) as refused:
            gated.define(*defined)
        assert told in str(refused.value)
    assert gated.definitions().version == before.version


def test_a_second_origin_is_told_how_both_keep_one_order(gated):
    with pytest.raises(sq.UsageError, match="gate 'out' is that of queue 'work'") as refused:
        gated.define(replace(WORK, name="more"))
    assert "let 'work' take the messages of both, with a handler for each type" in str(refused.value.remedy)
    assert "a gate for each queue has an order of its own" in str(refused.value.remedy)


def test_a_gate_is_not_dropped_alone(gated):
    with pytest.raises(sq.UsageError, match="there is no queue 'price', which is to be on the way"):
        gated.drop(queue=["price"], subscription=["price"])
    gated.drop(queue=["out", "price", "work"], subscription=["out", "price", "work"])


def test_gates_stand_in_a_row(gated):
    gated.define(replace(OUT, gate="last"), replace(OUT, name="last"))
    assert {name: one.declared.name for name, one in gated.definitions().gates.items()} == {
        "out": "work",
        "last": "out",
    }


def test_the_way_changes_while_nothing_is_on_it(gated):
    elsewhere = replace(WORK, gate=replace(WORK.gate, queue="other out"))
    gated.publish(order())
    for changed in (elsewhere, replace(WORK, gate=None), replace(WORK, gate=replace(WORK.gate, through=[]))):
        with pytest.raises(
            sq.ActionRefused, match="can't change: the queue has 1 message, whose places are at the gate"
        ):
            gated.define(changed, OTHER_OUT)
    with gated.session() as tx:
        for _ in tx.receive("work"):
            tx.publish([sq.Message(type="priced"), out()])
    with pytest.raises(
        sq.ActionRefused, match="gate can't change: 2 messages of its places are on the way to gate 'out'"
    ):
        gated.define(elsewhere, OTHER_OUT)
    with gated.session() as tx:
        for _ in tx.receive("price"):
            pass
    with pytest.raises(
        sq.ActionRefused, match=r"gate and gate\.through can't change: 1 message of its places is on the way"
    ):
        gated.define(replace(WORK, gate=None))
    with pytest.raises(sq.ActionRefused, match=r"gate and gate\.through can't change"):
        gated.drop(queue=["work"], subscription=["work"])


def test_a_way_begins_and_ends_while_the_queue_is_empty(gated):
    gated.define(replace(WORK, gate=None))
    gated.publish(order())
    with pytest.raises(
        sq.ActionRefused, match=r"gate and gate\.through can't change: the queue has 1 message, which have no places"
    ):
        gated.define(WORK)
    with gated.session() as tx:
        list(tx.receive("work"))
    gated.define(WORK, replace(PRICE, priority=None))
    assert invariants.broken(gated) == []


def test_no_pipeline_reads_what_is_on_the_way(gated):
    for queue in ("work", "price"):
        with pytest.raises(
            sq.UsageError, match=f"a pipeline can't read queue '{queue}'.*let the pipeline read the gate"
        ):
            PipelineFeed(gated.dsn, gated.schema, queue=queue)
    gated.publish(order())
    with gated.session() as tx:
        for _ in tx.receive("work"):
            tx.publish(sq.Message(type="out", context={"kind": "x", "to": "audit"}))
    with PipelineFeed(gated.dsn, gated.schema, queue="audit") as feed:
        reader, batch, count = feed.next("", 0, None)
        (part,) = feed.parts(reader, 0, batch)
        (read,) = feed.read(0, batch, part, {"kind": "string"})
    assert count == 1
    assert json.loads(read["context"][0].as_py()).keys() == {"kind", "to", "parent_id", "correlation_id"}
    PipelineFeed(gated.dsn, gated.schema, queue="out").close()


def test_check_tells_which_queues_a_pipeline_cannot_read(gated, tmp_path):
    file = tmp_path / "pipeline.yaml"
    written = """
name: reading
checkpoint: state
box: {{dsn: "{dsn}", schema: {schema}}}
receive: [{{queue: {queue}}}]
route: box
"""
    for queue, dsn, faults in (
        ("work", gated.dsn, 1),
        ("out", gated.dsn, 0),
        ("work", "postgresql://nowhere.invalid/x", 0),
    ):
        file.write_text(written.format(dsn=dsn, schema=gated.schema, queue=queue), encoding="utf-8")
        result = CliRunner().invoke(check, [str(file), "--json"])
        found = json.loads(result.stdout)["faults"]
        assert (len(found), result.exit_code) == (faults, 2 * faults)
        if found:
            assert found[0]["what"].startswith(
                "a pipeline can't read queue 'work': its messages are on the way to gate 'out'"
            )
