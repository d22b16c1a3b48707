"""Pipelines in the console: a stored one that is down; and what is shown of one that runs, for a test that has one."""

from __future__ import annotations

import json
import re
from functools import partial

from seriatim.console.who import Actor
from tests.console.conftest import Client
from tests.upgrade.checkpoint import PRESENT, stored, unpack

#: A group as the report of a bucket names it, which the stored checkpoint doesn't do yet.
HOLE = {
    "queue": "standard", "group": "hole", "state": "waiting", "since": 1_700_000_000_000_000, "next": 2, "held": 3, "missing_first": 2,
    "missing_last": 2, "last_released": 1, "ordinal": 1, "incarnation": 0, "due_at": None, "late": 0, "by_operator": False,
    "closing": False, "unopened": False, "restart_suspected": False, "reason": "waits behind a missing number",
}  # fmt: skip
ADA = Actor("ada", frozenset({"see", "mend", "discard"}))


def unpacked(folder):
    """The file of a pipeline that has run and is down, of which groups wait in every way."""
    unpack(stored(PRESENT), folder)
    return folder / "pipeline.yaml"


def report(folder, since_us=HOLE["since"]):
    """Let its last batch have told that one group waits."""
    tally = folder / "checkpoint" / "tally.json"
    found = json.loads(tally.read_bytes())
    for number, one in enumerate(found["standing"]["reports"].values()):
        one["stopped"] = {"groups": 1 - number, "first": [HOLE | {"since": since_us}][number:]}
    tally.write_text(json.dumps(found))


def steady(found):
    """What a twin says, without what the clock changes between two looks."""
    if isinstance(found, list):
        return [steady(one) for one in found]
    return {name: value for name, value in found.items() if not name.endswith(("age_s", "per_s"))}


def both_looked(page, command):
    """What a page and a command tell of one moment: a run answers within a batch, which is told of when it ends."""
    for _ in range(100):
        before, seen, after = (steady(json.loads(found)) for found in (command().output, page().text, command().output))
        if before == after:
            return seen, after
    raise AssertionError("the pipeline never stands still")


def console(box, file, monkeypatch):
    """A console that waits for the answers of a run as long as that takes here."""
    for name in ("acting._ANSWER_S", "pages.pipeline.WAIT_S", "pages.pipeline_group.WAIT_S"):
        monkeypatch.setattr(f"seriatim.console.{name}", 60.0)
    return Client(box, identify=lambda _: ADA, pipelines=[file])


def seen(client, group):
    page = client.get(f"/pipelines/orders/groups/ordered/{group}").text
    return re.search(r'name="seen" value="([^"]+)"', page)[1]


def form_for(client, group, action):
    form = {"pipeline": "orders", "queue": "ordered", "group": group, "action": action, "reason": "a test"}
    return form | {"seen": seen(client, group)}


def suspend_in_the_console(client):
    """A button is a command that the run obeys at once; the page says so."""
    done = client.post("/act", form_for(client, "three", "suspend"))
    assert done.status_code == 303, done.text
    assert done.headers["location"].startswith("/pipelines/orders/groups/ordered/three?done=")
    page = client.get(done.headers["location"]).text
    assert "Suspend: done: ready → suspended" in page
    assert "done · ada: a test" in page
    old = form_for(client, "three", "suspend") | {"seen": "another"}
    assert "has changed since you looked: it is suspended now" in client.post("/act", old).text
    refused = client.post("/act", form_for(client, "three", "skip_hole"))
    assert (refused.status_code, "cannot skip the hole of a group that is suspended" in refused.text) == (409, True)
    assert client.post("/act", form_for(client, "three", "retry")).status_code == 422


def see_a_running_pipeline(client, invoked, file):
    """Each page, whose twin is what the command prints."""
    assert 'href="/pipelines"' in client.get("/").text
    page = client.get("/pipelines").text
    assert ">orders</a>" in page
    page = client.get("/pipelines/orders").text
    for group in ("one", "three", "two"):
        assert f'href="/pipelines/orders/groups/ordered/{group}"' in page
    page = client.get("/pipelines/orders/groups/ordered/two").text
    assert "<strong>3</strong>" in page
    assert page.index('name="action" value="skip_hole"') < page.index('name="action" value="abort"')
    assert client.get("/pipelines/orders?all=yes&key=t*").text.count("/groups/ordered/") == 2
    for path, words in {
        "pipelines/orders": ["pipeline", "show", file],
        "pipelines/orders/groups/ordered/two": ["group", "show", "two", "--pipeline", file],
        "pipelines/orders/events": ["events", "--pipeline", file],
        "pipelines/orders/log": ["log", "--pipeline", file],
    }.items():
        look, command = partial(client.get, f"/{path}.json"), partial(invoked, *words, "--json")
        seen, told = both_looked(look, command)
        assert seen == told, path
    for path in ("none", "orders/groups/ordered/none", "orders/groups/none/two"):
        assert client.get(f"/pipelines/{path}").status_code == 404, path


def see_a_pipeline_that_is_down(client):
    """What its last report tells, without Spark; a command is queued."""
    page = client.get("/pipelines/orders").text
    assert "stopped" in page
    assert 'href="/pipelines/orders/groups/ordered/two"' in page
    assert "starts Spark to read its state" in client.get("/pipelines/orders?all=yes").text
    page = client.get("/pipelines/orders/groups/ordered/two").text
    assert "The pipeline isn't running: its next run obeys." in page
