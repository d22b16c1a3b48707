"""The page of figures has what the benchmark measured."""

from __future__ import annotations

from benchmarks.figures import PAGE, page, read_sections


def test_the_page_of_figures_begins_with_the_measured_sections():
    sections = read_sections()
    assert sections
    assert PAGE.read_text(encoding="utf-8").startswith(page(sections))
