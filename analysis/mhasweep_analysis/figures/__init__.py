"""The figures: each function draws one panel from a dataset into a matplotlib Axes and returns the Axes.

`draw` puts panels together: one for every combination of the axes that a panel does not show itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mhasweep_analysis.figures.assumptions import LINES, kruskal_curve
from mhasweep_analysis.figures.features import attention_maps, rank_against_heads, saturation, spectrum
from mhasweep_analysis.figures.memorization import (
    CAPACITY_LINES, accuracy_against_context, accuracy_against_heads, accuracy_against_key_dim,
    capacity_against_context, capacity_against_heads, capacity_against_key_dim, loss_against_context,
    loss_against_heads, variants_against_parameters)
from mhasweep_analysis.figures.parts import STYLE, combinations, count, named
from mhasweep_analysis.reader import DONE, ResultError, sweep_axes

PANELS_MOST = 12


class Kind(NamedTuple):
    """A figure: what draws a panel of it, the experiments that it is the figure of, the result that it shows, the axis
    that it is drawn along, what else a panel shows of the sweep's axes, and whether it needs curves or spectra."""

    panel: Callable[[xr.Dataset, Axes], Axes]
    experiments: tuple[str, ...]
    result: str
    along: str | None = None
    shown: tuple[str, ...] = ()
    is_wide: bool = False


BOTH = ("memorize", "probe")
# Without a name, a file's figure is the first one here whose result was measured and whose axis varies.
FIGURES = {
    "kruskal_curve": Kind(kruskal_curve, ("assumptions",), "kruskal_99", None, LINES, is_wide=True),
    "variants_against_parameters": Kind(variants_against_parameters, ("memorize",), "parameters", "attention",
                                        ("heads",)),
    "capacity_against_heads": Kind(capacity_against_heads, BOTH, "capacity", "heads", CAPACITY_LINES),
    "capacity_against_context": Kind(capacity_against_context, BOTH, "capacity", "context", CAPACITY_LINES),
    "capacity_against_key_dim": Kind(capacity_against_key_dim, BOTH, "capacity", "key_dim", CAPACITY_LINES),
    "accuracy_against_heads": Kind(accuracy_against_heads, ("memorize",), "accuracy", "heads", ("samples",)),
    "accuracy_against_context": Kind(accuracy_against_context, ("memorize",), "accuracy", "context", ("samples",)),
    "accuracy_against_key_dim": Kind(accuracy_against_key_dim, ("memorize",), "accuracy", "key_dim", ("samples",)),
    "loss_against_heads": Kind(loss_against_heads, ("memorize",), "loss", "heads", ("samples",)),
    "loss_against_context": Kind(loss_against_context, ("memorize",), "loss", "context", ("samples",)),
    "rank_against_heads": Kind(rank_against_heads, ("probe",), "rank", "heads", ("context",)),
    "spectrum": Kind(spectrum, ("probe",), "rank", "key_dim", is_wide=True),
    "saturation": Kind(saturation, (), "parameters", None, ("heads", "samples", "context")),
    "attention_maps": Kind(attention_maps, (), "parameters"),
}


def choose(dataset: xr.Dataset, name: str | None = None) -> str:
    """The name of the figure: `name` if it fits the dataset, else the one of its experiment, results and axes.

    Raises ResultError if there is none, `name` does not fit, or nothing is done yet.
    """
    experiment = dataset.attrs["experiment"]
    done = _done(dataset)
    if name is not None:
        if name not in FIGURES:
            raise ResultError(f"there is no figure {name}; there are {', '.join(FIGURES)}")
        if not _is_measured(done, FIGURES[name].result):
            raise ResultError(f"the figure {name} shows {FIGURES[name].result}, which the experiment {experiment} "
                              "does not measure here")
        return name
    fitting = [it for it, kind in FIGURES.items() if experiment in kind.experiments and _is_measured(done, kind.result)]
    if not fitting:
        raise ResultError(f"there is no figure for the experiment {experiment}; name one of {', '.join(FIGURES)}")
    varying = [it for it in fitting if FIGURES[it].along is None or _varies(dataset, FIGURES[it].along)]
    # With no axis to draw along, a figure of a single column; never the comparison of variants.
    return next(iter(varying or [it for it in fitting if FIGURES[it].along != "attention"]))


def draw(dataset: xr.Dataset, name: str | None = None) -> Figure:
    """The figure `name` of a whole file; by default the one of its experiment, results and axes.

    Raises ResultError if nothing is done yet, or the figure does not fit the file.
    """
    kind = FIGURES[choose(dataset, name)]
    done = _done(dataset)
    panels = _panels(done, kind)
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
        figure.suptitle(_title(dataset, done), fontsize=10.5)
    return figure


def save(figure: Figure, path: str) -> None:
    """Writes the figure; the ending of `path` is the format (png, pdf, svg)."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path)


def _done(dataset: xr.Dataset) -> xr.Dataset:
    done = dataset.isel(point=np.flatnonzero(dataset["status"].values == DONE))
    if done.sizes["point"] == 0:
        raise ResultError(f"no point is done yet (of {dataset.sizes['point']})")
    return done


def _is_measured(done: xr.Dataset, result: str) -> bool:
    return result in done and bool(done[result].notnull().any())


def _varies(dataset: xr.Dataset, name: str) -> bool:
    return name in sweep_axes(dataset) and count(dataset, name) > 1


def _panels(dataset: xr.Dataset, kind: Kind) -> list[tuple[str, xr.Dataset]]:
    """Titles and rows of the panels: every combination of the axes that a panel does not show. Where a sweep goes along
    several axes in turn (by `where`), only those in which the figure's own axis varies."""
    shown = (kind.along, *kind.shown, "replicate")
    others = [name for name in sweep_axes(dataset) if name not in shown and count(dataset, name) > 1]
    panels = list(combinations(dataset, others))
    if kind.along is not None:
        panels = [it for it in panels if count(it[1], kind.along) > 1] or panels
    if len(panels) > PANELS_MOST:
        raise ResultError(f"this sweep would need {len(panels)} panels, for {', '.join(others)}; "
                          "draw a part of it with the functions of mhasweep_analysis.figures")
    return panels


def _title(dataset: xr.Dataset, done: xr.Dataset) -> str:
    """What all points have in common, in letters; below it the replicates and what is still to come."""
    fixed = [named(name, dataset[name].values[0]) for name in _used(dataset) if count(dataset, name) == 1]
    replicates = count(dataset, "replicate") if "replicate" in dataset.coords else 1
    words = []
    if replicates > 1:
        words.append(f"{replicates} replicates")
    if done.sizes["point"] < dataset.sizes["point"]:
        words.append(f"{done.sizes['point']:,} of {dataset.sizes['point']:,} points done")
    return f"{dataset.attrs['experiment']}: {', '.join(fixed)}\n{'; '.join(words)}".rstrip()


def _used(dataset: xr.Dataset) -> list[str]:
    """The parameters for the title that mean something in this sweep: classes only where labels are classes, samples
    unless a search looks for them, the source of the data unless it is random numbers."""
    labels = "regression" if "labels" not in dataset.coords else dataset["labels"].values[0]
    source = "synthetic" if "source" not in dataset.coords else dataset["source"].values[0]
    names = ["source"] if source != "synthetic" else []
    names += ["context_type", "heads", "dim", "key_dim", "context"]
    names += ["samples"] if "capacity" not in dataset else []
    names += ["classes"] if labels == "classes" else []
    return [name for name in names if name in dataset.coords]
