"""Commands as the operator gets them: rows beside packets, in any order, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from seriatim.spark.control.commands import Command
from seriatim.spark.resequence.commands import REMEMBERED
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
    (answer,) = operator.run([command("suspend", "a")], [])
    assert (answer["result"], answer["at"]) == ("unknown", AT + 1)
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
            [command("suspend", "a"), command("resume", "a"), command("skip_hole", "a"), command("suspend", "c")],
            [packet([("a", 1, 3), ("c", 1, 4)])],
            backwards=backwards,
        )
        assert [(one["verb"], one["result"]) for one in answers] == [
            ("suspend", "done"), ("resume", "done"), ("skip_hole", "done"), ("suspend", "unknown"),
        ]  # fmt: skip


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
