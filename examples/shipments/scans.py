"""The user's code of this example: the lines of the first carrier."""

from __future__ import annotations


def read(body: bytes) -> dict[str, str]:
    """Reads ``SCN|parcel|time|step|depot``."""
    kind, *fields = body.decode("utf-8").split("|")
    if kind != "SCN":
        raise ValueError(f"{kind!r} is no scan")
    parcel, scanned_at, step, depot = fields
    return {"parcel": parcel, "scanned_at": scanned_at, "step": step, "depot": depot}
