"""Stores a pipeline's checkpoint of the present form, with something in every part: ``python -m tests.upgrade.checkpoint``.

`test_checkpoints.py` unpacks it and runs the pipeline. From the first release on, a later seriatim has to go on from each that is stored.
Its name is its layout, and behind it how it is kept within that.
What is absolute in it (the folders of locations, in Spark's logs, too) stands for the folder that it is unpacked in.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.checkpoint import LAYOUT
from seriatim.runtime.pipelines.run import run
from seriatim.spark.session.builder import open_session

STORED = Path(__file__).parent / "checkpoints"
#: The present form: groups are spread by their keys, those that rest lie in runs, and the files of the operator log say what they are.
PRESENT = f"{LAYOUT}-checked-log"

#: Every policy, a location with tickets and one without, an event clock where time is a matter of the messages.
DECLARED = """
name: stored
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/crm}}
    promote: {promote}
  - location: shop
    source: {{format: json, path: {folder}/shop}}
    promote: {promote}
    stamp: {{last_number: 1000}}
route:
  - to: fifo
    where: "kind = 'fifo'"
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: json, path: {folder}/out/fifo}}
  - to: standard
    where: "kind = 'standard'"
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out/standard}}
  - to: skipping
    where: "kind = 'skipping'"
    resequence: {{policy: standard, group: customer, sequence: version, start: first, on_hole: skip, hole_timeout: 5000d}}
    deliver: {{format: json, path: {folder}/out/skipping}}
  - to: best
    where: "kind = 'best'"
    resequence: {{policy: best_effort, group: customer, sequence: version, window: 5000d}}
    deliver: {{format: json, path: {folder}/out/best}}
  - to: sets
    where: "kind = 'sets'"
    resequence: {{policy: unit_of_work, group: customer, sequence: version, size: size, timeout: 5000d}}
    deliver: {{format: json, path: {folder}/out/sets}}
  - to: loose
    where: "kind = 'loose'"
    resequence: {{policy: unordered}}
    deliver: {{format: json, path: {folder}/out/loose}}
  - to: rests
    where: "kind = 'rests'"
    resequence: {{policy: standard, group: {{by: customer, expire_after: 1ms}}, sequence: version}}
    deliver: {{format: json, path: {folder}/out/rests}}
  - to: anew
    where: "kind = 'anew'"
    resequence: {{policy: standard, group: {{by: customer, expire_after: 1ms, expire_to: nothing}}, sequence: version}}
    deliver: {{format: json, path: {folder}/out/anew}}
"""
#: More in each bucket than have to have expired before any leaves the index.
RESTING = 700
_PROMOTE = (
    "{kind: $.kind, customer: $.customer, version: {path: $.version, type: long}, size: {path: $.size, type: long}}"
)
# Two Spark writes of itself: sums of files that are unpacked with other folders in them.
_SUMS = (".crc", ".lock")
_FOLDER = b"@FOLDER@"

#: A message: (kind, customer, version).
Given = tuple[str, str, int | None]

#: What came before the checkpoint was stored, batch by batch.
BEFORE: list[list[Given]] = [
    [
        *[("fifo", "a", 1), ("fifo", "b", 1), ("fifo", "a", 2), ("loose", "a", 1), ("nowhere", "a", 1)],
        *[("standard", customer, 1) for customer in ("done", "hole", "late")],
        *[("standard", "hole", 3), ("standard", "hole", 4), ("standard", "begins later", 2), ("standard", "none", None)],
        *[("skipping", "a", 7), ("skipping", "a", 9), ("skipping", "a", 8), ("skipping", "a", 11)],
        *[("best", "a", 3), ("best", "a", 1), ("sets", "whole", 1), ("sets", "part", 1), ("sets", "whole", 2), ("sets", "whole", 3)],
        *[("rests", f"r{number}", 1) for number in range(RESTING)], ("anew", "a", 1), ("anew", "b", 1),
    ],
    [
        *[("standard", "late", 2), ("standard", "late", 1), ("standard", "hole", 6), ("sets", "part", 3), ("best", "a", 2), ("fifo", "b", 2)],
        *[("rests", "r1", 2), ("rests", "r2", 3), ("anew", "a", 1)],
    ],
]  # fmt: skip


def main() -> None:
    """Make the checkpoint of the present form."""
    path = stored(PRESENT)
    if path.exists():
        sys.exit(f"{path.name} is there, and stays: what is kept otherwise is a form of its own, with another name")
    STORED.mkdir(exist_ok=True)
    session = open_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"})
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        declare(folder)
        for given in BEFORE:
            put(folder, given)
            run(load(folder / "pipeline.yaml"), once=True)
        path.write_bytes(lzma.compress(packed(folder), preset=lzma.PRESET_EXTREME))
    session.stop()
    print(f"made {path}, {path.stat().st_size:,} bytes")  # noqa: T201 -- a command


def stored(form: str) -> Path:
    """The archive of a form."""
    return STORED / f"{form}.tar.xz"


def declare(folder: Path) -> None:
    """The pipeline's file and its locations' folders."""
    for name in ("crm", "shop"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "pipeline.yaml").write_text(DECLARED.format(folder=folder, promote=_PROMOTE), encoding="utf-8")


def put(folder: Path, given: Iterable[Given]) -> None:
    """New messages, half of them in each location: those of a group in one."""
    texts: dict[str, list[str]] = {"crm": [], "shop": []}
    for kind, customer, version in given:
        message = {"kind": kind, "customer": customer, "version": version, "size": 3}
        texts["shop" if kind == "fifo" else "crm"].append(json.dumps(message))
    for name, lines in texts.items():
        number = len(list((folder / name).iterdir())) + 1
        file = folder / name / f"{number}.json"
        file.write_text("\n".join(lines) + "\n" if lines else "", encoding="utf-8")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def packed(folder: Path) -> bytes:
    """The folder as an archive in which its own name stands for itself."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for file in sorted(folder.rglob("*")):
            if not file.is_file() or file.name.endswith(_SUMS) or file.name in {"lock", "spark.log"}:
                continue
            text = file.read_bytes().replace(str(folder).encode(), _FOLDER)
            entry = tarfile.TarInfo(str(file.relative_to(folder)))
            entry.size, entry.mtime = len(text), int(file.stat().st_mtime)
            archive.addfile(entry, io.BytesIO(text))
    return content.getvalue()


def unpack(path: Path, folder: Path) -> None:
    """Lay out a stored checkpoint in a folder that is its own."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as archive:
        archive.extractall(folder, filter="data")
    for name in ("control", "calls"):
        (folder / "checkpoint" / name).mkdir(exist_ok=True)
    for file in folder.rglob("*"):
        if file.is_file() and _FOLDER in (text := file.read_bytes()):
            mtime = file.stat().st_mtime
            file.write_bytes(text.replace(_FOLDER, str(folder).encode()))
            os.utime(file, (mtime, mtime))
    # A file of the user's is one of the present version; that of the checkpoint stays as it was.
    declare(folder)


if __name__ == "__main__":
    main()
