"""What users call and type is what the table of verbs says: functions, methods, commands with their options, and documents."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.cli.commands.group import group
from seriatim.kernel.groups.verbs import ON_GROUPS, VERBS, Action
from seriatim.operations import groups

CLI = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


@pytest.mark.parametrize("action", ON_GROUPS)
def test_a_verb_is_what_its_row_says(action: Action) -> None:
    verb = VERBS[action]
    takes = {one.name for one in verb.takes}
    function = getattr(groups, action)
    assert set(inspect.signature(function).parameters) == {"box", "queue", "group", "actor", "reason"} | takes
    if verb.in_pipelines:
        assert callable(getattr(sq.Sequencer, action))
    command = group.commands[action.command]
    options = {option for one in command.params for option in one.opts}
    assert options >= {one.option for one in verb.takes}
    assert ("--all" in options, "--pipeline" in options) == (verb.in_bulk, verb.in_pipelines)


@pytest.mark.parametrize("action", ON_GROUPS)
def test_a_verb_is_in_the_reference(action: Action) -> None:
    _, heading, rest = CLI.read_text(encoding="utf-8").partition(f"\n## `seriatim group {action.command} ")
    section = rest.partition("\n## ")[0]
    assert heading, action
    for one in VERBS[action].takes:
        assert f"`{one.option}" in section, (action, one.option)
