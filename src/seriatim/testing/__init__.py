"""Helpers for your tests: a message box for each test, a clock to move, work until nothing is left, runs of pipelines, feeds with faults.

The fixtures for pytest are in `seriatim.testing.pytest`.
"""

from seriatim.testing.clock import Clock
from seriatim.testing.failing import FailOn, fail_on
from seriatim.testing.feed import Arrival, Feed, Truth, faulty_feed
from seriatim.testing.pipelines import PipelineResult, run_pipeline
from seriatim.testing.work import work_off

__all__ = [
    "Arrival",
    "Clock",
    "FailOn",
    "Feed",
    "PipelineResult",
    "Truth",
    "fail_on",
    "faulty_feed",
    "run_pipeline",
    "work_off",
]
