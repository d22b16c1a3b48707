"""The filter of a destination in a pipeline file: ``where``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seriatim.errors import UsageError
from seriatim.kernel.filters.filter import type_from
from seriatim.pipeline.filters.syntax import named, parsed
from seriatim.pipeline.text.section import Section
from seriatim.pipeline.types.properties import Properties

#: What every message of a pipeline has for filters without being promoted; `ticket` is the number, `epoch` the epoch.
OF_PIPELINES: Mapping[str, str] = {
    "epoch": "long",
    "location": "string",
    "message_id": "string",
    "received_at": "timestamp",
    "ticket": "long",
    "type": "string",
}
# Columns that are there, but that no filter can look at.
_UNFIT: Mapping[str, str] = {"body": "binary"}


def filter_types(properties: Properties) -> Mapping[str, str]:
    promoted = {name: properties.type_of(name) for name in sorted(properties.names())}
    return {**OF_PIPELINES, **{name: kind for name, kind in promoted.items() if kind is not None}}


def where(
    section: Section,
    types: Mapping[str, str],
    *,
    key: str = "where",
    unknown: Callable[[str], bool] | None = None,
    unfit: Mapping[str, str] = _UNFIT,
) -> str:
    """Read a filter's text: ``TRUE`` if there is none, or if it is wrong, which is reported."""
    written = section.plain(key)
    if written is None or isinstance(written, bool):
        return "FALSE" if written is False else "TRUE"
    if not isinstance(written, str):
        section.fault(key, f"{section.full(key)} must be a filter, not {written!r}", "put it in quotes")
        return "TRUE"
    try:
        if unknown is None or not any(map(unknown, named(written) - {*types, *unfit})):
            parsed(written, {name: type_from(kind) for name, kind in types.items()}, unfit=unfit)
    except UsageError as error:
        section.fault(key, f"{section.full(key)}, {error.where} of the filter: {error.what}", error.remedy)
        return "TRUE"
    return written
