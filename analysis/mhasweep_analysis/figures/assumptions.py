"""Whether data satisfy what the theory assumes of them."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from mhasweep_analysis.figures.parts import Kind, colour, count, lines, width
from mhasweep_analysis.reader import ResultError

LINES = ("source", "stage", "path", "distribution")


def kruskal_curve(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the random k-subsets of the queries that are independent, against k: a line for every kind of data.

    A line is the mean over the replicates; its band reaches from the lowest to the highest end of their confidence
    intervals. Upright lines stand at n, up to which the theorem needs independence, and at d (general position).
    """
    if "curve_share" not in dataset:
        raise ResultError("holds no curves; the sweep file has to ask for them (store: [curves])")
    parts = lines(dataset, LINES, along="replicate")
    for number, (words, rows) in enumerate(parts):
        there = ~np.isnan(rows["curve_share"].values).any(axis=0)
        k = rows["curve_k"].values[0, there]
        share, low, high = (rows[f"curve_{name}"].values[:, there] for name in ("share", "share_low", "share_high"))
        shade = colour(number, len(parts))
        axes.fill_between(k, low.min(axis=0), high.max(axis=0), color=shade, alpha=0.18, linewidth=0)
        axes.plot(k, share.mean(axis=0), color=shade, lw=width(number, len(parts)), label=words)
    for name, letter, style in (("context", "n", (0, (1, 1.5))), ("dim", "d", (0, (5, 2)))):
        if count(dataset, name) == 1:
            value = int(dataset[name].values[0])
            axes.axvline(value, color="0.45", lw=1.2, ls=style, label=f"${letter}$ = {value}")
    axes.set_xlim(left=0)
    axes.set_ylim(-0.02, 1.04)
    axes.set_xlabel("size $k$ of the subsets")
    axes.set_ylabel("share of random $k$-subsets that are independent")
    axes.legend()
    return axes


FIGURES = {
    "kruskal_curve": Kind(kruskal_curve, ("assumptions",), "kruskal_99", shown=LINES, wide="curve_share"),
}
