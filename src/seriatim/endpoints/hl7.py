"""HL7 v2 as far as ports need it: the framing of MLLP, the header of a message, the value at a path, and acknowledgements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from seriatim.errors import UsageError, shown

BEGIN, END = b"\x0b", b"\x1c\r"
_BLANK = b" \t\r\n"
_PATH = re.compile(r"([A-Z][A-Z0-9]{2})-(\d{1,3})(?:\.(\d{1,3}))?(?:\.(\d{1,3}))?", re.ASCII)
_LINES = re.compile(rb"\r\n|\r|\n")
#: The names of character sets in MSH-18 (HL7's table 0211), as Python calls them.
_CHARSETS = {
    "": "utf-8", "ASCII": "ascii", "UNICODE": "utf-8", "UNICODE UTF-8": "utf-8", "UTF-8": "utf-8", "UNICODE UTF-16": "utf-16",
    "UNICODE UTF-32": "utf-32", **{f"8859/{n}": f"iso-8859-{n}" for n in range(1, 17) if n != 12}, "ISO IR14": "iso2022_jp",
    "ISO IR87": "iso2022_jp", "ISO IR159": "iso2022_jp_1", "GB 18030-2000": "gb18030", "KS X 1001": "euc_kr", "BIG-5": "big5",
    "CNS 11643-1992": "euc_tw",
}  # fmt: skip


class NotFramed(Exception):
    """Bytes outside a frame."""


class FrameTooLarge(Exception):
    """A frame is larger than it may be."""


class FrameReader:
    """Cuts a stream of bytes into the messages of its frames. A frame ends at FS, with or without the CR that belongs to it."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._looked = 0
        #: Whether a frame has begun and hasn't ended.
        self.is_inside = False

    @property
    def held(self) -> int:
        """Bytes of the message that isn't complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes in; return the messages that are complete.

        Raises:
            NotFramed: a frame doesn't begin where it has to, or another one begins within it.
            FrameTooLarge: a message isn't complete though it is larger than `largest`.
        """
        self._buffer += data
        while True:
            if not self.is_inside:
                if self._buffer[:1] != BEGIN:
                    self._buffer = self._buffer.lstrip(_BLANK)
                self._looked = 1
                if not self._buffer:
                    return
                if self._buffer[:1] != BEGIN:
                    raise NotFramed
                self.is_inside = True
            end = self._buffer.find(END[:1], self._looked)
            if self._buffer.find(BEGIN, self._looked, None if end < 0 else end) >= 0:
                raise NotFramed
            if (len(self._buffer) if end < 0 else end) - 1 > self._largest:
                raise FrameTooLarge
            if end < 0:
                self._looked = max(1, len(self._buffer))
                return
            message = bytes(self._buffer[1:end])
            del self._buffer[: end + 1]
            self.is_inside = False
            yield message


def framed(message: bytes) -> bytes:
    return BEGIN + message + END


