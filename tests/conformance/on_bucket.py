"""The conformance cases on a bucket of Spark's operator, without Spark: what lies between two calls is bytes.

Each call gets a packet, and the state that the one before it has stored: so a case that is cut somewhere also
goes on from a checkpoint there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.groups.number_reader import NumberReader, Read
from seriatim.kernel.groups.policy import BestEffort, Fifo, UnitOfWork, Unordered
from seriatim.kernel.policies.copies import region_bit
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.values.fingerprint import of_value
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.time import FOREVER, NEVER, micros
from seriatim.spark.control.commands import Command
from seriatim.spark.resequence import bucket as names
from seriatim.spark.resequence.bucket import Bucket, Plan
from seriatim.spark.resequence.group_views import views
from seriatim.spark.resequence.number_columns import SHOWN
from seriatim.spark.resequence.operator import START_KEY, START_NEXT, START_QUEUE, enrol_first
from seriatim.spark.resequence.stage import judged_here
from seriatim.spark.state.cold_groups import ColdGroups
from seriatim.spark.state.group_index import Index
from seriatim.spark.state.held_bodies import Bodies, MemoryChunks
from tests.conformance import on_spark
from tests.conformance.case import REPORTS, Act, Arrive, Case, Fate, Message, Result, positions

_USER = pa.schema([("message", pa.int64()), ("key", pa.string()), ("message_id", pa.string()), ("region", pa.string())])


class OnBucket:
    """One queue in one bucket, with the event clock.

    Args:
        case: the case.
        rests: whether a group expires, and leaves a tombstone, as soon as nothing waits in it.
    """

    def __init__(self, case: Case, *, rests: bool = False) -> None:
        self._case = case
        self._rests = rests
        queue = judged_here(on_spark.queue_of(case), merged=case.regions, horizon=case.horizon)
        self.plan = Plan(
            queues=(replace(queue, group=replace(queue.group, expire_after=1e-6)) if rests else queue,),
            destination=None,
            invalid=None,
            user=tuple(_USER.names),
            clock="event",
            arrivals=(("message",),),
            output="all",
            reports=True,
            fingerprint="of this test",
            buckets=1,
            region="region" if case.regions else None,
            numbers={name: name for name in SHOWN},
        )
        index = Index(self.plan.fingerprint)
        if case.start_from:
            enrol_first(self.plan, index, _first_numbers(case))
        self.stored = index.to_bytes()
        self.chunks: dict[int, bytes] = {}
        self.due = FOREVER
        self.report: dict[str, Any] = {}

    def call(self, numbers: range, watermark: int, *commands: Command) -> list[dict[str, Any]]:
        """Operators' commands are obeyed, and some messages arrive; what is decided."""
        index = Index.from_bytes(self.stored, self.plan.fingerprint)
        store = MemoryChunks(self.chunks)
        bodies, cold = Bodies(store, index.chunks, _USER), ColdGroups(index, store) if self._rests else None
        packets = [_packet(self._case, numbers)] if len(numbers) else []
        bucket = Bucket(self.plan, index, bodies, packets, cold)
        if commands:
            bucket.obey(list(commands), watermark, watermark)
        decided = [row for table in bucket.take(watermark) for row in table.to_pylist()]
        self.report = json.loads(bucket.report(0))
        self.stored = index.to_bytes()
        self.due = bucket.due()
        return decided


def run_acted(case: Case) -> Result:
    """Runs a case in which operators act, a call for each step; an action is a command."""
    engine = OnBucket(case)
    queue = on_spark.queue_of(case).name
    fates: list[Fate] = []
    told: list[dict[str, Any]] = []
    for step, numbers in positions(case):
        if isinstance(step, Act):
            decided = {fate.message for fate in fates}
            waiting = [n for n in range(numbers.start) if n not in decided]
            command = Command(step.action, queue, step.group, "ada", "a case", _arguments(case, step, waiting))
            rows = engine.call(range(0), micros(step.at), command)
            (answer,) = engine.report["answers"]
            assert (answer["result"] == "refused") is step.refused, answer
        else:
            rows = engine.call(numbers, max(micros(case.messages[n].at) for n in numbers))
        fates += map(on_spark.fate_of, rows)
        told += engine.report.get("events", [])
    fates += [Fate(n, "held") for n in sorted(set(range(len(case.messages))) - {fate.message for fate in fates})]
    reports = [(one["event"], one["group"], one["first"], one["last"]) for one in told if one["event"] in REPORTS]
    return Result(tuple(fates), reports=tuple(reports), states=_states(engine, queue))


def _arguments(case: Case, step: Act, waiting: Sequence[int]) -> dict[str, Any]:
    """An action's arguments; a message is named by its id, and not by its sequence."""
    given = dict(step.arguments)
    if "sequence" in given:
        sequence = given.pop("sequence")
        those = (n for n in waiting if (case.messages[n].group, case.messages[n].sequence) == (step.group, sequence))
        given["message"] = str(next(those, "none"))
    return given


def _states(engine: OnBucket, queue: str) -> dict[str, str]:
    known = Index.from_bytes(engine.stored, None).queues[queue]
    policy = engine.plan.queues[0].policy
    return {one["group"]: one["state"] for one in views(queue, policy, known, np.arange(len(known.state)))}


