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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
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
    written_to,
)
from seriatim.runtime.pipelines.tally import Tally
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import OperatorLog
from seriatim.spark.control.pipeline_place import LAYOUT, check_layout, log_position
from seriatim.spark.deliver.layout import DepartedQueue
from seriatim.spark.deliver.outbox import folder_name, kept_in
from seriatim.spark.front.chosen import why_apart
from seriatim.spark.state.buckets import DEFAULT_BUCKETS
from seriatim.spark.state.checkpoint_files import numbers_in, sync_folder, write_synced, writing
from seriatim.spark.state.destination_history import DestinationHistory
from seriatim.spark.state.manifest import BY_KEY, identity
from seriatim.spark.state.state_layout import StateLayout

__all__ = ["LAYOUT", "Checkpoint", "Identity", "feeds_of", "ordered_in_words"]

#: The entry of `pipeline.json` with the parameters by which the state was written; see `start_changes.py`.
_ORDERING = "ordering"
#: Its entry for the spread of groups over buckets: always by their keys.
_SPREAD = "spread"
#: Its entry for a pipeline that delivers in turn with a run in the other region; null: it doesn't.
_CLAIMS = "claims"
#: Its entries after a move to another number of buckets: the number of parts of tickets, and the place of the state for the buckets.
_STAMP_BUCKETS, _MOVED_STATE = "stamp_buckets", "moved"
#: Its entry for the way of tickets, and the positions from which on they go it; without it an operator of their own gives them, from 1.
_STAMPED = "stamped"
#: Its entry with the history of each destination, including removed ones.
_DESTINATIONS = "destinations"
#: Its entry with the places to which the last batch is written.
_WRITTEN_TO = "written_to"
#: How the files of Spark's logs begin.
_VERSION = re.compile(rb"v\d+")
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Identity:
    #: A unique id, also different from earlier checkpoints in the same folder.
    id: str
    buckets: int
    #: Spark's settings for cutting files, so that a replay names rows alike.
    splitting: Mapping[str, str]
    history: DestinationHistory = field(default_factory=DestinationHistory)
    #: The destinations that were taken away, as far as their rows have to be written.
    departed: tuple[DepartedQueue, ...] = ()
    #: The number of parts of the tickets' state, if it differs.
    stamp_buckets: int | None = None
    #: Whether tickets are given by counts, and by location the position from which on they are; see `StateLayout`.
    by_counts: bool = False
    following: Mapping[str, int] = field(default_factory=dict)
    #: The folder with the state from before the number of buckets was changed, as long as it is needed.
    moved: Path | None = None
    former_buckets: int = 0
    #: Whether the buckets were called to read that state.
    is_woken: bool = False

    @property
    def layout(self) -> StateLayout:
        return StateLayout(
            buckets=self.buckets, by_key=True, history=self.history, by_counts=self.by_counts, following=self.following,
            moved=self.moved,
        )  # fmt: skip


