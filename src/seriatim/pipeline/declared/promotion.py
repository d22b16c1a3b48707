"""A property that is read from a message: what a pipeline file, a type of message and every reader of bodies share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promotion:
    """A property that is read from a message: its `name`, its `path` and its `type`. The path is ``$.customer.id`` in JSON, an XPath in
    XML, the name of a column, or the key under which the location's function returns the value. Of several paths, the first path with a
    value that is neither absent nor null counts. `envelope`: if the message was split, the value is read from the whole message instead of
    the part. `told_by`: the name of the envelope that has the value; `path` is then the envelope's name for it. None: the path leads to the
    value.
    """

    name: str
    path: str | tuple[str, ...]
    type: str = "string"
    envelope: bool = False
    told_by: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if isinstance(self.path, str) else self.path
