"""What somebody saw of a group before they act on it, as a digest: where it is another one by then, nothing is done.

It is the same whether or not a receiver, or the action itself, has the group locked. Messages that come behind don't change it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import sha256

from seriatim.box.views.groups import GroupView
from seriatim.kernel.groups.states import GroupState

#: The bytes of a digest, which is written in Base64.
SEEN_BYTES = 9
#: A group in one of these states is in it until somebody acts, since a moment.
_STANDING = (GroupState.CLOSED, GroupState.SUSPENDED, GroupState.FAULTED)


def seen_of(view: GroupView) -> str:
    """The digest of a group as it stands: why it stands still, and since when; of a group that waits, its hole."""
    facts: list[object] = [view.queue, view.group, view.incarnation, view.error]
    if view.state in _STANDING:
        facts += [view.state, view.since]
    elif view.hole_since is not None:
        facts += ["hole", view.hole_since, view.next, view.hole_through]
    else:
        unopened = "unopened" if view.unopened else view.gathers
        facts += [unopened or ("postponed" if view.postponed_until is not None else "open")]
    return digest_of(facts)


def digest_of(facts: Iterable[object]) -> str:
    text = "\0".join("" if one is None else str(one) for one in facts)
    return base64.urlsafe_b64encode(sha256(text.encode("utf-8", "surrogatepass")).digest()[:SEEN_BYTES]).decode()
