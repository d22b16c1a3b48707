"""Read a pipeline file: from YAML to a `Pipeline`, or to the list of all its faults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seriatim.errors import DeclarationError, UsageError
from seriatim.kernel.groups.policy import with_regions
from seriatim.pipeline.bodies.envelopes.moves import is_in_column
from seriatim.pipeline.bodies.envelopes.registry import ONE_UPDATE
from seriatim.pipeline.declared.function import search_folders
from seriatim.pipeline.declared.pipeline import DROP, MOST_BUCKETS, Destination, Pipeline, Receive
from seriatim.pipeline.files import kafka
from seriatim.pipeline.files.box_place import in_place, read_place
from seriatim.pipeline.files.claims import read_claims
from seriatim.pipeline.files.paths import Paths
from seriatim.pipeline.files.process import process, returning
from seriatim.pipeline.files.receive import LATER, receive
from seriatim.pipeline.files.route import require_property, route
from seriatim.pipeline.text.document import Problems, Scalar, read
from seriatim.pipeline.text.section import Section
from seriatim.pipeline.types.properties import Properties

#: Keys of the other kind of file.
_OF_A_BOX = dict.fromkeys(
    ("contracts", "links", "locations", "queues", "schedules", "services", "settings", "subscriptions", "types"),
    "it belongs in a box file, for seriatim box apply FILE",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def load(
    path: str | Path, environment: Mapping[str, str] = os.environ, *, original: Path | None = None, inputs: bool = True
) -> Pipeline:
    pipeline, faults = examine(path, environment, original=original, inputs=inputs)
    if pipeline is not None and not faults:
        return pipeline
    if len(faults) == 1:
        raise faults[0]
    listed = "".join(f"\n  {fault}" for fault in faults)
    raise DeclarationError(f"the file has {len(faults)} faults:{listed}", where=str(path))


def check(path: str | Path, environment: Mapping[str, str] = os.environ) -> list[DeclarationError]:
    """All faults of a file, in the order of its lines; empty if it can be run."""
    return examine(path, environment)[1]


def examine(
    path: str | Path, environment: Mapping[str, str] = os.environ, *, original: Path | None = None, inputs: bool = True
) -> tuple[Pipeline | None, list[DeclarationError]]:
    """The pipeline that a file declares, as far as it can be read, and all faults. Arguments as for `load`. The pipeline can be run only if
    there is no fault.
    """
    path = Path(path)
    problems = Problems(path)
    table = read(path, problems, environment)
    if table is None:
        return None, problems.found()
    pipeline = _pipeline(Section(table, problems), original or path, Paths(inputs=inputs))
    return pipeline, problems.found()


@dataclass(frozen=True, slots=True)
class _Clock:
    kind: Literal["processing", "event"]
    time: str | None
    watermark_s: float
    arrival: str | None


def _pipeline(section: Section, path: Path, paths: Paths) -> Pipeline | None:
    name = _name(section)
    checkpoint = _checkpoint(section, name)
    functions = [Path(folder) for folder in search_folders(path)]
    received, properties = receive(section, paths, functions)
    step = process(section, functions, properties)
    properties = returning(properties, step)
    routed = route(section, properties, paths, functions)
    _remark_groups_in_columns(section, received, routed)
    set_aside, unrouted = paths.port(section, "set_aside"), paths.port(section, "unrouted")
    trigger_s = section.duration_s("trigger")
    clock = _clock(section, properties)
    buckets = section.whole("buckets", 1, MOST_BUCKETS)
    horizon_s = _merging(section, received, routed, whole=properties.whole)
    claims = read_claims(section, received, routed, whole=properties.whole)
    spark, place = _spark(section), read_place(section)
    formats = [*(one.source.format for one in received), *(one.deliver.format for one in routed)]
    kafka.remark_connector(section, formats, spark)
    section.finish(LATER, _OF_A_BOX)
    if name is None or checkpoint is None:
        return None
    paths.finish(checkpoint, section)
    received, routed = in_place(received, routed, name, place, by_number=claims is not None)
    return Pipeline(
        name=name,
        checkpoint=checkpoint,
        receive=received,
        route=routed,
        process=step,
        trigger_s=1.0 if trigger_s is None else trigger_s,
        clock=clock.kind,
        time=clock.time,
        watermark_s=clock.watermark_s,
        arrival=clock.arrival,
        buckets=buckets,
        set_aside=set_aside,
        unrouted=unrouted,
        spark=spark,
        box=place,
        source_file=path,
        horizon_s=horizon_s,
        claims=claims,
        remarks=section.problems.remarks(),
    )


def _name(section: Section) -> str | None:
    name = section.text("name", required=True)
    if name is None or _NAME.fullmatch(name):
        return name
    rule = "letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 128"
    section.fault("name", f"{name!r} can't be a pipeline's name", rule)
    return None


def _checkpoint(section: Section, name: str | None) -> Path | None:
    # Not one of the ports: what lies in it and beside it is compared when all of them are known.
    if section.has("checkpoint"):
        return Paths().written(section, "checkpoint")
    return Path(".seriatim") / "pipelines" / name if name else None


def _clock(section: Section, properties: Properties) -> _Clock:
    kind = section.choice("clock", ("event", "processing"))
    time, arrival = section.text("time"), section.text("arrival")
    watermark_s = section.duration_s("watermark")
    if arrival is not None:
        require_property(section, "arrival", arrival, properties)
    if kind == "event":
        if time is None and not section.has("time"):
            section.fault("clock", "clock: event needs time: the property that has each message's time", "add time: …")
        if time is not None:
            require_property(section, "time", time, properties, ("timestamp",))
        return _Clock("event", time, watermark_s or 0.0, arrival)
    for key in ("time", "watermark"):
        if section.has(key) and (kind == "processing" or not section.has("clock")):
            section.fault(key, f"{key} is for clock: event, and the clock is processing", "add clock: event")
    return _Clock("processing", None, 0.0, arrival)


def _merging(
    section: Section, received: Sequence[Receive], routed: Sequence[Destination], *, whole: bool
) -> float | None:
    """For how long ids are remembered; reports destinations that can't order what two regions send. `whole`: no location was left out
    because of a fault.
    """
    horizon_s = section.duration_s("horizon")
    if not any(entry.region is not None for entry in received):
        if section.has("horizon") and whole:
            what = "horizon is for messages of two regions, and no location has any"
            section.fault("horizon", what, "leave it out, or say region: a and b under receive")
        return None
    if horizon_s is not None and horizon_s <= 0:
        section.fault("horizon", "horizon must be above 0", "such as 1h: by how much one region may lag")
        return None
    if isinstance(section.tree("route"), Scalar):
        what = "the subscriptions of a box don't put messages in order, so each would go to it once for each region"
        section.fault("route", what, "name destinations with resequence: and deliver: {queue: …}")
        return horizon_s
    for place in section.sections("route"):
        one = next((one for one in routed if one.queue.name == place.plain("to")), None)
        if one is not None and one.deliver.format != DROP:
            try:
                with_regions(one.queue.policy_of(None))
            except UsageError as error:
                place.fault("resequence", f"destination {one.queue.name!r}: {error.what}", error.remedy)
    return horizon_s


def _remark_groups_in_columns(section: Section, received: Sequence[Receive], routed: Sequence[Destination]) -> None:
    """Remark on groups of rows whose end isn't seen where an update moves the row, because they aren't read from the body."""
    if isinstance(section.tree("route"), Scalar):
        return
    groups = {one.queue.name: one.queue.group.by for one in routed}
    for place in section.sections("route"):
        group = groups.get(str(place.plain("to")))
        for entry in received:
            if entry.envelope is not None and entry.envelope in ONE_UPDATE and is_in_column(entry, group):
                what = (
                    f"location {entry.title!r} reads {group} from a column, so an update that changes the key of its row is told "
                    "to the group of the new row only; read it from the body to have a delete in the group of the old one"
                )
                section.problems.remark(place.key_place("resequence"), what)


def _spark(section: Section) -> Mapping[str, str]:
    conf = section.options("spark")
    table = section.section("spark") if conf else None
    for key in conf:
        if table is not None and not key.startswith("spark."):
            table.key_fault(key, f"{key!r} is not a Spark setting", f"did you mean 'spark.{key}'?")
    return conf
