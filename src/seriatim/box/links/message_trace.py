"""The question what became of a message in the other box, and the answer, as values and as bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from seriatim.box.links import layout
from seriatim.box.links.batch import is_text
from seriatim.box.links.frame import Frame, Head, check, frame_of, heap_parts, rows_of
from seriatim.box.links.layout import FrameKind
from seriatim.errors import LinkProtocolError

__all__ = ["MessageSteps", "TraceQuestion"]


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """The question what became of a message: the box into which it was published first, its id, and its id space there."""

    head: Head
    box: UUID
    message_id: str
    id_space: str = ""

    def to_bytes(self) -> bytes:
        """The question as a frame."""
        texts = [self.message_id.encode(), self.id_space.encode()]
        asked = rows_of(layout.TRACED, [(self.box.bytes, *map(len, texts))])
        return frame_of(self.head, FrameKind.TRACE, (rows_of(layout.RANGE, []), asked), texts)

    @classmethod
    def read(cls, frame: Frame) -> TraceQuestion:
        """The question of a frame.

        Raises:
            LinkProtocolError: it is none.
        """
        check(frame.kind == FrameKind.TRACE, "a frame that should ask for a trace is something else")
        check(frame.counts == (0, 1, 0) and not frame.most_bytes, "a question has other records than one")
        (_, asked, _), heap = frame.tables(layout.RANGE, layout.TRACED, layout.HIGHEST)
        lengths = [int(asked[name][0]) for name in ("id_length", "space_length")]
        check(
            1 <= lengths[0] <= layout.LONGEST_ID and lengths[1] <= layout.LONGEST_SPACE,
            "an id or an id space has a length that none can have",
        )
        message_id, id_space = (is_text(piece, "an id") for piece in heap_parts(heap, lengths))
        return cls(frame.head, UUID(bytes=asked["box"][0].tobytes()), message_id, id_space)


@dataclass(frozen=True, slots=True)
class MessageSteps:
    """What became of a message: an object of JSON as it came; an empty one where nothing is known of it."""

    head: Head
    content: bytes

    @property
    def told(self) -> object:
        """The object.

        Raises:
            LinkProtocolError: it is no JSON.
        """
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise LinkProtocolError(
                "a trace isn't JSON", where="link", remedy="look at the other box and its version"
            ) from error

    def to_bytes(self) -> bytes:
        """The steps as a frame."""
        return frame_of(self.head, FrameKind.STEPS, heap=[self.content])

    @classmethod
    def read(cls, frame: Frame) -> MessageSteps:
        """The steps of a frame.

        Raises:
            LinkProtocolError: it has none.
        """
        check(frame.kind == FrameKind.STEPS, "a frame that should be a trace is something else")
        check(not any(frame.counts) and not frame.most_bytes, "a trace has records")
        check(len(frame.content) <= layout.LARGEST_STEPS, "a trace is larger than 1 MiB")
        return cls(frame.head, bytes(frame.content))
