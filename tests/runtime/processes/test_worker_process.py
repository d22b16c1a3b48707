"""A worker process that is told to end before it works."""

from __future__ import annotations

import subprocess
import sys
from uuid import uuid4

import pytest

import seriatim as sq
from seriatim.kernel.fields import to_stored
from seriatim.pipeline.declared.work_limits import Limits
from seriatim.runtime.processes.worker_process import Orders
from seriatim.runtime.workers.scoreboard import Scoreboard
from tests.command import environment

#: A process that gets the signal when it has just opened the box.
TOLD_EARLY = """
import os, signal
from seriatim.runtime.processes import worker_process

opened = worker_process.open_patiently

def told(*arguments, **options):
    box = opened(*arguments, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    return box

worker_process.open_patiently = told
os._exit(worker_process.main())
"""


@pytest.mark.proves("a worker process that is told to end while it opens the box ends")
def test_told_to_end_while_it_opens_the_box_it_ends(box):
    box.define(sq.Queue("q", policy=sq.Unordered()))
    scoreboard = Scoreboard.make(100)
    orders = Orders(
        box.dsn, box.schema, ["q"], "builtins:print", to_stored(Limits()), "w",
        scoreboard=scoreboard.file, process_id=str(uuid4()),
    )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", TOLD_EARLY], env=environment(), stdin=subprocess.PIPE, pass_fds=[scoreboard.file]
    )
    try:
        process.stdin.write(orders.as_json().encode() + b"\n")
        process.stdin.flush()
        assert process.wait(180) == 0  # its standard input stays open: nothing else ends it
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        scoreboard.close()
