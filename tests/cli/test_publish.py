"""`seriatim publish`: a message from its arguments, or messages from lines of JSON; and the queues that they go to."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.commands import publish as command
from seriatim.cli.main import main
from tests.databases import box_with


def prepared(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "amount": "decimal(12,2)", "at": "timestamp", "big": "boolean"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer"),
        sq.Queue("large", policy=sq.Unordered()),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("large", where="amount >= 1000", to="large"),
    )  # fmt: skip


box = box_with(prepared)


@pytest.fixture
def call(box):
    """Calls the command about the box."""

    def calling(*words, code=0, lines=None):
        words = ["publish", *words, "--dsn", box.dsn, "--schema", box.schema]
        result = CliRunner().invoke(main, words, input=lines)
        assert result.exit_code == code, result.output
        return result

    return calling


def messages(box, queue="orders"):
    return [one.message for one in box.peek(queue)]


def test_a_message_of_arguments(box, call):
    properties = ("--property", "customer=c=1", "--property", "amount=1234.50", "--property", "big=true")
    out = call("hello", "--type", "order", *properties, "--message-id", "o1", "--content-type", "text/plain").stdout
    assert out.split() == ["message", "queues", "result", "o1", "large,", "orders", "published"]
    (message,) = messages(box)
    assert (message.body, message.content_type, message.context["customer"]) == (b"hello", "text/plain", "c=1")
    assert message.context["big"] is True
    assert call("hello", "--type", "order", *properties, "--message-id", "o1").stdout.endswith(
        "not published: its id was published before\n"
    )
    assert messages(box, "large")[0].message_id == "o1"


def test_the_name_of_a_file_is_no_content(call, tmp_path):
    file = tmp_path / "one.json"
    file.write_text('{"customer": "c1"}')
    remark = f'to publish the content of the file, give "$(cat {file})"'
    assert remark in call(str(file), code=2).stderr
    for text in (f"{file}x", "x" * 1000, "\0"):
        assert "publish the content" not in call(text, code=2).stderr


def test_strictly_a_message_that_went_astray_is_an_exit_code(call):
    fine, lost = ("--type", "order", "--property", "customer=c1"), ("--type", "nonesuch")
    assert call("x", *fine, "--strict").stdout.endswith("published\n")
    assert call("x", *lost, "--strict", code=1).stdout.endswith("unrouted\n")
    assert "invalid in queue orders" in call("x", "--type", "order", "--strict", code=1).stdout
    assert call("x", *lost).stdout.endswith("unrouted\n")


def test_to_a_queue_and_a_group(box, call):
    call("", "--type", "note", "--queue", "orders", "--group", "c1")
    (message,) = messages(box)
    assert (message.type, message.body, message.context) == ("note", b"", {"to": "orders", "customer": "c1"})
    for words, what in (
        (("--group", "c1"), "--group is the key of a group in a queue"),
        (("--queue", "large", "--group", "c1"), "queue 'large': the queue has no groups"),
        (("--queue", "ordres"), "did you mean 'orders'?"),
        (("--property", "x"), "'x' is not a property (NAME=VALUE)"),
        (("--property", "x=1", "--property", "x=2"), "the property 'x' is given twice"),
        (("--visible-at", "soon"), "--visible-at can't be 'soon'"),
    ):
        assert what in call("x", "--type", "note", *words, code=2).stderr
    assert "the type is missing" in call("x", code=2).stderr


def test_visible_later(box, call):
    call("x", "--type", "order", "--property", "customer=a", "--visible-at", "10m")
    call("x", "--type", "order", "--property", "customer=b", "--visible-at", "2126-11-30T06:00:00+01:00", code=2)
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=3)
    call("x", "--type", "order", "--property", "customer=b", "--visible-at", soon.isoformat())
    with box.session() as tx:
        assert tx.receive("orders") is None
        found = tx.connection.execute(f"SELECT visible_at FROM {box.schema}.entries ORDER BY 1").fetchall()
    assert timedelta(minutes=9) < found[0][0] - datetime.now(UTC) < timedelta(minutes=10)
    assert found[1][0] == soon


def test_unique_and_unrouted(box, call):
    words = ("--type", "order", "--property", "customer=a", "--unique", "k")
    call("x", *words)
    (first,) = messages(box)
    again = json.loads(call("x", *words, "--json").stdout)
    assert [(one["left_out"], one["waiting"], one["queues"]) for one in again] == [(True, first.message_id, ["orders"])]
    assert f"not published: {first.message_id} waits with its unique key" in call("x", *words).stdout
    assert call("x", "--type", "ordr").stdout.split()[-1] == "unrouted"
    refused = call("x", "--type", "ordr", "--unrouted", "refuse", code=2)
    assert "did you mean 'order'?" in refused.stderr
    box.define(sq.BoxSettings(unrouted="refuse"))
    call("x", "--type", "ordr", code=2)
    call("x", "--type", "ordr", "--unrouted", "keep")


def test_an_invalid_message_is_called_so_with_the_reason(box, call):
    assert call("x", "--type", "order").stdout.endswith("  invalid in queue orders: the group key is missing\n")
    shown = call("x", "--type", "order", "--property", "amount=1000").stdout
    assert shown.endswith("  large   published; invalid in queue orders: the group key is missing\n")
    (one,) = json.loads(call("x", "--type", "order", "--json").stdout)
    assert (one["queues"], one["invalid"]) == ([], {"orders": "the group key is missing"})


def test_lines_of_json(box, call):
    lines = [
        {"type": "order", "body": "text", "context": {"customer": "a", "unique_key": "k"}, "message_id": "1"},
        {"body": {"total": 3}, "content_type": "application/json"},
        {"context": {"customer": "a", "unique_key": "k"}, "message_id": "3"},
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n\n"
    out = call("--type", "order", "--property", "customer=other", "--json", lines=text).stdout
    found = json.loads(out)
    assert [(one["queues"], one["waiting"]) for one in found] == [
        (["orders"], None),
        (["orders"], None),
        (["orders"], "1"),
    ]
    first, second = messages(box)
    assert (first.body, second.body, second.context["customer"]) == (b"text", b'{"total": 3}', "other")
    assert call(lines="").stdout == "there were no messages\n"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "line 3: this is not JSON"),
        ("[]", "line 3: this is no object"),
        ('{"type": "order", "bdy": 1}', "line 3: unknown key 'bdy' (did you mean 'body'?)"),
        ('{"body": "x"}', "line 3: the type is missing"),
        ('{"type": "order", "context": 1}', "line 3: context can't be 1"),
        ('{"type": 1}', "line 3: 1 can't be the type of a message"),
    ],
)
def test_lines_that_are_wrong(box, call, monkeypatch, line, what):
    monkeypatch.setattr(command, "_PORTION", 1)
    good = '{"type": "order", "context": {"customer": "a"}}\n'
    told = call(lines=good * 2 + line, code=2).stderr
    assert what in told
    assert "published before it: 2 messages" in told
    assert len(messages(box)) == 2


def test_options_of_one_message(call):
    assert "for one message" in call("--unique", "k", lines="{}", code=2).stderr
    assert "for one message" in call("--message-id", "k", lines="{}", code=2).stderr
