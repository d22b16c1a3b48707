"""The end of `seriatim demo` in a terminal: the console, on a box in which a group stands still."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import httpx
import pytest

from seriatim.cli.commands.demo_box import STILL_GROUP
from tests.box.embedding import has_gone

TELLING = """
import sys
from pathlib import Path
from time import monotonic
from functools import partial
from rich.console import Console
from seriatim.cli.commands import demo
from seriatim.cli.commands.demo_box import box_story
console = Console()
box_story(Path(sys.argv[1]), console, partial(demo._serve, console, monotonic()))
console.print("that was all")
"""


@pytest.mark.proves("`seriatim demo` in a terminal ends with a console on its box")
@pytest.mark.dear
def test_the_console_shows_the_demos_box_until_ctrl_c(tmp_path):
    environment = {name: one for name, one in os.environ.items() if name != "SERIATIM_DSN"}
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        lines = iter(process.stdout)
        opens_at = next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
        address = opens_at.partition("/?token=")[0]
        with httpx.Client(base_url=address) as browser:
            assert browser.get("/").status_code == 401
            assert browser.get(opens_at, follow_redirects=True).status_code == 200
            told = browser.get("/groups.json?all=yes").json()
            while [one["state"] for one in told] != ["faulted"]:  # the worker is about to fail at it
                told = browser.get("/groups.json?all=yes").json()
            assert told[0]["group"] == STILL_GROUP
            assert "is no amount" in browser.get(f"/groups/shipping/{STILL_GROUP}").text
        process.send_signal(signal.SIGINT)
        assert "that was all\n" in list(lines)
        assert process.wait(180) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert has_gone(tmp_path)
