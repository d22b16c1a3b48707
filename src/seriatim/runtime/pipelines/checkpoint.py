"""A pipeline's checkpoint: the folder with which a run continues where the previous run stopped.

    .seriatim/pipelines/orders/
    ├── pipeline.json     the owner of this checkpoint, and what must not change
    ├── declaration.yaml  the pipeline file under which the last batch was begun
    ├── lock              held by the run that works on it, with its process id
    ├── fence.…           the number of the last run
    ├── stop              another process asks the run to end after its batch
    ├── tally.json        the counts of messages so far, by disposition (`tally.py`)
    ├── pace.json         how fast the run is, for people who look
    ├── resubmit.lock     held while somebody puts messages back
    ├── control/          the control log: commands to the operator, in the order in which it obeys them
    ├── operator-log/     answers to commands, and events, by batch; beside it operator-log.json, how far it goes
    ├── query/            Spark's own: offsets, commits, state
    ├── set-aside/        messages that were not released, unless the pipeline names a folder
    ├── unrouted/         messages that matched no destination, unless the pipeline names a folder
    ├── waiting/          released batches that wait for a port that fails, by destination
    ├── first-numbers/    of destinations that were added later: the first numbers of their groups
    ├── calls/            running calls of the user's code, and messages at which a call ended its process
    └── spark.log         Spark's standard error in the last run

This module owns the folder's layout, its lock and its identity. Of Spark's part it only knows which batches were begun
and committed, and whether the files that record this can be read: Spark's own errors for that name no file, or no
remedy.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch, EnvironmentProblem, NotFound, UsageError
from seriatim.pipeline.declared.pipeline import BOX, Destination, Pipeline, Receive
from seriatim.pipeline.files.pipeline_file import examine, load
from seriatim.pipeline.text.section import likely
from seriatim.runtime.pipelines.spark_logs import check_spark_logs
from seriatim.runtime.pipelines.start_changes import (
    Change,
    KnownDestination,
    destination_changes,
    later_changes,
    ordering,
    ordering_changes,
)
from seriatim.runtime.pipelines.tally import Tally
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import OperatorLog
from seriatim.spark.control.pipeline_place import LAYOUT, check_layout, log_position
from seriatim.spark.deliver.layout import DepartedQueue
from seriatim.spark.deliver.outbox import folder_name, kept_in
from seriatim.spark.deliver.port import sync_folder, write_synced
from seriatim.spark.state.buckets import DEFAULT_BUCKETS
from seriatim.spark.state.destination_history import DestinationHistory
from seriatim.spark.state.manifest import BY_KEY, identity
from seriatim.spark.state.state_layout import StateLayout

__all__ = ["LAYOUT", "Checkpoint", "Identity", "feeds_of", "ordered_in_words"]

#: The entry of `pipeline.json` with the parameters by which the state was written; see `start_changes.py`.
_ORDERING = "ordering"
#: Its entry that says how groups are spread over buckets: always by their keys.
_SPREAD = "spread"
#: Its entry that says whether another run, in the other region, delivers in turn with it; null: none does.
_CLAIMS = "claims"
#: Its entries after a move to another number of buckets: how many parts tickets have, and where the state is that buckets take over.
_STAMP_BUCKETS, _MOVED_STATE = "stamp_buckets", "moved"
#: Its entry with what stays of each destination, also of one that was taken away.
_DESTINATIONS = "destinations"
#: How the files of Spark's logs begin.
_VERSION = re.compile(rb"v\d+")
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties of a checkpoint that are fixed from its first start on."""

    #: A unique id, also different from earlier checkpoints in the same folder.
    id: str
    buckets: int
    #: Spark's settings for cutting files, so that a replay names rows alike.
    splitting: Mapping[str, str]
    history: DestinationHistory = field(default_factory=DestinationHistory)
    #: The destinations that were taken away, as far as their rows have to be written.
    departed: tuple[DepartedQueue, ...] = ()
    #: The number of parts of the state of tickets, if it is another one.
    stamp_buckets: int | None = None
    #: The folder with the state from before the number of buckets was changed, as long as it is needed.
    moved: Path | None = None
    former_buckets: int = 0
    #: Whether the buckets were told to take that state over.
    is_woken: bool = False

    @property
    def layout(self) -> StateLayout:
        """How its state is cut."""
        return StateLayout(buckets=self.buckets, by_key=True, history=self.history, moved=self.moved)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder."""

    root: Path

    @property
    def query(self) -> Path:
        """Spark's part."""
        return self.root / "query"

    @property
    def control(self) -> Path:
        """The control log."""
        return self.root / "control"

    @property
    def stop_request(self) -> Path:
        """The file with which another process asks the run to end."""
        return self.root / "stop"

    @property
    def operator_log(self) -> Path:
        """The operator log."""
        return self.root / "operator-log"

    def check_logs(self, identity: Identity) -> None:
        """Check that the control log and the operator log are whole, and this checkpoint's."""
        ControlLog(self.control, identity.id).check(log_position(self.query, done=True))
        OperatorLog(self.operator_log, identity.id).check()

    @property
    def set_aside(self) -> Path:
        """The folder for messages that were not released, unless the pipeline names one."""
        return self.root / "set-aside"

    @property
    def unrouted(self) -> Path:
        """The folder for messages that match no destination, unless the pipeline names one."""
        return self.root / "unrouted"

    @property
    def waiting(self) -> Path:
        """The folder where released messages wait for failing ports."""
        return self.root / "waiting"

    @property
    def calls(self) -> Path:
        """The folder where workers note running calls of the user's functions, and messages that end their processes."""
        return self.root / "calls"

    @property
    def tally(self) -> Path:
        """The file of `tally.py`."""
        return self.root / "tally.json"

    @property
    def log(self) -> Path:
        """Spark's standard error."""
        return self.root / "spark.log"

    def last_begun(self) -> int:
        """The id of the last batch that Spark has begun here, done or not; -1 before the first."""
        return max(self._batches("offsets"), default=-1)

    def last_committed(self) -> int:
        """The id of the last batch that Spark has committed here; -1 before the first."""
        return max(self._batches("commits"), default=-1)

    def in_flight(self) -> bool:
        """Whether a batch was begun and not committed."""
        last = self.last_begun()
        return last >= 0 and not (self.query / "commits" / str(last)).exists()

    def _batches(self, log: str) -> list[int]:
        """The batches in a log of Spark, in order."""
        folder = self.query / log
        return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal()) if folder.exists() else []

    def _check_logs(self) -> None:
        """Refuse logs whose last batches, with which Spark begins, can't be read."""
        for number in self._batches("offsets")[-2:]:
            file = self.query / "offsets" / str(number)
            if not _is_log(file.read_bytes(), least=1):
                remedy = "restore it from a backup, or give the pipeline a new checkpoint"
                raise CheckpointMismatch("the file is damaged", where=str(file), remedy=remedy)
        for number in self._batches("commits")[-1:]:
            file = self.query / "commits" / str(number)
            if not _is_log(file.read_bytes(), least=0):
                remedy = f"restore it from a backup, or delete it: then Spark takes batch {number} as not committed"
                raise CheckpointMismatch("the file is damaged", where=str(file), remedy=remedy)

    def former(self, pipeline: Pipeline) -> Pipeline | None:
        """The pipeline under which the unfinished batch was begun, if its declaration has changed since.

        That batch has to be finished as it was begun: a message may have been delivered already.
        """
        file = self.root / "declaration.yaml"
        if not self.in_flight() or not file.exists() or pipeline.source_file is None:
            return None
        if file.read_bytes() == pipeline.source_file.read_bytes():
            return None
        return load(file, original=pipeline.source_file)

    def remember(
        self,
        pipeline: Pipeline,
        *,
        abandon: Collection[str] = (),
        begin: Callable[[Destination, Path], None] = lambda _, __: None,
    ) -> Identity:
        """Note the declaration under which batches are begun from now on. The file of a pipeline without one can't be noted."""
        file = self.root / "pipeline.json"
        found, known = self._found(file)
        self._refuse(found, known, pipeline, abandon)
        noted = self._noted(found, pipeline, abandon, begin)
        if noted != found:
            write_synced(file, json.dumps(noted, indent=2).encode())
        if pipeline.source_file is not None:
            write_synced(self.root / "declaration.yaml", pipeline.source_file.read_bytes())
        return self._found(file)[1]

    def note_wake(self, number: int) -> None:
        """Note the entry of the control log with which all buckets take over what a move has written, if one has."""
        file = self.root / "pipeline.json"
        found = json.loads(file.read_bytes())
        if found.get(_MOVED_STATE):
            found[_MOVED_STATE]["entry"] = number
            write_synced(file, json.dumps(found, indent=2).encode())

    def _forget_moved(self) -> None:
        """Delete what a move has written when all buckets have taken it over."""
        file = self.root / "pipeline.json"
        found = json.loads(file.read_bytes())
        moved = found.get(_MOVED_STATE)
        if moved and moved.get("entry") and log_position(self.query, done=True) >= moved["entry"]:
            write_synced(file, json.dumps({**found, _MOVED_STATE: None}, indent=2).encode())
            shutil.rmtree(self.root / moved["folder"], ignore_errors=True)

    def note_move(self, pipeline: Pipeline, buckets: int, folder: str) -> None:
        """Note another number of buckets, whose state lies in a folder of the checkpoint."""
        file = self.root / "pipeline.json"
        found = json.loads(file.read_bytes())
        histories = {name: {**one, "first_numbers": None} for name, one in _histories(found).items()}
        stamped = found.get(_STAMP_BUCKETS) or found["buckets"]
        noted = {**found, "buckets": buckets, _SPREAD: BY_KEY, _STAMP_BUCKETS: stamped, _DESTINATIONS: histories}
        noted[_MOVED_STATE] = {"folder": folder, "buckets": found["buckets"]} if folder else None
        write_synced(file, json.dumps(noted, indent=2).encode())

    def _noted(
        self,
        found: Mapping[str, Any],
        pipeline: Pipeline,
        abandon: Collection[str],
        begin: Callable[[Destination, Path], None],
    ) -> dict[str, Any]:
        """What the checkpoint says of itself from now on."""
        queues, histories = ordered_in_words(pipeline), _histories(found)
        for one in pipeline.route:
            name = one.queue.name
            if name not in found["queues"]:
                # Before the first batch Spark hands the first numbers in itself.
                incarnation = histories[name]["incarnation"] + 1 if name in histories else 1
                histories[name] = {**histories.get(name, {}), "incarnation": incarnation, "first_numbers": None}
                if one.start_from is not None and self.last_begun() >= 0:
                    folder = self.root / "first-numbers" / f"{folder_name(name)}-{incarnation}"
                    begin(one, folder)
                    histories[name]["first_numbers"] = folder.name
            told = {
                "group": one.queue.group.by,
                "sequence": one.queue.sequence,
                "default_group": one.queue.group.default,
            }
            histories[name] |= {**told, "feeds": feeds_of(pipeline).get(name, histories[name].get("feeds"))}
            if one.queue.group.expire_to == "nothing":
                histories[name]["forgets"] = True
        for name in found["queues"]:
            if name not in queues and name in abandon:
                histories[name]["abandoned"] = histories[name]["incarnation"]
        order = ordering([one.queue for one in pipeline.route])
        return {**found, "queues": queues, _ORDERING: order, _DESTINATIONS: histories}

    def _refuse(self, found: Mapping[str, Any], known: Identity, pipeline: Pipeline, abandon: Collection[str]) -> None:
        for change in self._refused(found, known, pipeline, abandon):
            raise CheckpointMismatch(
                f"the checkpoint belongs to another declaration: {change.reason}",
                where=str(self.root) if not change.where else f"{self.root}: {change.where}",
                remedy=change.remedy or "give the pipeline a checkpoint of its own, or change it back",
            )

    @contextmanager
    def held(self) -> Iterator[int]:
        """Lock the checkpoint while the block runs; yields the open lock file.

        Spark's process inherits it. So if this process was killed and Spark has not ended yet, the next
        run waits for that end instead of writing at the same time.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            what = f"the checkpoint can't be written: {error.strerror}"
            raise EnvironmentProblem(what, where=str(self.root)) from error
        try:
            self._lock(lock)
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            yield lock
        finally:
            os.close(lock)

    def _lock(self, lock: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                    raise
                holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
                if _lives(holder) or time.monotonic() > deadline:
                    raise EnvironmentProblem(
                        f"another run uses this checkpoint: process {holder or 'unknown'}",
                        where=str(self.root),
                        remedy="stop that run first",
                    ) from error
                time.sleep(0.1)
            else:
                return

    def take_over(self) -> int:
        """The number of a run that begins now, higher than that of each run before it: a fence against a run that goes on all the same.

        The lock alone doesn't keep two drivers apart where the folder is shared by machines: a lock may be lost, and the driver
        stand still meanwhile. The number is made by a file that one of two makes; it is a time, so that it is also higher than the
        numbers after the backup from which a checkpoint was restored.
        """
        while True:
            known = [int(file.suffix[1:]) for file in self.root.glob("fence.*") if file.suffix[1:].isdecimal()]
            fence = max([time.time_ns() // 1_000_000, *(one + 1 for one in known)])
            try:
                os.close(os.open(self.root / f"fence.{fence}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            except FileExistsError:
                continue
            except OSError as error:
                what = f"the checkpoint can't be written: {error.strerror}"
                raise EnvironmentProblem(what, where=str(self.root)) from error
            sync_folder(self.root)
            for one in known:
                (self.root / f"fence.{one}").unlink(missing_ok=True)
            return fence

    def identify(self, pipeline: Pipeline, splitting: Mapping[str, str], *, abandon: Collection[str] = ()) -> Identity:
        """The identity of this checkpoint, made at the first start; later the pipeline is compared with it."""
        file = self.root / "pipeline.json"
        _check_abandoned(abandon, pipeline, _histories(json.loads(file.read_bytes())) if _is_json(file) else {})
        if not file.exists():
            if self.query.exists():
                what = "the checkpoint doesn't say of which pipeline it is"
                remedy = "restore its pipeline.json, or start in a new folder"
                raise CheckpointMismatch(what, where=str(self.root), remedy=remedy)
            made = Identity(str(uuid.uuid4()), pipeline.buckets or DEFAULT_BUCKETS, dict(splitting))
            content = {**_facts(pipeline, made.buckets), "id": made.id, "splitting": made.splitting, _SPREAD: BY_KEY}
            content[_CLAIMS] = _claims(pipeline)
            content = self._noted({**content, "queues": {}}, pipeline, (), lambda _, __: None)
            write_synced(file, json.dumps(content, indent=2).encode())
            return self._found(file)[1]
        found, known = self._found(file)
        if known.moved is not None:
            self._forget_moved()
            found, known = self._found(file)
        # What a batch that was begun has left is known when it is finished; `remember` looks again.
        self._refuse(found, known, pipeline, found["queues"] if self.in_flight() else abandon)
        self._check_logs()
        check_spark_logs(self.query)
        return known

    def _found(self, file: Path) -> tuple[dict[str, Any], Identity]:
        """What the checkpoint says of itself."""
        try:
            found = json.loads(file.read_bytes())
            check_layout(found["layout"], self.root, is_cut_by_key=found.get(_SPREAD) == BY_KEY)
            known = Identity(
                *_known(found),
                self._history(found),
                _departed(found),
                stamp_buckets=found.get(_STAMP_BUCKETS),
                moved=self.root.absolute() / found[_MOVED_STATE]["folder"] if found.get(_MOVED_STATE) else None,
                former_buckets=found[_MOVED_STATE]["buckets"] if found.get(_MOVED_STATE) else 0,
                is_woken=bool(found.get(_MOVED_STATE) and found[_MOVED_STATE].get("entry")),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointMismatch("the file is damaged", where=str(file), remedy="restore it") from error
        return found, known

    def _history(self, found: Mapping[str, Any]) -> DestinationHistory:
        histories = _histories(found)
        incarnations = {name: one["incarnation"] for name, one in histories.items()}
        abandoned = {name: one["abandoned"] for name, one in histories.items() if one.get("abandoned")}
        folder = (self.root / "first-numbers").absolute()
        first = {
            name: str(folder / one["first_numbers"])
            for name, one in histories.items()
            if name in found["queues"] and one.get("first_numbers")
        }
        return DestinationHistory(incarnations, abandoned, first)

    def _known_destinations(self, found: Mapping[str, Any]) -> dict[str, KnownDestination]:
        """The destinations that the checkpoint has had."""
        standing = Tally(self.tally).standing
        known = {}
        for name, history in _histories(found).items():
            ordered = found["queues"].get(name)
            rows = 0 if ordered is None else sum(one.rows for one in kept_in(self.waiting / folder_name(name))[1])
            held = 0 if ordered is None else standing.held(name)
            known[name] = KnownDestination(
                history["incarnation"], ordered, history.get("feeds"), held, rows, bool(history.get("forgets"))
            )
        return known

    def check_as_it_is(self, pipeline: Pipeline) -> Identity:
        """The identity of a checkpoint whose state is to be read with a declaration."""
        found, known = self._found(self.root / "pipeline.json")
        pipeline = replace(pipeline, buckets=known.buckets)
        self._refuse(found, known, pipeline, ())
        for change in self._other_destinations(found, pipeline):
            raise CheckpointMismatch(
                f"the pipeline file has other destinations than the checkpoint: {change}",
                where=str(self.root),
                remedy="run the pipeline once before, or move it with the former file",
            )
        return known

    def changes(self, pipeline: Pipeline) -> list[Change]:
        """What a start with this declaration would change: first what would be refused, then what would count from the next batch on.

        Nothing is written, and the checkpoint isn't locked.
        """
        file = self.root / "pipeline.json"
        if not file.exists():
            return []
        found, known = self._found(file)
        changes = list(self._refused(found, known, pipeline))
        changes += [one for one in self._other_destinations(found, pipeline) if one.effect != "refused"]
        former = self.declared(pipeline)
        return changes if former is None else [*changes, *later_changes(former, pipeline)]

    def declared(self, pipeline: Pipeline) -> Pipeline | None:
        """The pipeline under which the last batch was begun, which may not fit the present folders; None: it isn't known."""
        file = self.root / "declaration.yaml"
        return examine(file, original=pipeline.source_file)[0] if file.exists() else None

    def _refused(
        self, found: Mapping[str, Any], known: Identity, pipeline: Pipeline, abandon: Collection[str] = ()
    ) -> Iterator[Change]:
        """The changes with which the pipeline doesn't start."""
        yield from (one for one in self._other_facts(found, known, pipeline) if one.effect == "refused")
        yield from (one for one in self._other_destinations(found, pipeline, abandon) if one.effect == "refused")
        yield from _other_claims(found, pipeline)
        queues = [one.queue for one in pipeline.route if one.queue.name in found["queues"]]
        yield from ordering_changes(found[_ORDERING], queues)

    def _other_destinations(
        self, found: Mapping[str, Any], pipeline: Pipeline, abandon: Collection[str] = ()
    ) -> Iterator[Change]:
        before = self._known_destinations(found)
        yield from destination_changes(before, pipeline.route, ordered_in_words(pipeline), feeds_of(pipeline), abandon)

    def _other_facts(self, found: Mapping[str, Any], known: Identity, pipeline: Pipeline) -> Iterator[Change]:
        for fact, wanted in _facts(pipeline, pipeline.buckets or known.buckets).items():
            if found.get(fact) != wanted:
                before, after, verb = _told(found.get(fact)), _told(wanted), "are" if fact.endswith("s") else "is"
                remedy = ""
                if fact == "buckets":
                    remedy = f"move it to that number: seriatim pipeline move {pipeline.source_file or 'FILE'}; or change it back"
                reason = f"its {fact} {verb} {before}, yours {verb} {after}"
                yield Change("", fact, before, after, "refused", reason, remedy)