class _Inside:
    """A file or a folder of a checkpoint, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, checkpoint: Checkpoint, kind: type | None = None) -> Path:
        return checkpoint.root / self._name


@dataclass(frozen=True, slots=True)
class Checkpoint:
    root: Path

    query, control, operator_log = _Inside("query"), _Inside("control"), _Inside("operator-log")
    #: The file with which another process asks the run to end.
    stop_request = _Inside("stop")
    #: The folders for messages that were not released, and that match no destination, unless the pipeline names others.
    set_aside, unrouted = _Inside("set-aside"), _Inside("unrouted")
    #: The folder where released messages wait for failing ports.
    waiting = _Inside("waiting")
    #: The folder where workers note running calls of the user's functions, and messages that end their processes.
    calls = _Inside("calls")
    tally = _Inside("tally.json")
    #: Spark's standard error.
    log = _Inside("spark.log")
    _manifest = _Inside("pipeline.json")

    def check_logs(self, identity: Identity) -> None:
        """Check that the control log and the operator log are whole, and this checkpoint's."""
        ControlLog(self.control, identity.id).check(log_position(self.query, done=True))
        OperatorLog(self.operator_log, identity.id).check()

    def last_begun(self) -> int:
        """The id of the last batch that Spark has begun here, done or not; -1 before the first."""
        return max(numbers_in(self.query / "offsets"), default=-1)

    def last_committed(self) -> int:
        """The id of the last batch that Spark has committed here; -1 before the first."""
        return max(numbers_in(self.query / "commits"), default=-1)

    def in_flight(self) -> bool:
        """Whether a batch was begun and not committed."""
        last = self.last_begun()
        return last >= 0 and not (self.query / "commits" / str(last)).exists()

    def _check_logs(self) -> None:
        """Refuse logs whose last batches, from which Spark continues, can't be read."""
        for log, last, least in (("offsets", 2, 1), ("commits", 1, 0)):
            for number in numbers_in(self.query / log)[-last:]:
                file = self.query / log / str(number)
                if not _is_log(file.read_bytes(), least=least):
                    other = f"delete it: then Spark takes batch {number} as not committed"
                    other = "give the pipeline a new checkpoint" if log == "offsets" else other
                    remedy = f"restore it from a backup, or {other}"
                    raise CheckpointMismatch("the file is damaged", where=str(file), remedy=remedy)

    def former(self, pipeline: Pipeline) -> Pipeline | None:
        """Return the pipeline under which the unfinished batch was begun, if its declaration, or the way of its tickets, has changed since.
        That batch has to be finished as it was begun: a message may have been delivered already.
        """
        if not self.in_flight():
            return None
        file, now = self.root / "declaration.yaml", pipeline.source_file
        is_other = file.exists() and now is not None and file.read_bytes() != now.read_bytes()
        begun = load(file, original=now) if is_other else pipeline
        manifest, known = self._found()
        for name, place in written_to(begun).items():
            before = manifest.get(_WRITTEN_TO, {}).get(name, place)
            if before != place:
                raise CheckpointMismatch(
                    f"the unfinished batch was begun for {before}, and would go on to {place}: a part may have been written",
                    where=f"{self.root}: {name}",
                    remedy="start with the former values of the file's variables; when that run has finished the batch, with the new ones",
                )
        return begun if is_other or known.by_counts != _by_counts(pipeline) else None

    def remember(
        self,
        pipeline: Pipeline,
        *,
        abandon: Collection[str] = (),
        begin: Callable[[Destination, Path], None] = lambda _, __: None,
        positions: Callable[[], Mapping[str, int]] = dict,
        leave: Callable[[], None] = lambda: None,
    ) -> Identity:
        """Note the declaration under which batches are begun from now on. A pipeline without a file has none to note. `positions` finds the
        positions of tickets, if they are given in another way from now on. `leave` sets aside what waits for abandoned destinations, when
        nothing can be refused any more.
        """
        manifest, known = self._found()
        self._refuse(manifest, known, pipeline, abandon)
        noted = self._noted(manifest, pipeline, abandon, begin)
        if known.by_counts != _by_counts(pipeline):
            following = dict(positions()) if self.last_begun() >= 0 else {}
            noted[_STAMPED] = {"by_counts": _by_counts(pipeline), "following": following}
        leave()
        if noted != manifest:
            self._write(noted)
        if pipeline.source_file is not None:
            write_synced(self.root / "declaration.yaml", pipeline.source_file.read_bytes())
        return self._found()[1]

    def _write(self, manifest: Mapping[str, Any]) -> None:
        write_synced(self._manifest, json.dumps(manifest, indent=2).encode())

    def note_wake(self, number: int) -> None:
        """Note the entry of the control log that makes all buckets read the state of a move, if there is one."""
        content = json.loads(self._manifest.read_bytes())
        if content.get(_MOVED_STATE):
            content[_MOVED_STATE]["entry"] = number
            self._write(content)

    def _forget_moved(self) -> None:
        """Delete the state of a move when all buckets have read it."""
        content = json.loads(self._manifest.read_bytes())
        moved = content.get(_MOVED_STATE)
        if moved and moved.get("entry") and log_position(self.query, done=True) >= moved["entry"]:
            self._write({**content, _MOVED_STATE: None})
            shutil.rmtree(self.root / moved["folder"], ignore_errors=True)

    def note_move(self, pipeline: Pipeline, buckets: int, folder: str) -> None:
        """Note another number of buckets, whose state lies in a folder of the checkpoint."""
        content = json.loads(self._manifest.read_bytes())
        histories = {name: {**history, "first_numbers": None} for name, history in _histories(content).items()}
        stamped = content.get(_STAMP_BUCKETS) or content["buckets"]
        noted = {**content, "buckets": buckets, _SPREAD: BY_KEY, _STAMP_BUCKETS: stamped, _DESTINATIONS: histories}
        noted[_MOVED_STATE] = {"folder": folder, "buckets": content["buckets"]} if folder else None
        self._write(noted)

    def _noted(
        self,
        manifest: Mapping[str, Any],
        pipeline: Pipeline,
        abandon: Collection[str],
        begin: Callable[[Destination, Path], None],
    ) -> dict[str, Any]:
        """Return the new content of the checkpoint's own file."""
        queues, histories = ordered_in_words(pipeline), _histories(manifest)
        for route in pipeline.route:
            name = route.queue.name
            if name not in manifest["queues"]:
                # Before the first batch Spark passes the first numbers itself.
                incarnation = histories[name]["incarnation"] + 1 if name in histories else 1
                histories[name] = {**histories.get(name, {}), "incarnation": incarnation, "first_numbers": None}
                if route.start_from is not None and self.last_begun() >= 0:
                    folder = self.root / "first-numbers" / f"{folder_name(name)}-{incarnation}"
                    begin(route, folder)
                    histories[name]["first_numbers"] = folder.name
            columns = {
                "group": route.queue.group.by,
                "sequence": route.queue.numbered_by,
                "default_group": route.queue.group.default,
            }
            histories[name] |= {**columns, "feeds": feeds_of(pipeline).get(name, histories[name].get("feeds"))}
            if route.queue.group.expire_to == "nothing":
                histories[name]["forgets"] = True
        for name in histories:  # also one that was taken away when nobody knew what it holds
            if name not in queues and name in abandon:
                histories[name]["abandoned"] = histories[name]["incarnation"]
        order = ordering([route.queue for route in pipeline.route])
        known = {"queues": queues, _ORDERING: order, _DESTINATIONS: histories}
        return {**manifest, **known, _WRITTEN_TO: written_to(pipeline)}

    def _refuse(
        self, manifest: Mapping[str, Any], known: Identity, pipeline: Pipeline, abandon: Collection[str]
    ) -> None:
        for change in self._refused(manifest, known, pipeline, abandon):
            raise CheckpointMismatch(
                f"the checkpoint belongs to another declaration: {change.reason}",
                where=str(self.root) if not change.where else f"{self.root}: {change.where}",
                remedy=change.remedy or "give the pipeline a checkpoint of its own, or change it back",
            )

    @contextmanager
    def held(self) -> Iterator[int]:
        """Lock the checkpoint while the block runs; yields the open lock file. Spark's process inherits it. So if this process was killed
        and Spark has not ended yet, the next run waits for that end instead of writing at the same time.
        """
        with writing("the checkpoint", self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
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
        """Return the number of a run that begins now, higher than that of each run before it: a fence against an earlier run that continues
        nevertheless. The lock alone doesn't keep two drivers apart where the folder is shared by machines: a lock may be lost, and the
        driver stand still meanwhile. The number is made by a file that one of two makes; it is a time, so that it is also higher than the
        numbers after the backup from which a checkpoint was restored.
        """
        while True:
            known = [int(file.suffix[1:]) for file in self.root.glob("fence.*") if file.suffix[1:].isdecimal()]
            fence = max([time.time_ns() // 1_000_000, *(fence_ + 1 for fence_ in known)])
            with writing("the checkpoint", self.root), suppress(FileExistsError):
                os.close(os.open(self.root / f"fence.{fence}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                sync_folder(self.root)
                for fence_ in known:
                    (self.root / f"fence.{fence_}").unlink(missing_ok=True)
                return fence

    def identify(self, pipeline: Pipeline, splitting: Mapping[str, str], *, abandon: Collection[str] = ()) -> Identity:
        """The identity of this checkpoint, made at the first start; later the pipeline is compared with it."""
        _check_abandoned(abandon, pipeline, self._destinations())
        if not self._manifest.exists():
            if self.query.exists():
                problem = "the checkpoint doesn't say of which pipeline it is"
                remedy = "restore its pipeline.json, or start in a new folder"
                raise CheckpointMismatch(problem, where=str(self.root), remedy=remedy)
            made = Identity(str(uuid.uuid4()), pipeline.buckets or DEFAULT_BUCKETS, dict(splitting))
            content = {**_facts(pipeline, made.buckets), "id": made.id, "splitting": made.splitting, _SPREAD: BY_KEY}
            content[_CLAIMS] = _claims(pipeline)
            content[_STAMPED] = {"by_counts": _by_counts(pipeline), "following": {}}
            content = self._noted({**content, "queues": {}}, pipeline, (), lambda _, __: None)
            self._write(content)
            return self._found()[1]
        manifest, known = self._found()
        if known.moved is not None:
            self._forget_moved()
            manifest, known = self._found()
        # The effects of a begun batch are known when it is finished; `remember` checks again.
        self._refuse(manifest, known, pipeline, manifest["queues"] if self.in_flight() else abandon)
        self._check_logs()
        check_spark_logs(self.query)
        return known

    def _destinations(self) -> Collection[str]:
        """The names of all destinations that the checkpoint has had; none: its file is missing or damaged."""
        try:
            return list(json.loads(self._manifest.read_bytes())[_DESTINATIONS])
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def _found(self) -> tuple[dict[str, Any], Identity]:
        try:
            content = json.loads(self._manifest.read_bytes())
            check_layout(content["layout"], self.root, is_cut_by_key=content.get(_SPREAD) == BY_KEY)
            stamped, moved = content.get(_STAMPED, {}), content.get(_MOVED_STATE)
            known = Identity(
                *_known(content),
                self._history(content),
                _departed(content),
                stamp_buckets=content.get(_STAMP_BUCKETS),
                by_counts=bool(stamped.get("by_counts")),
                following=dict(stamped.get("following", {})),
            )
            if moved:
                folder, is_woken = self.root.absolute() / moved["folder"], bool(moved.get("entry"))
                known = replace(known, moved=folder, former_buckets=moved["buckets"], is_woken=is_woken)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointMismatch("the file is damaged", where=str(self._manifest), remedy="restore it") from error
        return content, known

    def _history(self, manifest: Mapping[str, Any]) -> DestinationHistory:
        histories = _histories(manifest)
        incarnations = {name: history["incarnation"] for name, history in histories.items()}
        abandoned = {name: history["abandoned"] for name, history in histories.items() if history.get("abandoned")}
        folder = (self.root / "first-numbers").absolute()
        first = {
            name: str(folder / history["first_numbers"])
            for name, history in histories.items()
            if name in manifest["queues"] and history.get("first_numbers")
        }
        return DestinationHistory(incarnations, abandoned, first)

    def _known_destinations(self, manifest: Mapping[str, Any]) -> dict[str, KnownDestination]:
        standing = Tally(self.tally).standing
        known = {}
        for name, history in _histories(manifest).items():
            ordered = manifest["queues"].get(name)
            rows = 0 if ordered is None else sum(batch.rows for batch in kept_in(self.waiting / folder_name(name))[1])
            held = 0 if ordered is None else standing.held(name)
            known[name] = KnownDestination(
                history["incarnation"], ordered, history.get("feeds"), held, rows, bool(history.get("forgets"))
            )
        return known

    def check_as_it_is(self, pipeline: Pipeline) -> Identity:
        """Return the identity of a checkpoint whose state is read with a declaration."""
        manifest, known = self._found()
        pipeline = replace(pipeline, buckets=known.buckets)
        self._refuse(manifest, known, pipeline, ())
        for change in self._other_destinations(manifest, pipeline):
            raise CheckpointMismatch(
                f"the pipeline file has other destinations than the checkpoint: {change}",
                where=str(self.root),
                remedy="run the pipeline once before, or move it with the former file",
            )
        return known

    def changes(self, pipeline: Pipeline) -> list[Change]:
        """Return the changes of a start with this declaration: first those that would be refused, then those that count from the next batch
        on. Nothing is written, and the checkpoint isn't locked.
        """
        if not self._manifest.exists():
            return []
        manifest, known = self._found()
        changes = list(self._refused(manifest, known, pipeline))
        changes += [change for change in self._other_destinations(manifest, pipeline) if change.effect != "refused"]
        former = self.declared(pipeline)
        return changes if former is None else [*changes, *later_changes(former, pipeline)]

    def declared(self, pipeline: Pipeline) -> Pipeline | None:
        """Return the pipeline under which the last batch was begun, which may not fit the present folders; None: it isn't known."""
        file = self.root / "declaration.yaml"
        return examine(file, original=pipeline.source_file)[0] if file.exists() else None

    def _refused(
        self, manifest: Mapping[str, Any], known: Identity, pipeline: Pipeline, abandon: Collection[str] = ()
    ) -> Iterator[Change]:
        others = chain(
            self._other_facts(manifest, known, pipeline), self._other_destinations(manifest, pipeline, abandon)
        )
        yield from (change for change in others if change.effect == "refused")
        yield from _other_claims(manifest, pipeline)
        queues = [route.queue for route in pipeline.route if route.queue.name in manifest["queues"]]
        yield from ordering_changes(manifest[_ORDERING], queues)

    def _other_destinations(
        self, manifest: Mapping[str, Any], pipeline: Pipeline, abandon: Collection[str] = ()
    ) -> Iterator[Change]:
        before = self._known_destinations(manifest)
        yield from destination_changes(before, pipeline.route, ordered_in_words(pipeline), feeds_of(pipeline), abandon)

    def _other_facts(self, manifest: Mapping[str, Any], known: Identity, pipeline: Pipeline) -> Iterator[Change]:
        for fact, wanted in _facts(pipeline, pipeline.buckets or known.buckets).items():
            if manifest.get(fact) != wanted:
                before, after, verb = _told(manifest.get(fact)), _told(wanted), "are" if fact.endswith("s") else "is"
                remedy = ""
                if fact == "buckets":
                    remedy = f"move it to that number: seriatim pipeline move {pipeline.source_file or 'FILE'}; or change it back"
                reason = f"its {fact} {verb} {before}, yours {verb} {after}"
                yield Change("", fact, before, after, "refused", reason, remedy)


def _by_counts(pipeline: Pipeline) -> bool:
    return why_apart(pipeline) is None


def _claims(pipeline: Pipeline) -> str | None:
    return None if pipeline.claims is None else "journal"


def _other_claims(manifest: Mapping[str, Any], pipeline: Pipeline) -> Iterator[Change]:
    """Check that delivery in turn never changes; and then that no destination gets a former name."""
    before, after = manifest[_CLAIMS], _claims(pipeline)
    if before != after:
        reason = (
            "the journal doesn't know what was delivered without it, so the other region would deliver that again"
            if after
            else "what waits here may be delivered by the other region, and only the journal knows"
        )
        yield Change("", _CLAIMS, before or "none", after or "none", "refused", reason)
    if after is None:
        return
    known = _histories(manifest)
    for route in pipeline.route:
        name = route.queue.name
        if name in known and name not in manifest["queues"]:
            reason = "the journal knows its numbers of before as delivered"
            where = f"destination {name!r}"
            yield Change(where, "destination", "taken away", "added", "refused", reason, "give it another name")


def _is_log(text: bytes, *, least: int) -> bool:
    """Whether a file of one of Spark's logs is complete: its version, then at least the given number of lines of JSON."""
    try:
        version, *lines = text.splitlines()
        entries = [json.loads(line) for line in lines if line != b"-"]  # "-": a source that had nothing
    except ValueError:
        return False
    return _VERSION.fullmatch(version) is not None and len(entries) >= least


def _known(manifest: dict[str, object]) -> tuple[str, int, dict[str, str]]:
    """The checkpoint's identity in the file. Raises `ValueError`, `KeyError` or `TypeError` if the file is damaged."""
    id_, buckets, splitting = manifest["id"], manifest["buckets"], manifest["splitting"]
    if not isinstance(id_, str) or not isinstance(buckets, int) or not isinstance(splitting, dict):
        raise TypeError
    if (
        not isinstance(manifest[_ORDERING], dict)
        or not isinstance(manifest[_DESTINATIONS], dict)
        or _CLAIMS not in manifest
    ):
        raise TypeError
    return id_, buckets, splitting


def _facts(pipeline: Pipeline, buckets: int) -> dict[str, object]:
    """The properties that must not change during the life of a checkpoint, beside those of its destinations."""
    locations = {entry.title: _origin(entry) for entry in pipeline.receive}
    tickets = {entry.location: f"1 to {entry.stamp.last_number}" for entry in pipeline.receive if entry.stamp}
    # Spark's offsets go by the place of a location, so their order counts.
    facts = {"layout": LAYOUT, "pipeline": pipeline.name, "locations": list(locations.items())}
    facts |= {"tickets": tickets, "buckets": buckets, "clock": pipeline.clock}
    plain: dict[str, object] = json.loads(json.dumps(facts))
    return plain


def ordered_in_words(pipeline: Pipeline) -> dict[str, str]:
    """Return the order of each destination in words: the kind of its policy, its group, and whether messages open and close groups."""
    facts = identity([route.queue for route in pipeline.route], 1, pipeline.clock)
    return {name: _ordered(queue) for name, queue in facts["queues"].items()}


def feeds_of(pipeline: Pipeline) -> dict[str, str]:
    """The queues of the message box that get the ordinals of destinations, by destination."""
    delivered = {route.queue.name: route.deliver.options for route in pipeline.route if route.deliver.format == BOX}
    return {name: options["queue"] for name, options in delivered.items() if options.get("sequence") == "ordinal"}


def _histories(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what the checkpoint keeps for ever of each destination."""
    return {name: dict(history) for name, history in manifest.get(_DESTINATIONS, {}).items()}


def _departed(manifest: Mapping[str, Any]) -> tuple[DepartedQueue, ...]:
    return tuple(
        DepartedQueue(name, history["group"], history["sequence"], history["default_group"])
        for name, history in _histories(manifest).items()
        if name not in manifest["queues"] and history.get("abandoned")
    )


def _check_abandoned(names: Collection[str], pipeline: Pipeline, known: Collection[str]) -> None:
    declared = {route.queue.name for route in pipeline.route}
    for name in names:
        if name in declared:
            problem = f"destination {name!r} is in the pipeline file"
            raise UsageError(problem, where="--abandon", remedy="take it out of the file, or leave out --abandon")
        if name not in known:
            raise NotFound(f"the checkpoint has no destination {name!r}", where="--abandon", remedy=likely(name, known))


def _ordered(queue: Mapping[str, Any]) -> str:
    stays = " and ".join(queue.get("by messages", ()))
    numbers = [
        f"{name} {value}" if name in ("start", "modulus") else name
        for name, value in queue.get("numbers", {}).items()
        if value
    ]
    said = f", a message {stays} groups" if stays else f", numbers with {', '.join(numbers)}" if numbers else ""
    return f"{queue['policy']} by {queue['group']}{said}"


def _origin(entry: Receive) -> str:
    """The source of a location's messages, and the columns that identify them."""
    path = entry.source.path
    where = f" in {path.absolute()}" if path else ""
    return f"{entry.source.format}{where}{' by ' if entry.source.id else ''}{', '.join(entry.source.id)}"


def _told(value: object) -> str:
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, list) else None
    return str(value) if pairs is None else ", ".join(f"{name} ({note})" for name, note in pairs)


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
