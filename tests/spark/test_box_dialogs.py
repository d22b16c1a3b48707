"""Pipelines that deliver into dialogs of a box, and receive what comes for a service."""

from __future__ import annotations

import json

import seriatim as sq
from seriatim.pipeline.file import check, load
from seriatim.runtime.run import run

INTO_DIALOGS = """
name: selling
checkpoint: {folder}/selling
box: {{dsn: "{dsn}", schema: {schema}}}
receive:
  - location: crm
    source: {{format: json, path: {folder}/in}}
    promote: {{customer_id: {{path: $.customer, type: long}}, version: {{path: $.version, type: long}}, type: $.type}}
route:
  - to: sold
    where: "customer_id < 10"
    resequence: {{policy: standard, group: customer_id, sequence: version}}
    deliver: {{service: Inventory, from_service: Orders, contract: AddItem, dialog_by: customer_id}}
"""


def declared(text, box, folder, name):
    (folder / "in").mkdir(exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(text.format(folder=folder, dsn=box.dsn, schema=box.schema), encoding="utf-8")
    assert check(file) == []
    return load(file)


def feed(folder, name, *rows):
    lines = [json.dumps({"type": kind, "customer": c, "version": v}) for kind, c, v in rows]
    (folder / "in" / f"{name}.json").write_text("\n".join(lines), encoding="utf-8")


def forget_the_end(folder):
    """As if the pipeline had been killed after its last batch was written, and before it knew so."""
    for last in sorted((folder / "commits").glob("[0-9]*"), key=lambda one: int(one.name))[-1:]:
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def sent(box, queue):
    """By the conversation what came, as (number, type, the body's version)."""
    found = {}
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=1000)
            if delivery is None:
                return sorted(found.values())
            for one in delivery:
                version = json.loads(one.body)["version"]
                found.setdefault(one.dialog.conversation_id, []).append((one.dialog.sequence, one.type, version))


def test_a_pipeline_ends_in_dialogs(spark, box, tmp_path):
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator", "Last": "initiator", "ItemAdded": "target"}),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )
    pipeline = declared(INTO_DIALOGS, box, tmp_path, "selling")
    feed(tmp_path, "1", ("AddItem", 1, 2), ("AddItem", 2, 1), ("AddItem", 1, 1), ("Unknown", 3, 1), ("AddItem", 11, 1))
    assert run(pipeline, once=True).waiting == ()
    forget_the_end(tmp_path / "selling")
    run(pipeline, once=True)
    feed(tmp_path, "2", ("Last", 1, 4), ("AddItem", 1, 3), ("AddItem", 2, 2))
    assert run(pipeline, once=True).waiting == ()
    assert sent(box, "inventory") == [
        [(0, "AddItem", 1), (1, "AddItem", 2)],
        [(0, "AddItem", 1), (1, "AddItem", 2), (2, "AddItem", 3), (3, "Last", 4)],
    ]
    (unrouted,) = box.unrouted()
    assert unrouted.problem == 'the contract "AddItem" has no message type "Unknown"'