def _claims(pipeline: Pipeline) -> str | None:
    return None if pipeline.claims is None else "journal"


def _other_claims(found: Mapping[str, Any], pipeline: Pipeline) -> Iterator[Change]:
    """Whether runs deliver in turn is for ever; and then no destination comes again under a name that it had."""
    before, after = found[_CLAIMS], _claims(pipeline)
    if before != after:
        reason = (
            "the journal doesn't know what was delivered without it, so the other region would deliver that again"
            if after
            else "what waits here may be delivered by the other region, and only the journal knows"
        )
        yield Change("", _CLAIMS, before or "none", after or "none", "refused", reason)
    if after is None:
        return
    known = _histories(found)
    for one in pipeline.route:
        name = one.queue.name
        if name in known and name not in found["queues"]:
            reason = "the journal knows its numbers of before as delivered"
            where = f"destination {name!r}"
            yield Change(where, "destination", "taken away", "added", "refused", reason, "give it another name")


def _is_log(text: bytes, *, least: int) -> bool:
    """Whether a file of one of Spark's logs is complete: its version, then at least the given number of lines of JSON."""
    try:
        version, *lines = text.splitlines()
        found = [json.loads(line) for line in lines if line != b"-"]  # "-": a source that had nothing
    except ValueError:
        return False
    return _VERSION.fullmatch(version) is not None and len(found) >= least


