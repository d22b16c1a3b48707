"""What somebody saw before they act, as digests that a form can carry."""

from __future__ import annotations

from seriatim.box.operators.seen import SEEN_BYTES, digest_of, seen_of

__all__ = ["SEEN_BYTES", "digest_of", "seen_of"]
