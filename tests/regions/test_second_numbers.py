"""A message whose sender repeats it while its first number can't be seen: it may get a second one, and is handled under one of them."""

from __future__ import annotations

from typing import Any

import pytest

from seriatim.errors import Unavailable
from seriatim.regions.journal.values import WantedMessage, digest_of
from tests.regions.away import away
from tests.regions.two import NAME, Two, message
from tests.regions.working import Handled


def _left_in_the_first_box(two: Two) -> None:
    """Box a alone has m under number 1; both have n, under number 2."""
    with away(two, "b", "journal"), pytest.raises(Unavailable):
        two.regions.publish(message("s", 1, "m"))
    assert two.regions.publish(message("s", ident="n"))[0].number == 2


@pytest.mark.parametrize("is_copied_first", [False, True])
def test_it_is_handled_under_the_number_that_the_journal_knows(both_at_once: Two, is_copied_first: bool) -> None:
    two = both_at_once
    handled = Handled(two.regions)
    _left_in_the_first_box(two)
    with away(two, "a"):
        (sent,) = two.regions.publish(message("s", ident="m"))
    assert (sent.number, sent.known_by) == (3, ("b", "journal"))
    if is_copied_first:
        two.regions.tend()
    handled.work("a")
    two.regions.tend()
    handled.work("b")
    handled.work("a")
    assert handled.of("s") == [2, 3]
    assert two.has(two.first) == two.has(two.second) == []


def test_a_box_that_has_it_under_a_lower_number_lets_the_journal_decide(both_at_once: Two) -> None:
    two = both_at_once
    handled = Handled(two.regions)
    _left_in_the_first_box(two)
    sender = two.regions._sending()
    numbered = sender._numbering.numbered

    def unseen(*arguments: Any) -> Any:
        with away(two, "a"):
            return numbered(*arguments)

    sender._numbering.numbered = unseen  # type: ignore[method-assign]
    (sent,) = sender.send([message("s", ident="m")])
    assert (sent.number, sent.known_by) == (3, ("b", "journal"))
    handled.work("a")
    handled.work("b")
    assert handled.of("s") == [2, 3]


def test_it_keeps_its_first_number_if_that_is_claimed_before_it_is_sent(both_at_once: Two) -> None:
    two = both_at_once
    handled = Handled(two.regions)
    _left_in_the_first_box(two)
    sender = two.regions._sending()
    ask = sender._ask

    def claim_and_ask(units: list) -> None:
        asked = WantedMessage("s", 1, "m", digest_of("status", None, b""))
        (answer,) = two.journal.claim(NAME, "status", "a", [asked])
        with two.journal.transaction() as tx:
            tx.complete(answer.claim)
        ask(units)

    sender._ask = claim_and_ask  # type: ignore[method-assign]
    with away(two, "a"), pytest.raises(Unavailable, match="it has another number"):
        sender.send([message("s", ident="m")])
    assert two.regions.publish(message("s", ident="m"))[0].number == 1
    two.regions.tend()
    handled.work("b")
    handled.work("a")
    assert handled.of("s") == [2]
    assert two.has(two.first) == two.has(two.second) == []
