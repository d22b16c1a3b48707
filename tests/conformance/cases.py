"""All conformance cases. Parametrise an engine's tests with `CASES`."""

from __future__ import annotations

from tests.conformance.actions import ACTIONS
from tests.conformance.classic import CLASSIC
from tests.conformance.closings import CLOSINGS
from tests.conformance.conflicts import CONFLICTS
from tests.conformance.copies import COPIES
from tests.conformance.numbers import NUMBERS
from tests.conformance.recorded import LATER, RECORDED
from tests.conformance.restarts import RESTARTS
from tests.conformance.rules import RULES
from tests.conformance.stays import STAYS
from tests.conformance.voids import VOIDS

__all__ = ["CASES", "LATER", "RECORDED"]

CASES = CLASSIC + RECORDED + RULES + ACTIONS + CLOSINGS + STAYS + VOIDS + RESTARTS + CONFLICTS + COPIES + NUMBERS
