"""The methods of `MessageBox` that are now functions of `seriatim.operations`. The first numbered release removes them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

__all__ = ["MOVED", "method"]

#: The common name of the method and the function, and the module of `seriatim.operations` that has the function.
MOVED = {
    "clean_up_dialogs": "dialogs",
    "dialogs": "dialogs",
    "forget": "groups",
    "broken": "invariants",
    "leases_run_out": "invariants",
    "long_transactions": "invariants",
    "never_numbered": "invariants",
    "silent_triggers": "invariants",
    "message": "messages",
    "messages": "messages",
    "resubmit": "messages",
    "activate": "queues",
    "activations": "queues",
    "deactivate": "queues",
    "queues": "queues",
    "release": "queues",
    "turn_off": "queues",
    "turn_on": "queues",
    "keep_faults": "retention",
    "keep_message_ids": "retention",
    "purge": "retention",
    "purgeable": "retention",
    "start": "subscriptions",
    "stop": "subscriptions",
    "unenlist": "subscriptions",
}


def method(box: object, name: str) -> Callable[..., Any]:
    """The function that replaces a method, with the box as its first argument; a `DeprecationWarning` names its module.

    Raises:
        AttributeError: there was never such a method.
    """
    module = MOVED.get(name)
    if module is None:
        raise AttributeError(f"{type(box).__name__!r} object has no attribute {name!r}", name=name, obj=box)
    place = f"seriatim.operations.{module}"
    warnings.warn(f"MessageBox.{name}(…) is {place}.{name}(box, …) now", DeprecationWarning, stacklevel=3)
    return partial(getattr(import_module(place), name), box)
