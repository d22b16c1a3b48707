"""A port that hangs keeps neither the other ports nor the process."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from seriatim.spark.deliver.carriers import Carriers

HANGS = """
import threading
from seriatim.spark.deliver.carriers import Carriers

begun = threading.Event()

def hang():
    begun.set()
    threading.Event().wait()

carriers = Carriers(1)
carriers.carry("a", hang)
begun.wait()
print(carriers.wait(lambda: True))
"""


def test_one_that_hangs_is_waited_for_until_that_is_given_up():
    carriers, free, asked = Carriers(2), threading.Event(), []
    carriers.carry("a", free.wait)
    carriers.carry("b", lambda: None)
    assert not carriers.wait(lambda: asked.append(1) or len(asked) == 3)
    assert len(asked) == 3
    assert not carriers.settled()
    free.set()
    assert carriers.wait(lambda: False)
    assert carriers.settled()


def test_a_destination_has_one_at_a_time_and_all_together_have_so_many():
    carriers, free, began = Carriers(2), threading.Event(), threading.Semaphore(0)
    worked = []

    def work(name):
        worked.append(name)
        began.release()
        free.wait()

    for name in ("a", "a", "b", "c", "b"):
        carriers.carry(name, lambda name=name: work(name))
    for _ in range(2):
        began.acquire()
    assert len(worked) == 2
    free.set()
    assert carriers.wait(lambda: False)
    assert sorted(worked) == ["a", "b", "c"]


def test_what_one_raises_is_told_once_unless_it_is_forgotten():
    def fail():
        raise OSError("on purpose")

    carriers = Carriers(1)
    carriers.carry("a", fail)
    assert carriers.wait(lambda: False)
    with pytest.raises(OSError, match="on purpose"):
        carriers.settled()
    with pytest.raises(OSError, match="on purpose"):
        carriers.collect()
    assert carriers.settled()
    carriers.carry("a", fail)
    assert carriers.wait(lambda: False)
    carriers.forget_failures()
    carriers.collect()


def test_the_process_ends_while_one_hangs():
    ended = subprocess.run([sys.executable, "-c", HANGS], check=True, capture_output=True, text=True, timeout=240)
    assert ended.stdout == "False\n"
