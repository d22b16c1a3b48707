"""Sending to two regions: whose the numbers are, and who knows them."""

from __future__ import annotations

from tests.regions.two import Two, message


def test_a_message_is_in_both_boxes(two: Two) -> None:
    (sent,) = two.regions.publish([message("s", 1, "m1")])
    assert (sent.message_id, sent.session, sent.number, sent.known_by) == ("m1", "s", 1, ("a", "b"))
    assert two.has(two.first) == two.has(two.second) == [("s", 1, "m1")]
    assert two.outbox(two.first) == two.outbox(two.second) == []
