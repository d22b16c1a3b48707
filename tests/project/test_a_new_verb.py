"""A new verb on groups touches at most five source files: shown by adding one to a copy of the package, and by using it everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seriatim as sq
from tests.console.conftest import fill
from tests.databases import box_with

SOURCE = Path(sq.__file__).parent
ROOT = Path(__file__).parents[2]
#: What stands before each piece of the new verb, by the file.
EDITS: dict[str, list[tuple[str, str]]] = {
    "kernel/groups/verbs.py": [
        ('    RESTART = "restart"\n', '    TOUCH = "touch"\n'),
        (
            "VERBS: Mapping[Action, Verb] = {\n",
            (
                '    Action.TOUCH: Verb(_OPEN, "Touch", "Touch", "move its clock", costs="Group {group} loses an hour.", takes=(\n'
                '        Parameter("by", ParameterKind.NUMBER, "--by", "Seconds.", "By", needed=True),\n'
                "    ), in_bulk=False),\n"
            ),
        ),
    ],
    "kernel/operators/actions.py": [
        (
            "    return np.array([value], np.int64)\n",
            (
                "\n\ndef touch(policy: Policy, state: State, now: int, group: str, by: int) -> Outcome:\n"
                "    _require(Action.TOUCH, policy, state, group)\n"
                "    return Outcome.unchanged(state.with_groups(clock=np.maximum(state.groups.clock, now) + by * 1_000_000))\n"
            ),
        ),
        ("restart, abort, close", ", touch"),
    ],
    "kernel/sequencer.py": [
        (
            "    # ---- the operator's hand\n",
            (
                "\n    def touch(self, group: Key, by: int, now: float | None = None) -> Outcome:\n"
                "        return self._act(Action.TOUCH, group, now, by=by)\n"
            ),
        )
    ],
    "operations/groups.py": [
        (
            "_MOST_GROUPS = 100_000\n",
            (
                "\n\ndef touch(box: MessageBox, queue: str, group: str, *, by: int, actor: str, reason: str) -> Operation:\n"
                "    return act(box, Action.TOUCH, queue, group, actor=actor, reason=reason, by=by)\n"
            ),
        )
    ],
    "cli/commands/group.py": [
        (
            "        tell_standing(found)\n",
            (
                "\n\n@acts(group, Action.TOUCH)\n"
                "def touch(command: GroupCommand) -> None:\n"
                '    """Touch GROUP."""\n'
                "    command.act()\n"
            ),
        )
    ],
}
#: Run in another process, with the copy as its package.
USE = """
import re, sys
from click.testing import CliRunner
import seriatim as sq
from seriatim.cli.main import main
from seriatim.kernel.groups.verbs import IN_PIPELINES, Action
from seriatim.kernel.operators import actions
from seriatim.operations import groups
from seriatim.operations.operator_log import operator_log
from seriatim.spark.control.commands import Command
from tests.console.conftest import Client
from tests.console.test_guard import form_of

assert sq.__file__.startswith(sys.argv[1]), sq.__file__
WHY = ("--actor", "ann", "--reason", "a test", "--dsn", sys.argv[2], "--schema", sys.argv[3])

sequencer = sq.Sequencer(sq.Standard())
sequencer.offer([("a", 2, "b")], now=0)
sequencer.touch("a", by=5, now=1)
assert "touch" in sequencer.group("a").allowed
assert Action.TOUCH in IN_PIPELINES and Action.TOUCH in actions._EFFECTS

def told(*words, code=0):
    done = CliRunner().invoke(main, ["group", "touch", *words])
    assert done.exit_code == code, done.output
    return done.output

assert "--by INTEGER" in told("--help") and "--pipeline" in told("--help")
assert told("c2", "--by", "5", *WHY) == "shop, group c2: waiting \\u2192 waiting\\n"
assert "Missing option '--by'" in told("c2", *WHY, code=2)
with sq.MessageBox.open(sys.argv[2], schema=sys.argv[3]) as box:
    done = groups.touch(box, "shop", "c2", by=7, actor="ann", reason="a test")
    assert (done.action, done.obeyed) == ("touch", True)
    assert Action.TOUCH in groups.standing(box, "shop", "c2").allowed
    newest = operator_log(box)[0]
    assert (newest.action, newest.details["by"]) == ("touch", 7)
    client = Client(box)
    page = client.get("/groups/shop/c2").text
    assert "Touch" in page and "Group c2 loses an hour." in page and 'name="by"' in page
    answer = client.post("/act", form_of(client, "touch", "c2", by="9"))
    assert answer.status_code == 303, answer.text
    assert operator_log(box)[0].details["by"] == 9
    missing = client.post("/act", form_of(client, "touch", "c2"))
    assert (missing.status_code, "the by is missing" in missing.text) == (422, True), missing.text
    groups.close(box, "shop", "c1", at_once=True, actor="ann", reason="a test")
    try:
        groups.touch(box, "shop", "c1", by=1, actor="ann", reason="a test")
    except sq.ActionRefused as refused:
        assert str(refused).startswith("queue 'shop', group 'c1': cannot touch a group that is closed"), refused
"""

filled = box_with(fill)


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A folder with the package, and the new verb in it."""
    shutil.copytree(SOURCE, tmp_path / "seriatim", ignore=shutil.ignore_patterns("__pycache__"))
    for name, edits in EDITS.items():
        file = tmp_path / "seriatim" / name
        text = file.read_text(encoding="utf-8")
        for before, new in edits:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, before + new)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def test_a_new_verb_is_a_few_lines_in_five_files(changed: Path, filled: sq.MessageBox) -> None:
    assert len(EDITS) <= 5
    environment = os.environ | {"PYTHONPATH": f"{changed}:{ROOT}"}
    words = [sys.executable, "-c", USE, str(changed), filled.dsn, filled.schema]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