def _known(found: dict[str, object]) -> tuple[str, int, dict[str, str]]:
    """The checkpoint's identity in the file. Raises `ValueError`, `KeyError` or `TypeError` if the file is damaged."""
    id_, buckets, splitting = found["id"], found["buckets"], found["splitting"]
    if not isinstance(id_, str) or not isinstance(buckets, int) or not isinstance(splitting, dict):
        raise TypeError
    if not isinstance(found[_ORDERING], dict) or not isinstance(found[_DESTINATIONS], dict) or _CLAIMS not in found:
        raise TypeError
    return id_, buckets, splitting


def _facts(pipeline: Pipeline, buckets: int) -> dict[str, object]:
    """The properties that must not change during the life of a checkpoint, beside those of its destinations."""
    locations = {entry.title: _origin(entry) for entry in pipeline.receive}
    tickets = {entry.location: f"1 to {entry.stamp.last_number}" for entry in pipeline.receive if entry.stamp}
    # Spark's offsets go by the place of a location, so their order counts.
    told = {"layout": LAYOUT, "pipeline": pipeline.name, "locations": list(locations.items())}
    told |= {"tickets": tickets, "buckets": buckets, "clock": pipeline.clock}
    plain: dict[str, object] = json.loads(json.dumps(told))
    return plain


