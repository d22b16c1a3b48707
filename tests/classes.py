"""The classes of Spark, read and checked once for all JVMs that tests start: Java's class data sharing.

A JVM that runs a pipeline loads some 20,000 classes, which takes it about a third of the processor's time until its first batch is
done. One run writes them down as it ends; the others map that archive. Java compares the archive with its own build and with the
files of Spark, and goes on without it where they differ.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

import seriatim
from tests.soak import size

__all__ = ["sharing"]

#: Beside the other things that pytest keeps between runs.
_FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "classes"
#: Java would tell of an archive that it can't use where a program reads what Java prints.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_DEADLINE_S = 900.0

_PIPELINE = """
name: classes
checkpoint: checkpoint
buckets: 2
trigger: 0s
spark: {spark.master: "local[2]", spark.sql.shuffle.partitions: 2}
receive:
  - location: crm
    source: {format: json, path: in, options: {maxFilesPerTrigger: 1}}
    promote: {key: $.group, number: {path: $.number, type: long}}
route:
  - to: ordered
    resequence: {policy: standard, group: key, sequence: number}
    deliver: {format: json, path: out/ordered}
  - to: archive
    resequence: {policy: fifo, group: key}
    deliver: {format: parquet, path: out/archive}
"""


@cache
def sharing(java: str) -> str:
    """The options by which a JVM that gets the options `java` takes the archive, which is made where there is none; "" if it can't be."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    archive = _FOLDER / f"{_name(java)}.jsa"
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several workers one makes it
        if not archive.exists():
            if size() == "small":
                return ""  # the few JVMs gain less than it costs to make it
            for old in _FOLDER.glob("*.jsa"):
                old.unlink()
            _make(archive, java)
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if archive.exists() and archive.stat().st_size else ""


def _name(java: str) -> str:
    """What an archive depends on. That of another Java is refused by Java itself, so its version is worth no process."""
    jars = Path(pyspark.__file__).parent / "jars"
    return sha256(f"{java} {os.environ.get('JAVA_HOME')} {jars} {jars.stat().st_mtime_ns}".encode()).hexdigest()[:16]


def _make(archive: Path, java: str) -> None:
    """Run a small pipeline whose JVM writes its classes down; an empty file says that this Java can't."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for number in (2, 1):
            (folder / "in" / f"{number}.json").write_text(f'{{"group": "g", "number": {number}}}\n')
        (folder / "pipeline.yaml").write_text(_PIPELINE)
        environ = {
            **os.environ,
            "PYTHONPATH": str(Path(seriatim.__file__).parents[1]),
            "JAVA_TOOL_OPTIONS": java,
            # Only for the JVM that runs Spark, not for the small one that finds out how to start it.
            "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'} {_QUIET}",
        }
        words = [sys.executable, "-m", "seriatim", "run", "pipeline.yaml", "--once"]
        subprocess.run(words, cwd=folder, env=environ, capture_output=True, check=False, timeout=_DEADLINE_S)
        made = folder / "classes.jsa"
        part = archive.with_suffix(".part")
        part.write_bytes(made.read_bytes() if made.exists() else b"")
        part.rename(archive)
