"""Spark's state files in a checkpoint: find the damaged or missing one, where a query failed and Spark doesn't name it.

Only the files that the next batch loads are checked: the last snapshot of each part of the state, and the changes after it. A file with the
right length and wrong content isn't noticed here; RocksDB notices it.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

from seriatim.errors import CheckpointMismatch
from seriatim.runtime.pipelines.spark_logs import REMEDY
from seriatim.spark.state.checkpoint_files import numbers_in

#: The words of Spark's errors for a state that it can't load.
_LOADING = re.compile(r"CANNOT_LOAD_STATE_STORE|SQLSTATE: (?:XXKST|58030)")
_STRUCT = '{"type":"struct"'
#: The blocks of a compressed stream, with the lengths of their content.
_BLOCK = struct.Struct("<8sBiii")
_MAGIC = b"LZ4Block"


def state_failure(query: Path, text: str) -> CheckpointMismatch | None:
    """Return the error for a query that failed because its state can't be loaded; None: it failed for another reason."""
    is_loading = _LOADING.search(text) is not None
    try:
        damage = next(_damaged(query, parts=is_loading), None)
    except OSError as error:
        damage = (query / "state", f"can't be read: {error.strerror}")
    if damage is not None:
        file, problem = damage
        return CheckpointMismatch(f"the file of Spark's state {problem}", where=str(file), remedy=REMEDY)
    if not is_loading:
        return None
    return CheckpointMismatch(
        "Spark can't load its state (which file is damaged it doesn't say)", where=str(query / "state"), remedy=REMEDY
    )


def _damaged(query: Path, *, parts: bool) -> Iterator[tuple[Path, str]]:
    """Yield damaged and missing files, each with its problem; `parts`: also among the parts of the state itself."""
    version = max(numbers_in(query / "commits"), default=-1) + 1
    for operator in sorted((query / "state").iterdir()) if (query / "state").is_dir() else ():
        yield from _metadata(operator)
        for part in sorted(operator.iterdir()) if parts else ():
            if part.name.isdecimal() and part.is_dir():
                yield from _part(part, version)


def _metadata(operator: Path) -> Iterator[tuple[Path, str]]:
    """Yield the last file with an operator's identity, and the files with the form of its state."""
    folder = operator / "_metadata" / "v2"
    last = max(numbers_in(folder), default=None)
    if last is not None and not _is_metadata((folder / str(last)).read_text(encoding="utf-8", errors="replace")):
        yield folder / str(last), "is damaged"
    for file in sorted((operator / "_stateSchema").rglob("*")):
        if file.is_file() and not file.name.startswith(".") and not _is_schema(file.read_text("utf-8", "replace")):
            yield file, "is damaged"
    for file in _schemas(folder / str(last)) if last is not None else ():
        if not (operator / "_stateSchema" / file).exists():
            yield operator / "_stateSchema" / file, "is missing"


def _is_metadata(text: str) -> bool:
    version, _, rest = text.partition("\n")
    return version.startswith("v") and _is_json(rest)


def _is_schema(text: str) -> bool:
    """Return whether each description of columns is complete."""
    places = [match.start() for match in re.finditer(re.escape(_STRUCT), text)]
    try:
        outer, past = 0, -1
        for place in places:
            if place > past:
                _, past = json.JSONDecoder().raw_decode(text, place)
                outer += 1
    except ValueError:
        return False
    return outer > 0


def _schemas(metadata: Path) -> Iterator[Path]:
    """The files of schemas that an operator's metadata names, below the folder of schemas."""
    try:
        stores = json.loads(metadata.read_text(encoding="utf-8").partition("\n")[2])["stateStoreInfo"]
        names = [name for store in stores for name in store["stateSchemaFilePaths"]]
    except (ValueError, KeyError, TypeError):
        return
    yield from (Path(*Path(str(name)).parts[-2:]) for name in names)


def _part(part: Path, version: int) -> Iterator[tuple[Path, str]]:
    snapshots = {number: file for number, file in _versions(part, ".zip") if number <= version}
    changes = dict(_versions(part, ".changelog"))
    begin = max(snapshots, default=0)
    if snapshots:
        yield from _snapshot(snapshots[begin])
    elif any((part / "SSTs").glob("*.sst")):
        yield part / "*.zip", "is missing, which names the others"
    for number in range(begin + 1, version + 1):
        file = changes.get(number)
        if file is None:
            yield part / f"{number}.changelog", "is missing"
        elif not _is_whole(file):
            yield file, "is damaged"


def _snapshot(file: Path) -> Iterator[tuple[Path, str]]:
    try:
        with zipfile.ZipFile(file) as archive:
            whole = archive.testzip() is None
            metadata = json.loads(archive.read("metadata").decode().partition("\n")[2])
            tables = [(str(file["dfsSstFileName"]), int(file["sizeBytes"])) for file in metadata.get("sstFiles", ())]
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError):
        whole, tables = False, []
    if not whole:
        yield file, "is damaged"
    for name, size in tables:
        table = file.parent / "SSTs" / name
        if not table.exists():
            yield table, "is missing"
        elif table.stat().st_size != size:
            yield table, f"is damaged: it has {table.stat().st_size:,} bytes of {size:,}"


def _is_whole(file: Path) -> bool:
    """Return whether a file of changes is complete; with another than the usual compression, whether it has any content."""
    with file.open("rb") as stream:
        head = stream.read(_BLOCK.size)
        if not head.startswith(_MAGIC):
            return bool(head)
        while len(head) == _BLOCK.size:
            magic, _, compressed, content, _ = _BLOCK.unpack(head)
            if magic != _MAGIC:
                return False
            if content == 0:
                return True
            stream.seek(compressed, 1)
            head = stream.read(_BLOCK.size)
    return False


def _versions(part: Path, suffix: str) -> Iterator[tuple[int, Path]]:
    for file in part.iterdir():
        number = file.name.removesuffix(suffix).partition("_")[0]
        if file.name.endswith(suffix) and number.isdecimal():
            yield int(number), file


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
