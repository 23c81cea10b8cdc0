"""What attention makes of its data: rank and spectrum of the features Z, and where the heads look."""

from __future__ import annotations

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from mhasweep_analysis.figures.parts import MARKERS, Kind, Spread, band, colour, count, lines, spread, value_axis
from mhasweep_analysis.reader import ResultError, stored

SATURATED = 0.99  # largest attention weight from which on a head counts as saturated, as in the paper's code
TOLERANCES = (1e-3, 1e-6, 1e-9)  # of the results rank_1e3, rank_1e6, rank_1e9


def rank_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Numerical rank of Z against heads: markers are measured, a set for every context size n, lines are theory.

    Theory: min(T, H (n - 1) + 1) where all samples share a context, min(T, H d) where each has its own.
    """
    shared = str(dataset["context_type"].values[0]) == "shared"
    parts = lines(dataset, ("context",), along="heads")
    drawn: list[np.ndarray] = []
    any_cut = False
    for number, (words, rows) in enumerate(parts):
        shade = colour(number, len(parts))
        at, theory, is_cut = _theory(rows, shared)
        any_cut |= is_cut
        if not any(np.array_equal(theory, other) for other in drawn):
            axes.plot(at, theory, color=shade if shared else "0.45", lw=1.4, zorder=1)
            drawn.append(theory)
        rank = spread(rows, "rank", "heads")
        if np.any(rank.least < rank.most):
            axes.vlines(rank.at, rank.least, rank.most, color=shade, lw=1.3, zorder=2)
        # Hollow and of falling size, so that equal ranks of several n stay visible.
        size = 5 + 1.6 * (len(parts) - 1 - number) if len(parts) <= 6 else 5
        axes.plot(rank.at, rank.mean, MARKERS[number % len(MARKERS)], ms=size, mfc="none", mew=1.3, color=shade,
                  zorder=3, label=f"measured, {words}")
    formula = "H(n-1)+1" if shared else "Hd"
    if any_cut:
        formula = rf"\min(T,\, {formula})"
    axes.plot([], [], color="0.45", lw=1.4, label=f"theory: ${formula}$")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("numerical rank of $Z$")
    value_axis(axes, dataset, "heads")
    axes.legend()
    return axes


def rank_added(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The rank that each head of the constructed weights adds, summed up: a line for every d_h, beside the proof's.

    A line is the mean over the replicates, its band reaches from the least to the greatest. By the proof, head by head
    adds min(n, d_h) - 1, the first one 1 more.
    """
    if "curve_rank_added" not in dataset:
        raise ResultError("holds no curves; the sweep file has to ask for them (store: [curves])")
    parts = lines(dataset, ("key_dim",), along="replicate")
    for number, (words, rows) in enumerate(parts):
        rank = np.cumsum(rows["curve_rank_added"].values, axis=1)
        heads = np.arange(1, np.sum(~np.isnan(rank).any(axis=0)) + 1)
        rank = rank[:, : heads.size]
        added = min(int(rows["context"].values[0]), int(rows["key_dim"].values[0])) - 1
        axes.plot(heads, heads * added + 1, color="0.45", lw=1.2, ls=(0, (5, 2)), zorder=1,
                  label=r"theory: $h\,(\min(n, d_h)-1)+1$" if number == 0 else None)
        band(axes, Spread(heads, rank.mean(axis=0), rank.min(axis=0), rank.max(axis=0)), number, len(parts), words)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.set_xlabel("heads $h$ so far")
    axes.set_ylabel("rank of $Z$ on their samples")
    axes.legend()
    return axes


