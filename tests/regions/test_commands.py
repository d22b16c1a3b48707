"""``seriatim regions``: define, compare and see two regions, and copy between them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from tests.regions.away import away
from tests.regions.two import NAME, Two, message


@pytest.fixture
def file(two: Two, tmp_path: Path) -> str:
    """A file that says what the regions of the test are."""
    path = tmp_path / "regions.yaml"
    path.write_text(f"""
name: shop
primary: {two.first.dsn}
secondary: {two.second.dsn}
journal: {two.journal_dsn}
schema: {two.first.schema}
patience: 30s
types:
  status: {{properties: {{session: string, number: long, price: "decimal(12,2)", at: timestamp}}}}
queues:
  status: {{group: session, sequence: number, attempts: 7}}
subscriptions:
  to-status: {{where: "type = 'status'", to: status}}
""")
    return str(path)


def ran(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["regions", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_what_is_defined_is_compared(two: Two, file: str) -> None:
    assert ran("apply", file) == "nothing to change in the boxes; the journal has the rules of the queues\n"
    assert two.regions.rules("status").attempts == 7
    assert ran("check", file) == "both boxes and the journal have the same\n"
    two.rows(two.second, "SELECT 1")
    import seriatim as sq

    two.second.define(sq.Subscription("to-status", where="type = 'other'", to="status"))
    assert json.loads(ran("check", file, "--json", code=1)) == [
        {"kind": "subscription", "name": "to-status", "what": "where differ in region b"}
    ]
    assert [one.what for one in two.regions.check()] == ["where differ between region a and region b"]
    applied = json.loads(ran("apply", file, "--json"))
    assert (applied["a"], [one["name"] for one in applied["b"]]) == ([], ["to-status"])


def test_rules_of_the_journal_are_compared(two: Two, file: str) -> None:
    ran("apply", file)
    rules = two.regions.rules("status")
    two.journal.define(NAME, "status", replace(rules, attempts=3, hole_timeout="9s"))
    (found,) = json.loads(ran("check", file, "--json", code=1))
    assert found == {"kind": "queue", "name": "status", "what": "attempts, hole_timeout differ in the journal"}
    ran("apply", file)
    assert two.regions.rules("status") == rules
    ran("check", file)


def test_what_waits_is_shown_and_copied(two: Two, file: str) -> None:
    with away(two, "b"):
        two.regions.publish([message("s", 1, "m1")])
    seen = json.loads(ran("status", file, "--json"))
    assert [(one["region"], one["state"], one["outbox"]) for one in seen["regions"]] == [
        ("a", "votes", 1),
        ("b", "votes", 0),
    ]
    assert seen["regions"][0]["lag_s"] > 0
    assert seen["sessions"]["idle"] == 1
    assert "votes" in ran("status", file)
    assert json.loads(ran("run", file, "--once", "--json").splitlines()[0])["copied"] == 1
    assert two.has(two.second) == [("s", 1, "m1")]


def test_what_is_away_is_told(two: Two) -> None:
    with away(two, "b", "journal"):
        found = two.regions.status()
    assert [one.state for one in found.regions] == ["votes", "away"]
    assert (found.sessions, "cut off" in str(found.why)) == (None, True)


def test_a_journal_is_recovered_by_what_both_boxes_say(two: Two, file: str) -> None:
    def recovered(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(
            main,
            ["journal", "recover", *arguments, "--yes", "--actor", "ann", "--reason", "a test"],
            env={"COLUMNS": "300"},
        )
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.stderr

    two.regions.publish([message("s", 1, "m1"), message("s", 2, "m2")])
    told = json.loads(recovered("--regions", file, "--json"))
    assert told == {"incarnation": 2, "stopped": 0, "raised": 0, "asked": ["a", "b"]}
    assert two.journal.through("shop", "status", ["s"]) == {"s": 2}  # the boxes had voted, without it
    assert "a, b" in recovered("shop", "--regions", file)
    assert (
        "region b wasn't asked"
        in CliRunner()
        .invoke(
            main,
            [
                "journal",
                "recover",
                "--regions",
                file,
                "--without",
                "b",
                "--yes",
                "--actor",
                "ann",
                "--reason",
                "a test",
            ],
        )
        .stderr
    )
    assert "declares the regions 'shop', not 'other'" in recovered("other", "--regions", file, code=2)
    assert "--dsn and --regions can't be combined" in recovered("--regions", file, "--dsn", "x", code=2)
    assert "nobody says what is over" in recovered("shop", "--dsn", two.journal_dsn, code=2)
    assert "--without needs --regions" in recovered("shop", "--without", "b", "--dsn", two.journal_dsn, code=2)


def test_serve_refuses_a_box_of_neither_region(two: Two, file: str, databases) -> None:
    from tests.databases import fresh_box

    with fresh_box(databases) as other:
        done = CliRunner().invoke(
            main, ["serve", "--regions", file, "--dsn", other.dsn, "--schema", other.schema, "--no-wait"]
        )
    assert (done.exit_code, "the box is neither of the regions 'shop'" in done.stderr) == (2, True)


def test_sessions_before_a_key_are_forgotten(two: Two, file: str) -> None:
    two.regions.publish(message("2027-01/1"))
    left = ran("forget", file, "status", "--before", "2027-02", "--reason", "spring", code=1)
    assert left.startswith(
        "nothing is forgotten yet, because this is left: 1 message in the queue of region a, 1 message in"
    )
    assert json.loads(ran("forget", file, "status", "--before", "2027-01", "--reason", "spring", "--json")) == {
        "queue": "status", "before": "2027-01", "a": 0, "b": 0, "journal": 0, "left": [],
    }  # fmt: skip
    assert ran("forget", file, "status", "--before", "2027", "--reason", "spring") == (
        "sessions forgotten: 0 in region a, 0 in region b, 0 in the journal\n"
    )
    assert [(one.action, one.reason) for one in two.journal.log(name=NAME)] == [("forget", "spring")]
