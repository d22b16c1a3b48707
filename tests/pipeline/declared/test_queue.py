"""What a queue and a subscription can be, and how they refuse what they can't."""

from __future__ import annotations

from functools import partial

import pytest

from seriatim import Gate, Group, Keep, Limit, Recover, Remote, Retry
from seriatim.errors import UsageError
from seriatim.kernel.groups.policy import Fifo, Standard, Unordered
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE
from seriatim.pipeline.declared.subscription import Subscription, distinct


def test_a_queue_is_plain_unless_told_otherwise():
    queue = Queue("q", group="key")
    assert (queue.errors, queue.priority, queue.keep, queue.keeps) == ("suspend", None, Keep(), "faults")
    assert (queue.max_messages, queue.gate, queue.at, queue.enabled) == (None, None, None, True)
    assert (queue.group, queue.retry, queue.recover) == (Group("key"), Retry(5, delay=1.0), Recover(0))


def test_a_plain_value_stands_for_the_first_field():
    queue = Queue("q", Fifo(), "key", gate="out", keep="everything", max_messages=5, recover=2)
    assert queue == Queue(
        "q", Fifo(), Group("key"), gate=Gate("out"), keep=Keep("everything"), max_messages=Limit(5), recover=Recover(2)
    )
    assert Queue("q", group="key", at="south").at == Remote("south")


def test_a_period_is_in_seconds():
    assert Queue("q", group="key", keep=Keep("faults", done_for="7d")).keep.done_for == 604_800.0


WRONG = [
    ({"name": ""}, "'' is not a queue's name"),
    ({"name": "x" * 129}, "is not a queue's name"),
    ({"name": "a\0"}, "is not a queue's name"),
    ({"name": "\ud800"}, "is not a queue's name"),
    ({"name": 7}, "7 is not a queue's name"),
    ({"policy": "standard"}, "queue 'q': 'standard' is not a policy"),
    (
        {"group": None},
        "queue 'q': fifo needs a group (name the property of its key; or, for one order of the whole queue, WHOLE_QUEUE",
    ),
    ({"group": None, "policy": Standard()}, "queue 'q': standard needs a group and a sequence"),
    (
        {"group": WHOLE_QUEUE, "policy": Unordered()},
        "queue 'q': the whole queue can't be one order, because unordered keeps none",
    ),
    (lambda: Group(WHOLE_QUEUE, default="x"), "Group: default is for messages without a key, and the whole queue"),
    ({"group": ""}, "queue 'q': group can't be ''"),
    ({"policy": Standard()}, "queue 'q': standard needs a sequence"),
    ({"sequence": 3}, "queue 'q': sequence can't be 3"),
    (lambda: Group("key", default=b"x"), "Group: default can't be b'x'"),
    ({"errors": "ignore"}, "queue 'q': errors can't be 'ignore'"),
    ({"errors": None}, "queue 'q': errors can't be None"),
    ({"priority": 5}, "queue 'q': priority can't be 5"),
    ({"keep": True}, "queue 'q': keep can't be True"),
    (lambda: Keep("nothing", done_for="7d"), "Keep: done_for says for how long, and nothing is kept"),
    (lambda: Retry(attempts=0), "Retry: attempts can't be 0 (a whole number from 1 to 1,000)"),
    (lambda: Retry(attempts=True), "Retry: attempts can't be True"),
    (lambda: Retry(delay=-1), "Retry: delay can't be -1"),
    (lambda: Retry(delay="soon"), "Retry: delay: 'soon' is not a duration"),
    (lambda: Retry(ceiling=None), "Retry: ceiling"),
    (lambda: Retry(factor=0.5), "Retry: factor can't be 0.5 (a number from 1 to 100)"),
    (lambda: Retry(jitter=float("nan")), "Retry: jitter can't be nan"),
    (lambda: Recover(limit=-1), "Recover: limit can't be -1 (a whole number from 0 to 1,000)"),
    (lambda: Recover(delay="soon"), "Recover: delay: 'soon' is not a duration"),
    (lambda: Recover(factor=0), "Recover: factor can't be 0 (a number from 1 to 100)"),
    (lambda: Retry(rollbacks=-1), "Retry: rollbacks can't be -1 (a whole number from 0 to 1,000)"),
    (lambda: Retry(rollbacks=False), "Retry: rollbacks can't be False"),
    (lambda: Retry(jitter="much"), "Retry: jitter can't be 'much'"),
    (lambda: Keep("faults", done_for="soon"), "Keep: done_for: 'soon' is not a duration"),
    (lambda: Keep("faults", done_for=0), "Keep: done_for can't be 0"),
    (lambda: Keep("faults", done_for=-1), "Keep: done_for can't be -1"),
    (lambda: Keep("faults", done_for="10001d"), "Keep: done_for can't be '10001d'"),
    (lambda: Keep("faults", done_for=float("nan")), "Keep: done_for: nan is not a time"),
    ({"max_messages": 0}, "queue 'q': max_messages can't be 0"),
    ({"max_messages": True}, "queue 'q': max_messages can't be True"),
    ({"max_messages": 1.5}, "queue 'q': max_messages can't be 1.5"),
    (lambda: Keep(events="none"), "Keep: events can't be 'none'"),
    (lambda: Limit(5, when_full="drop"), "Limit: when_full can't be 'drop'"),
    (lambda: Limit(when_full="refuse"), "Limit: missing a required argument: 'messages'"),
    ({"retry": 3}, "queue 'q': retry can't be 3 (such as Retry(attempts=3, delay='5s'))"),
    ({"gate": Retry()}, "queue 'q': gate can't be Retry("),
    ({"gate": Gate("q")}, "queue 'q': its gate leads to itself"),
    ({"gate": Gate("out", through=["q"])}, "queue 'q': through can't have 'q'"),
    ({"enabled": 1}, "queue 'q': enabled can't be 1"),
    (lambda: Group("key", expire_after="soon"), "Group: expire_after: 'soon' is not a duration"),
    (lambda: Group("key", expire_after=0), "Group: expire_after can't be 0"),
    (lambda: Group("key", expire_after="10001d"), "Group: expire_after can't be '10001d'"),
    (
        {"group": Group(expire_after="1d"), "policy": Unordered()},
        "queue 'q': expire_after is for groups, and unordered has none",
    ),
]


