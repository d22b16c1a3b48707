"""Commands as the operator gets them: rows beside packets, in any order, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from seriatim.spark.control.commands import LOOK, RESUBMIT, Command
from seriatim.spark.resequence.commands import REMEMBERED
from seriatim.spark.state.packets import from_bytes
from tests.spark.resequence.one_bucket import OneBucket, packet

AT = 1_700_000_000_000_000


class Operator(OneBucket):
    """An operator that is called batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batch = 0

    def run(self, commands: list[Command], packets: list[bytes], *, backwards: bool = False) -> list[dict[str, Any]]:
        """The answers of a batch."""
        self.batch += 1
        reports = self.called(AT + self.batch, packets, commands, backwards=backwards)["report"].dropna()
        (report,) = map(json.loads, reports)
        return list(report.get("answers", []))


def command(verb: str, key: str, **more: Any) -> Command:
    return Command(verb, "q", key, "ada", "a test", **more)


def test_an_unknown_group_gets_no_state_and_a_dry_run_leaves_it_as_it_was() -> None:
    operator = Operator()
    (answer,) = operator.run([command("abort", "a")], [])
    assert (answer["result"], answer["at"]) == ("unknown", AT + 1)
    tried, refused = operator.run([command("suspend", "a", dry_run=True), command("resume", "a")], [])
    assert (tried["result"], tried["before"], tried["after"]) == ("done", "ready", "suspended")
    assert refused["result"] == "unknown"
    assert operator.index() is None
    operator.run([], [packet([("a", 2, 1)])])
    before = operator.index()
    (answer,) = operator.run([command("skip_hole", "a", dry_run=True)], [])
    assert (answer["result"], answer["after"], answer["released"]) == ("done", "ready", 1)
    (refused,) = operator.run([command("resume", "a")], [])
    assert (refused["result"], refused["before"]) == ("refused", "waiting")
    assert operator.index() == before


def test_commands_are_obeyed_in_their_order_and_before_the_data_however_the_rows_come() -> None:
    for backwards in (False, True):
        operator = Operator()
        operator.run([], [packet([("a", 2, 1), ("b", 1, 2)])])
        answers = operator.run(
            [command("suspend", "a"), command("resume", "a"), command("skip_hole", "a"), command("abort", "c")],
            [packet([("a", 1, 3), ("c", 1, 4)])],
            backwards=backwards,
        )
        assert [(one["verb"], one["result"]) for one in answers] == [
            ("suspend", "done"), ("resume", "done"), ("skip_hole", "done"), ("abort", "unknown"),
        ]  # fmt: skip


def test_a_group_begins_with_a_command_and_the_next_ones_find_it() -> None:
    operator = Operator()
    answers = operator.run([command("suspend", "a"), command("resume", "a"), command("suspend", "a")], [])
    assert [(one["result"], one["after"]) for one in answers] == [
        ("done", "suspended"), ("done", "ready"), ("done", "suspended"),
    ]  # fmt: skip
    operator.run([], [packet([("a", 1, 1)])])
    (resumed,) = operator.run([command("resume", "a")], [])
    assert (resumed["before"], resumed["after"], resumed["released"]) == ("suspended", "ready", 1)


def test_a_bucket_remembers_the_last_commands_that_it_has_obeyed() -> None:
    operator = Operator()
    operator.run([], [packet([("a", 1, 1)])])
    some = [command("suspend", "a", id=f"{number}") for number in range(REMEMBERED + 1)]
    assert {one["result"] for one in operator.run(some, [])} == {"done"}
    again = operator.run([some[0], some[2], some[-1]], [])
    assert [one["result"] for one in again] == ["done", "repeated", "repeated"]


def test_a_command_for_a_destination_that_is_gone_is_refused() -> None:
    operator = Operator()
    operator.run([], [packet([("a", 1, 1)])])
    (answer,) = operator.run([replace(command("suspend", "a"), queue="gone")], [])
    assert (answer["result"], answer["why"]) == ("refused", "the pipeline has no destination 'gone'")


