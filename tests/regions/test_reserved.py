"""Numbers that the journal gives out, to several senders of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import seriatim as sq
from seriatim.errors import Unavailable, UsageError
from tests.regions.away import away
from tests.regions.two import NAME, Two, message


@pytest.fixture
def sender(two: Two) -> Iterator[Two]:
    """The regions of a sender to which the journal gives numbers."""
    with sq.Regions(
        two.first, two.second, two.journal, name=NAME, numbers="journal", patience="30s", retry_after=0
    ) as regions:
        two.regions = regions
        yield two


def test_numbers_are_reserved_written_and_confirmed(sender: Two) -> None:
    sent = sender.regions.publish([message("s", ident="m1"), message("t", ident="m2"), message("s", ident="m3")])
    assert [(one.number, one.known_by) for one in sent] == [(1, ("a", "b", "journal"))] * 2 + [
        (2, ("a", "b", "journal"))
    ]
    assert sender.has(sender.first) == sender.has(sender.second) == [("s", 1, "m1"), ("s", 2, "m3"), ("t", 1, "m2")]
    assert sender.outbox(sender.first) == []
    again = sender.regions.publish([message("s", ident="m1"), message("s", ident="m4")])
    assert [(one.number, one.is_known) for one in again] == [(1, True), (3, False)]  # who has a number keeps it


def test_a_box_may_be_away_and_the_journal_not(sender: Two) -> None:
    with away(sender, "a"):
        assert sender.regions.publish(message("s", ident="m1"))[0].known_by == ("b", "journal")
    with away(sender, "journal"), pytest.raises(Unavailable):
        sender.regions.publish(message("s", ident="m2"))
    with away(sender, "a", "b"), pytest.raises(Unavailable):
        sender.regions.publish(message("s", ident="m3"))
    assert [one.copied for one in sender.regions.tend()] == [0, 1]


def test_a_lower_number_may_come_later(sender: Two) -> None:
    other = sender.regions._sending()
    write = other._write  # type: ignore[union-attr]

    def write_late(ones: list) -> None:
        assert sender.regions.publish(message("s", ident="second"))[0].number == 2
        write(ones)

    other._write = write_late  # type: ignore[union-attr, method-assign]
    assert other.send([message("s", ident="first")])[0].number == 1
    assert [one for _, one, _ in sender.has(sender.first)] == [1, 2]


def test_what_is_not_confirmed_in_time_is_void(sender: Two) -> None:
    slow = sender.regions._sending()
    confirm = slow._confirm  # type: ignore[union-attr]

    def confirm_late(ones: list) -> None:
        with sender.journal.transaction() as tx:
            tx.connection.execute(b"UPDATE seriatim_journal.entries SET due_at = due_at - 20000000")
        confirm(ones)

    slow._confirm = confirm_late  # type: ignore[union-attr, method-assign]
    with pytest.raises(sq.NumberRefused, match="wasn't confirmed"):
        slow.send([message("s", ident="m1")])
    assert sender.regions.publish(message("s", ident="m1"))[0].number == 2
    assert [one[:2] for one in sender.has(sender.first) if one[2] == "m1"] == [("s", 2)]


def test_who_died_before_confirming_waits_for_the_end_of_its_reservation(sender: Two) -> None:
    dying = sender.regions._sending()

    def die(ones: list) -> None:
        raise KeyboardInterrupt

    dying._confirm = die  # type: ignore[union-attr, method-assign]
    with pytest.raises(KeyboardInterrupt):
        dying.send([message("s", ident="m1")])
    with pytest.raises(Unavailable, match="is reserved, and isn't confirmed"):
        sender.regions.publish(message("s", ident="m1"))
    with sender.journal.transaction() as tx:
        tx.connection.execute(b"UPDATE seriatim_journal.entries SET due_at = due_at - 20000000")
    assert sender.regions.publish(message("s", ident="m1"))[0].number == 2


def test_own_numbers_are_refused(sender: Two) -> None:
    with pytest.raises(UsageError, match="leave the number out"):
        sender.regions.publish(message("s", 1))


def test_a_confirmed_number_is_kept_where_its_box_is_away(sender: Two) -> None:
    with away(sender, "b"):
        assert sender.regions.publish(message("s", ident="m1"))[0].number == 1
    with away(sender, "a"):
        assert sender.regions.publish(message("s", ident="m1"))[0].number == 1
