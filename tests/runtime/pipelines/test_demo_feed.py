"""The demo's feed holds what it promises."""

from __future__ import annotations

import json

import pytest

from seriatim.runtime.pipelines.demo_feed import HEALED, SKIPPED, generate


@pytest.mark.parametrize(("messages", "seed"), [(200, 1), (20_000, 7)])
def test_the_feed(messages, seed):
    feed = generate(messages, seed)
    assert feed == generate(messages, seed)
    assert feed != generate(messages, seed + 1)
    good = sum(len(numbers) for numbers in feed.arrived.values())
    assert len(feed.lines) == good + feed.broken
    assert feed.repeated == good - sum(len(set(numbers)) for numbers in feed.arrived.values()) > 0
    assert feed.arrived[HEALED].index(4) > feed.arrived[HEALED].index(6)
    assert feed.arrived[SKIPPED].index(5) > feed.arrived[SKIPPED].index(9)
    assert 5 not in feed.delivered[SKIPPED]
    assert all(numbers == list(range(1, len(numbers) + 1)) for who, numbers in feed.delivered.items() if who != SKIPPED)


def test_good_rows_arrive_in_order_of_their_time():
    good = [document for line in generate(1000).lines if (document := _read(line)).get("kind") and "at" in document]
    moments = [document["at"] for document in good]
    assert len(moments) > 1000
    assert moments == sorted(moments)


def _read(line):
    try:
        return json.loads(line)
    except ValueError:
        return {}
