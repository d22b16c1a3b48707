"""seriatim: one after another, in order.

Messages arrive scrambled, repeated and late. They leave in order per group, exactly once; missing messages are reported.
`MessageBox` and its classes are imported on first use, because they need a PostgreSQL driver or readers of bodies.
So are the functions of `seriatim.spark`, which need the extra ``spark`` (``pip install "seriatim[spark]"``).
"""

import importlib
from typing import TYPE_CHECKING, Any

from seriatim.errors import (
    ActionRefused,
    BoxDisabled,
    BoxMigrated,
    Business,
    CheckpointMismatch,
    ColumnError,
    DeadLetter,
    DeclarationError,
    DeploymentError,
    EnvironmentProblem,
    FilterError,
    GroupChanged,
    InvariantBroken,
    LeaseLost,
    LinkProtocolError,
    MissingExtra,
    NotFound,
    NumberRefused,
    PolicyError,
    Postpone,
    QueryFailed,
    QueueFull,
    RequestFailed,
    SchemaMismatch,
    SeriatimError,
    Transient,
    Unavailable,
    Unrouted,
    UntrustedData,
    UsageError,
)
from seriatim.kernel.conservation import Counts
from seriatim.kernel.groups.numbers import Sequence
from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered
from seriatim.kernel.operators.fault import Retry
from seriatim.kernel.operators.recover import Recover
from seriatim.kernel.sequencer import VOID, Event, GroupView, Item, Outcome, Released, Sequencer
from seriatim.pipeline.declared.activation import Activation
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE, Gate, Group, Keep, Limit, Remote
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.declared.work_limits import Lease, Pace
from seriatim.pipeline.types.answer import Answer
from seriatim.pipeline.types.message import Dialog, Message, Part, Received
from seriatim.pipeline.types.model import body_as, context_as
from seriatim.pipeline.types.schedule import Schedule

if TYPE_CHECKING:
    from seriatim.aio.delivery import AsyncDelivery
    from seriatim.aio.lease import AsyncTakenLease
    from seriatim.aio.message_box import AsyncMessageBox
    from seriatim.aio.session import AsyncSession
    from seriatim.box.box import MessageBox
    from seriatim.box.connection.application_connection import join
    from seriatim.box.instances.instances import Instance
    from seriatim.box.leases.taken import LeaseAnswer, LeasedMessage, Principal, TakenLease
    from seriatim.box.publishing.tickets import Tickets
    from seriatim.box.requests.requests import Pending, Reply
    from seriatim.box.session import Session
    from seriatim.box.turns.delivery import Delivery
    from seriatim.pipeline.types.message_type import MessageType
    from seriatim.regions.handler_transaction import HandlerTransaction
    from seriatim.regions.regional_queue import RegionalQueue
    from seriatim.regions.regions import Regions
    from seriatim.runtime.ports.receive_port import ReceivePort
    from seriatim.runtime.processes.transmitter import Transmitter
    from seriatim.runtime.regional.worker import RegionalWorker
    from seriatim.runtime.workers.async_worker import AsyncWorker
    from seriatim.runtime.workers.handlers import Consumed
    from seriatim.runtime.workers.worker import Worker
    from seriatim.spark import resequence as resequence
    from seriatim.spark import route as route
    from seriatim.spark import stamp as stamp

# Without the functions of `seriatim.spark`, so that `import *` works where the extra is not installed.
__all__ = [
    "VOID",
    "WHOLE_QUEUE",
    "ActionRefused",
    "Activation",
    "Answer",
    "AsyncDelivery",
    "AsyncMessageBox",
    "AsyncSession",
    "AsyncTakenLease",
    "AsyncWorker",
    "BestEffort",
    "BoxDisabled",
    "BoxMigrated",
    "BoxSettings",
    "Business",
    "CheckpointMismatch",
    "ColumnError",
    "Consumed",
    "Contract",
    "Counts",
    "DeadLetter",
    "DeclarationError",
    "Delivery",
    "DeploymentError",
    "Dialog",
    "EnvironmentProblem",
    "Event",
    "FaultKinds",
    "Fifo",
    "FilterError",
    "Gate",
    "Group",
    "GroupChanged",
    "GroupView",
    "HandlerTransaction",
    "Instance",
    "InvariantBroken",
    "Item",
    "Keep",
    "Lease",
    "LeaseAnswer",
    "LeaseLost",
    "LeasedMessage",
    "Limit",
    "Link",
    "LinkProtocolError",
    "Location",
    "Message",
    "MessageBox",
    "MessageType",
    "MissingExtra",
    "NotFound",
    "NumberRefused",
    "Outcome",
    "Pace",
    "Part",
    "Pending",
    "Policy",
    "PolicyError",
    "Postpone",
    "Principal",
    "QueryFailed",
    "Queue",
    "QueueFull",
    "ReceivePort",
    "Received",
    "Recover",
    "RegionalQueue",
    "RegionalWorker",
    "Regions",
    "Released",
    "Remote",
    "Reply",
    "RequestFailed",
    "Retry",
    "Schedule",
    "SchemaMismatch",
    "Sequence",
    "Sequencer",
    "SeriatimError",
    "Service",
    "Session",
    "Standard",
    "Subscription",
    "TakenLease",
    "Tickets",
    "Transient",
    "Transmitter",
    "Unavailable",
    "UnitOfWork",
    "Unordered",
    "Unrouted",
    "UntrustedData",
    "UsageError",
    "Worker",
    "__version__",
    "body_as",
    "context_as",
    "join",
]

__version__ = "0.1.0"

_LATER = {
    "AsyncDelivery": "seriatim.aio.delivery",
    "AsyncMessageBox": "seriatim.aio.message_box",
    "AsyncSession": "seriatim.aio.session",
    "AsyncTakenLease": "seriatim.aio.lease",
    "AsyncWorker": "seriatim.runtime.workers.async_worker",
    "Delivery": "seriatim.box.turns.delivery",
    "Instance": "seriatim.box.instances.instances",
    "LeaseAnswer": "seriatim.box.leases.taken",
    "LeasedMessage": "seriatim.box.leases.taken",
    "MessageBox": "seriatim.box.box",
    "MessageType": "seriatim.pipeline.types.message_type",
    "HandlerTransaction": "seriatim.regions.handler_transaction",
    "RegionalQueue": "seriatim.regions.regional_queue",
    "RegionalWorker": "seriatim.runtime.regional.worker",
    "Regions": "seriatim.regions.regions",
    "Session": "seriatim.box.session",
    "ReceivePort": "seriatim.runtime.ports.receive_port",
    "Consumed": "seriatim.runtime.workers.handlers",
    "Pending": "seriatim.box.requests.requests",
    "Reply": "seriatim.box.requests.requests",
    "Principal": "seriatim.box.leases.taken",
    "TakenLease": "seriatim.box.leases.taken",
    "Tickets": "seriatim.box.publishing.tickets",
    "Transmitter": "seriatim.runtime.processes.transmitter",
    "Worker": "seriatim.runtime.workers.worker",
    "join": "seriatim.box.connection.application_connection",
    "resequence": "seriatim.spark",
    "route": "seriatim.spark",
    "stamp": "seriatim.spark",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
