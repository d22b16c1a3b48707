"""The bytes between two boxes: what is written is what the page says, and what isn't is refused, whole."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from seriatim.box.links import layout
from seriatim.box.links.answers import FrameRefusal
from seriatim.box.links.frame import Frame
from seriatim.errors import LinkProtocolError
from tests import soak
from tests.box.links import recorder
from tests.models import chain, link_frames
from tests.models.link_frames import read, written

_RECORDING = Path(__file__).parent / "version_1"
_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "link-protocol.md"


@pytest.mark.parametrize("name", recorder.RECORDED)
def test_the_recording_of_version_1_is_read_and_written_as_it_is(name):
    stored = (_RECORDING / f"{name}.bin").read_bytes()
    assert stored == recorder.RECORDED[name]()
    assert written(read(stored)) == stored


def test_the_recording_of_version_2_is_read_and_written_as_it_is():
    stored = (_RECORDING.parent / "version_2" / "dialogs.bin").read_bytes()
    assert stored == recorder.dialogs()
    batch = read(stored)
    assert written(batch) == stored
    assert (batch.head.versions, batch.streams["kind"].tolist()) == ((1, 2), [16, 16])
    with pytest.raises(LinkProtocolError, match="no kind that there is"):
        read(recorder.sealed(b"\1" + stored[1:-32]))


def test_a_batch_says_what_the_recorder_has_written():
    batch = read((_RECORDING / "batch.bin").read_bytes())
    assert (batch.head.sender.bytes, batch.head.receiver.bytes) == (recorder.NORTH, recorder.SOUTH)
    assert (batch.head.incarnation, batch.head.versions) == (3, (1, 1))
    assert batch.destinations == ["orders", "orders", "invoices", "orders"]
    assert batch.keys == [b"cust-1", b"", b"k", b"l"]
    assert batch.streams["after"].tolist() == [40, 0, 12, 12]
    assert batch.streams["chain"][0].tobytes() == chain.first(b"S" * 16)
    assert batch.message_ids == ["order-1", "bestätigt", "large"]
    assert batch.headers == [b'{"type":"order"}', b"{}", b"{}"]
    assert list(map(bytes, batch.parts)) == [b"one", b"", b"xxxxx"]
    assert batch.messages["flags"].tolist() == [0, 1, 0]
    assert batch.over["last"].tolist() == [3, 4, 6]


def test_answers_say_what_the_recorder_has_written():
    answers = read((_RECORDING / "answers.bin").read_bytes())
    assert answers.answers["answer"].tolist() == [0, 2, 3, 4, 1]
    assert answers.reasons == ["", "", "", "not equal.!", "queue full"]
    assert answers.highest["number"].tolist() == [9]
    assert read((_RECORDING / "refusal.bin").read_bytes()).reason == "north isn't paired with this box"
    assert read((_RECORDING / "fetch.bin").read_bytes()).most_bytes == 4 * recorder.MIB
    asked = read((_RECORDING / "trace.bin").read_bytes())
    assert (asked.box.bytes, asked.message_id, asked.id_space) == (recorder.NORTH, "bestellung-ä", "shop")
    assert read((_RECORDING / "steps.bin").read_bytes()).told["ticket"]["number"] == 7


def test_the_recorder_reads_what_is_written():
    batch = read(recorder.batch())
    head, (over, streams, messages), heap = recorder.read(written(batch))
    assert (head[0], head[1], len(over), len(messages)) == (1, 1, 3, 3)
    assert [row[1] for row in streams] == [7, 9, 4, 5]
    assert heap.startswith(b"orderscust-1")


def test_the_page_has_each_field_where_it_is():
    tables = re.findall(r"((?:^\| \d+ \| .*\n)+)", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = [re.findall(r"^\| (\d+) \| (\w+)", table, re.MULTILINE) for table in tables]
    records = (
        layout.HEAD,
        layout.RANGE,
        link_frames.STREAM,
        link_frames.MESSAGE,
        layout.ANSWER,
        layout.HIGHEST,
        link_frames.TRACED,
    )
    assert told == [[(str(of.fields[name][1]), name) for name in of.names] for of in records]
    text = _PAGE.read_text(encoding="utf-8")
    for of in records:
        assert f"{of.itemsize} bytes" in text


# ---- what is refused


def _with(table, field, value, row=0, data=None):
    """The batch (or `data`) with another value in a field of a table, and a right checksum."""
    data = bytearray(data or recorder.batch())
    kinds = {"head": layout.HEAD, "range": layout.RANGE, "stream": link_frames.STREAM, "message": link_frames.MESSAGE, "answer": layout.ANSWER, "highest": layout.HIGHEST}  # fmt: skip
    order = {"head": (), "range": ("head",), "stream": ("head", "range"), "answer": ("head", "range")}
    order |= {"message": ("head", "range", "stream"), "highest": ("head", "range", "answer")}
    head = np.frombuffer(bytes(data), layout.HEAD, 1)[0]
    counts = {"head": 1, "range": head["ranges"], "stream": head["rows"], "answer": head["rows"]}
    begin = sum(int(counts[name]) * kinds[name].itemsize for name in order[table]) + row * kinds[table].itemsize
    one = np.frombuffer(bytes(data[begin : begin + kinds[table].itemsize]), kinds[table]).copy()
    one[field] = value
    data[begin : begin + kinds[table].itemsize] = one.tobytes()
    return recorder.sealed(bytes(data[:-32]))


def _answers(table, field, value, row=0):
    return _with(table, field, value, row, recorder.answers())


_TOO_HIGH = 2**63
_REFUSED = [
    (b"", "0 bytes are no frame"),
    (b"\1\1\1\1", "4 bytes are no frame"),
    (recorder.batch()[:-1], "bytes came of"),
    (recorder.batch() + b"\0", "bytes came of"),
    (recorder.batch()[:-1] + b"\0", "checksum"),
    (bytes([1]) * (layout.LARGEST_FRAME + 1), "larger than 16 MiB"),
    (_with("head", "kind", 9), "9 is no kind of frame"),
    (_with("head", "lowest", 0), "version 1 comes from a box that knows 0 to 1"),
    (_with("head", "incarnation", 0), "0 is no incarnation"),
    (_with("head", "most_bytes", 1), "a batch asks for bytes"),
    (_with("head", "ranges", 10_001), "ranges are more than"),
    (_with("head", "rows", 10_001), "streams are more than"),
    (_with("head", "messages", 2**32 - 1), "tables of a frame are longer"),
    (_with("range", "first", 0), "numbers that no stream can have"),
    (_with("range", "last", _TOO_HIGH), "numbers that no stream can have"),
    (_with("range", "last", 5, row=1), "overlap"),
    (_with("stream", "number", 0), "number that none can have"),
    (_with("stream", "number", _TOO_HIGH), "number that none can have"),
    (_with("stream", "number", 9), "in a batch twice"),
    (_with("stream", "kind", 3), "no kind that there is"),
    (_with("stream", "count", 3), "have 4 messages, and 3 came"),
    (_with("stream", "kind", 1), "stream that ends has messages"),
    (_with("stream", "after", 2**64 - 1), "number that none can have"),
    (_with("stream", "lacks", 1), "lacks more than it had"),
    (_with("stream", "lacks", 13, row=3), "lacks more than it had"),
    (_with("stream", "destination_length", 0), "name of a destination"),
    (_with("stream", "key_length", 1025), "longer than 1 KiB"),
    (_with("stream", "key_length", 7), "heap of a frame"),
    (_with("message", "flags", 2), "flags"),
    (_with("message", "size", _TOO_HIGH), "body of more than 512 MiB"),
    (_with("message", "id_length", 0), "id of a message is empty"),
    (_with("message", "id_length", 1_025), "longer than 1 KiB"),
    (_with("message", "header_length", 2**21), "header of more than 1 MiB"),
    (_with("message", "size", 2), "ends behind the body"),
    (_with("message", "part_from", 1, row=2), "begin with a fragment"),
    (_with("message", "size", 4), "within a fragment"),
    (_with("message", "digest", bytes(32)), "isn't what its digest says"),
    (_answers("answer", "answer", 5), "none that there is"),
    (_answers("answer", "wait_ms", 5), "when to ask again"),
    (_answers("answer", "fragment", 5), "names a fragment"),
    (_answers("answer", "fragment", 2_000, row=1), "number that none can have"),
    (_answers("answer", "received", _TOO_HIGH), "number that none can have"),
    (_answers("answer", "number", 9), "answered twice"),
    (_answers("answer", "text_length", 1001), "longer than 1,000 bytes"),
    (_answers("highest", "number", 0), "number that none can have"),
    (recorder.frame(recorder.REFUSAL, heap=b"\xff"), "no UTF-8"),
    (recorder.frame(recorder.REFUSAL, heap=b"x" * 1001), "longer than 1,000 bytes"),
    (recorder.frame(recorder.FETCH, heap=b"x"), "a request has content"),
]


@pytest.mark.parametrize(("data", "says"), _REFUSED, ids=[f"{nth}: {says}" for nth, (_, says) in enumerate(_REFUSED)])
def test_what_the_page_does_not_say_is_refused(data, says):
    with pytest.raises(LinkProtocolError, match=re.escape(says)):
        read(data)


def test_another_version_is_refused_with_those_that_both_know():
    with pytest.raises(
        LinkProtocolError, match=r"has version 3 \(its box knows 1 to 3\), and this one knows 1 to 2 \(bring"
    ):
        Frame.read(recorder.frame(recorder.BATCH, version=3))


def test_a_message_in_fragments_has_others_on_one_side_only():
    size = 3 * recorder.MIB
    begun = (bytes(32), size, 0, recorder.MIB, 1, 0, 0)
    ended = (bytes(32), size, recorder.MIB, 2 * recorder.MIB, 1, 0, 0)
    small = (recorder.digest(b"", b""), 0, 0, 0, 1, 0, 0)

    def batch(*messages):
        stream = (1, 1, b"S" * 16, 0, len(messages), 0, 0, bytes(32), 1, 0)
        return recorder.frame(
            recorder.BATCH, ((), [stream], messages), b"q" + b"".join(b"i" + bytes(one[3]) for one in messages)
        )

    assert len(read(batch(small, begun)).messages) == 2
    assert len(read(batch(ended, small)).messages) == 2
    with pytest.raises(LinkProtocolError, match="have others behind them"):
        read(batch(begun, small))
    with pytest.raises(LinkProtocolError, match="don't come first"):
        read(batch(small, ended))


def test_what_is_too_large_is_not_written():
    batch = read(recorder.batch())
    batch.parts[0] = memoryview(bytes(layout.LARGEST_FRAME))
    with pytest.raises(LinkProtocolError, match="larger than 16 MiB"):
        written(batch)


def test_a_long_reason_is_cut_at_a_character():
    batch = read(recorder.batch())
    assert read(written(FrameRefusal(batch.head, "é" * 600))).reason == "é" * 500


# ---- by chance


@pytest.mark.soak
def test_bytes_by_chance_are_refused_or_are_what_they_say(figures):
    chance = random.Random(soak.seed())
    frames = [make() for make in recorder.RECORDED.values()]
    refused = 0
    rounds = soak.sized(10_000, 1_500)
    for _ in range(rounds):
        data = _mutated(chance, chance.choice(frames), frames)
        # Half of them with a right checksum, so that what lies behind it is met.
        data = recorder.sealed(data[:-32]) if chance.random() < 0.5 else data
        try:
            said = read(data)
        except LinkProtocolError:
            refused += 1
        else:
            assert written(said) == data
    figures(f"{rounds:,} frames by chance, {refused:,} refused")
    assert 0 < refused < rounds


def _mutated(chance, data, frames):
    data = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at : at + 1] = bytes([chance.choice((0, 1, 127, 128, 255))])
            case 2:
                del data[at : at + chance.choice((1, 4, 8, 96))]
            case 3:
                data[at:at] = chance.randbytes(chance.choice((1, 4, 8, 96)))
            case 4:
                data[at : at + 8] = (2**64 - 1 - chance.randrange(3)).to_bytes(8, "big")
            case 5:
                other = chance.choice(frames)
                data[at : at + 40] = other[at : at + 40]
            case _ if len(data) >= 8:
                data[4:8] = len(data).to_bytes(4, "big")  # the length is right again
    return bytes(data)
