"""The supervisor of worker processes, as applications import it."""

from seriatim.runtime.processes.supervisor import Supervisor

__all__ = ["Supervisor"]
