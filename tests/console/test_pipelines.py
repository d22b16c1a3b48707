"""Pages of a pipeline that is down, from a stored checkpoint: nobody starts Spark for them. One that runs: `tests/cli/test_pipeline_commands.py`."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.console.live import Looks, Poller
from seriatim.console.pipelines import Pipelines
from seriatim.console.serving import server_of
from seriatim.console.who import Actor
from seriatim.errors import DeclarationError, UsageError
from seriatim.operations.pipelines.groups import act
from tests.console.conftest import Client
from tests.console.of_pipelines import report, steady, unpacked
from tests.upgrade.checkpoint import declare

ADA = Actor("ada", frozenset({"see", "mend"}))


@pytest.fixture
def stored(tmp_path):
    """The file of a pipeline of which groups wait in every way."""
    return unpacked(tmp_path)


@pytest.fixture
def client(filled, stored):
    found = Client(filled, identify=lambda _: ADA, pipelines=[stored])
    found.box = filled
    return found


def told(*words):
    ran = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def test_what_the_last_batch_left_is_shown_and_the_twins_are_those_of_the_commands(client, stored):
    assert 'href="/pipelines"' in client.get("/").text
    page = client.get("/pipelines").text
    assert 'href="/pipelines/stored"' in page
    page = client.get("/pipelines/stored").text
    assert "stopped" in page
    shown = steady(told("pipeline", "show", stored))
    assert steady(client.get("/pipelines.json").json()) == [shown]
    assert steady(client.get("/pipelines/stored.json").json()) == shown
    assert client.get("/pipelines/stored/events.json").json() == told("events", "--pipeline", stored)
    assert client.get("/pipelines/stored/log.json").json() == told("log", "--pipeline", stored) == []
    act(stored, "suspend", "standard", "hole", actor="ann", reason="a ticket")
    act(stored, "suspend", "fifo", "two", actor="bob", reason="another one")
    for given, groups in (
        ({"actor": "ann"}, ["hole"]),
        ({"actor": "an"}, []),
        ({"action": "suspend"}, ["two", "hole"]),
        ({"since": "1h"}, ["two", "hole"]),
        ({"until": "1h"}, []),
    ):
        options = [word for name, value in given.items() for word in (f"--{name}", value)]
        found = client.get("/pipelines/stored/log.json", params=given).json()
        assert found == told("log", "--pipeline", stored, *options)
        assert [one["group"] for one in found] == groups, given
    assert "starts Spark to read its state" in client.get("/pipelines/stored?all=yes").text
    assert client.get("/pipelines/stored?key=h*&state=waiting").status_code == 200
    assert client.get("/pipelines/stored?state=odd").status_code == 400


@pytest.fixture
def reported(stored):
    """The last batch has told that one group waits."""
    report(stored.parent)


@pytest.mark.usefixtures("reported")
def test_a_button_is_a_command_that_the_next_run_obeys(client, stored):
    page = client.get("/pipelines/stored").text
    assert 'href="/pipelines/stored/groups/standard/hole"' in page
    page = client.get("/pipelines/stored/groups/standard/hole").text
    assert "Waits behind a missing number" in page
    assert "<strong>2</strong>" in page
    assert "its next run obeys" in page
    assert page.index('value="skip_hole"') < page.index('value="suspend"')
    assert 'value="abort"' not in page  # for which ada lacks the role
    seen = re.search(r'name="seen" value="([^"]+)"', page)[1]
    form = {
        "pipeline": "stored",
        "queue": "standard",
        "group": "hole",
        "action": "skip_hole",
        "reason": "never sent",
        "seen": seen,
    }
    assert client.post("/act", form | {"action": "abort"}).status_code == 403
    assert client.post("/act", form | {"reason": ""}).status_code == 422
    changed = client.post("/act", form | {"seen": "another"})
    assert (changed.status_code, "has changed since you looked: it is waiting now" in changed.text) == (409, True)
    assert told("log", "--pipeline", stored) == []
    done = client.post("/act", form)
    assert done.status_code == 303, done.text
    page = client.get(done.headers["location"]).text
    assert "Skip hole: queued. The pipeline obeys it in its next batch, when it runs." in page
    (entry,) = told("log", "--pipeline", stored)
    assert (entry["action"], entry["result"], entry["actor"], entry["reason"]) == (
        "skip_hole",
        "queued",
        "ada",
        "never sent",
    )
    assert client.get("/pipelines/stored/log.json").json() == [entry]
    assert "1 command is queued" in client.get("/pipelines/stored").text
    looking = Client(client.box, reads_only=True, pipelines=[stored])
    assert looking.post("/act", form).status_code == 403
    assert "<form class" not in looking.get("/pipelines/stored/groups/standard/hole").text.split("<main")[1]


def test_what_is_not_there_is_told(client):
    for path in ("none", "none/events", "none/log", "stored/groups/none/a", "none/groups/standard/hole"):
        assert client.get(f"/pipelines/{path}").status_code == 404, path
    assert client.get("/pipelines/stored/groups/standard/no-such-group").status_code == 409
    form = {"pipeline": "none", "queue": "standard", "group": "hole", "action": "suspend", "reason": "r", "seen": ""}
    assert client.post("/act", form).status_code == 404
    assert client.post("/act", form | {"pipeline": "stored", "group": "none"}).status_code == 409


def test_without_pipelines_the_menu_has_none(filled):
    client = Client(filled)
    assert 'href="/pipelines"' not in client.get("/").text
    assert "started without --pipelines" in client.get("/pipelines").text
    assert client.get("/pipelines.json").json() == []


def test_one_that_has_not_run_is_told_and_a_wrong_file_is_refused(filled, tmp_path):
    declare(tmp_path)
    file = tmp_path / "pipeline.yaml"
    page = Client(filled, pipelines=[file]).get("/pipelines").text
    assert "has not run yet" in page
    assert Client(filled, pipelines=[file]).get("/pipelines/stored").status_code == 400
    with pytest.raises(UsageError, match="two pipelines are named 'stored'"):
        Pipelines([file, file])
    file.write_text("name: 7")
    with pytest.raises(DeclarationError):
        server_of(filled, listen="127.0.0.1:0", pipelines=[file])


def test_an_open_page_is_told_of_a_batch(filled, stored):
    async def look():
        pipelines = Pipelines([stored])
        poller = Poller(filled, Looks(filled), pipelines)
        stream = poller.stream()
        assert await anext(stream) == "retry: 2000\n\n"
        waiting = asyncio.ensure_future(anext(stream))
        tally = stored.parent / "checkpoint" / "tally.json"
        while not waiting.done():
            tally.write_bytes(tally.read_bytes())
            await asyncio.wait([waiting], timeout=0.2)
        poller.end()
        return await waiting

    assert re.search(r"^event: changed\ndata: .*pipeline stored", asyncio.run(look()))


def test_a_console_without_spark_shows_the_box_and_says_so(filled, stored, monkeypatch):
    monkeypatch.setattr("seriatim.extras._is_there", lambda name: name != "pyspark")
    client = Client(filled, pipelines=[stored])
    assert ">shop</a>" in client.get("/").text
    page = client.get("/pipelines").text
    assert (
        "<strong>stored</strong>: the part for pipelines and Spark DataFrames is not installed: there is no pyspark"
        in page
    )
    assert "pip install &#34;seriatim[spark]&#34;" in page
    one = client.get("/pipelines/stored")
    assert "is not installed" in one.text
    assert "Traceback" not in one.text
