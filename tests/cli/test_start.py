"""How commands begin: without what they don't need, and with help that is all there."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from seriatim.cli.main import _SECTIONS, main
from seriatim.cli.options.group_help import WHOLE
from seriatim.cli.options.nouns import _SHOWN_BY, VERBS, brought_to_commands
from tests.advice import advised, incomplete
from tests.command import environment

#: Each takes longer to import than a person likes to wait for help.
SLOW = {"pyspark", "psycopg", "pandas", "pyarrow", "sqlglot", "lxml", "jsonschema", "httpx"}


def test_help_imports_nothing_that_is_slow():
    words = [sys.executable, "-X", "importtime", "-m", "seriatim", "--help"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True, timeout=180)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "seriatim.cli.main" in imported
    assert not imported & SLOW
    assert not [one for one in imported if one.startswith("seriatim.cli.commands.")]


def test_the_list_says_of_each_command_what_its_help_begins_with():
    ctx = click.Context(main)
    for rows in _SECTIONS.values():
        for name, told in rows.items():
            command = main.get_command(ctx, name)
            if name in VERBS.values():
                assert told == "", "its list tells of its verbs"
            else:
                verbs = f" Verbs: {', '.join(main.get_command(ctx, VERBS[name]).commands)}." if name in VERBS else ""
                assert sorted(told.partition(" Verbs: ")[2].strip(".").split(", ")) == sorted(
                    verbs.removeprefix(" Verbs: ").strip(".").split(", ")
                )
                assert told.partition(" Verbs: ")[0] == command.get_short_help_str(WHOLE)


@pytest.mark.parametrize("words", [[], ["box"], ["group"], ["dialogs"], ["queue"], ["instances"]])
def test_help_cuts_no_sentence(words):
    told = CliRunner().invoke(main, [*words, "--help"])
    assert told.exit_code == 0
    heading = "Commands:" if words else "If something stands still:"
    assert heading in told.stdout
    assert "..." not in told.stdout.partition(heading)[2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["doctr"], "there is no command 'doctr' (did you mean 'doctor'?)"),
        (["group", "rety", "c1"], "there is no command 'rety' (did you mean 'retry'?)"),
        (["groups", "skip-hol", "c1"], "there is no command 'skip-hol' (did you mean 'skip-hole'?)"),
        (["gruop"], "there is no command 'gruop' (did you mean 'group'?)"),
        (["deadletters"], "there is no command 'deadletters' (did you mean 'dead-letters'?)"),
        (["gates"], "there is no command 'gates' (see seriatim queue show NAME)"),
        (["Gate"], "there is no command 'Gate' (see seriatim queue show NAME)"),
        (["policies"], "there is no command 'policies' (see seriatim queue show NAME)"),
        (["locations"], "there is no command 'locations' (see seriatim box status)"),
        (["sequences"], "there is no command 'sequences' (main --help lists all)"),
        (["retries"], "there is no command 'retries' (main --help lists all)"),
        (["xyzzy"], "there is no command 'xyzzy' (main --help lists all)"),
    ],
)
def test_a_mistyped_command_is_told_which_was_meant(words, told):
    found = CliRunner().invoke(main, words)
    assert (found.exit_code, told in found.stderr) == (2, True), found.stderr


def test_what_a_word_is_shown_by_is_a_command():
    for word, shown in _SHOWN_BY.items():
        [one] = advised(f"seriatim {shown}")
        assert (" ".join(one.words), incomplete(one)) == (shown, None), word
        assert word not in main.list_commands(click.Context(main)), word


def test_help_lists_every_noun_once_and_what_helps_first():
    lines = CliRunner().invoke(main, ["--help"]).stdout.splitlines()
    headings = [one for one in lines if re.fullmatch(r"\S.*:", one)]
    assert headings == [
        *("Options:", "If something stands still:", "Begin:", "Pipelines:", "Message box:", "Workers:", "Shell:")
    ]
    shown = [found[1] for one in lines[lines.index(headings[1]) :] if (found := re.match(r"  ([a-z-]+)  ", one))]
    assert sorted([*shown, "connection", "group", "port", "queue", "schedule", "subscription"]) == main.list_commands(
        click.Context(main)
    )
    assert "Verbs: abort, close, reset, restart, resume, retry, show," in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("groups", "groups"),
        ("group", "groups"),
        ("group list --queue q", "groups --queue q"),
        ("groups --queue q", "groups --queue q"),
        ("groups show c1", "group show c1"),
        ("group show c1", "group show c1"),
        ("group --help", "group --help"),
        ("groups --help", "groups --help"),
        ("queue", "queues"),
        ("queues off orders", "queue off orders"),
        ("subscriptions stop all", "subscription stop all"),
        ("messages", "messages list"),
        ("message --status done", "messages list --status done"),
        ("message show 4711", "messages show 4711"),
        ("messages --help", "messages --help"),
        ("dead-letter requeue 7", "dead-letters requeue 7"),
        ("instance", "instances list"),
        ("dialog end x", "dialogs end x"),
        ("fault show 12", "faults 12"),
        ("faults list --queue q", "faults --queue q"),
        ("faults 12", "faults 12"),
        ("type", "types"),
        ("run list", "run list"),
        ("set-aside orders.yaml --json", "set-aside list orders.yaml --json"),
        ("set-aside --group c orders.yaml", "set-aside list --group c orders.yaml"),
        ("set-aside list orders.yaml", "set-aside list orders.yaml"),
        ("set-aside resubmit orders.yaml", "set-aside resubmit orders.yaml"),
        ("set-aside --help", "set-aside --help"),
        ("bulk", "bulk list"),
        ("bulk list --json", "bulk list --json"),
        ("bulk show 7", "bulk show 7"),
        ("bulk --help", "bulk --help"),
        ("pipeline", "pipeline list"),
        ("pipelines --json", "pipeline list --json"),
        ("pipeline orders.yaml", "pipeline show orders.yaml"),
        ("link", "link status"),
        ("links list", "link status"),
        ("link remove there", "link remove there"),
        ("token", "token list"),
        ("tokens --json", "token list --json"),
        ("token revoke web", "token revoke web"),
        ("region", "regions list"),
        ("regions both.yaml --json", "regions status both.yaml --json"),
        ("regions run both.yaml", "regions run both.yaml"),
        ("journal --busy", "journal list --busy"),
        ("journal regions NAME", "journal regions NAME"),
        ("box", "box status"),
        ("box --json", "box status --json"),
        ("box migrate", "box migrate"),
    ],
)
def test_a_noun_may_be_in_either_number_and_lists_without_a_verb(typed, meant):
    verbs = {"group": ["show", "retry"], "queue": ["off"], "subscription": ["stop"], "set-aside": ["list", "resubmit"]}
    assert brought_to_commands(typed.split(), verbs.__getitem__) == meant.split()


def test_the_other_number_reaches_the_command(box):
    where = ["--dsn", box.dsn, "--schema", box.schema]
    plural = ("queue", "queue list", "queues", "message", "messages list", "group list", "fault list", "type")
    for typed in (*plural, "bulk", "link", "links", "regions", "token"):
        told = CliRunner().invoke(main, [*typed.split(), *where])
        assert told.exit_code == 0, typed
        assert told.stdout.startswith("there are no"), typed
    told = CliRunner().invoke(main, ["groups", "show", "c1", *where])
    assert (told.exit_code, told.stderr.partition(" (")[0]) == (2, "error: no queue has a group 'c1'")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(shell):
    script = CliRunner().invoke(main, ["completion", shell])
    assert script.exit_code == 0
    assert f"_SERIATIM_COMPLETE={shell}_complete" in script.stdout
    words = {"COMP_WORDS": "seriatim dead", "COMP_CWORD": "dead" if shell == "fish" else "1"}
    told = CliRunner().invoke(
        main,
        prog_name="seriatim",
        complete_var="_SERIATIM_COMPLETE",
        env={"_SERIATIM_COMPLETE": f"{shell}_complete", **words},
    )
    assert "dead-letters" in told.stdout


@pytest.mark.parametrize(("said", "colours"), [("1", False), ("", True)])
def test_colours_are_left_out_where_they_are_not_wanted(said, colours, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    told = CliRunner().invoke(main, ["box", "apply", "nothing.yaml"], color=True, env={"NO_COLOR": said})
    assert told.exit_code == 2
    assert "there is no such file" in told.output
    assert ("\x1b[" in told.output) is colours
    assert not list(tmp_path.iterdir())  # no box was made for it


#: Commands that need a box; what only defines or begins something isn't among them.
NEEDING = [
    *(
        "queues",
        "groups",
        "doctor",
        "messages list",
        "find x",
        "workers",
        "trace x",
        "faults",
        "dead-letters list",
        "unrouted",
    ),
    *(
        "group show c1",
        "group retry c1 --reason x",
        "queue on q",
        "subscriptions",
        "types",
        "schedules",
        "link status",
        "transmission",
        "dialogs",
        "instances",
    ),
    *(
        "publish hello --type order",
        "work orders --handler a:b",
        "serve",
        "box status",
        "box purge",
        "box tick",
        "box grants",
    ),
]


@pytest.mark.parametrize("words", NEEDING)
def test_a_command_in_the_wrong_folder_makes_no_box_and_says_what_to_do(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    told = CliRunner().invoke(main, words.split())
    assert told.exit_code == 2, told.output
    assert (
        f"there is no message box here: no .seriatim/postgres in {tmp_path}, and SERIATIM_DSN is not set" in told.output
    )
    for remedy in ("cd to the folder of the box", "--dsn", "seriatim init DIR"):
        assert remedy in told.output
    assert list(tmp_path.iterdir()) == []


def test_the_usual_schema_is_made_by_what_defines_only(postgresql):
    told = CliRunner().invoke(main, ["queues", "--dsn", postgresql])
    assert told.exit_code == 3
    assert "there is no message box in the schema seriatim (seriatim box migrate)" in told.stderr


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
