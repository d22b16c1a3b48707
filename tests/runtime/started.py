"""What an activation names."""

from __future__ import annotations


def step(message, tx):
    tx.instance.state.setdefault("versions", []).append(message.context["version"])