def steps_of(case: Case) -> list[tuple[range, int]]:
    """A call for each step, after which time has moved to its latest message's."""
    found: list[tuple[range, int]] = []
    for step, numbers in positions(case):
        assert isinstance(step, Arrive)
        found.append((numbers, max(micros(case.messages[n].at) for n in numbers)))
    return found


def cut_at(case: Case, places: Sequence[int]) -> list[tuple[range, int]]:
    """A call for each stretch between places; time moves to the end at the end."""
    edges = [0, *sorted({place for place in places if 0 < place < len(case.messages)}), len(case.messages)]
    return [*((range(*edge), NEVER) for edge in pairwise(edges)), (range(0), micros(case.last_time))]


def run(case: Case, calls: Sequence[tuple[range, int]], *, by_step: bool = False, rests: bool = False) -> Result:
    """Runs a case in some calls."""
    engine = OnBucket(case, rests=rests)
    fates: list[Fate] = []
    left: list[tuple[Fate, ...]] = []
    told: list[tuple[str, int]] = []
    calls = list(calls)
    while calls:
        numbers, watermark = calls.pop(0)
        rows = engine.call(numbers, watermark)
        if not calls and engine.due <= watermark:
            calls.append((range(0), watermark))  # as a timer does
        mine = [on_spark.fate_of(row) for row in rows]
        if len(numbers):
            left.append(tuple(fate for fate in mine if fate.disposition == "released"))
        told += on_spark.conflicts_in(case, rows)
        fates += mine
    held = set(range(len(case.messages))) - {fate.message for fate in fates}
    fates += [Fate(n, "held") for n in sorted(held)]
    return Result(tuple(fates), tuple(left) if by_step else None, conflicts=tuple(told) if by_step else None)


def _packet(case: Case, numbers: range) -> pa.Table:
    some = [(n, case.messages[n]) for n in numbers]
    said = [_said(case, one) for _, one in some]
    columns = {
        "message": pa.array([n for n, _ in some], pa.int64()),
        "key": pa.array([one.group for _, one in some], pa.string()),
        "message_id": pa.array([str(n) for n, _ in some], pa.string()),
        "region": pa.array([one.properties.get("region") for _, one in some], pa.string()),
        names.KEY: pa.array([None if one.group is None else one.group.encode() for _, one in some], pa.binary()),
        names.SEQUENCE: pa.array([None if one.reason else one.number for one in said], pa.int64()),
        names.PROBLEM: pa.array([int(one.reason) for one in said], pa.int32()),
        names.POSITION: pa.array([one.position for one in said], pa.binary()),
        names.THROUGH: pa.array([one.through for one in said], pa.int64()),
        names.EPOCH: pa.array([one.epoch or 0 for one in said], pa.int64()),
        names.TIME: pa.array([micros(one.at) for _, one in some], pa.int64()),
        names.SIZE: pa.array([None if one.size == NOT_SAID else one.size for one in said], pa.int64()),
        names.VOID: pa.array([not one.weight for one in said], pa.bool_()),
        names.FINGERPRINT: pa.array([_fingerprint(case, one) for _, one in some], pa.int64()),
    }
    return pa.table(columns)


def _said(case: Case, one: Message) -> Read:
    """What a message says of its number."""
    size = _size(case, one)
    if case.numbers is not None:
        policy = on_spark.queue_of(case).policy_of(None)
        read = NumberReader(policy, case.numbers).read(one.sequence, one.properties, void=one.is_void)
        return read if size is None else read._replace(size=size)
    by_time = isinstance(case.policy, BestEffort) and case.policy.by == "time"
    bits, weight = NOT_SAID if size is None else size, 0 if one.is_void else 1
    if one.sequence is None or isinstance(case.policy, Fifo | Unordered):
        return Read(Reason.SEQUENCE_MISSING, 0, bits, weight)
    return Read(Reason.NONE, micros(one.sequence) if by_time else int(one.sequence), bits, weight)


def _fingerprint(case: Case, one: Message) -> int | None:
    if not case.regions:
        return of_value({"content": one.label})
    return None if one.properties.get("id") is None else of_value(one.properties["id"])


def _size(case: Case, one: Message) -> int | None:
    if case.regions:
        return region_bit(one.properties.get("region"))
    if case.opens or case.closes:
        says = ((OPENS, case.opens, "opens"), (CLOSES, case.closes, "closes"))
        return sum(bit for bit, may, name in says if may and one.properties.get(name))
    if not isinstance(case.policy, UnitOfWork):
        return None
    if case.policy.last is not None:
        return one.sequence if one.properties.get("is_last") else None
    size = one.properties.get("size") if isinstance(case.policy.size, str) else None
    return None if size is None else max(size, 0)


def _first_numbers(case: Case) -> pa.Table:
    return pa.table(
        {
            START_QUEUE: pa.array([""] * len(case.start_from), pa.string()),
            START_KEY: pa.array([key.encode() for key in case.start_from], pa.binary()),
            START_NEXT: pa.array(list(case.start_from.values()), pa.int64()),
        }
    )