def ordered_in_words(pipeline: Pipeline) -> dict[str, str]:
    """By destination how it is ordered: the kind of its policy, its group, and whether messages open and close groups."""
    facts = identity([one.queue for one in pipeline.route], 1, pipeline.clock)
    return {name: _ordered(queue) for name, queue in facts["queues"].items()}


def feeds_of(pipeline: Pipeline) -> dict[str, str]:
    """The queues of the message box that get the ordinals of destinations, by destination."""
    delivered = {one.queue.name: one.deliver.options for one in pipeline.route if one.deliver.format == BOX}
    return {name: options["queue"] for name, options in delivered.items() if options.get("sequence") == "ordinal"}


def _histories(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By destination what the checkpoint keeps of it for ever."""
    return {name: dict(one) for name, one in found.get(_DESTINATIONS, {}).items()}


def _departed(found: Mapping[str, Any]) -> tuple[DepartedQueue, ...]:
    return tuple(
        DepartedQueue(name, one["group"], one["sequence"], one["default_group"])
        for name, one in _histories(found).items()
        if name not in found["queues"] and one.get("abandoned")
    )


def _check_abandoned(names: Collection[str], pipeline: Pipeline, known: Collection[str]) -> None:
    declared = {one.queue.name for one in pipeline.route}
    for name in names:
        if name in declared:
            what = f"destination {name!r} is in the pipeline file"
            raise UsageError(what, where="--abandon", remedy="take it out of the file, or leave out --abandon")
        if name not in known:
            raise NotFound(f"the checkpoint has no destination {name!r}", where="--abandon", remedy=likely(name, known))


def _is_json(file: Path) -> bool:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and isinstance(found.get(_DESTINATIONS), dict)


def _ordered(queue: Mapping[str, Any]) -> str:
    """How a queue is ordered, in words."""
    stays = " and ".join(queue.get("by messages", ()))
    return f"{queue['policy']} by {queue['group']}{f', a message {stays} groups' if stays else ''}"


def _origin(entry: Receive) -> str:
    """The source of a location's messages, and the columns that identify them."""
    path = entry.source.path
    where = f" in {path.absolute()}" if path else ""
    return f"{entry.source.format}{where}{' by ' if entry.source.id else ''}{', '.join(entry.source.id)}"


def _told(value: object) -> str:
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, list) else None
    return str(value) if pairs is None else ", ".join(f"{name} ({what})" for name, what in pairs)


def _lives(process: str) -> bool:
    if not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
