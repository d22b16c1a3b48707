"""The pictures of this example: how late events are, and what each window leaves and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from examples.receipt.rounds import WINDOWS
from matplotlib.axes import Axes

__all__ = ["draw_lateness", "draw_windows"]

# The same picture, byte for byte, from the same numbers; and text as text.
mpl.use("Agg")
mpl.rcParams.update({"svg.hashsalt": "receipt", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"})
_INK, _SOFT = "#20476b", "#c8553d"
_TICKS = {"1 s": 1, "1 min": 60, "1 h": 3600, "1 day": 86400, "1 week": 604800, "1 month": 2592000, "1 year": 31536000}


def draw_lateness(late_s: Sequence[float], file: Path) -> None:
    """How many of the late events are no more than so long behind the first higher number of their case."""
    figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    behind = np.sort(late_s)
    axes.plot(behind[::4], np.arange(1, len(behind) + 1)[::4], color=_INK)
    for name, window in WINDOWS.items():
        axes.axvline(window.total_seconds(), color=_SOFT, linewidth=0.8, linestyle=":")
        axes.text(window.total_seconds(), len(behind) * 1.02, name.removeprefix("window-"), color=_SOFT, ha="center")
    _seconds(axes, "behind the first higher number of the same case, at most")
    axes.set_xlim(1, behind[-1] * 1.5)
    axes.set_ylim(0, len(behind))
    axes.set_ylabel("events out of order")
    _save(figure, file)


def draw_windows(inversions: Mapping[str, int], waited: Mapping[str, Sequence[timedelta]], file: Path) -> None:
    """For each window the inversions that it leaves, and how long events wait for it.

    Args:
        inversions: by destination, ``recorded`` among them.
        waited: by destination with a window the delay of every event.
        file: where the picture goes.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0), layout="constrained")
    names = ["recorded", *WINDOWS]
    labels = ["none", *(name.removeprefix("window-") for name in WINDOWS)]
    bars = left.bar(labels, [inversions[name] for name in names], color=_INK)
    left.bar_label(bars, fontsize=8)
    left.set_ylabel("inversions left")
    left.set_xlabel("window")
    left.margins(y=0.12)
    left.spines[["top", "right"]].set_visible(False)
    for name in WINDOWS:
        shares = np.linspace(0, 1, 201)
        spent = np.quantile([one.total_seconds() for one in waited[name]], shares, method="inverted_cdf")
        right.plot(np.maximum(spent, 1), shares, linewidth=1.2, label=name.removeprefix("window-"))
    _seconds(right, "added delay, at most")
    right.set_ylabel("share of the events")
    right.set_ylim(0, 1.02)
    right.legend(title="window", fontsize=7, title_fontsize=7, frameon=False, loc="upper left")
    _save(figure, file)


def _seconds(axes: Axes, label: str) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(_TICKS.values()), list(_TICKS), fontsize=8, rotation=30)
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: plt.Figure, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    plt.close(figure)
