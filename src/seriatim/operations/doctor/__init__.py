"""Check this machine and its message box: one finding, with a remedy, for each check.

A check changes nothing and leaves nothing behind. All together take seconds, but for Spark, which is started on request only.
"""

from seriatim.operations.doctor.all_checks import examine, findings_at, findings_of, findings_of_queue, is_project
from seriatim.operations.doctor.finding import Finding, State
from seriatim.operations.doctor.what_to_do import Advice, advice

__all__ = [
    "Advice",
    "Finding",
    "State",
    "advice",
    "examine",
    "findings_at",
    "findings_of",
    "findings_of_queue",
    "is_project",
]
