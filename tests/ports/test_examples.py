"""The examples of ports do what they say."""

from __future__ import annotations

from examples.ports import hl7, kafka, rabbitmq

from seriatim.operations import invariants


def test_hl7(box):
    assert hl7.main(box) == {
        f"p{patient}": [f"{patient}-{number}" for number in range(hl7.EACH)] for patient in range(hl7.PATIENTS)
    }
    assert invariants.broken(box) == []


def test_kafka(box):
    assert kafka.main(box) == {
        f"c{customer}": [f"{customer}-{n}" for n in range(kafka.EACH)] for customer in range(kafka.CUSTOMERS)
    }
    assert invariants.broken(box) == []


def test_rabbitmq(box, broker):
    numbers = list(range(1, rabbitmq.EACH + 1))
    assert rabbitmq.main(box, broker.url) == {f"c{customer}": numbers for customer in range(rabbitmq.CUSTOMERS)}
    assert invariants.broken(box) == []