@pytest.mark.parametrize(("changed", "told"), WRONG)
def test_what_no_queue_can_be(changed, told):
    made = changed if callable(changed) else partial(Queue, **{"name": "q", "group": "key", **changed})
    with pytest.raises(UsageError) as error:
        made()
    assert told in str(error.value)
    assert error.value.remedy


def test_the_fields_of_the_box_are_given_by_name():
    with pytest.raises(UsageError, match="Queue: too many positional arguments"):
        Queue("q", Unordered(), None, None, "stop")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": ""}, "'' is not a subscription's name"),
        ({"to": None}, "None is not a subscription's destination"),
        ({"where": "  "}, "subscription 's': where can't be '  ' (a filter; TRUE for all messages)"),
        ({"state": "on"}, "subscription 's': state can't be 'on' (one of started, stopped, enlisted, unenlisted)"),
        ({"state": True}, "subscription 's': state can't be True"),
    ],
)
def test_what_no_subscription_can_be(changed, told):
    with pytest.raises(UsageError) as error:
        Subscription(**{"name": "s", "where": "TRUE", "to": "q", **changed})
    assert told in str(error.value)


def test_a_router_has_the_subscriptions_that_collect():
    given = [Subscription(state, "TRUE", "q", state) for state in ("started", "stopped", "enlisted", "unenlisted")]
    assert [one.name for one in distinct(given)] == ["started", "stopped", "enlisted"]
    with pytest.raises(UsageError, match="two subscriptions are named 'unenlisted'"):
        distinct([*given, given[-1]])
