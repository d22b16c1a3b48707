"""What a queue and a subscription can be, and how they refuse what they can't."""

from __future__ import annotations

import pytest

from seriatim.errors import UsageError
from seriatim.kernel.groups.policy import Standard, Unordered
from seriatim.pipeline.declared.queue import WHOLE_QUEUE, Queue
from seriatim.pipeline.declared.subscription import Subscription, distinct


def test_a_queue_is_plain_unless_told_otherwise():
    queue = Queue("q", group="key")
    assert (queue.errors, queue.priority, queue.keep, queue.keeps, queue.keep_for) == (
        "suspend",
        None,
        None,
        "faults",
        None,
    )
    assert (queue.max_messages, queue.when_full, queue.enabled, queue.expire_after) == (None, "wait", True, None)


def test_a_period_is_in_seconds():
    assert Queue("q", group="key", keep="faults", keep_for="7d").keep_for == 604_800.0


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
    (
        {"group": WHOLE_QUEUE, "default_group": "x"},
        "queue 'q': default_group is for messages without a key, and the whole queue",
    ),
    ({"group": ""}, "queue 'q': group can't be ''"),
    ({"policy": Standard()}, "queue 'q': standard needs a sequence"),
    ({"sequence": 3}, "queue 'q': sequence can't be 3"),
    ({"default_group": b"x"}, "queue 'q': default_group can't be b'x'"),
    ({"errors": "ignore"}, "queue 'q': errors can't be 'ignore'"),
    ({"errors": None}, "queue 'q': errors can't be None"),
    ({"priority": 5}, "queue 'q': priority can't be 5"),
    ({"keep": True}, "queue 'q': keep can't be True"),
    ({"keep": "nothing", "keep_for": "7d"}, "queue 'q': keep_for says for how long, and keep is nothing"),
    ({"attempts": 0}, "queue 'q': attempts can't be 0 (a whole number from 1 to 1,000)"),
    ({"attempts": True}, "queue 'q': attempts can't be True"),
    ({"retry_delay": -1}, "queue 'q': retry_delay can't be -1"),
    ({"retry_delay": "soon"}, "queue 'q': retry_delay: 'soon' is not a duration"),
    ({"retry_ceiling": None}, "queue 'q': retry_ceiling"),
    ({"retry_factor": 0.5}, "queue 'q': retry_factor can't be 0.5 (a number from 1 to 100)"),
    ({"retry_jitter": float("nan")}, "queue 'q': retry_jitter can't be nan"),
    ({"recoveries": -1}, "queue 'q': recoveries can't be -1 (a whole number from 0 to 1,000)"),
    ({"recover_delay": "soon"}, "queue 'q': recover_delay: 'soon' is not a duration"),
    ({"recover_factor": 0}, "queue 'q': recover_factor can't be 0 (a number from 1 to 100)"),
    ({"rollbacks": -1}, "queue 'q': rollbacks can't be -1 (a whole number from 0 to 1,000)"),
    ({"rollbacks": False}, "queue 'q': rollbacks can't be False"),
    ({"retry_jitter": "much"}, "queue 'q': retry_jitter can't be 'much'"),
    ({"keep": "faults", "keep_for": "soon"}, "queue 'q': keep_for: 'soon' is not a duration"),
    ({"keep": "faults", "keep_for": 0}, "queue 'q': keep_for can't be 0"),
    ({"keep": "faults", "keep_for": -1}, "queue 'q': keep_for can't be -1"),
    ({"keep": "faults", "keep_for": "10001d"}, "queue 'q': keep_for can't be '10001d'"),
    ({"keep": "faults", "keep_for": float("nan")}, "queue 'q': keep_for: nan is not a time"),
    ({"max_messages": 0}, "queue 'q': max_messages can't be 0"),
    ({"max_messages": True}, "queue 'q': max_messages can't be True"),
    ({"max_messages": 1.5}, "queue 'q': max_messages can't be 1.5"),
    ({"events": "none"}, "queue 'q': events can't be 'none'"),
    ({"when_full": "drop"}, "queue 'q': when_full can't be 'drop'"),
    ({"when_full": "refuse"}, "queue 'q': when_full is refuse, and nothing makes it full"),
    ({"enabled": 1}, "queue 'q': enabled can't be 1"),
    ({"expire_after": "soon"}, "queue 'q': expire_after: 'soon' is not a duration"),
    ({"expire_after": 0}, "queue 'q': expire_after can't be 0"),
    ({"expire_after": "10001d"}, "queue 'q': expire_after can't be '10001d'"),
    ({"expire_after": "1d", "policy": Unordered()}, "queue 'q': expire_after is for groups, and Unordered has none"),
]


@pytest.mark.parametrize(("changed", "told"), WRONG)
def test_what_no_queue_can_be(changed, told):
    with pytest.raises(UsageError) as error:
        Queue(**{"name": "q", "group": "key", **changed})
    assert told in str(error.value)
    assert error.value.remedy


def test_the_fields_of_the_box_are_given_by_name():
    with pytest.raises(UsageError, match="Queue: too many positional arguments"):
        Queue("q", Unordered(), None, None, None, "stop")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": ""}, "'' is not a subscription's name"),
        ({"to": None}, "None is not a subscription's destination"),
        ({"where": "  "}, "subscription 's': '  ' is not a filter"),
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
