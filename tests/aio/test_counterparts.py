"""Each public method of a box, a session and a delivery has its asyncio counterpart, with the same parameters."""

from __future__ import annotations

import inspect

import pytest

import seriatim as sq
from seriatim.aio.session import AsyncSession

#: What the asyncio face has no counterpart of, and why.
_WITHOUT = {
    "MessageBox": {
        "access": "is for internal modules",
        "sessions": "is for workers, which have threads of their own",
        "__enter__": "is __aenter__",
        "__exit__": "is __aexit__",
    },
    "Session": {
        "access": "is for internal modules",
        "transaction": "is for internal modules",
        "present_connection": "is for internal modules",
        "handed_over": "is for internal modules",
        "on_use": "is for internal modules",
        "answers": "is for workers",
        "publish_answers": "is for workers",
        "connection": "would block the event loop: `run` and `execute` use it",
    },
    "TakenLease": {},
    "Delivery": {
        "happens": "is for internal modules",
        "lent": "is for workers",
        "part": "is for workers",
        "settle": "is for internal modules",
        "stands": "is for internal modules",
    },
}
_PAIRS = [
    (sq.MessageBox, sq.AsyncMessageBox),
    (sq.Session, AsyncSession),
    (sq.Delivery, sq.AsyncDelivery),
    (sq.TakenLease, sq.AsyncTakenLease),
]
#: What does nothing that takes time, or gives what does when it is awaited, and is no coroutine.
_AT_ONCE = {"as_role", "leased", "more", "open", "session", "stop_receiving"}


def _public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def _cases():
    return [
        pytest.param(sync, face, name, id=f"{face.__name__}.{name}")
        for sync, face in _PAIRS
        for name in sorted(_public(sync) - set(_WITHOUT[sync.__name__]))
    ]


@pytest.mark.parametrize(("sync", "face", "name"), _cases())
def test_it_has_the_same_parameters(sync, face, name):
    ours = inspect.getattr_static(face, name, None)
    assert ours is not None, f"{face.__name__} has no {name}: add it, or say in _WITHOUT why it needs none"
    theirs = inspect.getattr_static(sync, name)
    assert isinstance(ours, property) is isinstance(theirs, property)
    if isinstance(theirs, property):
        return
    ours, theirs = getattr(face, name), getattr(sync, name)
    assert inspect.iscoroutinefunction(ours) is (name not in _AT_ONCE)
    assert _parameters(ours) == _parameters(theirs)
    assert ours.__doc__


def _parameters(method):
    """Names, kinds and defaults; a face's annotations may name classes of its own."""
    found = inspect.signature(method).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]


def test_what_needs_no_counterpart_is_there():
    for sync, _ in _PAIRS:
        names = {name for name in _WITHOUT[sync.__name__] if not name.startswith("__") and name != "on_use"}
        assert names <= _public(sync)


def test_the_faces_have_little_besides():
    """What a face has alone: how plain code is called; and `lines`, for internal modules."""
    alone = {face.__name__: _public(face) - _public(sync) for sync, face in _PAIRS[:2]}
    assert alone == {"AsyncMessageBox": {"lines", "run"}, "AsyncSession": {"call", "execute", "run"}}
