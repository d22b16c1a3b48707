"""Serving, as applications import it."""

from seriatim.runtime.processes.link_server import LinkLimits, LinkServer
from seriatim.runtime.processes.serve import Serve

__all__ = ["LinkLimits", "LinkServer", "Serve"]
