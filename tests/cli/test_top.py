"""``seriatim top``: in a script once, as JSON, and in a terminal live."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.operations import groups
from seriatim.operations.overview import overview
from tests.box.shop import define, publish
from tests.command import command, environment
from tests.databases import box_with


def prepare(box):
    define(box)
    publish(box, 1, 2)
    define(box, "\x1b[31mred")


shop = box_with(prepare, "module")


def told(shop, *words, code=0):
    result = CliRunner().invoke(main, ["top", *words, "--dsn", shop.dsn, "--schema", shop.schema])
    assert result.exit_code == code, result.output
    return result.output


def test_what_is_piped_comes_once_and_can_do_nothing_to_a_terminal(shop):
    lines = told(shop).splitlines()
    assert "published" in lines[0]
    assert lines[1].split()[:3] == ["queue", "state", "waiting"]
    (row,) = [one for one in lines if one.startswith("shop ")]
    assert row.split()[:3] == ["shop", "on", "2"]
    assert "\x1b" not in "".join(lines)


def test_json_has_all_figures(shop):
    found = json.loads(told(shop, "--once", "--json"))
    (one,) = [one for one in found["queues"] if one["queue"] == "shop"]
    assert (one["waiting"], one["enabled"], one["is_estimated"], one["hole_s"]) == (2, True, False, None)
    assert one["ready_s"] >= 0
    assert found["size_bytes"] > 0


@pytest.mark.parametrize("every", ["0", "-1", "nan", "1e9"])
def test_how_often_has_bounds(shop, every):
    assert "--every can't be" in told(shop, "--every", every, code=2)


def test_in_a_terminal_it_is_live_until_it_is_interrupted(shop):
    leader, follower = pty.openpty()
    words = command("top", "--every", "0.5", "--dsn", shop.dsn, "--schema", shop.schema)
    with subprocess.Popen(
        words, env=environment() | {"TERM": "xterm", "COLUMNS": "160"}, stdout=follower, stderr=follower, stdin=follower
    ) as process:
        os.close(follower)
        seen = b""
        while seen.count(b"published") < 2:  # it has looked twice
            seen += os.read(leader, 65536)
        process.send_signal(signal.SIGINT)
        try:
            while True:
                seen += os.read(leader, 65536)
        except OSError:  # the terminal is gone with its process
            pass
    os.close(leader)
    assert process.returncode == 0
    assert b"shop" in seen
    assert b"\x1b[31mred" not in seen
    assert b"Traceback" not in seen


def test_what_needs_a_hand_is_told(shop):
    groups.suspend(shop, "shop", "c1", actor="me", reason="test")
    found = overview(shop)
    (one,) = [one for one in found.queues if one.queue == "shop"]
    assert one.suspended == 1
    assert one.needs_hand
