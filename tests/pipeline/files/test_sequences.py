"""What numbers mean, in pipeline files: `sequence` as a mapping, and what is wrong there."""

from __future__ import annotations

from pathlib import Path

import pytest

from seriatim import BestEffort, Sequence, Standard, Unordered
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.files import pipeline_file
from seriatim.runtime.pipelines.start_changes import ordering, ordering_changes
from seriatim.spark.front.chosen import way_of
from seriatim.spark.state.manifest import identity

FILE = """\
name: feeds
receive:
  - location: feed
    source: {{format: json, path: in}}
    promote: {{whose: $.s, kind: $.kind, first: {{path: $.U, type: long}}, last: {{path: $.u, type: long}}, birth: {{path: $.b, type: long}}, at: {{path: $.t, type: timestamp}}}}
route:
  - to: all
    resequence: {{{order}, group: whose, sequence: {sequence}}}
    deliver: {{format: json, path: out/all}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()


def read(sequence: str, order: str = "policy: standard"):
    path = Path("pipeline.yaml")
    path.write_text(FILE.format(order=order, sequence=sequence))
    pipeline, faults = pipeline_file.examine(path, {})
    return pipeline, [str(one).removeprefix("pipeline.yaml:") for one in faults]


@pytest.mark.parametrize(
    ("sequence", "order", "wanted", "policy"),
    [
        ("first", "policy: standard, start: told", "first", Standard(start="told")),
        ("{by: first}", "policy: standard, start: lowest, settle: 100ms", "first", Standard(start="lowest", settle=0.1)),
        ("{by: first, through: last}", "policy: standard", Sequence("first", through="last"), Standard()),
        (
            "{previous: first, through: last, base: \"kind = 'snapshot'\", void: kind IS NULL}", "policy: standard",
            Sequence(previous="first", through="last", base="kind = 'snapshot'", void="kind IS NULL"), Standard(),
        ),
        ("{by: first, modulus: 65536}", "policy: best_effort", Sequence("first", modulus=65536), BestEffort()),
        (
            "{by: at, void: kind IS NULL}", "policy: best_effort, by: time",
            Sequence("at", void="kind IS NULL"), BestEffort(by="time"),
        ),
        ("{void: kind IS NULL}", "policy: unordered", Sequence(void="kind IS NULL"), Unordered()),
        (
            "{by: first, epoch: birth, unnumbered: first = 0}", "policy: standard, start: first",
            Sequence("first", epoch="birth", unnumbered="first = 0"), Standard(start="first"),
        ),
    ],
)  # fmt: skip
def test_a_file_says_what_numbers_mean(sequence, order, wanted, policy):
    pipeline, faults = read(sequence, order)
    assert faults == []
    assert (pipeline.route[0].queue.sequence, pipeline.route[0].queue.policy) == (wanted, policy)


@pytest.mark.parametrize(
    ("sequence", "order", "told"),
    [
        ("{by: first, thruogh: last}", "policy: standard", "unknown key 'thruogh' in route[0].resequence.sequence (did you mean 'through'?)"),
        ("{by: frist}", "policy: standard", "route[0].resequence.sequence.by: no location promotes a property 'frist'"),
        ("{by: kind}", "policy: standard", "sequence.by: 'kind' is string, but has to be long"),
        ("{by: first}", "policy: best_effort, by: time", "sequence.by: 'first' is long, but has to be timestamp"),
        ("{by: first, epoch: kind}", "policy: standard", "sequence.epoch: 'kind' is string, but has to be long"),
        ("{by: first, base: kinds = 'x'}", "policy: standard", "sequence.base, 1:1 of the filter: there is no property 'kinds'"),
        ("{by: first, base: true}", "policy: standard", "base must be a filter, not True"),
        ("{by: first, modulus: 2}", "policy: standard", "modulus must be between 3 and"),
        ("{by: first, previous: last, through: last}", "policy: standard", "previous stands in place of by"),
        ("{through: last}", "policy: standard", "standard needs a sequence"),
        ("{by: first, through: last}", "policy: fifo", "through is for the policy standard"),
        ("{by: first, through: last}", "policy: standard, opens: \"kind = 'x'\"", "can't be said together with opens"),
        ("{by: first, epoch: birth, restarts: \"kind = 'x'\"}", "policy: standard", "restarts and epoch both say"),
        ("first", "policy: standard, start: lowest", 'start="lowest" and settle belong together'),
        ("{by: ticket, epoch: birth}", "policy: standard", "tickets turn over, and have epochs, by themselves"),
        ("[first, last]", "policy: standard", "must be a single value, not a list"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_place(sequence, order, told):
    _, faults = read(sequence, order)
    assert len(faults) == 1, faults
    assert told in faults[0]
    assert faults[0].startswith("8:")


def test_two_regions_need_plain_numbers(tmp_path):
    text = FILE.format(order="policy: standard", sequence="{by: first, through: last}")
    region = "    region: a\n    message_id: kind\n    promote"
    (tmp_path / "b").mkdir()
    receive = text.replace("    promote", region)
    second = (
        receive[receive.index("  - location") : receive.index("route:")]
        .replace("region: a", "region: b")
        .replace("path: in", "path: b")
    )
    Path("pipeline.yaml").write_text(receive.replace("route:", second + "route:"))
    _, faults = pipeline_file.examine(Path("pipeline.yaml"), {})
    assert any("can't be said where two regions send messages" in str(one) for one in faults)


def test_such_a_pipeline_is_read_in_stages_of_their_own_and_says_so():
    way = way_of(read("{by: first, through: last}")[0])
    assert (way.one_stage, way.reason) == (False, "destination 'all' says what its numbers mean")


def test_a_checkpoint_keeps_what_its_numbers_mean():
    def of(sequence: Sequence | str, **policy: object) -> Queue:
        return Queue("q", Standard(**policy), "g", sequence)

    spans = of(Sequence("n", through="last"))
    assert list(ordering_changes(ordering([spans]), [of(Sequence("n", through="last", base="x = 1"))])) == []
    (change,) = ordering_changes(ordering([spans]), [of(Sequence("n", through="other"))])
    assert "its through is last, yours is other" in change.reason
    kept = [identity([queue], 1, "event")["queues"]["q"] for queue in (of("n"), of(Sequence("n", void="x = 1")))]
    assert kept == [{"policy": "standard", "group": "g"}] * 2
    others = [
        of("n", start="told"),
        spans,
        of(Sequence("n", modulus=8)),
        of(Sequence("n", modulus=9)),
        of(Sequence("n", epoch="e")),
    ]
    assert len({str(identity([queue], 1, "event")) for queue in others}) == len(others)
