"""The supervisor of worker processes, without any."""

from __future__ import annotations

import gc
import itertools
import signal
import time
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.runtime.processes.supervisor import _LOOK_S, Supervisor


@pytest.fixture
def supervisor(box):
    box.define(sq.Queue("q", policy=sq.Unordered()))
    return Supervisor(box, ["q"], "module:function", processes=1)


def test_a_look_ends_though_a_signal_takes_longer_than_it(supervisor):
    signals = itertools.count()

    def handle(*_):
        if next(signals):
            raise TimeoutError("the look went on")
        time.sleep(2 * _LOOK_S)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_S / 2, 120)
    try:
        supervisor._look({})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert next(signals) == 1


def shared_memory():
    """What this process has open of the memory that it shares with others."""
    opened = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sorted(name for name in opened if "memfd:seriatim" in name)


def test_nothing_of_its_processes_stays_open(box):
    box.define(sq.Queue("q", policy=sq.Unordered()))
    gc.collect()
    before = shared_memory()
    with pytest.raises(sq.SeriatimError):
        Supervisor(box, ["q"], "nowhere:handle", processes=3).run()
    gc.collect()
    assert shared_memory() == before
