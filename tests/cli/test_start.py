"""How commands begin: without what they don't need, and with help that is all there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from tests.command import environment

#: Each takes longer to import than a person likes to wait for help.
SLOW = {"pyspark", "psycopg", "pandas", "pyarrow", "sqlglot", "lxml", "jsonschema", "httpx"}


def test_help_imports_nothing_that_is_slow():
    words = [sys.executable, "-X", "importtime", "-m", "seriatim", "--help"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True, timeout=60)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "seriatim.cli.main" in imported
    assert not imported & SLOW


@pytest.mark.parametrize("words", [[], ["box"], ["group"], ["dialogs"], ["queue"], ["instances"]])
def test_help_cuts_no_sentence(words):
    told = CliRunner().invoke(main, [*words, "--help"])
    assert told.exit_code == 0
    assert "Commands:" in told.stdout
    assert "..." not in told.stdout.partition("Commands:")[2]


@pytest.mark.parametrize(("said", "colours"), [("1", False), ("", True)])
def test_colours_are_left_out_where_they_are_not_wanted(said, colours, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    told = CliRunner().invoke(main, ["box", "apply", "nothing.yaml"], color=True, env={"NO_COLOR": said})
    assert told.exit_code == 2
    assert "there is no such file" in told.output
    assert ("\x1b[" in told.output) is colours
    assert not list(tmp_path.iterdir())  # no box was made for it


def test_a_box_that_is_made_by_looking_is_told_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    told = CliRunner().invoke(main, ["queues", "--json"])
    assert (told.exit_code, told.stdout) == (0, "[]\n")
    assert told.stderr == "there is no message box in this folder yet: making one in .seriatim/postgres\n"


def test_a_mistyped_schema_is_refused_and_nothing_is_made(box):
    where = ["--dsn", box.dsn, "--schema", "mistyped"]
    for words in (["queues"], ["box", "status"], ["box", "purge"], ["groups"], ["work", "orders", "--handler", "a:b"]):
        told = CliRunner().invoke(main, [*words, *where])
        assert told.exit_code != 0
        assert "there is no message box in the schema mistyped" in told.stderr
        assert "seriatim box migrate" in told.stderr
    with box.session() as tx:
        found = tx.connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'mistyped'")
        assert found.fetchone() == (0,)


def test_what_defines_makes_its_box(box, tmp_path):
    (tmp_path / "box.yaml").write_text("queues: {orders: {policy: unordered}}\n")
    where = ["--dsn", box.dsn, "--schema", f"{box.schema}_new"]
    told = CliRunner().invoke(main, ["box", "apply", str(tmp_path / "box.yaml"), *where])
    assert told.exit_code == 0, told.output
    told = CliRunner().invoke(main, ["queues", "--json", *where])
    assert [one["queue"] for one in json.loads(told.stdout)] == ["orders"]
