"""Answers of another box, as values: for a batch, for the steps of a message, and refusals."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from seriatim.box.links import layout
from seriatim.box.links.frame import Frame, Head, Rows, check, check_ranges, distinct, heap_parts, is_text
from seriatim.box.links.layout import FrameKind
from seriatim.errors import LinkProtocolError
from seriatim.kernel.streams import StreamAnswer


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """The answers to a batch. `lost`: records `RANGE`, streams that are over for the sender of the batch and that this box doesn't know.
    `answers`: records `ANSWER`. `highest`: records `HIGHEST`, one an incarnation. `reasons`: of each answer, for people, or with `through`
    by what the queue groups; empty where there is nothing to say.
    """

    head: Head
    lost: Rows
    answers: Rows
    highest: Rows
    reasons: list[str]

    @classmethod
    def read(cls, frame: Frame) -> AnswerSet:
        check(frame.kind == FrameKind.ANSWERS, "a frame that should be answers is something else")
        check(not frame.most_bytes, "answers ask for bytes")
        (lost, answers, highest), heap = frame.tables(layout.RANGE, layout.ANSWER, layout.HIGHEST)
        check_ranges(lost)
        check((answers["answer"] <= max(StreamAnswer)).all(), "an answer is none that there is")
        for rows in (answers, highest):
            numbers = np.stack([rows[name] for name in ("incarnation", "number")]).astype(np.uint64)
            check(
                ((numbers > 0) & (numbers <= layout.LARGEST_NUMBER)).all(), "a stream has a number that none can have"
            )
        check((answers["received"] <= layout.LARGEST_NUMBER).all(), "a message has a number that none can have")
        waits, lacks = answers["answer"] == StreamAnswer.WAIT, answers["answer"] == StreamAnswer.MISSING
        check((answers["wait_ms"][~waits] == 0).all(), "an answer that isn't `wait` says when to ask again")
        check((answers["fragment"][~lacks] == 0).all(), "an answer that isn't `missing` names a fragment")
        most = layout.LARGEST_BODY // layout.FRAGMENT
        check((answers["fragment"] <= most).all(), "a fragment has a number that none can have")
        check(distinct(answers, "incarnation", "number"), "a stream is answered twice")
        check(distinct(highest, "incarnation"), "an incarnation is named twice")
        check((answers["text_length"] <= layout.LONGEST_TEXT).all(), "a reason is longer than 1,000 bytes")
        reasons = [is_text(piece, "a reason") for piece in heap_parts(heap, answers["text_length"].tolist())]
        return cls(frame.head, lost, answers, highest, reasons)


@dataclass(frozen=True, slots=True)
class FrameRefusal:
    """The answer of a box that has used nothing of a frame, and the reason, in words. It says nothing of any stream."""

    head: Head
    reason: str

    @classmethod
    def read(cls, frame: Frame) -> FrameRefusal:
        check(frame.kind == FrameKind.REFUSAL, "a frame that should be a refusal is something else")
        check(not any(frame.counts) and not frame.most_bytes, "a refusal has records")
        check(len(frame.content) <= layout.LONGEST_TEXT, "a reason is longer than 1,000 bytes")
        return cls(frame.head, is_text(frame.content, "a reason"))


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
