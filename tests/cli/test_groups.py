"""The operator's commands: what they print, what they refuse, and what they ask before."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.faults.lease import claim
from seriatim.box.turns import turn_reading
from seriatim.cli.commands import dead_letters
from seriatim.cli.main import main
from seriatim.cli.options.many import Many
from seriatim.operations import bulk
from seriatim.operations import dead_letters as letters
from seriatim.operations import groups as operations
from seriatim.operations.groups import Action
from tests.box.console import BUSINESS, ORDER, TRANSIENT, define, failing, publish, received, rows

WHY = ("--reason", "ticket 4711", "--actor", "ann")


@pytest.fixture
def shop(box):
    """A faulted group, one that waits, and one with nothing."""
    define(box)
    publish(box, 1, 2, 3, group="it's c1")
    publish(box, 2, group="c2")
    publish(box, 1, group="c3")
    assert received(box, "c3") == [1]
    assert received(box, "c2") == []
    failing(box, group="it's c1", done=1)
    return box


def told(result):
    return json.loads(result.stdout)


def test_a_period_without_a_unit_says_what_to_write(call):
    result = call("groups", "--older-than", "7", code=2)
    assert result.stderr == "error: '7' has no unit (write 7s for seconds, or 7m, 7h, 7d)\n"


def test_groups(shop, call):
    lines = call("groups").stdout.splitlines()
    assert lines[0].split()[:4] == ["queue", "group", "state", "since"]
    assert [line.split()[1:3] for line in lines[1:]] == [["c2", "waiting"], ["it's", "c1"]]
    assert call("groups").stderr == "2 of 3 groups shown: only groups that stand still; --all lists all\n"
    lines = call("groups", "--all").stdout.splitlines()
    assert [line.split()[1:3] for line in lines[1:]] == [["c2", "waiting"], ["it's", "c1"], ["c3", "ready"]]
    assert [one["group"] for one in told(call("groups", "--all", "--limit", 2, "--json"))] == ["c2", "it's c1"]
    assert "--all and --state can't be combined" in call("groups", "--all", "--state", "ready", code=2).stderr
    found = told(call("groups", "--queue", "shop", "--state", "faulted", "--state", "waiting", "--json"))
    assert [(one["group"], one["state"], one["waiting"]) for one in found] == [
        ("c2", "waiting", 1), ("it's c1", "faulted", 2),
    ]  # fmt: skip
    assert [one["group"] for one in told(call("groups", "--key", "c?", "--limit", 1, "--json"))] == ["c2"]
    assert [one["group"] for one in told(call("groups", "--error", "no such", "--json"))] == ["it's c1"]
    assert call("groups", "--older-than", "1h").stdout == "there are none\n"
    assert "did you mean 'shop'?" in call("groups", "--queue", "shp", code=2).stderr
    with shop.session() as tx:
        assert tx.receive("shop", group="it's c1") is None


def test_a_group_under_a_lease_shows_its_worker(shop, call):
    publish(shop, 2, group="c3")
    with shop.session() as tx:
        claim(tx.transaction, tx.receive("shop", group="c3"), 1, "worker-1", 60_000_000)
    for words in (("groups", "--all"), ("group", "suspend", "--all", "--dry-run")):
        assert "  locked by worker-1  " in call(*words, "--key", "c3").stdout


def test_groups_say_why_they_are_stopped(shop, call):
    call("group", "suspend", "c2", *WHY)
    stopped = {line.split()[1]: line for line in call("groups", "--all", "--key", "c?").stdout.splitlines()}
    assert stopped["group"].endswith("  reason")
    assert stopped["c2"].endswith("  ann: ticket 4711")
    assert not stopped["c3"].endswith("4711")
    assert call("groups", "--state", "faulted").stdout.splitlines()[1].endswith("  ValueError: no such customer")


def test_group_show_names_what_blocks_and_the_command_that_helps(shop, call):
    shown = call("group", "show", "it's c1").stdout
    assert "shop, group it's c1: faulted since " in shown
    assert "  the handler failed for good: ValueError: no such customer\n" in shown
    assert "(order, sequence 2, ordinal 2, handed out 1 time)" in shown
    assert "  messages that wait: 2 (0 arrived, 0 held, 2 queued, 0 in hand), 1 of them behind it\n" in shown
    assert "  helps: seriatim group retry 'it'\"'\"'s c1' --queue shop\n" in shown
    shown = call("group", "show", "c2", "--queue", "shop").stdout
    assert "  hole: 1..1 since " in shown
    assert "  helps: seriatim group skip-hole c2 --queue shop\n" in shown
    found = told(call("group", "show", "c2", "--json"))
    assert (found["view"]["state"], found["following"]["sequence"], found["helps"]) == ("waiting", 2, ["skip_hole"])
    assert "no queue has a group 'x'" in call("group", "show", "x", code=2).stderr


def test_a_group_is_closed_when_it_holds_nothing_or_now(shop, call):
    assert "closing" not in call("groups").stdout.splitlines()[0]
    assert call("group", "close", "c2", *WHY).stdout == "shop, group c2: waiting → waiting, closing\n"
    heading, *lines = call("groups").stdout.splitlines()
    assert heading.split()[:4] == ["queue", "group", "state", "closing"]
    assert [line.split()[:4] for line in lines if "c2" in line] == [["shop", "c2", "waiting", "yes"]]
    shown = call("group", "show", "c2").stdout
    assert shown.startswith("shop, group c2: waiting, closing since ")
    assert "it is closing: new messages are late, and it is closed when it holds nothing" in shown
    assert told(call("group", "show", "c2", "--json"))["view"]["closing"] is True
    done = call("group", "close", "c2", "c3", "--now", *WHY).stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in done[:2]] == ["closed", "closed"]
    log = rows(shop, "SELECT group_key, details ->> 'at_once' FROM {schema}.operator_log ORDER BY operation_id")
    assert [tuple(one) for one in log] == [("c2", None), ("c2", "true"), ("c3", "true")]


def test_actions_on_one_group(shop, call):
    assert call("group", "suspend", "c2", *WHY).stdout == "shop, group c2: waiting → suspended\n"
    assert call("group", "resume", "c2", *WHY).stdout == "shop, group c2: suspended → waiting\n"
    assert (
        call("group", "skip-hole", "c2", "--through", 1, *WHY).stdout
        == "shop, group c2: waiting → ready, 1 released, 1 skipped\n"
    )
    assert call("group", "reset", "c2", "--next", 9, *WHY).stdout == "shop, group c2: ready → ready, 3 to 8 skipped\n"
    done = told(call("group", "skip-message", "it's c1", "--queue", "shop", *WHY, "--json"))
    assert (done["before"], done["after"], done["set_aside"], done["obeyed"]) == ("faulted", "ready", 1, True)
    assert call("group", "abort", "it's c1", *WHY).stdout == "shop, group it's c1: ready → ready, 1 set aside\n"
    assert call("group", "close", "c3", *WHY).stdout == "shop, group c3: ready → closed\n"
    refused = call("group", "suspend", "c3", *WHY, code=2).stderr
    assert "cannot suspend a group that is closed (allowed: abort, close)" in refused
    log = rows(shop, "SELECT DISTINCT actor, reason FROM {schema}.operator_log")
    assert log == [("ann", "ticket 4711")]


def test_of_a_long_run_the_beginning_is_counted_and_more_is_told_of(shop, call, monkeypatch):
    monkeypatch.setattr(turn_reading, "PORTION", turn_reading.Portion(held=10, arrived=10, together=20, each=2))
    publish(shop, *range(3, 40), group="c2")
    assert received(shop, "c2") == []
    line = call("group", "skip-hole", "c2", *WHY).stdout
    assert re.fullmatch(r"shop, group c2: waiting → ready, \d+ released, 1 skipped, and more follow\n", line)
    left = [n for some in iter(lambda: received(shop, "c2", limit=50), []) for n in some]
    assert left == list(range(2, 40))


def test_what_is_refused_of_many_groups_is_the_answer_no(shop, call, monkeypatch):
    chosen = bulk.chosen(shop, Action.SUSPEND, operations.GroupFilter("shop", key="c?"))
    operations.close(shop, "shop", "c3", actor="bob", reason="meanwhile")
    monkeypatch.setattr(bulk, "chosen", lambda *_: chosen)  # what was found before that
    many = ("group", "suspend", "--all", "--key", "c?", "--yes", *WHY)
    lines = call(*many, code=1).stdout.splitlines()
    assert any(line.startswith("shop, group c3: refused, cannot suspend a group") for line in lines)
    assert lines[-1] == f"{len(chosen) - 1} of {len(chosen)} groups: suspend"
    done = told(call(*many, "--json", code=1))
    assert "why" in next(one for one in done["groups"] if one["group"] == "c3")


def test_what_happened_to_a_group_are_objects(shop, call):
    done = told(call("group", "skip-hole", "c2", *WHY, "--json"))
    assert done["events"][0] == {"kind": "hole_skipped", "group": "c2", "first": 1, "last": 1, "count": 1}


def test_a_next_number_that_cannot_be(shop, call):
    bad = call("group", "reset", "c2", "--next", 2**63 - 1, *WHY, code=2).stderr
    assert "9223372036854775807 is out of range" in bad


def test_a_locked_group_stops_at_the_end_of_its_turn(shop, call):
    publish(shop, 2, group="c3")
    with shop.session() as tx:
        delivery = tx.receive("shop", group="c3")
        line = call("group", "suspend", "c3", *WHY).stdout
        assert line == "shop, group c3: locked → suspended, at the end of the turn\n"
        delivery.done()


def test_retry_with_another_body(shop, call, tmp_path):
    (tmp_path / "body.json").write_text('{"mended": 1}')
    line = call("group", "retry", "it's c1", "--edit", tmp_path / "body.json", *WHY).stdout
    assert line == "shop, group it's c1: faulted → ready\n"
    with shop.session() as tx:
        assert [one.body for one in tx.receive("shop", group="it's c1", limit=2)] == [b'{"mended": 1}', b"{}"]
    (tmp_path / "body.json").write_text("[]")
    publish(shop, 4, group="it's c1")
    failing(shop, group="it's c1")
    bad = call("group", "retry", "it's c1", "--edit", tmp_path / "body.json", *WHY, code=2).stderr
    assert "the body is not what type 'order' says" in bad


def test_many_groups_a_dry_run_first(shop, call):
    for group in ("d1", "d2"):
        publish(shop, 1, group=group)
        failing(shop, group=group)
    chosen = ("group", "retry", "--all", "--queue", "shop", "--error", "such", "--key", "d*")
    lines = call(*chosen, "--dry-run").stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [["shop", "d1", "faulted"], ["shop", "d2", "faulted"]]
    assert lines[3] == "retry would be done to 2 groups"
    assert [one["group"] for one in told(call(*chosen, "--dry-run", "--json"))["groups"]] == ["d1", "d2"]
    asked = call(*chosen, *WHY, code=2).stderr
    assert "this needs confirmation: retry 2 groups? (give --yes to confirm, or --dry-run to look first)" in asked
    lines = call(*chosen, "--yes", *WHY).stdout.splitlines()
    assert lines == ["shop, group d1: faulted → ready", "shop, group d2: faulted → ready", "2 of 2 groups: retry"]
    assert call(*chosen, "--yes", *WHY).stdout == "0 of 0 groups: retry\n"
    done = told(call("group", "suspend", "--all", "--key", "d?", "--yes", *WHY, "--json"))
    assert [(one["group"], one["after"]) for one in done["groups"]] == [("d1", "suspended"), ("d2", "suspended")]


def test_several_groups_by_their_keys(shop, call):
    publish(shop, 1, group="d1")
    failing(shop, group="d1")
    lines = call("group", "retry", "d1", "it's c1", *WHY).stdout.splitlines()
    assert lines == ["shop, group d1: faulted → ready", "shop, group it's c1: faulted → ready", "2 of 2 groups: retry"]
    lines = call("group", "resume", "d1", "c2", "--queue", "shop", *WHY, code=1).stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["shop", "shop", "0 of 2 groups: resume"]
    done = told(call("group", "suspend", "d1", "c2", *WHY, "--json"))
    assert [(one["group"], one["after"]) for one in done["groups"]] == [("d1", "suspended"), ("c2", "suspended")]


def test_errors_are_counted_over_all_pages(shop, call):
    for number in range(1, 4):
        publish(shop, 1, group=f"d{number}", size=number)
        failing(shop, TRANSIENT if number > 2 else BUSINESS, group=f"d{number}")
    lines = call("faults", "--by", "error").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["count", "error"], ["3", "ValueError"], ["1", "TimeoutError"]]
    (one,) = told(call("faults", "--by", "error", "--key", "d?", "--kind", "business", "--json"))
    assert (one["error"], one["count"], one["example"]) == ("ValueError", 2, "no such customer")
    assert [one["error"] for one in told(call("groups", "--by", "error", "--json"))] == ["ValueError", "waiting"]
    counts = told(call("groups", "--all", "--by", "error", "--json"))
    assert [(one["error"], one["count"]) for one in counts] == [
        ("ValueError", 3), ("TimeoutError", 1), ("ready", 1), ("waiting", 1),
    ]  # fmt: skip
    counts = told(call("messages", "list", "--by", "error", "--json"))
    assert [(one["error"], one["count"]) for one in counts] == [("ValueError", 3), ("TimeoutError", 1)]
    call("group", "skip-message", "d1", "d2", *WHY)
    counts = told(call("dead-letters", "list", "--by", "error", "--json"))
    assert [(one["error"], one["count"]) for one in counts] == [("ValueError", 2)]
    assert call("dead-letters", "list", "--by", "error", "--error", "timeout").stdout == "there are none\n"


def test_lists_by_time_property_and_error(shop, call):
    publish(shop, 1, group="d1", size=7)
    failing(shop, group="d1")
    for words in (("groups",), ("faults",), ("messages", "list")):
        assert [one["group"] for one in told(call(*words, "--property", "size=7", "--json"))] == ["d1"]
        two = ("--property", "size=7.0", "--property", "customer=d1")
        assert [one["group"] for one in told(call(*words, *two, "--since", "1h", "--json"))] == ["d1"]
        assert told(call(*words, "--property", "size=8", "--json")) == []
        assert told(call(*words, "--until", "2020-01-01", "--json")) == []
        assert told(call(*words, "--since", "2020-01-01", "--until", "1h", "--json")) == []
        assert "since can't be 'soon'" in call(*words, "--since", "soon", code=2).stderr
        assert "--property can't be 'size'" in call(*words, "--property", "size", code=2).stderr
    assert {one["group"] for one in told(call("messages", "list", "--error", "CUSTOMER", "--json"))} == {
        "d1",
        "it's c1",
    }
    call("group", "skip-message", "d1", *WHY)
    (one,) = told(call("dead-letters", "list", "--property", "size=7", "--since", "1h", "--json"))
    assert one["group"] == "d1"
    assert told(call("dead-letters", "list", "--property", "size=8", "--json")) == []
    assert told(call("dead-letters", "list", "--until", "1h", "--json")) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("retry",), "name either groups or --all"),
        (("retry", "c2", "--all"), "name either groups or --all"),
        (("retry", "c2", "--error", "x"), "filters and --dry-run need --all"),
        (("skip-hole", "--all", "--through", "3"), "--through works on one group only"),
        (("skip-hole", "c2", "c3", "--through", "3"), "--through works on one group only"),
        (("retry", "c2", "c9", "--reason", "x"), "no queue has a group 'c9'"),
        (("retry", "c2", "c9", "--queue", "shop", "--reason", "x"), "queue 'shop' does not have a group 'c9'"),
        (("suspend", "c2"), "the reason is missing"),
        (("suspend", "c2", "--reason", " "), "is not reason"),
        (("suspend", "--all", "--queue", "shp"), "there is no queue 'shp'"),
        (("suspend", "--all", "--older-than", "soon"), "'soon'"),
    ],
)
def test_what_cannot_be_asked(shop, call, words, why):
    before = rows(shop, "SELECT count(*) FROM {schema}.operator_log")
    assert why in call("group", *words, code=2).stderr
    assert rows(shop, "SELECT count(*) FROM {schema}.operator_log") == before


def test_faults(shop, call):
    lines = call("faults").stdout.splitlines()
    assert "ValueError: no such customer" in lines[1]
    assert "w1" not in lines[1]
    (one,) = told(call("faults", "--queue", "shop", "--kind", "business", "--group", "it's c1", "--json"))
    assert (one["attempt"], one["traceback"]) == (1, "Traceback …")
    shown = call("faults", one["fault_id"]).stdout
    assert "worker: w1\n" in shown
    assert shown.endswith("Traceback …\n")
    assert told(call("faults", one["fault_id"], "--json")) == one
    assert call("faults", "--error", "odd").stdout == "there are none\n"
    assert "filters can't be combined with ID" in call("faults", 1, "--queue", "shop", code=2).stderr
    assert "there is no fault 99 (see seriatim faults)" in call("faults", 99, code=2).stderr


def test_dead_letters(shop, call):
    assert call("dead-letters", "list").stdout == "there are none\n"
    call("group", "skip-message", "it's c1", *WHY)
    failing(shop, TRANSIENT, group="it's c1")
    call("group", "abort", "it's c1", *WHY)
    lines = call("dead-letters", "list").stdout.splitlines()
    assert "an operator skipped the message; ValueError: no such customer" in lines[1]
    first, second = told(call("dead-letters", "list", "--queue", "shop", "--json"))
    assert (first["ordinal"], second["ordinal"]) == (2, 3)
    (one,) = told(call("dead-letters", "list", "--error", "timeout", "--key", "it*", "--older-than", "0s", "--json"))
    assert one == second
    dry = call("dead-letters", "requeue", "--all", "--dry-run").stdout
    assert dry.endswith("would requeue 2 dead letters\n")
    assert "this needs confirmation" in call("dead-letters", "requeue", "--all", *WHY, code=2).stderr
    line = call("dead-letters", "requeue", second["entry_id"], *WHY).stdout
    assert line == f"shop, group it's c1: {second['message_id']} is back in its place\n"
    assert received(shop, "it's c1") == [3]
    line = call("dead-letters", "requeue", first["entry_id"], *WHY).stdout
    assert "is back at the end; something later of its group was delivered" in line
    assert "there is no dead letter" in call("dead-letters", "requeue", first["entry_id"], *WHY, code=2).stderr
    call("group", "abort", "it's c1", *WHY)
    done = told(call("dead-letters", "delete", "--all", "--queue", "shop", "--yes", *WHY, "--json"))
    assert done == {"dry_run": False, "deleted": 1}
    assert "name either dead letters or --all" in call("dead-letters", "delete", *WHY, code=2).stderr
    assert "filters need --all" in call("dead-letters", "delete", 1, "--key", "x", *WHY, code=2).stderr


def dead(shop, call):
    """Two dead letters."""
    call("group", "abort", "it's c1", *WHY)
    return told(call("dead-letters", "list", "--json"))


@pytest.mark.parametrize("what", ["requeue", "delete"])
def test_that_there_may_be_more_dead_letters_is_said(shop, call, monkeypatch, what):
    assert len(dead(shop, call)) == 2
    monkeypatch.setattr(Many, "most", 1)
    dry = call("dead-letters", what, "--all", "--dry-run")
    assert dry.stdout.endswith(f"would {what} 1 dead letter\n")
    done = call("dead-letters", what, "--all", "--yes", *WHY)
    assert dry.stderr == done.stderr == "there may be more than these 1: another run takes them\n"
    assert len(told(call("dead-letters", "list", "--json"))) == 1


def test_a_dead_letter_that_another_operator_puts_back_meanwhile_is_not_deleted(shop, call, monkeypatch):
    first, _ = dead(shop, call)
    asked = []

    def confirmed(question, *, yes):
        asked.append(question)
        letters.requeue(shop, first["entry_id"], actor="bob", reason="mended")

    monkeypatch.setattr(dead_letters, "confirmed", confirmed)
    assert call("dead-letters", "delete", "--all", *WHY).stdout == "deleted 1 dead letter\n"
    assert asked == ["delete 2 dead letters for good?"]
    assert told(call("dead-letters", "list", "--json")) == []
    assert received(shop, "it's c1") == [2]


def test_trace(shop, call):
    (one,) = publish(shop, 4, group="it's c1")
    lines = call("trace", one).stdout.splitlines()
    assert [line.split()[2] for line in lines[1:3]] == ["received", "routed"]
    assert told(call("trace", one, "--json"))[0]["kind"] == "received"
    lines = call("trace", "--group", "it's c1").stdout.splitlines()
    assert lines[0].split() == ["at", "step", "message"]
    assert "1 of 3 released messages can't be shown" in lines[1]
    found = told(call("trace", "--group", "it's c1", "--queue", "shop", "--limit", 2, "--json"))
    assert [step["kind"] for step in found].count("received") == 2
    assert "give either a MESSAGE or --group" in call("trace", code=2).stderr
    assert "give either a MESSAGE or --group" in call("trace", one, "--group", "x", code=2).stderr
    assert "there is no message 'x'" in call("trace", "x", code=2).stderr


def test_what_is_done_to_no_dead_letters_is_no_dry_run(shop, call):
    for what, done in (("delete", {"deleted": 0}), ("requeue", {"requeued": []})):
        words = ("dead-letters", what, "--all", "--json")
        assert told(call(*words, "--yes", *WHY)) == {"dry_run": False, **done}
        assert told(call(*words, "--dry-run")) == {"dry_run": True, "dead_letters": []}
        assert call(*words[:-1], "--yes", *WHY).stdout == "there are none\n"


@pytest.mark.parametrize("number", ["99999999999999999999", "0", "-1", str(2**63)])
def test_numbers_that_nothing_has(shop, number):
    which = ("--dsn", shop.dsn, "--schema", shop.schema, "--", number)
    result = CliRunner().invoke(main, ["faults", *which])
    assert (result.exit_code, f"{number} is not the number of a fault" in result.stderr) == (2, True)
    for what in ("delete", "requeue"):
        result = CliRunner().invoke(main, ["dead-letters", what, *WHY, "--yes", *which])
        assert (result.exit_code, f"{number} is not the number of a dead letter" in result.stderr) == (2, True)


def test_periods_and_numbers_that_are_too_long(shop, call):
    for period in ("9" * 400 + "d", "99999999999d"):
        assert "out of range" in call("groups", "--older-than", period, code=2).stderr
        assert "out of range" in call("faults", "--older-than", period, code=2).stderr
    for words in (("skip-hole", "c2", "--through", 10**30), ("reset", "c2", "--next", 10**30)):
        call("group", *words, *WHY, code=2)


def test_a_file_of_edits_mends_many(shop, call, tmp_path):
    file = tmp_path / "x.jsonl"
    for n, group in enumerate(("d1", "d2", "d3")):
        publish(shop, 1, group=group, size=n)
        failing(shop, group=group)
    exported = call("messages", "export", "--state", "faulted", "--group", "d1")
    assert (exported.stderr, len(exported.stdout.splitlines())) == ("1 message\n", 1)
    assert call("messages", "export", "--state", "faulted", "--output", file).stdout == ""
    edited = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["group"] for one in edited] == ["it's c1", "d1", "d2", "d3"]
    edited[1]["body"] = '{"mended": 1}'
    edited[2]["context"]["size"] = 7
    file.write_text("".join(json.dumps(one) + "\n" for one in edited[1:]))
    retry = ("group", "retry", "--edits", file)
    lines = [line.split(maxsplit=3) for line in call(*retry, "--dry-run").stdout.splitlines()]
    assert [(line[1], line[3]) for line in lines[:4]] == [
        ("group", "changed"), ("d1", "body"), ("d2", "context.size"), ("d3", "nothing"),
    ]  # fmt: skip
    assert call(*retry, "--dry-run").stdout.splitlines()[-1] == (
        "retry would be done to 3 messages (2 changed, 1 unchanged)"
    )
    dry = told(call(*retry, "--dry-run", "--json"))
    assert (dry["dry_run"], [one["changed"] for one in dry["messages"]]) == (True, [["body"], ["context.size"], []])
    assert "the reason is missing" in call(*retry, code=2).stderr
    bad = [edited[1] | {"body": "["}, edited[2], edited[3] | {"sequence": 5}]
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bad))
    refused = call("group", "retry", "--edits", tmp_path / "bad.jsonl", *WHY, code=2)
    first, second, last = refused.stderr.splitlines()
    assert first.startswith(f"error: {tmp_path / 'bad.jsonl'}:1: the message is not what type 'order' says: body")
    assert second.startswith(f"error: {tmp_path / 'bad.jsonl'}:3: sequence can't be changed by an edit")
    assert (refused.stdout, last) == ("", "2 lines can't be applied, so nothing was done")
    operations.skip_message(shop, "shop", "d3", actor="ann", reason="meanwhile")
    done = call(*retry, *WHY, code=1).stdout.splitlines()
    gone = f"shop, group d3: not retried, message '{edited[3]['message_id']}' is not in the queue any more"
    assert done == [
        gone,
        "shop, group d1: faulted → ready, edited: body",
        "shop, group d2: faulted → ready, edited: context.size",
        "2 of 3 messages: retry (2 changed)",
    ]
    again = told(call(*retry, *WHY, "--json", code=1))
    assert ["why" in one for one in again["messages"]] == [True] * 3
    others = call(*retry, "--queue", "shop", "--dry-run", code=1)
    assert others.stderr == ""
    for words in (("c1", "--edits", file), ("--all", "--edits", file), ("--edits", file, "--error", "x")):
        assert "the file of --edits names the messages" in call("group", "retry", *words, code=2).stderr
    assert "or give --all, or --edits FILE" in call("group", "retry", code=2).stderr


def test_an_export_without_a_state_has_all_messages(shop, call):
    lines = [json.loads(line) for line in call("messages", "export", "--queue", "shop").stdout.splitlines()]
    found = sorted((one["group"], one["sequence"], one["status"]) for one in lines)
    assert found == [
        ("c2", 2, "held"), ("it's c1", 2, "faulted"), ("it's c1", 3, "queued"),
    ]  # fmt: skip
    (one,) = [json.loads(line) for line in call("messages", "export", "--group", "c2").stdout.splitlines()]
    assert (one["body"], one["context"]) == ("{}", {"customer": "c2", "version": 2})


def test_a_restart_is_listed_and_restarted(box, call):
    box.define(
        ORDER,
        sq.Queue("shop", sq.Standard(restart_after=2, remember=0), group="customer", sequence="version"),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
    )
    publish(box, 1, 2, 3, group="c1")
    assert received(box, "c1") == [1, 2, 3]
    publish(box, 1, 2, group="c1")
    assert received(box, "c1") == []
    listed = call("groups").stdout
    assert "its producer seems to have begun anew: 2 messages below its next number" in listed
    (one,) = told(call("groups", "--json"))
    assert (one["state"], one["suspects"], one["restart_suspected"]) == ("ready", 2, True)
    assert len(call("groups", "--all").stdout.splitlines()) == 2  # once
    shown = call("group", "show", "c1").stdout
    assert "nothing waits; its producer seems to have begun anew" in shown
    assert "  helps: seriatim group restart c1 --queue shop\n" in shown
    assert "need a hand: restarts." in call("doctor", code=1).stdout
    done = told(call("group", "restart", "c1", *WHY, "--json"))
    assert (done["action"], done["before"], done["after"], done["released"]) == ("restart", "ready", "ready", 2)
    assert received(box, "c1") == [1, 2]
    assert "closed" in call("group", "close", "c1", *WHY).stdout
    assert "cannot restart a group that is closed" in call("group", "restart", "c1", *WHY, code=2).stderr


def test_a_group_begins_with_its_suspension_or_reset(shop, call):
    """Also without its queue, if one queue alone has groups; and what comes then waits."""
    assert "group vip: ready → suspended" in call("group", "suspend", "vip", *WHY).stdout
    assert (
        "group late: ready → ready, 1 to 4 skipped"
        in call("group", "reset", "late", "--queue", "shop", "--next", "5", *WHY).stdout
    )
    several = call("group", "suspend", "vip", "new", "--queue", "shop", *WHY).stdout
    assert "2 of 2 groups: suspend" in several
    publish(shop, 1, group="vip")
    publish(shop, 5, group="late")
    assert received(shop, "vip") == []
    assert received(shop, "late") == [5]
    call("group", "resume", "vip", *WHY)
    assert received(shop, "vip") == [1]
    assert "can't be the key of a group" in call("group", "suspend", "x" * 1025, "--queue", "shop", *WHY, code=2).stderr
    assert "no queue has a group 'none'" in call("group", "abort", "none", *WHY, code=2).stderr
    shop.define(sq.Queue("other", sq.Fifo(), group="customer"))
    assert "no queue has a group 'none'" in call("group", "suspend", "none", *WHY, code=2).stderr
