"""Arguments that a policy or a queue doesn't take."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.kernel.groups.policy import policy_from


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: sq.Standard(hole_timout=5), "Standard: unknown argument 'hole_timout' (did you mean 'hole_timeout'?)"),
        (lambda: sq.Fifo(window=5), "Fifo: unknown argument 'window' (it takes no arguments)"),
        (lambda: sq.Unordered(1), "Unordered: too many positional arguments (it takes no arguments)"),
        (lambda: sq.BestEffort(wndow=5), "BestEffort: unknown argument 'wndow' (did you mean 'window'?)"),
        (lambda: sq.UnitOfWork(siz=5), "UnitOfWork: unknown argument 'siz' (did you mean 'size'?)"),
        (lambda: sq.Standard(1, 2), "Standard: too many positional arguments (it takes start, settle, increment,"),
        (
            lambda: policy_from("standard", gap=5),
            "Standard: unknown argument 'gap' (it takes start, settle, increment,",
        ),
    ],
)
def test_a_policy_tells_what_it_takes(made, told):
    with pytest.raises(sq.PolicyError) as raised:
        made()
    assert str(raised.value).startswith(told)


def test_a_queue_tells_what_it_takes():
    with pytest.raises(sq.UsageError) as raised:
        sq.Queue("q", polcy=sq.Fifo(), group="c")
    assert str(raised.value) == "Queue: unknown argument 'polcy' (did you mean 'policy'?)"
    assert raised.value.arguments == ("polcy",)
    with pytest.raises(sq.UsageError, match="Queue: missing a required argument: 'name'"):
        sq.Queue(group="c")


@pytest.mark.parametrize(
    "kind",
    [
        sq.Activation,
        sq.BoxSettings,
        sq.Contract,
        sq.Link,
        sq.Location,
        sq.MessageType,
        sq.Queue,
        sq.RegionalQueue,
        sq.Schedule,
        sq.Service,
        sq.Subscription,
    ],
)
def test_each_declaration_does(kind):
    with pytest.raises(sq.UsageError, match=f"{kind.__name__}: unknown argument 'whatever'"):
        kind("n", whatever=1)


def test_a_type_error_of_a_value_stays_one():
    class Odd(str):
        __slots__ = ()

        def __eq__(self, other):
            raise TypeError("odd")

        __hash__ = str.__hash__

    with pytest.raises(TypeError, match="odd"):
        sq.Queue("q", sq.Fifo(), group="c", errors=Odd("stop"))
