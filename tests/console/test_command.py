"""``seriatim console``: it is closed to others unless it knows who they are, and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.console.live import Looks, Poller
from seriatim.console.serving import identify_by, server_of
from seriatim.errors import EnvironmentProblem, UsageError
from tests.box.console import publish


def test_others_reach_it_only_if_it_knows_who_they_are(box, tmp_path):
    for listen in ("0.0.0.0:0", "10.0.0.1:0", "[::]:0", "example.org:0", ":80", "unix:console.sock"):
        with pytest.raises(UsageError, match="others could reach the console"):
            server_of(box, listen=listen)
    for listen in ("127.0.0.1", "nowhere", "127.0.0.1:99999", "127.0.0.1:x"):
        with pytest.raises(UsageError, match="cannot listen at"):
            server_of(box, listen=listen)
    with pytest.raises(UsageError, match="is no origin"):
        server_of(box, listen="127.0.0.1:0", origins=["ops.example.org"])
    first = server_of(box, listen="127.0.0.1:0")
    with pytest.raises(EnvironmentProblem, match="cannot listen"):
        server_of(box, listen=first.address.removeprefix("http://"))
    first.close()
    with pytest.raises(UsageError, match="--trusted-proxy says"):
        identify_by(None, None, ["10.0.0.1"])
    with pytest.raises(UsageError, match="is no address"):
        identify_by(None, "X-User", ["nobody"])
    with pytest.raises(UsageError, match="believes whoever sends the header"):
        identify_by(None, "X-User")
    with pytest.raises(UsageError, match="has no address, and the console has one"):
        server_of(box, listen="127.0.0.1:0", header="X-User", proxies=["unix"])
    file = tmp_path / "users"
    file.touch(0o600)
    with pytest.raises(UsageError, match="leave --roles out"):
        identify_by(file, None, (), ["see"])


def test_a_user_is_written_into_the_file_with_a_mode_that_others_cannot_read(tmp_path):
    file = tmp_path / "users"

    def add(name, *more, password="correct horse\n"):
        return CliRunner().invoke(main, ["console", "--users", str(file), "--add-user", name, *more], input=password)

    assert add("ann", "--roles", "mend,discard").exit_code == 0
    assert add("joe").exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert [line.split(":")[:2] for line in file.read_text().splitlines()] == [
        ["ann", "see,mend,discard"],
        ["joe", "see"],
    ]
    assert "correct horse" not in file.read_text()
    assert "has the user 'ann'" in add("ann").output
    assert "too short" in add("eve", password="x\n").output
    assert "there is no role" in add("eve", "--roles", "fly").output
    assert "a user can't be named" in add("e:ve").output
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.proves("`seriatim console` ends when it is told to though browsers hold streams open")
def test_it_serves_until_it_is_told_to_stop_and_does_not_wait_for_open_streams(box):
    words = [
        "-m",
        "seriatim",
        "console",
        "--listen",
        "127.0.0.1:0",
        "--dsn",
        box.dsn,
        "--schema",
        box.schema,
        "--read-only",
        "--log-format",
        "json",
    ]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        asks = httpx.Client(timeout=120)
        try:
            told = process.stderr.readline()
            assert told.startswith("the console is at http://127.0.0.1:"), told
            address, _, token = told.split()[4].partition("/?token=")
            assert httpx.get(f"{address}/").status_code == 401
            with box.session() as tx:  # a page fails whose box is odd, and the log says so
                tx.connection.execute(f"ALTER TABLE {box.schema}.bulk_operations RENAME TO gone")
            asks.base_url, asks.headers["authorization"] = address, f"Bearer {token}"
            assert asks.get("/bulk-operations").status_code == 500
            with asks.stream("GET", "/live") as stream:
                lines = stream.iter_lines()
                assert next(lines) == "retry: 2000"
                process.send_signal(signal.SIGTERM)
                assert list(lines)[-1:] == [""]  # it ends
            assert process.wait(180) in (0, -signal.SIGTERM)
        finally:
            asks.close()
            process.kill()
        (line,) = map(json.loads, process.stderr.read().splitlines())
        assert (line["event"], line["level"]) == ("page_failed", "error")


def test_one_poller_tells_all_that_something_has_changed(filled):
    import asyncio

    async def look():
        poller = Poller(filled, Looks(filled))
        streams = [poller.stream() for _ in range(3)]
        for one in streams:
            assert await anext(one) == "retry: 2000\n\n"
        waiting = [asyncio.ensure_future(anext(one)) for one in streams]
        while not any(one.done() for one in waiting):
            await asyncio.to_thread(publish, filled, 100, group="new")
            await asyncio.wait(waiting, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
        told = await asyncio.gather(*waiting)
        assert {one.splitlines()[0] for one in told} == {"event: changed"}
        poller.end()
        for one in streams:
            assert all(event.startswith("event: ") for event in [event async for event in one])
        return len(told)

    assert asyncio.run(look()) == 3
