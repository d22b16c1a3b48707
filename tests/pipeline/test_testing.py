"""What users test with: feeds whose faults are known, and functions that fail when told to."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim import Sequencer, Standard
from seriatim.errors import UsageError
from seriatim.testing import fail_on, faulty_feed

SHARES = st.fixed_dictionaries(
    {name: st.floats(0, 0.3) for name in ("displaced", "repeated", "delayed", "dropped", "broken")}
)


def numbered(count):
    return [{"customer": f"c{n % 3}", "version": n // 3 + 1} for n in range(count)]


@given(count=st.integers(0, 120), seed=st.integers(0, 2**32), shares=SHARES)
def test_the_truth_is_what_was_done(count, seed, shares):
    messages = numbered(count)
    feed = faulty_feed(messages, seed=seed, **shares)
    truth = feed.truth
    assert feed == faulty_feed(messages, seed=seed, **shares)
    copies = Counter(one.place for one in feed)
    assert sorted(copies) == [place for place in range(count) if place not in truth.dropped]
    assert sorted(place for place, found in copies.items() if found == 2) == list(truth.repeated)
    assert max(copies.values(), default=0) <= 2
    assert sorted(one.place for one in feed if one.broken) == list(truth.broken)
    assert not {*truth.repeated, *truth.delayed} & {*truth.lost}
    for one in feed:
        if one.broken:
            with pytest.raises(ValueError):
                json.loads(one.line)
        else:
            assert json.loads(one.line) == messages[one.place]
    firsts = list(dict.fromkeys(one.place for one in feed))
    behind = [place for at, place in enumerate(firsts) if any(other > place for other in firsts[:at])]
    assert sorted(behind) == list(truth.overtaken)


def test_without_faults_a_feed_is_what_it_was_made_of():
    feed = faulty_feed(["a", b"b", {"c": 1}], seed=1)
    assert [one.line for one in feed] == [b"a", b"b", b'{"c": 1}']
    assert (feed.truth.lost, feed.truth.overtaken) == ((), ())


def test_a_resequencer_puts_a_feed_right():
    messages = numbered(900)
    feed = faulty_feed(messages, seed=3, displaced=0.5, by=20, repeated=0.05, delayed=0.05)
    assert feed.truth.overtaken
    sequencer = Sequencer(Standard())
    rows = [messages[one.place] for one in feed]
    outcome = sequencer.offer([(row["customer"], row["version"], None) for row in rows], now=0.0)
    assert sorted((one.group, one.sequence) for one in outcome.released) == sorted(
        (row["customer"], row["version"]) for row in messages
    )
    assert len(outcome.duplicates) == len(feed.truth.repeated)


def test_files_are_taken_in_order_of_arrival(tmp_path):
    feed = faulty_feed(numbered(50), seed=5, displaced=0.3, broken=0.1)
    files = feed.write(tmp_path / "inbox", files=4) + faulty_feed(["last"], seed=1).write(tmp_path / "inbox", begin=4)
    assert sorted(files, key=lambda file: file.stat().st_mtime) == files == sorted((tmp_path / "inbox").iterdir())
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    assert lines == [*(one.line for one in feed), b"last"]


@pytest.mark.parametrize(
    ("messages", "given", "told"),
    [
        ([], {"dropped": 1.1}, r"dropped must be a share from 0 to 1, not 1\.1"),
        ([], {"repeated": float("nan")}, "repeated must be a share from 0 to 1, not nan"),
        ([], {"dropped": 0.6, "broken": 0.6}, "at most 1 together"),
        ([], {"by": 0}, "by must be a whole number from 1, not 0"),
        (["a\nb"], {}, "message 0 is not a line"),
        ([b"  "], {}, "message 0 is not a line"),
        ([3], {}, "message 0 is not a line"),
        ([{"a": object()}], {}, "message 0 can't become JSON"),
    ],
)
def test_what_makes_no_feed(messages, given, told):
    with pytest.raises(UsageError, match=told):
        faulty_feed(messages, seed=1, **given)


def test_files_have_a_number(tmp_path):
    with pytest.raises(UsageError, match="cannot write 0 files from number 0 on"):
        faulty_feed([], seed=1).write(tmp_path, files=0)


def test_a_function_fails_where_it_is_told_to():
    apply = pickle.loads(pickle.dumps(fail_on(len, {"m3"}, share=0.1, seed=4, error=ValueError)))
    chosen = {one for one in (f"m{n}" for n in range(1000)) if apply.chooses(one)}
    assert "m3" in chosen
    assert 50 < len(chosen) < 150
    assert chosen != {one for one in (f"m{n}" for n in range(1000)) if fail_on(len, share=0.1, seed=5).chooses(one)}
    good = next(f"m{n}" for n in range(1000) if f"m{n}" not in chosen)
    assert apply(pa.table({"message_id": [good]})) == 1
    with pytest.raises(ValueError, match="told to fail at m3"):
        apply(pa.table({"message_id": [good, "m3"]}))
    with pytest.raises(UsageError, match="share must be from 0 to 1, not 2"):
        fail_on(len, share=2)
