"""What a finite frame leaves out of its result is told in the log, once, and with the argument that shows it."""

from __future__ import annotations

import logging

import pytest

from seriatim import BestEffort, Queue, Standard
from seriatim.spark import resequence

ROWS = [
    ("c1", 1), ("c1", 2), ("c1", 2),
    ("c2", 1), ("c2", 5), ("c2", 6),
    ("c3", 2),
    (None, 1), ("c4", 0),
]  # fmt: skip
TOLD = (
    "resequence: 6 of 9 messages are not in the result: 3 held in 2 groups (such as 'c2', which waits for 2 to 4), "
    '1 duplicate, 2 invalid; output="all" gives every message, with the reason'
)


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.WARNING, logger="seriatim.spark")
    return lambda: [one.message for one in caplog.records if one.name == "seriatim.spark"]


def test_it_is_told_once_when_the_frame_has_been_read(spark, told):
    ordered = resequence(
        spark.createDataFrame(ROWS, "c string, n long"), group="c", sequence="n", policy=Standard(), buckets=3
    )
    assert ordered.count() == 3
    assert told() == [TOLD]
    assert ordered.count() == 3
    assert told() == [TOLD]


def test_however_the_frame_is_read(spark, told):
    frame = spark.createDataFrame(ROWS, "c string, n long")
    ordered = resequence(frame, group="c", sequence="n", policy=Standard(), buckets=3)
    assert len(ordered.coalesce(1).collect()) == 3
    assert told() == [TOLD]
    both = resequence(frame, group="c", sequence="n", policy=Standard(), buckets=2)
    both.join(frame.distinct(), ["c", "n"]).show()
    assert told() == [TOLD, TOLD]


def test_nothing_is_told_where_nothing_is_amiss(spark, told):
    repeated = spark.createDataFrame(ROWS[:3], "c string, n long")
    assert resequence(repeated, group="c", sequence="n", policy=Standard(), buckets=2).count() == 2
    frame = spark.createDataFrame(ROWS, "c string, n long")
    assert resequence(frame, group="c", sequence="n", policy=Standard(), buckets=2, output="all").count() == 9
    voids = spark.createDataFrame([("a", 1, True), ("a", 2, None), ("a", 4, True)], "c string, n long, nothing boolean")
    assert resequence(voids, group="c", sequence="n", policy=Standard(), buckets=2, void="nothing").count() == 1
    assert told() == []


def test_where_time_would_let_them_out_that_is_told_too(spark, told):
    rows = spark.createDataFrame(
        [("c1", 1, "a"), ("c1", 3, "a"), ("d", 7, "b"), ("x", 1, "?")], "c string, n long, q string"
    )
    queues = [
        Queue("a", policy=Standard(hole_timeout=60, on_hole="skip"), group="c", sequence="n"),
        Queue("b", policy=BestEffort(window="1m"), group="c", sequence="n"),
    ]
    for finish, released in ((False, 1), (True, 3)):
        given = {"queues": queues, "destination": "q", "buckets": 2, "finish": finish}
        assert resequence(rows, **given).count() == released
    assert told() == [
        (
            "resequence: 3 of 4 messages are not in the result: 2 held in 2 groups (such as 'c1' of queue 'a', which waits "
            'for 2), 1 invalid; output="all" gives every message, with the reason; finish=True lets time run out for what is '
            "held"
        ),
        'resequence: 1 of 4 messages is not in the result: 1 invalid; output="all" gives every message, with the reason',
    ]


def test_partitions_beyond_the_buckets_of_a_stream_are_told(spark, told, tmp_path):
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("c string, n long").json(str(tmp_path / "in"))
    resequence(stream, group="c", sequence="n", policy=Standard(), buckets=2)
    assert told() == []
    resequence(stream, group="c", sequence="n", policy=Standard(), buckets=1)
    resequence(spark.createDataFrame(ROWS, "c string, n long"), group="c", sequence="n", policy=Standard(), buckets=1)
    (line,) = told()
    assert line.startswith("2 partitions for 1 buckets: 1 stay empty")
    assert "spark.sql.shuffle.partitions" in line
