"""A checkpoint belongs to one pipeline and to one run at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from seriatim import Fifo, Queue
from seriatim.errors import CheckpointMismatch, EnvironmentProblem, UsageError
from seriatim.pipeline.declared.pipeline import Deliver, Destination, JournalPlace, Pipeline, Receive, Source
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.checkpoint import LAYOUT, Checkpoint

HOLD = """
import sys
from pathlib import Path
from seriatim.runtime.pipelines.checkpoint import Checkpoint
with Checkpoint(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def pipeline(tmp_path):
    route = (Destination(Queue("a", Fifo(), "g"), Deliver("json", tmp_path / "out")),)
    received = (Receive("crm", Source("json", Path("in"))), Receive("web", Source("csv", Path("in2"))))
    return Pipeline(name="orders", checkpoint=tmp_path / "c", receive=received, route=route)


def test_the_identity_stays_with_the_checkpoint(tmp_path, pipeline):
    checkpoint = Checkpoint(tmp_path)
    first = checkpoint.identify(pipeline, {"cut": "1"})
    again = checkpoint.identify(pipeline, {"cut": "2"})
    assert again == first
    assert again.splitting == {"cut": "1"}
    other = Checkpoint(tmp_path / "other")
    other.root.mkdir()
    assert other.identify(pipeline, {}).id != first.id


def test_another_pipeline_is_refused(tmp_path, pipeline):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify(pipeline, {})
    with pytest.raises(CheckpointMismatch, match="its pipeline is orders, yours is parcels"):
        checkpoint.identify(replace(pipeline, name="parcels"), {})


def test_another_layout_is_refused(tmp_path, pipeline):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify(pipeline, {})
    file = tmp_path / "pipeline.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "layout": LAYOUT + 1}))
    with pytest.raises(CheckpointMismatch, match=f"has layout {LAYOUT + 1}, this version of seriatim reads {LAYOUT}"):
        checkpoint.identify(pipeline, {})


@pytest.mark.parametrize(
    "damage", [{"buckets": "2"}, {"buckets": None}, {"splitting": "x"}, {"splitting": None}, {"id": None}]
)
def test_what_is_damaged_is_refused(tmp_path, pipeline, damage):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify(pipeline, {})
    file = tmp_path / "pipeline.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **damage}))
    with pytest.raises(CheckpointMismatch, match="the file is damaged"):
        checkpoint.identify(pipeline, {})


@pytest.mark.parametrize("change", ["order", "path", "format"])
def test_other_locations_are_refused_because_offsets_go_by_their_place(tmp_path, pipeline, change):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify(pipeline, {})
    first, second = pipeline.receive
    changed = {
        "order": (second, first),
        "path": (replace(first, source=Source("json", Path("elsewhere"))), second),
        "format": (replace(first, source=Source("parquet", Path("in"))), second),
    }[change]
    with pytest.raises(CheckpointMismatch, match=r"its locations are crm \(json in .*\), web \(csv in"):
        checkpoint.identify(replace(pipeline, receive=changed), {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clock": "event", "time": "at"}, "its clock is processing, yours is event"),
        ({"buckets": 8}, "its buckets are 16, yours are 8"),
        ({"route": (Destination(Queue("a", Fifo(), "h"), Deliver("json")),)}, "it is fifo by g, yours is fifo by h"),
    ],
)
def test_state_of_another_kind_is_refused(tmp_path, pipeline, change, message):
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.identify(pipeline, {}).buckets == 16
    with pytest.raises(CheckpointMismatch, match=message):
        checkpoint.identify(replace(pipeline, **change), {})


def test_the_number_of_buckets_stays(tmp_path, pipeline):
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.identify(replace(pipeline, buckets=4), {}).buckets == 4
    assert checkpoint.identify(pipeline, {}).buckets == 4


def test_a_checkpoint_without_its_identity_is_refused(tmp_path, pipeline):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.query.mkdir()
    with pytest.raises(CheckpointMismatch, match="doesn't say of which pipeline"):
        checkpoint.identify(pipeline, {})
    (tmp_path / "pipeline.json").write_text(json.dumps({"pipeline": "orders"}))
    with pytest.raises(CheckpointMismatch, match=r"pipeline\.json: the file is damaged"):
        checkpoint.identify(pipeline, {})


WHOLE = 'v1\n{"nextBatchWatermarkMs":0}'
BEGUN = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":1}\n-'


def begin(checkpoint):
    for name, text, last in (("offsets", BEGUN, 3), ("commits", WHOLE, 2)):
        (checkpoint.query / name).mkdir(parents=True)
        for number in range(last + 1):
            (checkpoint.query / name / str(number)).write_text(text)
            (checkpoint.query / name / f".{number}.crc").write_bytes(b"")
    (checkpoint.query / "sources" / "0").mkdir(parents=True)
    (checkpoint.query / "sources" / "0" / "1").write_text('v1\n{"path":"file:///a.json","timestamp":1,"batchId":1}')


@pytest.fixture
def begun(tmp_path, pipeline):
    """A checkpoint of which Spark has done batches 0 to 2, and begun 3."""
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify(pipeline, {})
    begin(checkpoint)
    return checkpoint


@pytest.mark.parametrize("text", ["", "x", "1\n", WHOLE[:-3], "v1\n[", "v1\n\0\0\0"])
def test_a_last_commit_that_is_damaged_is_named_with_what_helps(begun, pipeline, text):
    (begun.query / "commits" / "2").write_text(text)
    with pytest.raises(CheckpointMismatch, match="the file is damaged") as caught:
        begun.identify(pipeline, {})
    assert caught.value.where == str(begun.query / "commits" / "2")
    assert "or delete it: then Spark takes batch 2 as not committed" in caught.value.remedy
    (begun.query / "commits" / "2").unlink()
    begun.identify(pipeline, {})


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("text", ["", "x", "v1\n", BEGUN[:-10], "v1\n{}\n{"])
def test_begun_batches_that_are_damaged_are_named(begun, pipeline, number, text):
    (begun.query / "offsets" / str(number)).write_text(text)
    with pytest.raises(CheckpointMismatch, match="the file is damaged") as caught:
        begun.identify(pipeline, {})
    assert caught.value.where == str(begun.query / "offsets" / str(number))
    assert caught.value.remedy == "restore it from a backup, or give the pipeline a new checkpoint"


def test_what_spark_reads_no_more_may_be_damaged(begun, pipeline):
    for name in ("offsets/0", "offsets/1", "commits/0", "commits/1"):
        (begun.query / name).write_text("")
    (begun.query / "commits" / "2").write_text("v1\n")  # as an older Spark has written it
    begun.identify(pipeline, {})


def test_one_run_at_a_time(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        refused = pytest.raises(EnvironmentProblem, match=f"another run uses this checkpoint: process {other.pid}")
        with refused, Checkpoint(tmp_path).held():
            pass
        other.stdin.close()
        assert other.wait() == 0
    with Checkpoint(tmp_path).held():
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


@pytest.mark.proves("the lock of a checkpoint goes with the process that had it")
def test_a_killed_run_leaves_no_lock_behind(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        other.kill()
        other.wait()
        with Checkpoint(tmp_path).held():
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_the_next_run_waits_for_what_a_killed_one_left_running(tmp_path):
    heir = "import subprocess, sys; print('on', flush=True); sys.stdin.read()"
    with Checkpoint(tmp_path).held() as lock:
        child = subprocess.Popen(
            [sys.executable, "-c", heir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(lock,), text=True
        )
        assert child.stdout.readline() == "on\n"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / "lock").write_text(f"{gone.pid}\n")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as successor:
        assert successor.poll() is None
        child.stdin.close()
        child.stdout.close()
        assert child.wait() == 0
        assert successor.stdout.readline() == "held\n"
        successor.stdin.close()
        assert successor.wait() == 0


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(EnvironmentProblem, match="the checkpoint can't be written"),
        Checkpoint(tmp_path / "file").held(),
    ):
        pass


DECLARED = """\
name: orders
checkpoint: {root}/c
receive:
  - location: crm
    source: {{format: json, path: {root}/in}}
    promote:
      key: $.key
      number: {{path: $.n, type: long}}
      other: {{path: $.m, type: long}}
route:
  - to: all
    resequence:
      policy: standard
      group: key
      sequence: number
      start: 1
      increment: 1
      hole_timeout: 30s
    deliver: {{format: json, path: {root}/out}}
"""


@pytest.fixture
def declared(tmp_path):
    """A pipeline of a file, by some replacements in its text; its checkpoint is in the same folder."""
    (tmp_path / "in").mkdir()

    def make(**changes):
        text = DECLARED.format(root=tmp_path)
        for before, after in changes.items():
            text = text.replace(f"{before}: ", f"{before}: {after} #")
        file = tmp_path / "orders.yaml"
        file.write_text(text)
        return load(file)

    return make


@pytest.mark.parametrize(
    ("name", "after", "told"),
    [("sequence", "other", "its sequence is number, yours is other"), ("start", "first", "its start is 1, yours is first"),
     ("increment", "2", "its increment is 1, yours is 2")],
)  # fmt: skip
def test_what_would_misread_the_state_is_refused(declared, name, after, told):
    pipeline = declared()
    checkpoint = Checkpoint(pipeline.checkpoint)
    pipeline.checkpoint.mkdir()
    checkpoint.identify(pipeline, {})
    checkpoint.remember(pipeline)
    changed = declared(**{name: after})
    with pytest.raises(CheckpointMismatch, match=f"destination 'all': .*{told}"):
        checkpoint.identify(changed, {})
    (change,) = checkpoint.changes(changed)
    assert (change.where, change.what, change.effect) == ("destination 'all'", name, "refused")
    checkpoint.identify(declared(), {})


def test_what_counts_from_the_next_batch_on_is_listed(declared):
    pipeline = declared()
    checkpoint = Checkpoint(pipeline.checkpoint)
    pipeline.checkpoint.mkdir()
    assert checkpoint.changes(pipeline) == []
    checkpoint.identify(pipeline, {})
    checkpoint.remember(pipeline)
    changed = declared(hole_timeout="60s")
    checkpoint.identify(changed, {})
    assert [str(one) for one in checkpoint.changes(changed)] == [
        "destination 'all': hole_timeout 30 → 60: from the next batch on"
    ]
    assert checkpoint.changes(declared()) == []


# ---- destinations that come and go

SECOND = """\
  - to: {name}
    resequence: {{policy: standard, group: key, sequence: number{start}}}
    deliver: {{{port}}}
"""


@pytest.fixture
def with_second(tmp_path, declared):
    """The pipeline of `declared`, with a second destination unless `name` is empty."""

    def make(name="", start="", port=None):
        file = declared().source_file
        port = port or f"format: json, path: {tmp_path}/{name}"
        file.write_text(file.read_text() + (SECOND.format(name=name, start=start, port=port) if name else ""))
        return load(file)

    return make


@pytest.fixture
def running(with_second):
    """The checkpoint of a pipeline with one destination."""
    pipeline = with_second()
    pipeline.checkpoint.mkdir()
    checkpoint = Checkpoint(pipeline.checkpoint)
    checkpoint.identify(pipeline, {})
    checkpoint.remember(pipeline)
    return checkpoint


def started(checkpoint, pipeline, *abandon):
    """The history with which a start goes on."""
    checkpoint.identify(pipeline, {}, abandon=abandon)
    return checkpoint.remember(pipeline, abandon=abandon).history


def holding(checkpoint, **held):
    """As the tally tells it after a batch."""
    standing = {"batch": 0, "counts": {}, "reports": {"0": {"bucket": 0, "held": held}}}
    checkpoint.tally.write_text(json.dumps({"standing": standing, "before": standing}))


def test_a_destination_that_is_added_says_where_its_numbers_begin(running, with_second):
    with pytest.raises(CheckpointMismatch, match=r"destination 'more'.*a group whose next number isn't 1") as caught:
        started(running, with_second("more"))
    assert "start: first, start_from with a file, or start: 1" in caught.value.remedy
    for start in (", start: first", ", start: 1", ", start: 7"):
        pipeline = with_second("more", start)
        assert [str(one) for one in running.changes(pipeline)] == [
            "destination 'more': destination none → standard by key: from the next batch on"
        ]
    assert dict(started(running, with_second("more", ", start: 1")).incarnations) == {"all": 1, "more": 1}
    assert running.changes(with_second("more")) == []  # it is there: it needn't say it any more


def test_a_destination_that_comes_again_is_the_next_incarnation(running, with_second):
    started(running, with_second("more", ", start: 1"))
    pipeline = with_second()
    assert [str(one) for one in running.changes(pipeline)] == [
        "destination 'more': destination standard by key → none: from the next batch on"
    ]
    assert dict(started(running, pipeline).incarnations) == {"all": 1, "more": 1}
    pipeline = with_second("more", ", start: first")  # as another one, which may be ordered otherwise
    assert [str(one) for one in running.changes(pipeline)] == [
        "destination 'more': destination taken away → standard by key, incarnation 1: from the next batch on"
    ]
    assert dict(started(running, pipeline).incarnations) == {"all": 1, "more": 2}
    assert dict(started(running, pipeline).incarnations) == {"all": 1, "more": 2}


def test_a_destination_that_holds_messages_is_not_taken_away_unless_it_is_abandoned(running, with_second):
    started(running, with_second("more", ", start: 1"))
    holding(running, all=1, more=2)
    pipeline = with_second()
    with pytest.raises(CheckpointMismatch, match=r"destination 'more'.*: 2 messages are held") as caught:
        started(running, pipeline)
    assert "--abandon more" in caught.value.remedy
    (change,) = running.changes(pipeline)
    assert (change.effect, change.reason) == ("refused", "2 messages are held")
    history = started(running, pipeline, "more")
    assert (history.abandoned, history.gone) == ({"more": 1}, ["more"])
    assert started(running, pipeline, "more") == history  # as a supervised run says it again
    assert started(running, with_second("more", ", start: 1")).gone == []


def test_a_destination_that_was_taken_away_when_nobody_knew_what_it_holds_is_abandoned_later(running, with_second):
    started(running, with_second("more", ", start: 1"))  # and its tally is lost
    started(running, with_second())
    history = started(running, with_second(), "more")
    assert (history.abandoned, history.gone) == ({"more": 1}, ["more"])


def test_a_destination_that_has_forgotten_groups_keeps_its_incarnations_and_its_name(running, with_second):
    forgets = ", start: 1, expire_after: 1h, expire_to: nothing"
    started(running, with_second("more", forgets))
    with pytest.raises(CheckpointMismatch, match=r"destination 'more'.*its rows need their incarnations"):
        started(running, with_second("more", ", start: 1"))
    started(running, with_second())
    for again in (forgets, ", start: 1"):
        with pytest.raises(CheckpointMismatch, match=r"destination 'more'.*ordinals would come again") as caught:
            started(running, with_second("more", again))
        assert caught.value.remedy == "give the destination another name"
    started(running, with_second("others", forgets))


def test_a_destination_that_is_renamed_is_another_one(running, with_second):
    started(running, with_second("more", ", start: 1"))
    holding(running, more=1)
    pipeline = with_second("other", ", start: 1")
    with pytest.raises(CheckpointMismatch, match=r"destination 'more'.*: 1 message is held"):
        started(running, pipeline)
    assert dict(started(running, pipeline, "more").incarnations) == {"all": 1, "more": 1, "other": 1}


@pytest.mark.parametrize(("name", "told"), [("all", "is in the pipeline file"), ("mor", "has no destination 'mor'")])
def test_only_what_is_gone_can_be_abandoned(running, with_second, name, told):
    with pytest.raises(UsageError, match=told):
        started(running, with_second(), name)


def test_a_queue_of_a_box_gets_the_ordinals_of_one_destination_only(running, with_second):
    started(running, with_second("more", ", start: 1", "queue: orders"))
    pipeline = with_second("other", ", start: 1", "queue: orders")
    with pytest.raises(CheckpointMismatch, match="queue 'orders' of the message box has got ordinals"):
        started(running, pipeline)
    started(running, with_second())
    with pytest.raises(CheckpointMismatch, match="queue 'orders' of the message box has got ordinals"):
        started(running, with_second("more", ", start: 1", "queue: orders"))
    started(running, with_second("more", ", start: 1", "queue: others"))


def test_a_batch_in_flight_is_finished_before_it_is_known_what_is_held(begun, pipeline):
    holding(begun, a=1)
    other = replace(pipeline, route=(Destination(Queue("b", Fifo(), "g"), Deliver("json")),))
    begun.identify(other, {})
    with pytest.raises(CheckpointMismatch, match="1 message is held"):
        begun.remember(other)


@pytest.mark.parametrize(
    "port",
    [
        "format: json, path: '${OUT}'",
        "format: jdbc, options: {url: 'jdbc:postgresql:it', dbTable: '${OUT}'}",
        "format: kafka, options: {kafka.bootstrap.servers: k, Topic: '${OUT}'}",
        "queue: '${OUT}'",
    ],
)
def test_a_batch_in_flight_goes_where_it_was_begun_to_go_whatever_a_variable_says(running, declared, monkeypatch, port):
    def with_out(out):
        monkeypatch.setenv("OUT", out)
        return declared(deliver=f"{{{port}}}")

    running.remember(with_out("here"))
    begin(running)
    assert running.former(with_out("here")) is None
    with pytest.raises(
        CheckpointMismatch, match="unfinished batch was begun for here, and would go on to there"
    ) as refused:
        running.former(with_out("there"))
    assert refused.value.where == f"{running.root}: destination 'all'"
    (running.query / "commits" / "3").write_text(WHOLE)
    assert running.former(with_out("there")) is None
    running.remember(with_out("there"))
    (running.query / "offsets" / "4").write_text(BEGUN)
    with pytest.raises(CheckpointMismatch, match="was begun for there, and would go on to here"):
        running.former(with_out("here"))


def test_whether_runs_deliver_in_turn_is_for_ever(tmp_path, pipeline):
    claimed = replace(pipeline, claims=JournalPlace("", "a"))
    for number, (before, after, expected) in enumerate(
        (
            (pipeline, claimed, "the journal doesn't know what was delivered without it"),
            (claimed, pipeline, "what waits here may be delivered by the other region"),
        )
    ):
        checkpoint = Checkpoint(tmp_path / str(number))
        checkpoint.root.mkdir()
        checkpoint.identify(before, {})
        assert checkpoint.changes(replace(before)) == []
        with pytest.raises(CheckpointMismatch, match=expected):
            checkpoint.identify(after, {})
        (change,) = checkpoint.changes(after)
        assert (change.what, change.effect) == ("claims", "refused")
    # The other region, and another length, are no matter of the checkpoint.
    Checkpoint(tmp_path / "1").identify(replace(claimed, claims=JournalPlace("x", "b", lease_s=60.0)), {})


def test_a_destination_doesnt_come_again_under_its_name_where_runs_deliver_in_turn(tmp_path, pipeline):
    claimed = replace(pipeline, claims=JournalPlace("", "a"))
    other = replace(claimed, route=(Destination(Queue("b", Fifo(), "g"), Deliver("noop")),))
    checkpoint = Checkpoint(tmp_path)
    checkpoint.identify(claimed, {})
    checkpoint.remember(other)
    with pytest.raises(CheckpointMismatch, match="the journal knows its numbers of before as delivered"):
        checkpoint.identify(claimed, {})
