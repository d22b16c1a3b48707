"""The table of sequences in memory, in the properties of messages, and in envelopes."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

import seriatim as sq
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.kernel.values.reading import of_size
from seriatim.pipeline.bodies.envelopes.envelope import whole
from seriatim.pipeline.bodies.property_values import converter
from seriatim.pipeline.types.python_values import given_converter
from tests.conformance import readings
from tests.conformance.readings import Reading
from tests.oracle_groups import whole as of_the_oracle

NUMBERS = (
    *(readings.WHOLE + readings.TEXTS + readings.DOUBLES + readings.FLOATS + readings.DECIMALS + readings.OBJECTS),
)
#: What a file, a document or a table may have.
PLAIN = readings.WHOLE + readings.TEXTS + readings.DECIMALS
NO_TICKETS = [one for one in NUMBERS if not isinstance(one.value, tuple | dict) and one.gives != 3]


def check(reading: Reading, policy: sq.Policy) -> None:
    """A policy without limits of its own takes the number in as it is."""
    sequencer = sq.Sequencer(policy)
    outcome = sequencer.offer([("g", reading.value, "a")], now=0.0)
    if isinstance(reading.gives, Reason):
        assert [item.reason for item in outcome.invalid] == [REASONS[reading.gives]]
    else:
        (released,) = outcome.released
        assert released.sequence is reading.value, "it leaves as it came"
        expected = reading.gives / 1e6 if policy == sq.BestEffort(by="time") else reading.gives
        lowest = expected == -(2**63)  # it can't be told from none
        assert sequencer.group("g").last_released == (None if lowest else expected)


@pytest.mark.parametrize("reading", NUMBERS + readings.TICKETS, ids=str)
def test_a_sequence_in_memory(reading: Reading) -> None:
    check(reading, sq.BestEffort())


@pytest.mark.parametrize("reading", readings.TIME_TEXTS + readings.TIMES, ids=str)
def test_a_time_in_memory(reading: Reading) -> None:
    check(reading, sq.BestEffort(by="time"))


@pytest.mark.parametrize("reading", PLAIN + readings.DOUBLES + readings.TICKETS, ids=str)
def test_a_sequence_for_the_oracle(reading: Reading) -> None:
    if reading.value is not None and len(str(reading.value)) < 4000 and None not in np.atleast_1d(reading.value):
        assert of_the_oracle(reading.value) == (None if isinstance(reading.gives, Reason) else reading.gives)


@pytest.mark.parametrize("reading", NO_TICKETS, ids=str)
def test_a_size_in_memory(reading: Reading) -> None:
    sequencer = sq.Sequencer(sq.UnitOfWork(size="size"))
    outcome = sequencer.offer([("g", 1, {"size": reading.value})], now=0.0)
    reasons = [item.reason for item in outcome.invalid]
    if reading.gives is Reason.SEQUENCE_MISSING:
        assert reasons == [], "it says nothing"
        return
    if isinstance(reading.gives, Reason):
        assert reasons == [REASONS[of_size(reading.gives)]]
    else:
        assert reasons == ([] if reading.gives >= 1 else [REASONS[Reason.SIZE_BELOW_ONE]])
        assert len(outcome.released) == (reading.gives == 1)


@pytest.mark.parametrize("reading", PLAIN, ids=str)
def test_a_property_of_a_document(reading: Reading) -> None:
    """Of JSON, XML, CSV and text: numbers with a point are decimals there."""
    if reading.value is None:
        return
    if isinstance(reading.gives, Reason):
        with pytest.raises((ValueError, ArithmeticError)):
            converter("long")(reading.value)
    else:
        assert converter("long")(reading.value) == reading.gives
        assert type(converter("long")(reading.value)) is int


@pytest.mark.parametrize("reading", NO_TICKETS, ids=str)
def test_a_property_of_a_message_that_a_program_publishes(reading: Reading) -> None:
    if reading.value is None:
        return
    if isinstance(reading.gives, Reason):
        with pytest.raises((ValueError, ArithmeticError)):
            given_converter("long")(reading.value)
    else:
        assert given_converter("long")(reading.value) == reading.gives


@pytest.mark.parametrize("reading", PLAIN, ids=str)
def test_a_position_of_an_envelope(reading: Reading) -> None:
    assert whole(reading.value) == (None if isinstance(reading.gives, Reason) else reading.gives)


def test_a_decimal_with_an_exponent_is_looked_at_before_it_is_written_out() -> None:
    assert converter("long")(Decimal("0E+1000000")) == 0
