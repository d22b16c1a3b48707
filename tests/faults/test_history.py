"""The history checker finds each anomaly in a tiny bad history, and none in good ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import seriatim as sq
from tests.faults.checker import assert_good, check
from tests.faults.history import Anomaly, Handled, History, Sent

STANDARD = sq.Standard()
SKIPPING = sq.Standard(on_hole="skip", hole_timeout=1.0)


def sent(number, message_id=None, *, batch=None, place=0, at=None, group="g", ended=0):
    """A message, alone in its transaction unless said otherwise; transactions follow each other by number."""
    began = 10 * number if at is None else at
    ended = began + 5 if ended == 0 else ended
    return Sent(message_id or f"m{number}", group, number, batch or f"b{began}-{message_id}", place, began, ended)


def handled(*numbers, group="g", first=1, at=1000, receiver="r1"):
    """One turn with these messages, given as numbers or as (number, message id)."""
    pairs = [one if isinstance(one, tuple) else (one, f"m{one}") for one in numbers]
    return [
        Handled(at + place, receiver, group, number, first + place, message_id, at, at + 50)
        for place, (number, message_id) in enumerate(pairs)
    ]


def kinds(policy, sent, handled, **more):
    return check(History(policy, sent, handled, **more)).kinds()


THREE = [sent(1), sent(2), sent(3)]
NUMBERED = [STANDARD, SKIPPING, sq.Standard(start="first"), sq.BestEffort(), sq.UnitOfWork(size=3)]
GROUPED = [*NUMBERED, sq.Fifo()]
ALL = [*GROUPED, sq.Unordered()]


@pytest.mark.parametrize("policy", ALL)
def test_what_was_sent_and_handled_in_order_is_good(policy):
    found = assert_good(History(policy, THREE, handled(1, 2, 3)))
    assert (found.sent, found.handled, found.groups) == (3, 3, 1)
    assert_good(History(policy, THREE, handled(1, 2, 3), set_aside={}))


@pytest.mark.parametrize("policy", [one for one in GROUPED if not isinstance(one, sq.UnitOfWork)])
def test_turns_that_follow_each_other_are_good(policy):
    assert_good(History(policy, THREE, [*handled(1, 2), *handled(3, first=3, at=1050, receiver="r2")]))


@pytest.mark.parametrize("policy", ALL)
def test_one_that_is_missing_is_lost(policy):
    assert kinds(policy, THREE, handled(1, 2)) - {Anomaly.DIVIDED} == {Anomaly.LOST}


@pytest.mark.parametrize("policy", [STANDARD, SKIPPING, sq.BestEffort(), sq.Fifo(), sq.Unordered()])
def test_all_of_a_group_may_be_lost(policy):
    found = check(History(policy, [*THREE, sent(1, "other", group="h")], handled(1, 2, 3)))
    assert [(one.anomaly, one.group) for one in found.found] == [(Anomaly.LOST, "h")]


@pytest.mark.parametrize("policy", ALL)
def test_what_nobody_knows_to_be_committed_may_be_handled_or_not(policy):
    doubtful = [sent(1), sent(2), sent(3, ended=None)]
    assert_good(History(policy, doubtful, handled(1, 2, 3)))
    if not isinstance(policy, sq.UnitOfWork):
        assert_good(History(policy, doubtful, handled(1, 2)))


@pytest.mark.parametrize("policy", ALL)
def test_what_was_sent_again_after_a_doubt_has_to_be_there(policy):
    repeated = [*THREE[:2], sent(3, ended=None, batch="b"), sent(3, at=300, batch="b")]
    assert_good(History(policy, repeated, handled(1, 2, 3)))
    assert kinds(policy, repeated, handled(1, 2)) - {Anomaly.DIVIDED} == {Anomaly.LOST}


def test_behind_a_hole_nothing_is_due():
    doubtful = [sent(1), sent(2, ended=None), sent(3)]
    assert_good(History(STANDARD, doubtful, handled(1)))
    assert kinds(STANDARD, doubtful, handled(1, 3)) == {Anomaly.REORDERED}
    assert kinds(STANDARD, doubtful, handled(1, 2)) == {Anomaly.LOST}
    assert kinds(SKIPPING, doubtful, handled(1)) == {Anomaly.LOST}
    assert_good(History(SKIPPING, doubtful, handled(1, 3)))


@pytest.mark.parametrize("policy", GROUPED)
def test_one_that_is_handled_twice_is_duplicated(policy):
    again = [*handled(1, 2, 3), *handled(2, first=4, at=2000)]
    assert Anomaly.DUPLICATED in kinds(policy, THREE, again)


@pytest.mark.parametrize("policy", [STANDARD, SKIPPING, sq.Fifo()])
def test_one_that_is_handled_twice_is_not_out_of_order_as_well(policy):
    again = [*handled(1, 2, 3), *handled(2, first=4, at=2000)]
    assert kinds(policy, THREE, again) == {Anomaly.DUPLICATED}


def test_one_that_is_handled_twice_by_anybody_is_duplicated():
    assert kinds(sq.Unordered(), THREE, [*handled(1, 2, 3), *handled(2, at=2000)]) == {Anomaly.DUPLICATED}


@pytest.mark.parametrize("policy", [STANDARD, SKIPPING, sq.UnitOfWork(size=3)])
def test_two_copies_of_a_number_are_duplicated(policy):
    copies = [*THREE, sent(3, "copy", at=100)]
    assert_good(History(policy, copies, handled(1, 2, 3)))
    assert Anomaly.DUPLICATED in kinds(policy, copies, handled(1, 2, 3, (3, "copy")))


@pytest.mark.parametrize("policy", [STANDARD, SKIPPING, sq.UnitOfWork(size=3)])
def test_a_later_copy_must_not_supplant_the_first(policy):
    later = [*THREE, sent(3, "copy", at=100)]
    assert kinds(policy, later, handled(1, 2, (3, "copy"))) == {Anomaly.SUPPLANTED}
    behind = [sent(1), sent(2), sent(3, batch="b"), sent(3, "copy", batch="b", place=1)]
    assert kinds(policy, behind, handled(1, 2, (3, "copy"))) == {Anomaly.SUPPLANTED}
    at_once = [*THREE, sent(3, "copy", at=32)]
    assert_good(History(policy, at_once, handled(1, 2, (3, "copy"))))
    assert_good(History(policy, at_once, handled(1, 2, 3)))


@pytest.mark.parametrize("policy", GROUPED)
def test_one_that_overtakes_is_reordered(policy):
    assert kinds(policy, THREE, handled(1, 3, 2)) == {Anomaly.REORDERED}
    assert Anomaly.REORDERED in kinds(policy, THREE, [*handled(1, 3), *handled(2, first=3, at=2000)])


def test_nothing_is_out_of_order_where_there_is_none():
    assert_good(History(sq.Unordered(), THREE, handled(3, 1, 2)))


@pytest.mark.parametrize("policy", [STANDARD, sq.UnitOfWork(size=3)])
def test_a_number_that_is_passed_over_is_reordered(policy):
    assert kinds(policy, THREE, handled(1, 3)) >= {Anomaly.REORDERED, Anomaly.LOST}
    assert kinds(policy, THREE, handled(2, 3)) >= {Anomaly.REORDERED, Anomaly.LOST}


def test_numbers_may_go_in_steps_from_anywhere():
    policy = sq.Standard(start=10, increment=5)
    steps = [sent(10), sent(15), sent(20)]
    assert_good(History(policy, steps, handled(10, 15, 20)))
    assert kinds(policy, steps, handled(10, 20)) == {Anomaly.LOST, Anomaly.REORDERED}
    assert_good(History(sq.Standard(start="first"), [sent(7), sent(8)], handled(7, 8)))
    assert kinds(sq.Standard(start="first"), [sent(7), sent(8)], []) == {Anomaly.LOST}


@pytest.mark.parametrize("kind", [sq.Standard, sq.BestEffort])
def test_a_late_one_is_in_order_where_it_is_to_be_delivered(kind):
    rows = handled(1, 3, 2)
    rows[2] = replace(rows[2], late=True)
    options = {"on_hole": "skip", "hole_timeout": 1.0} if kind is sq.Standard else {}
    assert_good(History(kind(late="deliver", **options), THREE, rows))
    assert kinds(kind(**options), THREE, rows) == {Anomaly.REORDERED}


def test_fifo_goes_by_commits_and_not_by_numbers():
    assert_good(History(sq.Fifo(), [sent(1), sent(2, at=1), sent(3)], handled(2, 1, 3)))
    within = [sent(1, batch="b", place=1), sent(2, batch="b", at=10), sent(3)]
    assert_good(History(sq.Fifo(), within, handled(2, 1, 3)))
    assert kinds(sq.Fifo(), within, handled(1, 2, 3)) == {Anomaly.REORDERED}
    at_once = [sent(1), sent(2, at=12), sent(3)]
    assert_good(History(sq.Fifo(), at_once, handled(2, 1, 3)))
    assert_good(History(sq.Fifo(), at_once, handled(1, 2, 3)))
    doubtful = [sent(1, ended=None), sent(2), sent(3)]
    assert_good(History(sq.Fifo(), doubtful, handled(2, 3, 1)))
    assert kinds(sq.Fifo(), doubtful, handled(1, 3, 2)) == {Anomaly.REORDERED}


def test_all_that_were_overtaken_are_found():
    crosswise = [sent(1, at=100), sent(2, at=50, ended=200), sent(3, at=40, ended=60)]
    assert kinds(sq.Fifo(), crosswise, handled(1, 2, 3)) == {Anomaly.REORDERED}
    within = [sent(number, batch="b", at=0, place=number) for number in (1, 2, 3)]
    assert len(check(History(sq.Fifo(), within, handled(3, 1, 2))).of(Anomaly.REORDERED)) == 2


def test_a_message_that_was_published_twice_stands_where_it_arrived_first():
    again = [*THREE, sent(1, at=100)]
    assert_good(History(sq.Fifo(), again, handled(1, 2, 3)))
    assert kinds(sq.Fifo(), again, handled(2, 3, 1)) == {Anomaly.REORDERED}
    within = [sent(1, batch="b", at=0), sent(2, batch="b", at=0, place=1), sent(1, at=100)]
    for order in (within, within[::-1]):
        assert_good(History(sq.Fifo(), order, handled(1, 2)))
        assert kinds(sq.Fifo(), order, handled(2, 1)) == {Anomaly.REORDERED}
    in_doubt = [sent(1, ended=None), sent(2), sent(3), sent(1, at=100)]
    assert_good(History(sq.Fifo(), in_doubt, handled(1, 2, 3)))
    assert_good(History(sq.Fifo(), in_doubt, handled(2, 3, 1)))


def test_equal_numbers_of_a_best_effort_go_by_arrival():
    equal = [sent(1, "a", at=0), sent(1, "b", at=10), sent(2, "c", at=20)]
    assert_good(History(sq.BestEffort(), equal, handled((1, "a"), (1, "b"), (2, "c"))))
    assert kinds(sq.BestEffort(), equal, handled((1, "b"), (1, "a"), (2, "c"))) == {Anomaly.REORDERED}
    assert kinds(sq.BestEffort(), equal[:2], handled((1, "b"), (1, "a"))) == {Anomaly.REORDERED}


@pytest.mark.parametrize("policy", [SKIPPING, sq.BestEffort(), sq.Fifo(), sq.Unordered()])
def test_one_that_was_never_sent_is_a_phantom(policy):
    assert kinds(policy, THREE, handled(1, 2, 3, 4)) == {Anomaly.PHANTOM}
    assert kinds(policy, THREE, handled(1, 2, 3), set_aside={"m4": "late"}) == {Anomaly.PHANTOM}


@pytest.mark.parametrize("field", ["group", "sequence", "body"])
def test_one_that_says_something_else_is_altered(field):
    rows = handled(1, 2, 3)
    rows[2] = replace(rows[2], **{field: 4 if field == "sequence" else "x"})
    assert Anomaly.ALTERED in kinds(STANDARD, THREE, rows)


@pytest.mark.parametrize("policy", GROUPED)
def test_two_who_work_on_a_group_at_once_overlap(policy):
    rows = [*handled(1, 2), *handled(3, first=3, at=1049, receiver="r2")]
    assert Anomaly.OVERLAPPING in kinds(policy, THREE, rows)


def test_a_long_turn_overlaps_with_all_that_follow_within_it():
    long = [replace(row, ended=5000) for row in handled(1)]
    rows = [*long, *handled(2, first=2, at=2000, receiver="r2"), *handled(3, first=3, at=3000, receiver="r3")]
    assert len(check(History(STANDARD, THREE, rows)).of(Anomaly.OVERLAPPING)) == 2
    other = handled((1, "other"), group="h", at=2000, receiver="r2")
    assert_good(History(STANDARD, [*THREE, sent(1, "other", group="h")], [*handled(1, 2, 3), *other]))


@pytest.mark.parametrize("policy", GROUPED)
@pytest.mark.parametrize("ordinals", [(2, 3, 4), (1, 3, 4), (1, 2, 2), (1, 1, 2), (1, 3, 2), (1, None, 2)])
def test_ordinals_count(policy, ordinals):
    rows = [replace(row, ordinal=ordinal) for row, ordinal in zip(handled(1, 2, 3), ordinals, strict=True)]
    assert kinds(policy, THREE, rows) == {Anomaly.MISCOUNTED}


def test_a_unit_of_work_is_whole_or_not_there():
    policy = sq.UnitOfWork(size=3)
    assert_good(History(policy, THREE[:2], []))
    assert kinds(policy, THREE, []) == {Anomaly.LOST}
    turns = [*handled(1, 2), *handled(3, first=3, at=2000)]
    assert kinds(policy, THREE, turns) == {Anomaly.DIVIDED}
    told = sq.UnitOfWork(size="size")
    assert_good(History(told, THREE, []))
    assert kinds(told, THREE, [], sizes={"g": 3}) == {Anomaly.LOST}
    assert kinds(told, THREE, handled(1, 2), sizes={"g": 3}) == {Anomaly.LOST, Anomaly.DIVIDED}
    assert kinds(told, THREE[:2], handled(1, 2), sizes={"g": 3}) == {Anomaly.DIVIDED}
    assert_good(History(told, THREE[:2], [], sizes={"g": 3}))
    assert kinds(told, THREE, handled(1, 3)) == {Anomaly.LOST, Anomaly.REORDERED}
    assert_good(History(told, [*THREE, sent(4)], handled(1, 2, 3), sizes={"g": 3}))


def test_what_is_set_aside_is_accounted_for():
    copies = [*THREE, sent(3, "copy", at=100)]
    assert_good(History(STANDARD, copies, handled(1, 2, 3), set_aside={"copy": "duplicate"}))
    assert kinds(STANDARD, copies, handled(1, 2, 3), set_aside={}) == {Anomaly.UNACCOUNTED}
    both = {"copy": "duplicate", "m2": "duplicate"}
    assert kinds(STANDARD, copies, handled(1, 2, 3), set_aside=both) == {Anomaly.UNACCOUNTED}


def test_only_a_good_reason_excuses():
    aside = {"m2": "dead"}
    assert kinds(SKIPPING, THREE, handled(1, 3), set_aside=aside) == {Anomaly.LOST}
    assert_good(History(SKIPPING, THREE, handled(1, 3), set_aside=aside, excused=frozenset({"dead"})))
    skipped = [replace(row, ordinal=row.sequence) for row in handled(1, 3)]
    assert_good(History(STANDARD, THREE, skipped, set_aside=aside, excused=frozenset({"dead"})))
    twice = [*skipped, replace(skipped[1], log_id=2000, message_id="m4", sequence=4, ordinal=5)]
    four = [*THREE, sent(4)]
    assert kinds(STANDARD, four, twice, set_aside=aside, excused=frozenset({"dead"})) == {Anomaly.MISCOUNTED}
    too_far = [replace(row, ordinal=row.sequence + row.sequence // 3) for row in skipped]
    assert kinds(STANDARD, THREE, too_far, set_aside=aside, excused=frozenset({"dead"})) == {Anomaly.MISCOUNTED}


def test_it_shows_what_it_found():
    with pytest.raises(AssertionError, match=r"3 messages sent, 2 handled in 1 groups\n +1 lost\n.*group g: m3"):
        assert_good(History(STANDARD, THREE, handled(1, 2)))


def test_it_takes_the_order_of_the_log_and_not_of_the_list():
    rows = handled(1, 2, 3)
    assert_good(History(STANDARD, THREE[::-1], rows[::-1]))


# ---- histories that the kernel makes

# How long it takes says nothing here, also where others use the machine.
UNHURRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

POLICIES = [
    STANDARD,
    sq.Standard(start=5, increment=2),
    sq.Standard(hole_timeout=3.0, on_hole="skip"),
    sq.Standard(hole_timeout=3.0, on_hole="skip", late="deliver"),
    sq.Standard(start="first"),
    sq.BestEffort(),
    sq.BestEffort(window=2.0, late="deliver"),
    sq.BestEffort(max_rows=2),
    sq.UnitOfWork(size=4),
    sq.Fifo(),
]


@st.composite
def histories(draw):
    """Batches that overlap or not go through the `Sequencer`; what it releases is handled turn by turn."""
    policy = draw(st.sampled_from(POLICIES))
    batches = draw(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 12)), max_size=8), max_size=12))
    sequencer, messages, rows, aside, now = sq.Sequencer(policy), [], [], {}, 0
    for number, batch in enumerate(batches):
        began = max(0, now - draw(st.integers(0, 30)))
        mine = [
            Sent(f"{number}.{place}", group, sequence, str(number), place, began, now)
            for place, (group, sequence) in enumerate(batch)
        ]
        messages += mine
        outcome = sequencer.offer([(one.group, one.sequence, one) for one in mine], now=float(number))
        outcomes = [outcome, sequencer.advance(now=float(number))]
        turns = {}
        for out in outcomes:
            for items, why in ((out.late, "late"), (out.duplicates, "duplicate"), (out.invalid, "invalid")):
                aside |= {item.value.message_id: why for item in items}
            for one in out.released:
                turns.setdefault(one.group, []).append(one)
        for group, mine in turns.items():
            receiver = f"r{draw(st.integers(1, 3))}"
            for one in mine:
                row = Handled(len(rows), receiver, group, one.sequence, one.ordinal, one.value.message_id, now, now + 1)
                rows.append(replace(row, late=one.late))
        now += 10
    waiting = {one.message_id for one in messages} - aside.keys() - {row.message_id for row in rows}
    assume(rows)
    if draw(st.booleans()):
        return History(
            policy, messages, rows, aside | dict.fromkeys(waiting, "held"), frozenset({"late", "invalid", "held"})
        )
    return History(policy, [one for one in messages if one.message_id not in aside.keys() | waiting], rows)


@UNHURRIED
@given(histories())
def test_what_the_kernel_releases_is_good(history):
    assert assert_good(history).handled == len(history.handled)


@UNHURRIED
@given(histories(), st.data())
def test_what_is_dropped_or_repeated_is_found(history, data):
    rows = history.handled
    place = data.draw(st.integers(0, len(rows) - 1))
    without = replace(history, handled=rows[:place] + rows[place + 1 :])
    assert check(without).kinds() & {Anomaly.LOST, Anomaly.UNACCOUNTED, Anomaly.MISCOUNTED, Anomaly.REORDERED}
    again = replace(rows[place], log_id=len(rows), began=rows[-1].ended, ended=rows[-1].ended + 1)
    assert {Anomaly.DUPLICATED} <= check(replace(history, handled=[*rows, again])).kinds()


@UNHURRIED
@given(histories(), st.data())
def test_two_that_change_places_are_found(history, data):
    rows = history.handled
    pairs = [
        (one, other)
        for place, one in enumerate(rows)
        for other in rows[place + 1 :]
        if one.group == other.group and not one.late and not other.late and one.sequence < other.sequence
    ]
    assume(pairs and not isinstance(history.policy, sq.Fifo))
    one, other = data.draw(st.sampled_from(pairs))
    exchanged = {one.log_id: replace(other, log_id=one.log_id), other.log_id: replace(one, log_id=other.log_id)}
    found = check(replace(history, handled=[exchanged.get(row.log_id, row) for row in rows])).kinds()
    assert {Anomaly.REORDERED, Anomaly.MISCOUNTED} <= found


def test_one_exchange_among_many_messages_is_found():
    chance = random.Random(1)
    keys = [(f"g{group}", number) for number in range(1, 21) for group in range(1000)]
    messages = [
        Sent(f"{g}.{n}", g, n, f"b{i // 500}", i % 500, i // 500 * 10, i // 500 * 10 + 5)
        for i, (g, n) in enumerate(keys)
    ]
    rows = [Handled(i, "r", g, n, n, f"{g}.{n}", i, i) for i, (g, n) in enumerate(keys)]
    chance.shuffle(messages)
    assert assert_good(History(STANDARD, messages, rows)).handled == 20_000
    place = chance.randrange(19_000)
    one, other = rows[place], rows[place + 1000]
    rows[place], rows[place + 1000] = replace(other, log_id=place), replace(one, log_id=place + 1000)
    found = check(History(STANDARD, messages, rows))
    assert found.kinds() == {Anomaly.REORDERED, Anomaly.MISCOUNTED}
    assert {finding.group for finding in found.found} == {one.group}
