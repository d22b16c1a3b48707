"""The page of figures: each part of the benchmark is a section of it, and what was measured of a part stays until it is measured again.

The facts are in ``docs/reference/figures.json``, and `docs/reference/figures.md` is written from them.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Claim

__all__ = ["PAGE", "Section", "page", "read_sections", "shown_row", "write_page"]

_ROOT = Path(__file__).parents[1]
PAGE = _ROOT / "docs" / "reference" / "figures.md"
_FACTS = PAGE.with_suffix(".json")

#: What follows this was written by hand, before the benchmark wrote the page, and stays.
_EARLIER = "## Measured earlier\n"

_HEAD = """# Figures

Written by `make bench ARGS="--page PART…"` from what it measured; PART is the name in brackets behind each heading. A ratio compares two
measurements of one run: with seriatim ÷ without it, or ÷ the usual way to write it, or ÷ another library. Each is the median of the
runs, with the lowest and the highest in brackets. *Processor seconds* are those that 100,000 messages cost, first with seriatim, then
without it. Other machines have other amounts and much the same ratios. What had to hold and didn't is marked with **!**.
"""


@dataclass(frozen=True, slots=True)
class Section:
    """What the runs of one part measured.

    A row has: ``what``; ``ratios`` and ``amounts``, one a run (no amounts: the ratio says it all), with their ``unit``; ``limit``,
    which ``least`` of the median has to be at least, else at most; ``costs`` of the last run, as `Claim.costs`.
    """

    title: str
    date: str
    commit: str
    machine: str
    #: Of the machine, over one minute, when the part began: what else was going on.
    load: float
    runs: int
    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, title: str, load: float, runs: Sequence[Sequence[Claim]]) -> Section:
        """The section of these runs, which claim the same in the same order."""
        rows = [
            {
                "what": same[-1].what,
                "ratios": [round(claim.ratio, 3) for claim in same],
                "amounts": [float(f"{claim.amount:.3g}") for claim in same if claim.amount is not None],
                "unit": same[-1].unit,
                "limit": same[-1].limit,
                "least": same[-1].least,
                "costs": list(same[-1].costs),
            }
            for same in zip(*runs, strict=True)
        ]
        return cls(title, f"{datetime.now(UTC):%Y-%m-%d}", _commit(), _machine(), round(load, 1), len(runs), rows)


def shown_row(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """The ratio, its range, the amount and what the ratio has to be, for people."""
    ratio = statistics.median(row["ratios"])
    limit = row["limit"]
    demand = "" if limit is None else f"{'≥' if row['least'] else '≤'} {limit:g}"
    if limit is not None and (ratio < limit if row["least"] else ratio > limit):
        demand = f"**!** {demand}"
    amount = f"{_written(statistics.median(row['amounts']))} {row['unit']}" if row["amounts"] else ""
    return f"{ratio:.2f}", _range(row["ratios"]), amount, demand


def _written(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1_000 else f"{amount:.4g}"


def read_sections() -> dict[str, Section]:
    """Return the last section of each part, by the part's name."""
    return {name: Section(**facts) for name, facts in json.loads(_FACTS.read_text(encoding="utf-8")).items()}


def write_page(measured: Mapping[str, Section], parts: Sequence[str]) -> None:
    """Put sections in the place of those that the page has of these parts.

    Args:
        measured: the new sections by the parts' names.
        parts: the names of all parts, in the order of the page.
    """
    there = (read_sections() if _FACTS.exists() else {}) | dict(measured)
    sections = {name: there[name] for name in parts if name in there}
    facts = {name: asdict(section) for name, section in sections.items()}
    _FACTS.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    earlier = PAGE.read_text(encoding="utf-8").partition(_EARLIER)[1:] if PAGE.exists() else ()
    PAGE.write_text("\n".join([page(sections), "".join(earlier)]), encoding="utf-8")


def page(sections: Mapping[str, Section]) -> str:
    """The text of the page."""
    return "\n".join([_HEAD, *(line for name, section in sections.items() for line in _lines(name, section))])


def _lines(name: str, section: Section) -> Iterator[str]:
    yield f"## {section.title}\n"
    runs = "one run" if section.runs == 1 else f"{section.runs} runs"
    yield (
        f"[`{name}`] {section.date}, commit {section.commit}, {section.machine}, {runs}, load of the machine at the beginning "
        f"{section.load:g}.\n"
    )
    has_costs = any(row["costs"] for row in section.rows)
    head = ["measured", "ratio", "amount", "has to be", *(["processor seconds"] if has_costs else [])]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in section.rows:
        ratio, extent, amount, demand = shown_row(row)
        cells = [row["what"], f"{ratio} ({extent})" if section.runs > 1 else ratio, amount, demand]
        yield f"| {' | '.join([*cells, *(['<br>'.join(row['costs'])] if has_costs else [])])} |"
    yield ""


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else ""


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "src", "benchmarks") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
