"""An order is found wherever it is: in a queue, done, set aside, dead, unrouted, or only in what failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.errors import UsageError
from seriatim.operations import find as operations
from seriatim.operations import groups
from tests.box.console import BY, define, failing, publish, received, rows
from tests.databases import box_with


def prepared(box):
    """Orders of customer 4711 everywhere, and others that have it as a number."""
    define(box)
    box.define(
        sq.Queue("copy", group="customer", keep="everything"),
        sq.Subscription("copies", "type = 'order'", "copy"),
        sq.Queue("typed", group=sq.Group("customer", by_type=True), keep="nothing"),
        sq.Subscription("typed", "type = 'order'", "typed"),
    )
    publish(box, 1, 2, 4, group="4711")
    publish(box, 4711, group="else")
    assert received(box, "4711") == [1, 2]
    with box.session() as tx:
        for _ in tx.receive("copy", group="4711", limit=1):
            pass
    publish(box, 3, group="4711", size=4711)
    failing(box, group="4711")
    groups.skip_message(box, "shop", "4711", **BY)
    box.publish(sq.Message(type="nobody's", context={"order": "4711", "none": None}))
    box.publish(sq.Message(type="nobody's", message_id="4711"))
    box.publish(sq.Message(type="nobody's", context={"order": "471"}))


box = box_with(prepared, scope="module")


def call(box, *words, code=0):
    result = CliRunner().invoke(main, [*words, "--dsn", box.dsn, "--schema", box.schema])
    assert result.exit_code == code, result.output
    return result


def test_wherever_it_is(box):
    found = operations.find(box, "4711")
    of = {(one.queue, one.status, one.matched) for one in found.messages}
    assert of >= {
        ("copy", "done", "group"), ("copy", "arrived", "group"), ("shop", "queued", "group"), ("shop", "dead", "group"),
        ("shop", "arrived", "version"), (None, "unrouted", "order"), (None, "unrouted", "message id"),
    }  # fmt: skip
    assert {(one.queue, one.group) for one in found.groups} == {
        ("copy", "4711"),
        ("shop", "4711"),
        ("typed", "order/4711"),
    }
    assert [one.error for one in found.faults] == ["no such customer"]
    (dead,) = [one for one in found.messages if one.status == "dead"]
    assert dead.error == "ValueError: no such customer"
    assert found.keeps == {"shop": "faults", "typed": "nothing"}
    assert len(found.published) == 1
    newest = [one.received_at for one in found.messages]
    assert newest == sorted(newest, reverse=True)


def test_a_number_is_found_however_it_is_written(box):
    assert {one.matched for one in operations.find(box, "4711.0").messages} == {"version", "size"}


def test_in_a_range_of_time_and_no_more_than_asked(box):
    assert len(operations.find(box, "4711", limit=2).messages) == 2
    assert operations.find(box, "4711", until=datetime(2020, 1, 1, tzinfo=UTC)).messages == ()
    assert operations.find(box, "4711", since="1h", until="0s").messages
    for bad in ({"since": "soon"}, {"until": -1}, {"limit": 0}, {"limit": 10**6}):
        with pytest.raises(UsageError):
            operations.find(box, "4711", **bad)
    for text in ("", "\0", 4711):
        with pytest.raises(UsageError):
            operations.find(box, text)


def test_the_command(box):
    lines = call(box, "find", "4711").stdout.splitlines()
    assert lines[0] == "3 groups"
    assert any(line.endswith(" messages") for line in lines)
    assert "1 fault" in lines
    assert "more: seriatim group show 4711 --queue copy" in lines
    told = json.loads(call(box, "find", "4711", "--since", "1h", "--json").stdout)
    assert [one["matched"] for one in told["messages"]].count("message id") == 1
    assert "stopped at 1 message" in call(box, "find", "4711", "--limit", "1").stderr


def test_what_cannot_be_found_is_said(box):
    text = call(box, "find", "nothing's", code=1).stdout
    assert "no message has it as its id, its group or a property\n" in text
    assert "can't be found: messages done in typed, which keep nothing of them (keep)\n" in text
    assert "can't be found: messages done without a failure in shop (keep: faults)\n" in text


def test_a_message_that_is_gone_was_published(box):
    (one,) = rows(
        box, "SELECT message_id FROM {schema}.message_ids EXCEPT SELECT message_id FROM {schema}.spool LIMIT 1"
    ) or [(box.publish(sq.Message(type="nobody's"))[0],)]
    rows(box, "DELETE FROM {schema}.unrouted WHERE (arrival_id, position) IN "
        "(SELECT arrival_id, position FROM {schema}.spool WHERE message_id = %s) RETURNING 1", one[0])  # fmt: skip
    rows(box, "DELETE FROM {schema}.spool WHERE message_id = %s RETURNING 1", one[0])
    assert "a message with this id was published at " in call(box, "find", one[0]).stdout
