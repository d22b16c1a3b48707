"""The answer of another box for the steps of a message there."""

from __future__ import annotations

import json
from dataclasses import dataclass

from seriatim.box.links import layout
from seriatim.box.links.frame import Frame, Head, check
from seriatim.box.links.layout import FrameKind
from seriatim.errors import LinkProtocolError


@dataclass(frozen=True, slots=True)
class MessageSteps:
    """The steps of a message: the received JSON object; an empty one for an unknown message."""

    head: Head
    content: bytes

    @property
    def told(self) -> object:
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise LinkProtocolError(
                "a trace isn't JSON", where="link", remedy="look at the other box and its version"
            ) from error

    @classmethod
    def read(cls, frame: Frame) -> MessageSteps:
        check(frame.kind == FrameKind.STEPS, "a frame that should be a trace is something else")
        check(not any(frame.counts) and not frame.most_bytes, "a trace has records")
        check(len(frame.content) <= layout.LARGEST_STEPS, "a trace is larger than 1 MiB")
        return cls(frame.head, bytes(frame.content))
