"""Ports for workers: handlers that deliver the messages of a queue, in order. Guarantees: docs/reference/ports.md."""

from seriatim.endpoints.files import FilePort
from seriatim.endpoints.http import HttpPort
from seriatim.endpoints.mllp import MllpPort
from seriatim.endpoints.queue import QueuePort
from seriatim.endpoints.table import TablePort

__all__ = ["FilePort", "HttpPort", "MllpPort", "QueuePort", "TablePort"]