def spectrum(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Singular values of Z as shares of the largest (`store: [spectrum]`): a line for every key dimension.

    A line is the geometric mean over the replicates, its band reaches from the least to the greatest. Lines across are
    the tolerances of the results rank_1e3 to rank_1e9; the upright one is where the rank ends by the theory.
    """
    if "spectrum" not in dataset:
        raise ResultError("holds no spectrum; the sweep file has to ask for it (store: [spectrum])")
    parts = lines(dataset, ("key_dim",), along="replicate")
    least = np.finfo(float).eps
    for number, (words, rows) in enumerate(parts):
        values = rows["spectrum"].values
        values = values[:, ~np.isnan(values).any(axis=0)]
        share = np.maximum(values / values[:, :1], least / 10)
        index, shade = np.arange(1, share.shape[1] + 1), colour(number, len(parts))
        axes.fill_between(index, share.min(axis=0), share.max(axis=0), color=shade, alpha=0.18, linewidth=0)
        axes.plot(index, np.exp(np.log(share).mean(axis=0)), color=shade, lw=1.5, label=words)
    axes.set_yscale("log")
    axes.set_ylim(least, 2)
    for tolerance in TOLERANCES:
        axes.axhline(tolerance, color="0.6", lw=0.8, ls=(0, (4, 3)), zorder=1)
    bound, formula = _rank_at_most(dataset)
    if bound is not None:
        axes.axvline(bound, color="0.45", lw=1.2, label=f"theory: ${formula} = {bound}$")
        axes.set_xlim(0, bound * 1.08)
    axes.set_xlabel("number $i$ of the singular value")
    axes.set_ylabel(r"$\sigma_i\,/\,\sigma_1$ of $Z$")
    axes.legend(loc="upper right", ncols=2)
    return axes


def saturation(dataset: xr.Dataset, axes: Axes) -> Axes:
    """How sharply heads look: the share of all (sample, head) whose largest attention weight is at most x, a line for
    every size of the model, from the maps that the sweep stored (`store: [attention]`).

    A line is the mean over the replicates, its band reaches from the least to the greatest. Heads right of the upright
    line are saturated, as those of the theorem's proof are on the samples of earlier heads.
    """
    parts = lines(dataset, ("heads", "samples", "context"), along="replicate")
    at = np.linspace(0, 1, 501)
    for number, (words, rows) in enumerate(parts):
        sharpest = [stored(rows, int(point), "attention").max(axis=2).ravel() for point in rows["point"].values]
        share = np.array([np.searchsorted(np.sort(it), at, side="right") / it.size for it in sharpest])
        saturated = np.mean([np.mean(it > SATURATED) for it in sharpest])
        shade = colour(number, len(parts))
        axes.fill_between(at, share.min(axis=0), share.max(axis=0), color=shade, alpha=0.18, linewidth=0)
        axes.plot(at, share.mean(axis=0), color=shade, lw=1.6, label=f"{words}: {100 * saturated:.1f} % saturated")
    axes.axvline(SATURATED, color="0.45", lw=1.2, label=f"saturated above {SATURATED}")
    axes.set_xlim(0, 1.01)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("largest attention weight of a head on a sample")
    axes.set_ylabel("share of (sample, head) at or below")
    axes.legend(loc="upper left")
    return axes


def attention_maps(dataset: xr.Dataset, axes: Axes, sample: int | None = None) -> Axes:
    """Which head looks where: the weight of every head (row) on every context row (column), of one point.

    It is that of one sample, or the mean over the samples whose maps the sweep stored (`store: [attention]`). Of
    several replicates the first is drawn.
    """
    maps = stored(dataset, int(dataset["point"].values[0]), "attention")
    weights = maps.mean(0) if sample is None else maps[sample]
    heads, context = weights.shape
    mesh = axes.pcolormesh(np.arange(context + 1) + 0.5, np.arange(heads + 1) + 0.5, weights, cmap="viridis",
                           vmin=min(0.0, weights.min()), vmax=weights.max(), rasterized=True)
    of = f"mean over {len(maps)} samples" if sample is None else f"sample {sample}"
    axes.figure.colorbar(mesh, ax=axes, label=f"attention weight, {of}")
    axes.set_xlabel("context row")
    axes.set_ylabel("head")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.grid(False)
    return axes


def _theory(dataset: xr.Dataset, shared: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Heads, the theory's rank there, and whether the number of samples cuts it: at every whole number of heads and
    where it bends, if nothing else varies with the heads, else at the heads of the dataset."""
    heads = dataset["heads"].values
    at, first = np.unique(heads, return_index=True)
    samples, dim, context = (dataset[name].values[first] for name in ("samples", "dim", "context"))
    if all(np.unique(it).size == 1 for it in (samples, dim, context)):
        samples, dim, context = samples[0], dim[0], context[0]
        bend = (samples - 1) / max(int(context) - 1, 1) if shared else samples / dim
        at = np.union1d(np.arange(at[0], at[-1] + 1), bend if at[0] < bend < at[-1] else at[0])
    rank = at * (context - 1) + 1 if shared else np.where(context > 1, at, 1) * dim  # heads see one row: all the same
    return at, np.minimum(rank, samples), bool(np.any(rank > samples))


def _rank_at_most(dataset: xr.Dataset) -> tuple[int | None, str]:
    """The theory's rank of all these rows, if it is the same for all, and its formula."""
    shared = str(dataset["context_type"].values[0]) == "shared"
    name, formula = ("bound_shared", "H(n-1)+1") if shared else ("bound_width", "Hd")
    if name not in dataset or count(dataset, name) != 1 or set(np.unique(dataset["attention"].values)) != {"softmax"}:
        return None, formula
    return int(dataset[name].values[0]), formula


FIGURES = {
    "rank_against_heads": Kind(rank_against_heads, ("probe",), "rank", "heads", ("context",)),
    "spectrum": Kind(spectrum, ("probe",), "rank", "key_dim", wide="spectrum"),
    "rank_added": Kind(rank_added, ("probe",), "rank_per_head_min", shown=("key_dim",), wide="curve_rank_added"),
    "saturation": Kind(saturation, (), "parameters", shown=("heads", "samples", "context"), stored="attention"),
    "attention_maps": Kind(attention_maps, (), "parameters", stored="attention"),
}