@dataclass(frozen=True, slots=True)
class Header:
    """The first segment of a message, MSH."""

    fields: tuple[bytes, ...]
    separator: bytes
    body: bytes
    #: The bytes of the segment, without its end.
    length: int
    #: How texts of the message are encoded, by MSH-18; None: by a character set that isn't known.
    encoding: str | None

    @classmethod
    def of(cls, body: bytes) -> Header | None:
        """The header of a message; None: it has none that can be read."""
        if not body.startswith(b"MSH") or len(body) < 8 or body[3:4].isalnum() or body[3:4] in _BLANK:
            return None
        separator = body[3:4]
        line = _LINES.split(body[:65_536], maxsplit=1)[0]
        # MSH-1 is the separator itself.
        fields = (b"MSH", separator, *line.split(separator)[1:])
        name = fields[18].split(fields[2][1:2] or b"~")[0] if len(fields) > 18 else b""
        encoding = _CHARSETS.get(name.decode("ascii", "replace").strip().upper())
        return cls(fields, separator, body, len(line), encoding)

    def field(self, number: int) -> str:
        """A field of the header as text; empty: there is none."""
        return self.raw(number).decode(self.encoding or "latin-1", "replace")

    @property
    def sender(self) -> tuple[str, str]:
        """MSH-3 and MSH-4: application and facility."""
        return self.field(3), self.field(4)

    @property
    def control_id(self) -> str:
        """MSH-10, the sender's id of the message."""
        return self.field(10)

    @property
    def sequence(self) -> int | None:
        """MSH-13, the number by the protocol of sequence numbers; None: the sender gives none."""
        text = self.raw(13).decode("ascii", "replace").strip()
        return int(text) if re.fullmatch(r"-1|\d{1,15}", text) else None

    def without_time(self) -> bytes:
        """The message without MSH-7, which a sender that repeats it may write anew."""
        first = self.separator.join((*self.fields[2:7], *self.fields[8:]))
        return b"MSH" + self.separator + first + self.body[self.length :]

    def text_at(self, path: str) -> str | None:
        """The value at a path such as ``PID-3.1``, of the first segment and the first repetition; None: there is none, or it can't be
        decoded.
        """
        try:
            text = self._unescaped(self.bytes_at(path).decode(self.encoding)) if self.encoding else None
        except UnicodeError:
            return None
        return text or None

    def shown_at(self, path: str) -> str:
        """The value at a path for people: whatever can't be decoded is replaced."""
        return self._unescaped(self.bytes_at(path).decode(self.encoding or "latin-1", "replace"))

    def bytes_at(self, path: str) -> bytes:
        """The value at a path as its bytes came; empty: there is none."""
        segment, number, component, part = checked_path(path)
        fields: tuple[bytes, ...] | None = self.fields
        if segment != "MSH":
            fields = next(
                (
                    tuple(line.split(self.separator))
                    for line in _LINES.split(self.body)
                    if line.startswith(segment.encode() + self.separator)
                ),
                None,
            )
        if fields is None or number >= len(fields):
            return b""
        marks = self._marks
        value = fields[number] if (segment, number) == ("MSH", 2) else fields[number].split(marks[1:2])[0]
        for mark, place in ((marks[0:1], component), (marks[3:4], part)):
            if place is not None:
                pieces = value.split(mark) if mark else [value]
                value = pieces[place - 1] if place <= len(pieces) else b""
        return value

    def raw(self, number: int) -> bytes:
        """A field of the header as its bytes came; empty: there is none."""
        return self.fields[number] if number < len(self.fields) else b""

    @property
    def _marks(self) -> bytes:
        """MSH-2: the separators of components, repetitions, the escape, and the separator of parts of components."""
        return self.raw(2) or b"^~\\&"

    def _unescaped(self, text: str) -> str:
        mark = self._marks[2:3].decode("latin-1")
        if not mark or mark not in text:
            return text
        meant = dict(
            zip(
                "FSTRE",
                (self.separator + self._marks[0:1] + self._marks[3:4] + self._marks[1:3]).decode("latin-1"),
                strict=False,
            )
        )
        return re.sub(f"{re.escape(mark)}([FSTRE]){re.escape(mark)}", lambda found: meant.get(found[1], found[0]), text)


def checked_path(path: object) -> tuple[str, int, int | None, int | None]:
    """Parse a path such as ``PID-3.1``: segment, field, component, and part of the component."""
    found = _PATH.fullmatch(path) if isinstance(path, str) else None
    if found is None or any(one is not None and int(one) < 1 for one in found.groups()[1:]):
        raise UsageError(f"{shown(path)} is no path of HL7", remedy="SEGMENT-FIELD.COMPONENT, such as PID-3.1")
    component, part = (None if one is None else int(one) for one in found.groups()[2:])
    return found[1], int(found[2]), component, part


def acknowledgement(
    header: Header | None, code: str, *, text: str = "", expected: int | None = None, control_id: str
) -> bytes:
    """The acknowledgement of a message: `code` is the second letter of MSA-1; which mode it is in, the message says in MSH-15.

    Args:
        header: the message's header; None: it can't be read.
        code: ``A``, ``E`` or ``R``.
        text: MSA-3.
        expected: MSA-4, the sequence number that is expected next.
        control_id: MSH-10 of the acknowledgement.
    """
    separator = header.separator if header else b"|"
    get = header.raw if header else lambda _: b""
    event = get(9).split(get(2)[:1] or b"^")[1:2]
    kind = (get(2)[:1] or b"^").join((b"ACK", *event))
    mode = "C" if get(15) else "A"
    told = "".join(
        letter if letter.isascii() and letter.isprintable() and letter not in "|^~\\&" else " " for letter in text
    )
    now = datetime.now(UTC).strftime("%Y%m%d%H%M%S").encode()
    msh = [b"MSH", get(2) or b"^~\\&", get(5), get(6), get(3), get(4), now, b"", kind, control_id.encode(), get(11) or b"P",
           get(12) or b"2.5"]  # fmt: skip
    if get(18):
        msh += [b"", b"", b"", b"", b"", get(18)]
    msa = [
        b"MSA",
        f"{mode}{code}".encode(),
        get(10),
        told.encode(),
        b"" if expected is None else str(expected).encode(),
    ]
    while not msa[-1]:
        msa.pop()
    return separator.join(msh) + b"\r" + separator.join(msa) + b"\r"
