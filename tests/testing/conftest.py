"""The fixtures that users get."""

from seriatim.testing.pytest import seriatim_box, seriatim_clock, seriatim_databases, seriatim_define

__all__ = ["seriatim_box", "seriatim_clock", "seriatim_databases", "seriatim_define"]
