"""What people read: nothing of a message reaches a terminal as more than text, and a list that is cut short says so."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.cli.shown.table import in_columns, width_of
from seriatim.pipeline.text.plain import in_line, in_lines
from tests.box.console import BUSINESS, define, failing, publish

WILD = "c\x1b[2J\n\x9b31m"


def test_what_cannot_be_printed_is_an_escape():
    assert in_line("Zoë 日本") == "Zoë 日本"
    assert in_line("a\x1b[31m\n\t\u202eb") == r"a\x1b[31m\n\t\u202eb"
    assert in_lines("a\tb\n\x1b[31mc\r\n") == "a\tb\n" + r"\x1b[31mc\r" + "\n"


def test_columns_stand_under_each_other_whatever_is_in_them():
    lines = in_columns(("key", "n"), [("日本", 1), ("a\nb", 12), ("Zoë", None)])
    assert list(lines) == ["key    n", "日本   1", r"a\nb  12", "Zoë"]
    assert width_of("日本") == 4


def test_no_message_writes_on_a_terminal(box, call):
    define(box)
    (message_id, *_) = publish(box, 1, 2, group=WILD)
    failing(
        box, BUSINESS.__class__(BUSINESS.kind, "ValueError", "\x1b]0;x\x07", "w1", "Traceback\n  \x1b[1m"), group=WILD
    )
    for words in (
        *(["groups"], ["group", "show", WILD], ["messages", "list"], ["messages", "show", message_id]),
        *(["faults"], ["faults", 1], ["trace", message_id], ["trace", "--group", WILD]),
        *(["group", "retry", WILD, "--reason", "r"], ["group", "suspend", "--all", "--yes", "--reason", "r"]),
    ):
        told = call(*words).output
        assert r"\x1b" in told or r"\u001b" in told, words
        assert not {character for character in told if not character.isprintable()} - {"\n"}, words
    assert not {"\x1b", "\x9b"} & {*call("group", "show", f"{WILD}2", code=2).output}


def test_a_list_that_is_cut_short_says_so(box, call):
    define(box)
    for group in ("c1", "c2", "c3"):
        publish(box, 1, group=group)
    assert "may be more: --limit" in call("groups", "--all", "--limit", 2).stderr
    assert call("groups", "--all", "--limit", 4).stderr == ""
    assert "may be more" in call("messages", "list", "--limit", 3).stderr
    assert call("groups", "--limit", 2, "--json").stderr == ""


def test_what_is_not_there_is_said_in_one_way(box, call):
    define(box)
    for words in (["instances", "list"], ["dialogs", "list"], ["faults"], ["groups"], ["dead-letters", "list"]):
        assert call(*words).stdout == "there are none\n"
    assert "did you mean 'shop'?" in call("instances", "list", "--queue", "shp", code=2).stderr


def test_the_command_that_helps_may_be_copied_for_any_key(box):
    define(box)
    which = ["--dsn", box.dsn, "--schema", box.schema]
    for key in ("-c1", "--all", "it's c1"):
        publish(box, 1, group=key)
        failing(box, group=key)
        told = CliRunner().invoke(main, ["group", "show", *which, "--", key]).stdout
        (line, *_) = [line for line in told.splitlines() if "helps:" in line]
        (_, *words) = shlex.split(line.removeprefix("  helps: "))
        done = CliRunner().invoke(main, [*words[:2], *which, "--reason", "mended", *words[2:]])
        assert done.output == f"shop, group {key}: faulted → ready\n"


#: What a shell hands over for a byte that is no UTF-8.
NO_TEXT = b"\xff".decode(errors="surrogateescape")


@pytest.mark.parametrize(
    "words",
    [
        ("group", "show", NO_TEXT),
        ("group", "show", "c1", "--queue", NO_TEXT),
        ("group", "suspend", "c1", "--reason", NO_TEXT),
        ("group", "suspend", "c1", "--reason", "r", "--actor", NO_TEXT),
        ("messages", "show", NO_TEXT),
        ("messages", "list", "--type", NO_TEXT),
        ("groups", "--key", f"{NO_TEXT}*"),
        ("groups", "--error", NO_TEXT),
        ("faults", "--message", NO_TEXT),
        ("dead-letters", "list", "--error", NO_TEXT),
        ("trace", NO_TEXT),
        ("trace", "--group", NO_TEXT),
        ("dialogs", "show", NO_TEXT),
        ("box", "grant", NO_TEXT, "--publish", "orders"),
        ("box", "grant", "x", "--publish", NO_TEXT),
    ],
)
def test_what_is_no_text_is_refused(call, words):
    assert r"'\udcff" in call(*words, code=2).stderr
    assert NO_TEXT not in call(*words, code=2).output


def test_a_box_that_is_named_by_no_text(box):
    for words in (("--dsn", NO_TEXT), ("--dsn", box.dsn, "--schema", NO_TEXT)):
        result = CliRunner().invoke(main, ["groups", *words])
        assert (result.exit_code, "is not UTF-8" in result.stderr) == (2, True)


def test_every_text_is_looked_at():
    """So of each command that there is."""

    def texts(command):
        yield from (one.type for one in command.params if one.type.name == "text")
        for inner in getattr(command, "commands", {}).values():
            yield from texts(inner)

    names = main.list_commands(None)
    found = [one for name in names for one in texts(main.get_command(None, name))]
    assert len(found) > 100
    for one in found:
        with pytest.raises(click.BadParameter, match="is not UTF-8"):
            one.convert(NO_TEXT, None, None)


def test_a_file_may_have_any_name(call, tmp_path):
    file = tmp_path / f"{NO_TEXT}.yaml"
    file.write_text("locations: {here: {}}\n")
    call("box", "apply", file)
