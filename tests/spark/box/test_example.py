"""The example in which a pipeline asks a service gives what its page promises."""

from __future__ import annotations

from examples.quotes.__main__ import main

from seriatim.operations import invariants


def test_the_answers_leave_in_the_order_of_the_questions(spark, box, tmp_path):
    assert main(box, tmp_path) == {
        "ada": [("apple", 50), ("pear", 70), ("plum", 30)],
        "bob": [("plum", 30), ("pear", 70), ("apple", 50)],
    }
    assert invariants.broken(box) == []
