"""Whatever a receiver answers, the HTTP port comes back in time, with an outcome of its own and never one that wasn't said."""

from __future__ import annotations

import re
from contextlib import closing
from random import Random

import pytest

import seriatim as sq
from seriatim.endpoints import HttpPort
from tests.endpoints.answers import answers
from tests.endpoints.handed import hand, message
from tests.endpoints.peer import behaving
from tests.soak import seed, sized


@pytest.mark.soak
def test_whatever_a_receiver_answers(figures):
    random = Random(seed())
    became = {"done": 0, "transient": 0, "business": 0}
    for number, answer in enumerate(answers(random, sized(5_000, 80))):
        body = b"x" * 2**22 if random.random() < 0.05 else b"{}"
        timeout = 20 if answer.outcome else 0.1
        with behaving(answer) as place, closing(HttpPort(f"http://me:hush@{place}/x?hush", timeout=timeout)) as port:
            outcome, raised = _outcome(hand(port, message(body=body)))
        told = f"answer {number} of seed {seed()}: {answer!r:.3000}"
        assert answer.outcome in (None, outcome), told
        assert outcome != "done" or _says_done(answer.said), told
        assert raised is None or ("hush" not in str(raised) and len(str(raised)) < 1_000), told
        became[outcome] += 1
    assert all(became.values()), became
    figures(", ".join(f"{count:,} {outcome}" for outcome, count in became.items()))


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