def put_back(key: str, number: int, *, written: object = None, **more: Any) -> Command:
    row = {"key": key, "number": number if written is None else written, "arrival": 0}
    return command(RESUBMIT, key, arguments={"row": row, "sequence": number, "size": None, "time": None}, **more)


def released(rows: Any) -> list[tuple[str, int, bool]]:
    """What left in a call, in order: (group, number, late)."""
    tables = [from_bytes(bytes(one)) for one in rows["packet"].dropna()]
    left = [row for table in tables for row in table.to_pylist() if row["disposition"] == "released"]
    return [(row["key"], row["number"], row["late"]) for row in left]


@pytest.mark.parametrize("backwards", [False, True])
def test_what_follows_a_message_that_was_put_back_is_obeyed_behind_it(backwards: bool) -> None:
    operator = OneBucket()
    assert released(operator.called(AT, [packet([("a", 1, 1), ("a", 4, 2)])])) == [("a", 1, False)]
    commands = [
        command("abort", "b"),
        put_back("a", 2),
        command("skip_hole", "a", arguments={"through": 3}),
        put_back("a", 3),
        command("skip_hole", "b"),
    ]
    found = operator.called(AT + 1, [packet([("a", 5, 3)])], commands, backwards=backwards)
    assert released(found) == [("a", 2, False), ("a", 4, False), ("a", 3, True), ("a", 5, False)]
    (report,) = map(json.loads, found["report"].dropna())
    assert [(one["verb"], one["result"]) for one in report["answers"]] == [
        ("abort", "unknown"), ("resubmit", "done"), ("skip_hole", "done"), ("resubmit", "done"), ("skip_hole", "unknown"),
    ]  # fmt: skip
    assert report["put_back"] == {"q": 2}
    again = operator.called(AT + 2, [], [commands[1], commands[2], commands[1]])
    assert released(again) == []
    (report,) = map(json.loads, again["report"].dropna())
    assert {one["result"] for one in report["answers"]} == {"repeated"}


def test_where_a_journal_counts_by_numbers_a_late_message_that_is_put_back_stays_late() -> None:
    bucket = OneBucket(claims=True)
    bucket.called(AT, [packet([("a", 1, 1), ("a", 4, 2)])], [command("skip_hole", "a", arguments={"through": 3})])
    bucket.called(AT + 1, [], [command("skip_hole", "a", arguments={"through": 3})])
    found = bucket.called(AT + 2, [], [put_back("a", 3), put_back("a", 5)])
    assert released(found) == [("a", 5, False)]
    (report,) = map(json.loads, found["report"].dropna())
    assert [one["after"] for one in report["answers"]] == ["late", "released"]


def test_a_message_that_doesn_t_fit_the_run_is_refused_alone_and_goes_back_later() -> None:
    operator = Operator()
    operator.run([], [packet([("a", 1, 1)])])
    commands = [put_back("a", 2), put_back("a", 3, written="12.50", id="wrong"), put_back("a", 4)]
    answers = operator.run(commands, [])
    assert [(one["result"], one.get("why", "")) for one in answers] == [
        ("refused", "number: '12.50' is no long"), ("done", ""), ("done", ""),
    ]  # fmt: skip
    (done,) = operator.run([put_back("a", 3, id="wrong")], [])
    assert (done["result"], done["after"]) == ("done", "released")


@pytest.mark.parametrize("wrong", [5, ["m"], {"m": 1}, "\udcff"])
def test_a_value_that_a_command_can_t_have_is_refused_and_the_next_command_is_obeyed(wrong: object) -> None:
    operator = Operator()
    operator.run([], [packet([("a", 2, 1)])])
    commands = [
        command("skip_message", "a", arguments={"message": wrong}),
        Command(LOOK, "q", None, "ada", "a test", {"group": wrong}),
        command("reset", "a"),
        command("suspend", "a"),
    ]
    answers = operator.run(commands, [])
    assert [one["result"] for one in answers] == ["refused"] * 3 + ["done"]
