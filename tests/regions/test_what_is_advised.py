"""What is advised in two regions: the journal's commands, and each of them is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.errors import ActionRefused
from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.operations import dead_letters, groups
from seriatim.operations.doctor import work_checks
from tests.advice import advised
from tests.console.conftest import Client
from tests.databases import SCHEMA
from tests.regions.away import away
from tests.regions.two import NAME, Two, message


@pytest.fixture
def standing(two: Two) -> Two:
    """In region a a session waits for number 1, which was sent to region b and is lost with it; another has a dead letter."""
    with away(two, "a"):
        two.regions.publish(message("lost", 1, "m1"))
    two.regions.publish(message("lost", 2, "m2"))
    two.regions.publish(message("given", 1, "m3"))

    def handle(_: object, __: object) -> None:
        raise sq.DeadLetter("nobody wants it")

    with away(two, "b"):
        sq.RegionalWorker(two.regions, "status", handle, region="a").run(until_idle=True)
    two.rows(two.first, "UPDATE {}.known_groups SET since = since - 60000000 WHERE since > 0 RETURNING 1")
    return two


def _ran(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == code, (words, done.output)
    return done.output


def test_a_box_names_the_journals_commands_and_nothing_that_it_refuses(standing: Two) -> None:
    box = standing.first
    where = ("--dsn", box.dsn, "--schema", SCHEMA)
    found = groups.standing(box, "status", "lost")
    assert found.view.regions == NAME
    assert not any(VERBS[one].decides for one in (*found.allowed, *found.helps))
    assert found.commands == (f"seriatim journal show lost --queue status --name {NAME}",)
    told = _ran("group", "show", "lost", "--queue", "status", *where)
    assert (
        f"in the journal of the regions {NAME}, which decides for both: retry, skip, release, suspend, resume" in told
    )
    assert "skip-hole" not in told
    assert work_checks.CHECKS["waiting"](work_checks.Work(box)).remedy.startswith(found.commands[0])
    page = Client(box).get("/groups/status/lost").text
    assert found.commands[0] in page
    assert "the journal of the regions shop decides for both" in page
    for action in found.allowed:
        groups.act(box, action, "status", "lost", actor="ann", reason="tried")


def test_each_command_is_accepted_and_the_session_goes_on(standing: Two, tmp_path: Path) -> None:
    box, journal = standing.first, ("--dsn", standing.journal_dsn)
    file = tmp_path / "regions.yaml"
    file.write_text(
        f"name: {NAME}\nprimary: {box.dsn}\nsecondary: {standing.second.dsn}\njournal: {standing.journal_dsn}\n"
        f"schema: {SCHEMA}\npatience: 30s\n"
    )
    texts = ["\n".join(groups.standing(box, "status", "lost").commands)]
    (letter,) = dead_letters.dead_letters(box)
    for action in (one for one in Action if VERBS[one].decides and one is not Action.REQUEUE):
        more = {"next": 1} if action is Action.RESET else {}
        with pytest.raises(ActionRefused) as refused:
            groups.act(box, action, "status", "lost", actor="ann", reason="tried", **more)
        texts.append(str(refused.value.remedy))
    with pytest.raises(ActionRefused) as refused:
        dead_letters.requeue(box, letter.entry_id, actor="ann", reason="tried")
    texts += [str(refused.value.remedy), _ran("journal", "list", *journal), _ran("journal", "show", "lost", *journal)]
    commands = {str(one): one for text in texts for one in advised(text)}
    assert {one.path[-1] for one in commands.values()} == {"show", "skip", "suspend", "resubmit"}
    assert f"seriatim journal skip lost --queue status --name {NAME} --through 1" in commands
    for one in sorted(
        commands.values(), key=lambda one: (one.path[-1], -len(one.words))
    ):  # a range before the next number
        given = [*(journal if one.takes("--dsn") else ()), *(("--reason", "tried") if one.takes("--reason") else ())]
        _ran(*one.with_options(*given, replaced={"FILE": str(file), "ID": letter.message_id}))
        if one.path[-1] == "suspend":
            _ran("journal", "resume", "lost", "--reason", "tried", *journal)
