"""The figures: each function draws one panel from a dataset into a matplotlib Axes and returns the Axes.

`draw` puts panels together: one for every combination of the axes that a panel does not show itself.
Colours come from the viridis map, in the order of the values, and markers differ too, so that the lines can be told
apart by colour-blind readers and in print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mhasweep_analysis.reader import DONE, ResultError, stored, sweep_axes

STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}
MARKERS = "osD^vP*X<>"
PANELS_MOST = 12

# Letters of the papers for the titles.
LETTERS = {"heads": "$H$", "dim": "$d$", "key_dim": "$d_h$", "value_dim": "$d_v$", "context": "$n$", "samples": "$T$"}


def accuracy_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the samples that are memorized against heads: a line for every number of samples.

    A line is the mean over the replicates, its band reaches from the least to the greatest of them. The dashed line is
    guessing (1 / classes).
    """
    for number, (samples, rows) in enumerate(_lines(dataset, "samples", along="heads")):
        heads, mean, least, most = _spread(rows, "accuracy", "heads")
        colour = _colour(number, _count(dataset, "samples"))
        axes.fill_between(heads, least, most, color=colour, alpha=0.18, linewidth=0)
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(heads, mean, color=colour, marker=marker, ms=5, label=_named("samples", samples))
    if "classes" in _used(dataset) and _count(dataset, "classes") == 1:
        axes.axhline(1 / float(dataset["classes"][0]), color="0.5", lw=1, ls=(0, (4, 3)), label="guessing")
    axes.set_ylim(-0.02, 1.04)
    axes.set_ylabel("memorized share of the samples (accuracy)")
    _heads_axis(axes, dataset)
    axes.legend(title="samples")
    return axes


def rank_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Numerical rank of Z against heads: markers are measured, a set for every context size n, lines are theory.

    Theory: min(T, H (n - 1) + 1) where all samples share a context, min(T, H d) where each has its own.
    """
    shared = str(dataset["context_type"].values[0]) == "shared"
    count = _count(dataset, "context")
    lines: list[np.ndarray] = []
    any_cut = False
    for number, (context, rows) in enumerate(_lines(dataset, "context", along="heads")):
        colour = _colour(number, count)
        at, theory, is_cut = _theory(rows, shared)
        any_cut |= is_cut
        if not any(np.array_equal(theory, other) for other in lines):
            axes.plot(at, theory, color=colour if shared else "0.45", lw=1.4, zorder=1)
            lines.append(theory)
        heads, mean, least, most = _spread(rows, "rank", "heads")
        if np.any(least < most):
            axes.vlines(heads, least, most, color=colour, lw=1.3, zorder=2)
        # Hollow and of falling size, so that equal ranks of several n stay visible.
        size = 5 + 1.6 * (count - 1 - number) if count <= 6 else 5
        axes.plot(heads, mean, MARKERS[number % len(MARKERS)], ms=size, mfc="none", mew=1.3, color=colour, zorder=3,
                  label=f"measured, {_named('context', context)}")
    formula = "H(n-1)+1" if shared else "Hd"
    if any_cut:
        formula = rf"\min(T,\, {formula})"
    axes.plot([], [], color="0.45", lw=1.4, label=f"theory: ${formula}$")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("numerical rank of $Z$")
    _heads_axis(axes, dataset)
    axes.legend()
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


class Kind(NamedTuple):
    """A figure: what draws a panel of it, of which experiment and result, and the axes that a panel shows itself."""

    panel: Callable[[xr.Dataset, Axes], Axes]
    experiment: str
    result: str
    shown: tuple[str, ...]


FIGURES = {
    "accuracy_against_heads": Kind(accuracy_against_heads, "memorize", "accuracy", ("heads", "samples", "replicate")),
    "rank_against_heads": Kind(rank_against_heads, "probe", "rank", ("heads", "context", "replicate")),
    "attention_maps": Kind(attention_maps, "memorize", "parameters", ("replicate",)),
}


def draw(dataset: xr.Dataset, name: str | None = None) -> Figure:
    """The figure `name` of a whole file; by default the one of its experiment.

    Raises ResultError if nothing is done yet, or the figure does not fit the file.
    """
    experiment = dataset.attrs["experiment"]
    name = name or next((it for it, kind in FIGURES.items() if kind.experiment == experiment), None)
    if name is None:
        raise ResultError(f"there is no figure for the experiment {experiment}; name one of {', '.join(FIGURES)}")
    if name not in FIGURES:
        raise ResultError(f"there is no figure {name}; there are {', '.join(FIGURES)}")
    kind = FIGURES[name]
    if kind.result not in dataset:
        raise ResultError(f"the figure {name} shows {kind.result}, which the experiment {experiment} does not measure")
    done = dataset.isel(point=np.flatnonzero(dataset["status"].values == DONE))
    if done.sizes["point"] == 0:
        raise ResultError(f"no point is done yet (of {dataset.sizes['point']})")

    panels = list(_panels(done, kind.shown))
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0 * columns + 0.6, 4.0 * rows + 0.7), layout="constrained", dpi=150)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, (title, part) in zip(grid.flat, panels):
            kind.panel(part, axes)
            axes.set_title(title)
            axes.label_outer()
        for axes in grid.flat[len(panels):]:
            axes.remove()
        figure.suptitle(_title(dataset, done), fontsize=11)
    return figure


def save(figure: Figure, path: str) -> None:
    """Writes the figure; the ending of `path` is the format (png, pdf, svg)."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path)


