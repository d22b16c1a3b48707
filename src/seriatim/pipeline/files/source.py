"""A location's ``source``: the format and its settings.

seriatim knows five formats: their rows have names, and their options are checked. For any other format of
Spark `id` has the columns that identify a row; for Parquet it may, and then its rows are read as those are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from seriatim.errors import meant
from seriatim.pipeline.declared.pipeline import Source, Split
from seriatim.pipeline.files import kafka
from seriatim.pipeline.files.paths import Paths
from seriatim.pipeline.text.section import Section, likely

# What every format of files takes: how Spark finds files and how many it takes at once.
_OF_FILES = (
    "cleanSource", "discardCachedInputRatio", "fileNameOnly", "latestFirst", "maxBytesPerTrigger", "maxCachedFiles", "maxFileAge",
    "maxFilesPerTrigger", "pathGlobFilter", "recursiveFileLookup", "sourceArchiveDir",
)  # fmt: skip
#: The same, in lower case.
FILE_OPTIONS = frozenset(map(str.lower, _OF_FILES))
#: What each known format takes besides, in lower case.
OPTIONS: Mapping[str, frozenset[str]] = {
    "json": frozenset({"multiline", "linesep", "maxrowbytes"}),
    "csv": frozenset({"header", "sep", "delimiter", "quote", "escape", "linesep", "maxrowbytes"}),
    "text": frozenset({"multiline", "wholetext", "linesep", "maxrowbytes"}),
    "xml": frozenset({"multiline", "linesep", "maxrowbytes"}),
    "parquet": frozenset(),
}
#: The option that says how many bytes a row of text may have, in lower case.
MAX_ROW_BYTES = "maxrowbytes"
#: The formats that are known well.
KNOWN = tuple(sorted(OPTIONS))

_WHOLE_NUMBER = re.compile(r"\d{1,12}", re.ASCII)
_USUAL_BYTES, _MOST_BYTES = 128 * 2**20, 512 * 2**20
_FLAGS = frozenset({"header", "multiline", "wholetext"})
_SPELLING = {name.lower(): name for name in (*_OF_FILES, "lineSep", "maxRowBytes", "multiLine")}

_INTO_COLUMN = re.compile(r"([^$/].*?):(\$.*)", re.DOTALL)


def in_body(kind: str, path: str, split: Split | None, envelope: str | None = None) -> bool:
    """Whether a property's path leads into the body; for rows with columns it may also be a column's name."""
    if kind in ("json", "text", "xml"):
        return True
    if kind == "csv":
        return False
    return path.startswith(("$", "/")) and (kind != "parquet" or split is not None or envelope is not None)


def column_of(path: str) -> tuple[str | None, str | None]:
    if path.startswith(("$", "/")):
        return None, None
    into = _INTO_COLUMN.fullmatch(path)
    return (path, None) if into is None else (into[1], into[2])


def row_bytes(options: Mapping[str, str]) -> int:
    """The most bytes of a row, by options whose names are in lower case."""
    written = options.get(MAX_ROW_BYTES, str(_USUAL_BYTES))
    if not _WHOLE_NUMBER.fullmatch(written) or not 0 < int(written) <= _MOST_BYTES:
        raise ValueError(f"maxRowBytes is a number of bytes from 1 to {_MOST_BYTES:,}, not {written!r:.60}")
    return int(written)


def source(location: Section, paths: Paths) -> Source | None:
    """Read the source of a location; None if its format isn't known. What else is wrong is reported, and hides no fault of what follows."""
    section = location.section("source", required=True)
    if section is None:
        return None
    kind = section.text("format", required=True)
    schema, body, ids = section.text("schema"), section.text("body"), section.texts("id")
    options = section.options("options")
    if kind in KNOWN:
        fitting = True
        _check_keys(section, kind, schema)
        _check_options(section, kind, options)
    else:
        fitting = kind is not None and _other(section, kind, ids, options)
    path = paths.source(section, "path") if kind in KNOWN or section.has("path") else None
    section.known("path")
    section.finish()
    if kind is None or not fitting:
        return None
    return Source(kind, path, options, schema, ids or (), body)


def _check_keys(section: Section, kind: str, schema: str | None) -> None:
    if schema is not None and kind not in ("csv", "parquet"):
        what = f"{kind.upper() if kind != 'text' else kind} is read as it is and takes no schema"
        section.fault("schema", what, "promote what you need, with its type")
    if kind == "parquet" and section.has("id"):
        return
    for key in ("id", "body"):
        if section.has(key):
            what = f"{kind} has messages with names and bodies of their own"
            section.named_fault(
                key, what, "leave it out; it is for parquet (id first), and for formats whose rows Spark reads"
            )


def _other(section: Section, kind: str, ids: tuple[str, ...] | None, options: Collection[str]) -> bool:
    """Whether it may be a format of Spark's; if its name is one of ours misspelt, that is reported, and so is what it lacks."""
    if kind == kafka.FORMAT:
        kafka.check_source(section, options)
    if ids or section.has("id"):
        return True
    if hint := meant(kind, [*KNOWN, "txt"]):
        section.fault("format", f"the format {kind!r} is not known", hint.replace("txt", "text"))
        return False
    what = f"the format {kind!r} needs id, the columns that name a row in order of arrival"
    remedy = f"such as id: [topic, partition, offset]; without it there are {', '.join(KNOWN)}"
    section.fault("format", what, remedy)
    return True


def _check_options(section: Section, kind: str, options: Mapping[str, str]) -> None:
    inner = section.section("options")
    known = OPTIONS[kind] | FILE_OPTIONS
    for name, value in options.items():
        if inner is None:
            return
        if name.lower() not in known:
            what = f"unknown option {name!r} of {kind}"
            spelt = [_SPELLING.get(option, option) for option in known]
            inner.key_fault(name, what, likely(name, spelt))
        elif name.lower() in _FLAGS and value.lower() not in ("true", "false"):
            inner.fault(name, f"{inner.full(name)} is true or false, not {value!r}")
        elif name.lower() == MAX_ROW_BYTES:
            try:
                row_bytes({MAX_ROW_BYTES: value})
            except ValueError as error:
                inner.fault(name, str(error))
