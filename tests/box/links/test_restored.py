"""Either box is restored, and nothing notices but the chains: nothing is lost without an event, nothing comes twice unmarked."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import links
from seriatim.operations.doctor.box_checks import CHECKS
from seriatim.operations.events import events_after
from seriatim.operations.links import transmit
from seriatim.operations.operator_log import operator_log
from tests.box import roles
from tests.box.links.backups import back_up, restore
from tests.box.links.pairs import Pair, carried, paired

pytestmark = pytest.mark.dear


@pytest.fixture
def pair(databases):
    with paired(databases) as both:
        yield both


def _transmitted(pair: Pair) -> None:
    """Rounds until nothing waits."""
    for _ in range(8):
        (done,) = transmit(pair.near, at_once=True)
        assert done.error is None
        link = links.status(pair.near)[0]
        if not (done.more or link.unacknowledged or link.waiting or link.ending):
            return
    pytest.fail("something waits for ever")


def _noted(box) -> list[dict]:
    return [one.details for one in operator_log(box) if one.action == "stream restored"]


def test_a_restored_receiver_is_told_what_it_lacks_and_a_new_stream_goes_on(pair: Pair):
    pair.send(1)
    _transmitted(pair)
    back_up(pair.far)
    pair.send(2, 3)
    _transmitted(pair)
    restore(pair.far)
    pair.send(4)
    _transmitted(pair)
    assert carried(pair.far) == [("c1", 1, False), ("c1", 4, True)]
    (near,) = _noted(pair.near)
    assert (near["lacks_above"], near["through"], near["went_back"]) == (1, 3, "the other box")
    (far,) = _noted(pair.far)
    assert (far["lacks_above"], far["through"]) == (1, 3)
    for box in (pair.near, pair.far):
        (event,) = events_after(box, kinds="restored")
        assert (event.queue, event.group, event.first, event.last, event.count) == ("orders", "c1", 2, 3, 2)
    pair.send(5)
    _transmitted(pair)
    assert carried(pair.far) == [("c1", 5, False)]
    assert [one.number for one in links.transmission(pair.near)] == [2]


def test_what_is_kept_is_sent_again_and_marked(databases):
    with paired(databases, keep_sent="1d") as pair:
        pair.send(1)
        _transmitted(pair)
        back_up(pair.far)
        pair.send(2, 3)
        _transmitted(pair)
        restore(pair.far)
        pair.send(4)
        _transmitted(pair)
        assert carried(pair.far) == [("c1", 1, False), ("c1", 2, True), ("c1", 3, True), ("c1", 4, False)]
        assert _noted(pair.near) == _noted(pair.far) == []
        assert links.status(pair.far)[0].replayed == 2


def test_a_restored_sender_that_sends_first_loses_nothing(pair: Pair):
    pair.send(1)
    _transmitted(pair)
    back_up(pair.near)
    pair.send(2, 3)
    _transmitted(pair)
    restore(pair.near)
    pair.send(4, 5)
    _transmitted(pair)
    # Both boxes say 3: numbers alone would acknowledge 4 and 5 away.
    assert carried(pair.far) == [
        ("c1", 1, False), ("c1", 2, False), ("c1", 3, False), ("c1", 4, True), ("c1", 5, True),
    ]  # fmt: skip
    assert len(_noted(pair.near)) == len(_noted(pair.far)) == 1


def test_a_sender_restored_to_before_its_stream_goes_on_above_its_number(pair: Pair):
    back_up(pair.near)
    pair.send(1)
    _transmitted(pair)
    pair.send(2, customer="c2")
    _transmitted(pair)
    restore(pair.near)
    # The pair was made before: it is the same.
    pair.send(3)
    _transmitted(pair)
    pair.send(4)
    _transmitted(pair)
    assert carried(pair.far) == [("c1", 1, False), ("c1", 3, True), ("c1", 4, False), ("c2", 2, False)]
    assert all(one.number > 2 for one in links.transmission(pair.near))


def test_streams_that_were_over_before_a_restore_of_their_receiver_are_noted(databases):
    with paired(databases, stream_idle=1) as pair:
        transmit(pair.near)
        back_up(pair.far)
        pair.send(1)
        _transmitted(pair)
        with pair.near.session() as tx:
            tx.connection.execute(f"UPDATE {pair.near.schema}.link_streams_out SET last_used = '-infinity'")
        _transmitted(pair)
        assert links.transmission(pair.near) == []
        restore(pair.far)
        _transmitted(pair)
        assert carried(pair.far) == []
        assert len(_noted(pair.near)) == len(_noted(pair.far)) == 1


def test_a_box_that_gets_a_new_id_sends_nothing_of_what_its_original_sends(pair: Pair):
    from seriatim.operations import identity

    pair.send(1)
    before = pair.near.id
    identity.new_id(pair.near, actor="test", reason="a copy")
    assert pair.near.id != before
    (link,) = links.status(pair.near)
    assert (link.box, link.waiting, link.unacknowledged, link.state) == (None, 0, 0, "unpaired")
    pair.send(2)
    (done,) = transmit(pair.near)
    assert done.acknowledged == 0
    assert carried(pair.far) == []
    # Its role is the original's, and speaks as no other box.
    accept = {"other": str(pair.near.id), "queues": ["orders"], "actor": "test", "reason": "a test"}
    with pytest.raises(sq.ActionRefused, match="speaks as another box, over link 'near'"):
        links.accept(pair.far, "copy", role=pair.role, **accept)
    own = Pair(pair.near, pair.far, f"{pair.role}_copy")
    roles.make(pair.far, own.role)
    try:
        links.accept(pair.far, "copy", role=own.role, **accept)
        pair.near.define(own.link(queues=["answers"]))
        _transmitted(pair)
        assert carried(pair.far) == [("c1", 2, False)]
    finally:
        roles.rows(pair.far, f"DROP OWNED BY {own.role}")
        roles.rows(pair.far, f"DROP ROLE {own.role}")


def test_an_answer_to_an_older_question_changes_nothing(pair: Pair):
    """A transmitter stood still between its question and the answer, and the far box was restored meanwhile."""
    from seriatim.box.links.carrier import Carrier

    pair.send(1)
    _transmitted(pair)
    back_up(pair.far)
    pair.send(2)
    with pair.near.access.transaction() as transaction:
        link_id = transaction.one("link_addresses", name="far").link_id
        asked = transaction.one("link_next", of_link=link_id, largest=0, at_once=True)
    with Carrier(pair.link()) as carrier:
        answers = carrier.push(asked.frame)
        pair.send(3)
        _transmitted(pair)
        restore(pair.far)
        with pair.near.access.transaction() as transaction:
            assert transaction.value("link_answered", of_link=link_id, frame=answers, of_token=asked.of_token) == 0
        # The batch of that time comes once more, and changes nothing that isn't true.
        carrier.push(asked.frame)
    pair.send(4)
    _transmitted(pair)
    assert [nth for _, nth, _ in carried(pair.far)] == [1, 2, 4]
    assert _noted(pair.near)[0]["through"] == 3


def test_of_two_boxes_under_one_id_the_older_one_is_refused_and_both_are_told(pair: Pair):
    """As after `box enable` of a copy, while the original lives."""

    def lives_as(incarnation: int) -> None:
        roles.rows(pair.near, f"UPDATE {pair.near.schema}.box_identity SET incarnation = {incarnation}")

    check = CHECKS["links"]
    pair.send(1)
    _transmitted(pair)
    lives_as(2)
    pair.send(2)
    _transmitted(pair)
    assert check(pair.far).state == "ok"
    lives_as(1)
    pair.send(3)
    (done,) = transmit(pair.near, at_once=True)
    assert "incarnation 2, and this is 1" in done.error
    assert "two boxes live under one id" in check(pair.far).found
    assert "two live under one id" in check(pair.near).found
    assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]
    accept = {"role": pair.role, "other": str(pair.near.id), "queues": ["orders"], "actor": "test", "reason": "a test"}
    links.accept(pair.far, "near", **accept)
    _transmitted(pair)
    assert check(pair.far).state == check(pair.near).state == "ok"
    assert [nth for _, nth, _ in carried(pair.far)] == [3]


def test_an_older_box_that_is_called_is_refused_too(pair: Pair):
    _transmitted(pair)
    roles.rows(pair.far, f"UPDATE {pair.far.schema}.box_identity SET incarnation = 2")
    _transmitted(pair)
    roles.rows(pair.far, f"UPDATE {pair.far.schema}.box_identity SET incarnation = 1")
    pair.send(1)
    assert "this box refuses the other one" in transmit(pair.near, at_once=True)[0].error
    assert links.status(pair.near)[0].older_at is not None
    links.add(pair.near, pair.link(queues=["answers"]))
    _transmitted(pair)
    assert carried(pair.far) == [("c1", 1, False)]
