"""Whatever a receiver answers, the HTTP port comes back in time, with an outcome of its own and never one that wasn't said.

SERIATIM_SOAK=full runs many more answers; SERIATIM_SEED repeats a run.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from random import Random, SystemRandom

import seriatim as sq
from seriatim.endpoints import HttpPort
from tests.endpoints.answers import answers
from tests.endpoints.handed import hand, message
from tests.endpoints.peer import behaving

SOAK = os.environ.get("SERIATIM_SOAK") == "full"
COUNT = 5_000 if SOAK else 80


def test_whatever_a_receiver_answers():
    seed = int(os.environ.get("SERIATIM_SEED") or SystemRandom().randrange(2**32))
    print(f"SERIATIM_SEED={seed}")  # noqa: T201 -- pytest shows it where the test fails
    random = Random(seed)
    became = {"done": 0, "transient": 0, "business": 0}
    for number, answer in enumerate(answers(random, COUNT)):
        body = b"x" * 2**22 if random.random() < 0.05 else b"{}"
        timeout = 20 if answer.outcome else 0.1
        with behaving(answer) as place, closing(HttpPort(f"http://me:hush@{place}/x?hush", timeout=timeout)) as port:
            outcome, raised = _outcome(hand(port, message(body=body)))
        told = f"answer {number} of SERIATIM_SEED={seed}: {answer!r:.3000}"
        assert answer.outcome in (None, outcome), told
        assert outcome != "done" or _says_done(answer.said), told
        assert raised is None or ("hush" not in str(raised) and len(str(raised)) < 1_000), told
        became[outcome] += 1
    assert all(became.values()), became


def _outcome(raised):
    match raised:
        case None:
            return "done", None
        case sq.Transient():
            return "transient", raised
        case sq.Business():
            return "business", raised
    raise AssertionError("an error outside of the tree") from raised


def _says_done(said: bytes) -> bool:
    return re.search(rb"HTTP/\d\.\d 2\d\d", said) is not None
