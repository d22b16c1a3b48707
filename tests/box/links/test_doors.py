"""The two functions that a peer may call: whatever it says harms at most its own streams, and tells it nothing that it isn't granted."""

from __future__ import annotations

import random
from contextlib import contextmanager

import psycopg
import pytest

from seriatim.box.links.answers import AnswerSet, FrameRefusal
from seriatim.kernel.streams import StreamAnswer
from seriatim.operations import links
from seriatim.operations.links import transmit
from tests import soak
from tests.box import roles
from tests.box.links import recorder
from tests.box.links.mutations import mutated
from tests.box.links.pairs import Pair, carried, paired
from tests.models import link_frames

_TABLES = (
    "link_streams_in",
    "link_streams_out",
    "link_messages",
    "link_numbers",
    "spool",
    "to_route",
    "message_ids",
    "entries",
    "aside",
)


@pytest.fixture
def pair(databases):
    with paired(databases) as both:
        transmit(both.near)  # the first contact
        yield both


@contextmanager
def _door(pair: Pair, role: str | None = None):
    """Call a door as the link's role, or another one."""
    with psycopg.connect(roles.dsn_of(pair.far, role or pair.role), autocommit=True) as connection:

        def call(function, frame):
            with connection.cursor(binary=True) as cursor:
                return cursor.execute(f"SELECT {pair.far.schema}.{function}(%b::bytea)", [frame]).fetchone()[0]

        yield call


def _asked(pair: Pair) -> bytes:
    """The next batch of the near box."""
    with pair.near.access.transaction() as transaction:
        link_id = transaction.one("link_addresses", name="far").link_id
        return bytes(transaction.one("link_next", of_link=link_id, largest=0, at_once=True).frame)


def _state(box) -> list:
    return [
        roles.rows(box, f"SELECT count(*), md5(string_agg(one::text, '' ORDER BY one::text)) FROM box.{table} AS one")
        for table in _TABLES
    ]


def test_what_the_box_says_is_read_by_the_other_implementation(pair: Pair):
    pair.send(1, 2)
    asked = _asked(pair)
    batch = link_frames.read(asked)
    assert (batch.destinations, batch.keys, batch.streams["count"].tolist()) == (["orders"], [b"c1"], [2])
    with _door(pair) as call:
        answers = link_frames.read(call("link_push", asked))
    assert (answers.answers["answer"].tolist(), answers.answers["received"].tolist()) == ([StreamAnswer.THROUGH], [2])
    messages = [
        (one.encode(), digest.tobytes())
        for one, digest in zip(batch.message_ids, batch.messages["digest"], strict=True)
    ]
    assert answers.answers["chain"][0].tobytes() == recorder.chain(batch.streams["stream_id"][0].tobytes(), *messages)


def test_a_batch_that_comes_again_changes_nothing(pair: Pair):
    pair.send(1, 2)
    asked = _asked(pair)
    with _door(pair) as call:
        first = call("link_push", asked)
        before = _state(pair.far)
        assert call("link_push", asked) == first
        assert _state(pair.far) == before
    assert [nth for _, nth, _ in carried(pair.far)] == [1, 2]


def test_a_peer_that_isnt_granted_is_told_nothing(pair: Pair):
    pair.send(1)
    asked, other = _asked(pair), f"{pair.role}_other"
    roles.make(pair.far, other)
    roles.rows(pair.far, f"GRANT USAGE ON SCHEMA {pair.far.schema} TO {other}")
    roles.rows(pair.far, f"GRANT EXECUTE ON FUNCTION box.link_push(bytea), box.link_fetch(bytea) TO {other}")
    before = _state(pair.far)
    with _door(pair, other) as call:
        answers = link_frames.read(call("link_push", asked))
        assert answers.answers["answer"].tolist() == [StreamAnswer.GONE]
        assert answers.answers["received"].tolist() == [0]
        assert (len(answers.highest), len(answers.lost), answers.reasons) == (0, 0, [""])
        with pair.near.access.transaction() as transaction:
            request = transaction.value("link_request", of_link=1, largest=0)
        assert link_frames.read(call("link_fetch", request)).reason == "nothing is known of this"
    assert _state(pair.far) == before
    roles.rows(pair.far, f"DROP OWNED BY {other}")
    roles.rows(pair.far, f"DROP ROLE {other}")


@pytest.mark.soak
def test_frames_that_arent_right_change_nothing(pair: Pair):
    pair.send(1, 2, 3)
    pair.send(4, customer="c2")
    asked = _asked(pair)
    links.accept(
        pair.far, "near", role=pair.role, other=str(pair.near.id), queues=["orders"], trace=True, actor="a", reason="r"
    )
    question = recorder.between(
        recorder.trace(b"some-id", b"", pair.near.id.bytes), pair.near.id.bytes, pair.far.id.bytes
    )
    chance, refused = random.Random(soak.seed()), 0
    rounds = soak.sized(10_000, 300)
    with _door(pair) as call:
        for make in recorder.RECORDED.values():
            for function in ("link_push", "link_fetch", "link_trace"):
                assert isinstance(link_frames.read(call(function, make())), FrameRefusal | AnswerSet)
        for _ in range(rounds):
            function = chance.choice(("link_push", "link_push", "link_fetch", "link_trace"))
            answer = link_frames.read(call(function, mutated(question if function == "link_trace" else asked, chance)))
            refused += isinstance(answer, FrameRefusal)
    assert refused > rounds // 2
    # What was taken in was right in itself, such as a stream of another number: no content was changed, and nothing else came in.
    assert {one for (one,) in roles.rows(pair.far, "SELECT body FROM box.spool")} <= {b"1", b"2", b"3", b"4"}
    assert roles.rows(pair.far, "SELECT count(*) FROM box.aside") == [(0,)]


def test_lies_about_content_are_refused(pair: Pair):
    pair.send(1)
    asked = _asked(pair)
    before = _state(pair.far)
    batch = link_frames.read(asked)
    header = batch.headers[0]
    with _door(pair) as call:
        for wrong, said in (
            (asked.replace(b'"nth": 1', b'"nth": 2'), "isn't what its digest says"),
            (asked.replace(header, header[:-1] + b" "), "isn't what its digest says"),
            (asked[:-40] + asked[-32:], "bytes came of"),
            (b"\x03" + asked[1:], "version 3"),
            (asked + bytes(17 * recorder.MIB), "larger than 16 MiB"),
        ):
            answer = link_frames.read(
                call(
                    "link_push",
                    wrong if said == "version 3" or len(wrong) > len(asked) else recorder.sealed(wrong[:-32]),
                )
            )
            assert said in answer.reason
    assert _state(pair.far) == before
