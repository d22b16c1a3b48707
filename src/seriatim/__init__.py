"""seriatim: one after another, in order.

Messages arrive scrambled, repeated, late; they leave in order per group, exactly once, with holes noticed.
The Spark operators are in `seriatim.spark`, which is imported on its own because PySpark is heavy.
"""

from seriatim.errors import (
    ActionRefused,
    CheckpointMismatch,
    ColumnError,
    DeclarationError,
    DeploymentError,
    EnvironmentProblem,
    InvariantBroken,
    PolicyError,
    SeriatimError,
    UsageError,
)
from seriatim.kernel.conservation import Counts
from seriatim.kernel.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered
from seriatim.kernel.sequencer import Event, GroupView, Item, Outcome, Released, Sequencer
from seriatim.pipeline.queue import Queue

__all__ = [
    "ActionRefused",
    "BestEffort",
    "CheckpointMismatch",
    "ColumnError",
    "Counts",
    "DeclarationError",
    "DeploymentError",
    "EnvironmentProblem",
    "Event",
    "Fifo",
    "GroupView",
    "InvariantBroken",
    "Item",
    "Outcome",
    "Policy",
    "PolicyError",
    "Queue",
    "Released",
    "Sequencer",
    "SeriatimError",
    "Standard",
    "UnitOfWork",
    "Unordered",
    "UsageError",
    "__version__",
]

__version__ = "0.1.0"
