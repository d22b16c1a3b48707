"""Calls of the user's code that are under way, as a run sees them."""

from __future__ import annotations

import pytest

from seriatim.spark.calls.register import Call, calls_in, forget_calls, noted


def test_a_call_is_seen_while_it_lasts(tmp_path):
    folder = tmp_path / "calls"
    forget_calls(folder)
    with noted(str(folder), "a:b", 7, "crm/1"), noted(str(folder), "c:d", 1, "crm/8"):
        first, second = calls_in(folder)
        assert (first.function, first.messages, first.first) == ("a:b", 7, "crm/1")
        assert first.since_s <= second.since_s
        (folder / "half").write_text('{"function": "e:f", ')
        assert calls_in(folder) == [first, second]
    assert calls_in(folder) == []


def test_it_ends_with_an_exception_too(tmp_path):
    with pytest.raises(ValueError), noted(str(tmp_path), "a:b", 7, "crm/1"):
        raise ValueError
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_noted_it_does_without(tmp_path):
    with noted(None, "a:b", 1, "x"), noted(str(tmp_path / "absent"), "a:b", 1, "x"):
        assert calls_in(tmp_path / "absent") == []


def test_what_a_killed_worker_left_is_forgotten(tmp_path):
    (tmp_path / "left").write_text('{"function": "a:b", "messages": 1, "first": "x", "since_s": 1.5}')
    assert calls_in(tmp_path) == [Call("a:b", 1, "x", 1.5)]
    forget_calls(tmp_path)
    assert calls_in(tmp_path) == []