def _panels(dataset: xr.Dataset, shown: tuple[str, ...]) -> Iterator[tuple[str, xr.Dataset]]:
    """Titles and rows of the panels: every combination of the axes that are not `shown`."""
    others = [name for name in sweep_axes(dataset) if name not in shown and _count(dataset, name) > 1]
    combinations = list(product(*(np.unique(dataset[name].values) for name in others)))
    parts = []
    for values in combinations:
        keep = np.ones(dataset.sizes["point"], dtype=bool)
        for name, value in zip(others, values):
            keep &= dataset[name].values == value
        if keep.any():
            parts.append((", ".join(_named(n, v) for n, v in zip(others, values)), dataset.isel(point=keep)))
    if len(parts) > PANELS_MOST:
        raise ResultError(f"this sweep would need {len(parts)} panels, for {', '.join(others)}; "
                          "draw a part of it with the functions of mhasweep_analysis.figures")
    yield from parts


def _lines(dataset: xr.Dataset, by: str, along: str) -> Iterator[tuple[object, xr.Dataset]]:
    """The dataset in parts of equal `by`. Refuses to average over axes other than the replicates."""
    for name in sweep_axes(dataset):
        if name not in (by, along, "replicate") and _count(dataset, name) > 1:
            raise ResultError(f"the rows differ in {name}: select one value of it for a panel")
    # A number of samples that an expression makes of the heads is one line, not one for every head.
    if dataset[by].attrs.get("is_axis", 0) == 0 and _count(dataset, by) > 1:
        yield f"f({along})", dataset
        return
    for value in np.unique(dataset[by].values):
        yield value, dataset.isel(point=dataset[by].values == value)


def _spread(dataset: xr.Dataset, result: str, along: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values of `along` in order, and mean, least and greatest of `result` at each."""
    at = np.unique(dataset[along].values)
    groups = [dataset[result].values[dataset[along].values == value] for value in at]
    return (at, np.array([g.mean() for g in groups]), np.array([g.min() for g in groups]),
            np.array([g.max() for g in groups]))


def _theory(dataset: xr.Dataset, shared: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Heads, the theory's rank there, and whether the number of samples cuts it: at every whole number of heads and
    where it bends, if nothing else varies with the heads, else at the heads of the dataset."""
    heads = dataset["heads"].values
    at, first = np.unique(heads, return_index=True)
    samples, dim, context = (dataset[name].values[first] for name in ("samples", "dim", "context"))
    if all(np.unique(it).size == 1 for it in (samples, dim, context)):
        samples, dim, context = samples[0], dim[0], context[0]
        bend = (samples - 1) / max(context - 1, 1) if shared else samples / dim
        at = np.union1d(np.arange(at[0], at[-1] + 1), bend if at[0] < bend < at[-1] else at[0])
    rank = at * (context - 1) + 1 if shared else np.where(context > 1, at, 1) * dim  # heads see one row: all the same
    return at, np.minimum(rank, samples), bool(np.any(rank > samples))


def _heads_axis(axes: Axes, dataset: xr.Dataset) -> None:
    heads = np.unique(dataset["heads"].values)
    axes.set_xlabel("heads $H$")
    if heads.size <= 10:
        axes.set_xticks(heads)
    else:
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.set_xlim(left=0)


def _title(dataset: xr.Dataset, done: xr.Dataset) -> str:
    """What all points have in common, in letters, and what is still to come."""
    fixed = [_named(name, dataset[name].values[0]) for name in _used(dataset) if _count(dataset, name) == 1]
    replicates = _count(dataset, "replicate") if "replicate" in dataset.coords else 1
    words = [f"{dataset.attrs['experiment']}: {', '.join(fixed)}"]
    if replicates > 1:
        words.append(f"{replicates} replicates")
    if done.sizes["point"] < dataset.sizes["point"]:
        words.append(f"{done.sizes['point']:,} of {dataset.sizes['point']:,} points done")
    return "; ".join(words)


def _used(dataset: xr.Dataset) -> list[str]:
    """The parameters for the title that mean something in this sweep: classes only where labels are classes."""
    labels = "regression" if "labels" not in dataset.coords else dataset["labels"].values[0]
    names = ["dim", "key_dim", "context", "samples"] + (["classes"] if labels == "classes" else [])
    return [name for name in names if name in dataset.coords]


def _named(name: str, value: object) -> str:
    if name == "context_type":
        return f"{value} contexts" if value == "own" else f"{value} context"
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    text = f"{value:g}" if isinstance(value, (float, np.floating)) else f"{value:,}" if is_number else f"{value}"
    return f"{LETTERS.get(name, name)} = {text}"


def _count(dataset: xr.Dataset, name: str) -> int:
    return int(np.unique(dataset[name].values).size)


def _colour(number: int, count: int) -> tuple[float, float, float, float]:
    return matplotlib.colormaps["viridis"](0.85 * number / max(count - 1, 1))
