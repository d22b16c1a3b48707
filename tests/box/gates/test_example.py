"""The example of a gate gives what its page promises."""

from __future__ import annotations

from examples.gatekeeper.__main__ import main

from seriatim.operations import invariants


def test_offers_leave_in_the_order_of_the_requests(box):
    leaves = [["1", "2"], ["3", "5 (dear)", "5 (cheap)", "6"]]
    assert main(box) == {"phone": leaves, "web": leaves}
    assert invariants.broken(box) == []
