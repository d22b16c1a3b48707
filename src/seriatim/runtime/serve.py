"""Serving, as applications import it."""

from seriatim.runtime.processes.serve import Serve

__all__ = ["Serve"]
