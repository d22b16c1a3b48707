"""Plain text: text that came with messages is shown, and can do nothing to a terminal."""

from __future__ import annotations

from seriatim.pipeline.text.plain import in_line, in_lines

__all__ = ["in_line", "in_lines", "width_of"]


def width_of(text: str) -> int:
    """The number of terminal columns that a text takes: some characters take two, or none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 -- rarely needed

    return cell_len(text)
