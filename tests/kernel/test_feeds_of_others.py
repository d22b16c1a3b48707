"""What people report of their feeds, run as they gave it, with the line of configuration that says what their numbers mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seriatim as sq


def run(script: Path, capsys: pytest.CaptureFixture[str], **replaced: Any) -> int:
    """Runs a script with another `Sequencer`; the status that it ends with."""
    source = script.read_text(encoding="utf-8")
    built = sq.Sequencer
    module: dict[str, Any] = {"__name__": "__main__"}
    names = {name: getattr(sq, name) for name in sq.__all__ if name in ("Standard", "BestEffort", "SeriatimError")}
    standing_in = type("sq", (), {**names, "Sequencer": staticmethod(replaced["sequencer"](built))})
    code = compile(source.replace("import seriatim as sq\n", ""), str(script), "exec")
    try:
        exec(code, module | {"sq": standing_in})
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def case(shared: Path, number: str) -> Path:
    """The script of a report."""
    found = sorted((shared / "cases").glob(f"{number}-*.py"))
    if not found:
        pytest.skip("the folder of reports isn't here")
    return found[0]


Build = Callable[..., sq.Sequencer]


def test_a_counter_of_16_bits_turns_over(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def with_modulus(built: Build) -> Build:
        return lambda policy: built(policy, sequence=sq.Sequence(modulus=65536))

    assert run(case(shared, "01"), capsys, sequencer=with_modulus) == 0


def test_a_stream_whose_first_messages_are_scrambled(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def settling(built: Build) -> Build:
        return lambda policy: built(sq.Standard(start="lowest", settle="100ms", hole_timeout=1.0, on_hole="skip"))

    assert run(case(shared, "03"), capsys, sequencer=settling) == 0


def test_positions_that_are_no_number(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def by_position(built: Build) -> Build:
        return lambda _: built(sq.BestEffort(by="position"))

    assert run(case(shared, "24"), capsys, sequencer=by_position) == 0


def test_a_snapshot_in_the_middle_of_the_changes() -> None:
    s = sq.Sequencer(sq.Standard(start="told"), sequence=sq.Sequence(base=lambda value: isinstance(value, str)))
    early = s.offer([("BTC", n, n) for n in (989, 990, 992, 991)], now=0.0)
    assert not early.released
    out = s.offer([("BTC", 991, "snapshot"), ("BTC", 993, 993)], now=1.0)
    assert [released.value for released in out.released] == ["snapshot", 992, 993]
    assert [item.value for item in out.duplicates] == [989, 990, 991]
    assert {item.reason for item in out.duplicates} == {"covered: another message has everything that it has"}


def test_a_gap_fill_stands_in_the_stream() -> None:
    s = sq.Sequencer(sq.Standard(), sequence=sq.Sequence(through="through", void="fill"))
    s.offer([("s", n, n) for n in (1, 5, 6, 7)], now=0.0)
    filled = s.offer([("s", 2, {"fill": True, "through": 7})], now=1.0)
    assert [item.value for item in filled.duplicates] == [5, 6, 7]
    out = s.offer([("s", 8, 8)], now=2.0)
    assert [released.value for released in out.released] == [8]
    assert s.counts().held == 0


def test_hl7_says_that_it_begins_anew() -> None:
    sequence = sq.Sequence(restarts=lambda n: n == -1, unnumbered=lambda n: n == 0)
    s = sq.Sequencer(sq.Standard(), sequence=sequence)
    out = s.offer([("sender", n, n) for n in (1, 2, 3, 0, 4, -1, 1, 3, 2)], now=0.0)
    assert [released.value for released in out.released] == [1, 2, 3, 0, 4, -1, 1, 2, 3]
    assert [released.ordinal for released in out.released] == list(range(1, 10))


def test_sparkplug_births_begin_a_session_that_ends_anywhere() -> None:
    s = sq.Sequencer(sq.Standard(start=0), sequence=sq.Sequence(by="seq", epoch="bdSeq", modulus=256))

    def message(birth: int, number: int) -> tuple[str, None, dict[str, int]]:
        return "edge", None, {"bdSeq": birth, "seq": number}

    out = s.offer([message(1, n) for n in (0, 1, 2, 5)] + [message(2, n) for n in (1, 0)] + [message(1, 3)], now=0.0)
    assert [(r.epoch, r.value["seq"]) for r in out.released] == [(1, 0), (1, 1), (1, 2), (1, 5), (2, 0), (2, 1)]
    assert [item.reason for item in out.late] == ["its epoch is over"]
    assert [(event.first, event.last) for event in out.events if event.kind == "hole_skipped"] == [(3, 4)]


def test_what_overlaps_says_so() -> None:
    s = sq.Sequencer(sq.Standard(start="first"), sequence=sq.Sequence("U", through="u"))
    ranges = [{"U": 150, "u": 160}, {"U": 158, "u": 165}, {"U": 160, "u": 162}]
    out = s.offer([("BTC", None, one) for one in ranges], now=0.0)
    assert [(released.value["U"], released.overlaps) for released in out.released] == [(150, False), (158, True)]
    assert [item.value["U"] for item in out.duplicates] == [160]


def test_numbers_that_turned_over_are_told_through_all_turns() -> None:
    s = sq.Sequencer(sq.Standard(start="first"), sequence=sq.Sequence(modulus=65536))
    out = s.offer([("ssrc", n, n) for n in (65535, 0, 3)], now=0.0)
    assert [(released.sequence, released.value) for released in out.released] == [(65535, 65535), (65536, 0)]
    assert [item.sequence for item in s.held("ssrc")] == [65539]
    assert s.group("ssrc").next == 65537
    assert s.skip_hole("ssrc").released[0].value == 3


WAITS = [
    (sq.Standard(start="lowest", settle="1s"), "waits until its group has settled where it begins"),
    (sq.Standard(start="told"), "waits for the base, or for an operator's reset, that says where its group begins"),
]


@pytest.mark.parametrize(("policy", "why"), WAITS, ids=["lowest", "told"])
def test_a_group_says_what_it_waits_for(policy: sq.Standard, why: str) -> None:
    s = sq.Sequencer(policy)
    s.offer([("g", 3, "c")], now=0.0)
    assert [item.reason for item in s.held("g")] == [why]
    assert (s.group("g").state, s.group("g").next, s.group("g").hole_since) == ("waiting", None, None)
    assert "reset" in s.group("g").allowed
    assert "skip_hole" not in s.group("g").allowed


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: sq.Sequence("a", previous="b", through="c"), "previous stands in place of by"),
    (lambda: sq.Sequence(previous="b"), "previous names the message before, and nothing names this one"),
    (lambda: sq.Sequence(modulus=2), "modulus must be between 3 and"),
    (lambda: sq.Sequence(modulus="x"), "modulus must be a whole number, not 'x'"),  # type: ignore[arg-type]
    (lambda: sq.Sequence(format="lsn"), "format must be digits, not 'lsn'"),  # type: ignore[arg-type]
    (lambda: sq.Sequence(epoch="e", restarts="r"), "restarts and epoch both say where numbers begin anew"),
    (lambda: sq.Sequence(["a", "b"], modulus=10), "modulus is for numbers, not for positions"),
    (lambda: sq.Sequence(through=3), "through must be a name, not 3"),  # type: ignore[arg-type]
    (lambda: sq.Sequence(base=""), "base must be a filter, not ''"),
    (lambda: sq.Sequence(turns=3), "unknown argument 'turns'"),  # type: ignore[call-arg]
    (lambda: sq.Standard(settle="1s"), 'start="lowest" and settle belong together'),
    (lambda: sq.Standard(start="lowest"), 'start="lowest" and settle belong together'),
    (lambda: sq.Standard(start="last"), "start must be a whole number, not 'last'"),  # type: ignore[arg-type]
    (lambda: sq.UnitOfWork(size=3, on_timeout="deliver"), 'on_timeout="deliver" requires a timeout'),
    (lambda: sq.UnitOfWork(size=3, start=2), "start must be between 0 and 1, not 2"),
    (lambda: sq.UnitOfWork(size=3, once=1), "once must be true or false, not 1"),  # type: ignore[arg-type]
    (lambda: sq.Sequencer(sq.Fifo(), sequence=sq.Sequence(modulus=10)), "modulus is for the policy standard and"),
    (lambda: sq.Sequencer(sq.UnitOfWork(size=2), sequence=sq.Sequence(base="b")), "base is for the policy standard"),
    (lambda: sq.Sequencer(sq.BestEffort(by="time"), sequence=sq.Sequence(modulus=9)), "modulus is for the policy"),
    (lambda: sq.Sequencer(sq.Standard(), sequence=sq.Sequence(epoch="e"), opens=bool), "can't be said together"),
    (
        lambda: sq.Sequencer(sq.Standard(start="told"), closes=bool),
        "how a first number is found, can't be said together",
    ),
    (lambda: sq.Sequencer(sq.Standard(), sequence=3), "sequence can't be 3"),  # type: ignore[arg-type]
    (lambda: sq.Sequencer(sq.Standard(), sequence=""), "by must be a name, not ''"),
    (lambda: sq.UnitOfWork(size=""), "size must be a whole number, not ''"),
    (lambda: sq.UnitOfWork(last=""), "last must be a filter, not ''"),
    (lambda: sq.Sequencer(sq.UnitOfWork(size=2, once=False)), "tells parts that come again by their content"),
    (lambda: sq.Sequencer(sq.UnitOfWork(size=2), compare="a"), "compare requires the policy Standard"),
    (
        lambda: sq.Queue("q", sq.UnitOfWork(size=2, once=False), "g", "n"),
        "tells parts that come again by their content",
    ),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_contradicts_itself_is_refused(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(sq.UsageError) as raised:
        wrong()
    assert said in str(raised.value)


def test_a_queue_takes_a_sequence_that_only_names_the_number() -> None:
    assert sq.Queue("q", sq.Standard(), "g", sq.Sequence("n")).sequence == "n"  # type: ignore[arg-type]


def test_the_number_may_be_in_the_value_where_messages_open_and_close_groups() -> None:
    s = sq.Sequencer(
        sq.Standard(), sequence="n", opens=lambda value: "in" in value, closes=lambda value: "out" in value
    )
    out = s.offer([("g", None, one) for one in ({"n": 2}, {"n": 3, "out": 1}, {"n": 1, "in": 1})], now=0.0)
    assert [released.value["n"] for released in out.released] == [1, 2, 3]
    assert s.group("g").state == "closed"


#: What a value says, and why its message is set aside; 5 was there before, of epoch 2.
BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"through": "last"}, {"n": 6, "last": 5}, "the last number that it covers is below the first"),
    ({"through": "last", "modulus": 8}, {"n": 6, "last": 3}, "more than half the modulus ahead"),
    ({"modulus": 8}, {"n": 1}, "the sequence is half the modulus away: it may be above or below"),
    ({"modulus": 8}, {"n": 8}, "the sequence is not a number below the modulus"),
    ({"base": "base"}, {"base": True}, "a base needs the number through which it has everything"),
    ({"epoch": "epoch"}, {"n": 6, "epoch": None}, "the epoch is missing, or is not a whole number"),
    ({"epoch": "epoch"}, {"n": 6, "epoch": "new"}, "the epoch is missing, or is not a whole number"),
    ({"epoch": "epoch"}, {"n": 6, "epoch": 1}, "its epoch is over"),
    ({}, {}, "the sequence is missing"),
]


@pytest.mark.parametrize(("says", "value", "why"), BAD, ids=[f"{value}: {why}" for _, value, why in BAD])
def test_what_can_not_be_judged_says_why_and_stops_nothing(
    says: dict[str, Any], value: dict[str, Any], why: str
) -> None:
    s = sq.Sequencer(sq.Standard(start=5), sequence=sq.Sequence("n", **says))
    s.offer([("g", None, {"n": 5, "epoch": 2})], now=0.0)
    out = s.offer([("g", None, value), ("g", None, {"n": 6, "epoch": 2})], now=1.0)
    (item,) = [*out.invalid, *out.late]
    assert why in item.reason
    assert [released.value["n"] for released in out.released] == [6]


@pytest.mark.parametrize(
    ("says", "value"),
    [
        ({"by": "n", "format": "digits"}, {"n": "12x"}),
        ({"by": "n"}, {"n": "x" * 65}),
        ({"by": ["n", "i"]}, {"n": "x\0", "i": 1}),
        ({"by": "n"}, {"n": 1.5}),
    ],
)
def test_what_is_no_position_says_so(says: dict[str, Any], value: dict[str, Any]) -> None:
    s = sq.Sequencer(sq.BestEffort(by="position"), sequence=sq.Sequence(**says))
    (item,) = s.offer([("g", None, value)], now=0.0).invalid
    assert item.reason == "the sequence is no position: up to 64 bytes of text or of binary, or up to 64 decimal digits"


@pytest.mark.parametrize("named", ["n", lambda value: value["n"], sq.Sequence("n")])
def test_a_sequencer_takes_the_name_of_the_number_alone(named: Any) -> None:
    s = sq.Sequencer(sq.Standard(), sequence=named)
    out = s.offer([("g", None, {"n": 2}), ("g", None, {"n": 1})], now=0.0)
    assert [released.value["n"] for released in out.released] == [1, 2]
