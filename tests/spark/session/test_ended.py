"""Whether Spark's process has ended: who asks one that works is answered at once."""

from __future__ import annotations

from seriatim.spark.session.builder import has_ended


def test_one_that_answers_is_not_waited_for(spark):
    assert not has_ended(spark, within_s=86_400.0)
