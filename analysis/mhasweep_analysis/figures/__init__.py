"""The figures: each function draws one panel from a dataset into a matplotlib Axes and returns the Axes.

`draw` puts panels together: one for every combination of the axes that a panel does not show itself.

To add the figures of another experiment:

1. Write figures/<body>.py with panel functions `f(dataset, axes) -> axes` and `FIGURES`, a dict from their names to
   Kind (parts.py explains its fields; assumptions.py is a small example). `lines`, `spread` and `band` of parts.py make
   a line with a band for every value of an axis, `fitted_line` the best straight one with its interval in the legend.
2. Add it to BODIES below. Without a name, a file's figure is the first one of its experiment whose result was measured
   and whose axis varies, so the most telling one stands first.
3. Give letters and words for the axes of its parameters in LETTERS and WORDS of parts.py, or in LETTERS_OF and WORDS_OF
   where its theory calls them otherwise than the others.
4. Name them in the table of analysis/README.md, and test them on files written by hand (analysis/tests/files.py).
"""

from __future__ import annotations

import textwrap
from contextlib import AbstractContextManager

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from mhasweep_analysis.figures import assumptions, features, icl, memorization, optimization, selection
from mhasweep_analysis.figures.assumptions import kruskal_curve
from mhasweep_analysis.figures.features import attention_maps, rank_added, rank_against_heads, saturation, spectrum
from mhasweep_analysis.figures.icl import (
    attention_limit, birth_death_bias, escape_steps, excess_loss, finite_prompt_gap, loss_on_ladder, misspecified_loss,
    sigma_bound, stalled_share, strict_saddles, success_rates, timescale_gap, transfer_error)
from mhasweep_analysis.figures.memorization import (
    accuracy_against_context, accuracy_against_heads, accuracy_against_key_dim, capacity_against_context,
    capacity_against_heads, capacity_against_key_dim, learning_curves, loss_against_context, loss_against_heads,
    variants_against_parameters)
from mhasweep_analysis.figures.optimization import (
    attention_along_training, curvature_against_heads, curvature_bound, distance_along_training, edge_of_stability,
    gap_against_samples, gradient_bound, head_collapse, heads_needed, loss_along_training, margin_against_noise,
    margin_against_relevant, margin_attained, output_against_heads, realizability, smoothness_bound,
    stability_against_samples, test_loss_against_samples, test_loss_along_training)
from mhasweep_analysis.figures.parts import DARK, STYLE, Kind, combinations, count, named
from mhasweep_analysis.figures.run import timeline
from mhasweep_analysis.figures.selection import (
    attention_against_snr, best_tokens_against_dim, correlation_against_dim, correlation_along_training,
    errors_against_snr, errors_along_training, misalignment_along_training, softmax_along_training, steps_against_snr)
from mhasweep_analysis.reader import DONE, ResultError, stores, sweep_axes

__all__ = [
    "BODIES", "FIGURES", "Kind", "accuracy_against_context", "accuracy_against_heads", "accuracy_against_key_dim",
    "attention_against_snr", "attention_along_training", "attention_limit", "attention_maps",
    "best_tokens_against_dim", "birth_death_bias", "capacity_against_context", "capacity_against_heads",
    "capacity_against_key_dim", "choose", "correlation_against_dim", "correlation_along_training",
    "curvature_against_heads", "curvature_bound", "distance_along_training", "draw", "edge_of_stability",
    "errors_against_snr", "errors_along_training", "escape_steps", "excess_loss", "finite_prompt_gap", "fitting",
    "gap_against_samples", "gradient_bound", "head_collapse", "heads_needed", "kruskal_curve", "learning_curves",
    "loss_against_context", "loss_against_heads", "loss_along_training", "loss_on_ladder", "margin_against_noise",
    "margin_against_relevant", "margin_attained", "misalignment_along_training", "misspecified_loss",
    "output_against_heads", "panel_count", "rank_added", "rank_against_heads", "realizability", "saturation",
    "save", "sigma_bound", "softmax_along_training", "spectrum", "stability_against_samples", "stalled_share",
    "steps_against_snr", "strict_saddles", "style", "success_rates", "test_loss_against_samples",
    "test_loss_along_training", "timeline", "timescale_gap", "transfer_error", "variants_against_parameters"]

PANELS_MOST = 12
AT_CAPACITY = ("accuracy", "loss")  # a search leaves those at the capacity that it found, which show no trend
BODIES = (assumptions, memorization, features, optimization, icl, selection)
FIGURES: dict[str, Kind] = {name: kind for body in BODIES for name, kind in body.FIGURES.items()}


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
    varying = [it for it in fitting if _varies(dataset, FIGURES[it].along)]
    # With no axis to draw along, a figure of a single column; never the comparison of variants.
    return next(iter(varying or [it for it in fitting if FIGURES[it].along != "attention"]))


def fitting(dataset: xr.Dataset) -> list[str]:
    """The names of all figures that this file has the data for, the one that `choose` takes first."""
    done = _done(dataset)
    return sorted((name for name, kind in FIGURES.items() if _fits(dataset, done, kind)),
                  key=lambda name: name != choose(dataset))


def draw(dataset: xr.Dataset, name: str | None = None, columns: int = 3, panel: tuple[float, float] = (5.0, 4.0),
         dark: bool = False) -> Figure:
    """The figure `name` of a whole file; by default the one of its experiment, results and axes.

    `columns` is the most panels beside one another, `panel` the size of each in inches; `dark` is for dark pages.

    Raises ResultError if nothing is done yet, or the figure does not fit the file.
    """
    kind = FIGURES[choose(dataset, name)]
    done = _done(dataset)
    panels = _panels(_shown(done, kind), kind)
    columns = min(len(panels), columns)
    rows = -(-len(panels) // columns)
    with style(dark):
        size = (panel[0] * columns + 0.6, panel[1] * rows + 0.7)
        figure = Figure(figsize=size, layout="constrained", dpi=150)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, (title, part) in zip(grid.flat, panels):
            kind.panel(part, axes)
            axes.set_title(title)
        _share_limits(grid.flat[: len(panels)], columns)
        for axes in grid.flat[len(panels):]:
            axes.remove()
        width = int(14 * size[0])  # letters of a line
        lines = [textwrap.fill(line.replace(" = ", "\xa0=\xa0"), width).replace("\xa0", " ")
                 for line in _title(dataset, done, kind)]  # a name and its value stay together
        figure.suptitle("\n".join(lines), fontsize=10.5)
        if dark:
            lighten(figure)
    return figure


def style(dark: bool = False) -> AbstractContextManager[None]:
    """A context in which matplotlib draws in the style of these figures."""
    return matplotlib.rc_context({**STYLE, **(DARK if dark else {})})


def lighten(figure: Figure) -> None:
    """Turns the greys of lines and words, which are chosen for white paper, into those of a dark page."""
    for axes in figure.axes:
        legend = axes.get_legend()
        keys = [] if legend is None else legend.get_lines()
        for artist in (*axes.lines, *axes.texts, *keys):
            red, green, blue, alpha = matplotlib.colors.to_rgba(artist.get_color())
            if red == green == blue < 0.7:
                artist.set_color((*[1 - 0.8 * red] * 3, alpha))


def panel_count(dataset: xr.Dataset, name: str | None = None) -> int:
    """How many panels the figure `name` has. Raises ResultError as `draw` does."""
    kind = FIGURES[choose(dataset, name)]
    return len(_panels(_shown(_done(dataset), kind), kind))


def _share_limits(panels: np.ndarray, columns: int) -> None:
    """The same limits for all panels, wide enough for each; only the outer ones keep their words."""
    left, right = np.array([axes.get_xlim() for axes in panels]).T
    bottom, top = np.array([axes.get_ylim() for axes in panels]).T
    for number, axes in enumerate(panels):
        axes.set_xlim(left.min(), right.max())
        axes.set_ylim(bottom.min(), top.max())
        if number + columns < len(panels):
            axes.set_xlabel("")
            axes.tick_params(axis="x", labelbottom=False)
        if number % columns > 0:
            axes.set_ylabel("")
            axes.tick_params(axis="y", labelleft=False)


def save(figure: Figure, path: str) -> None:
    """Writes the figure; the ending of `path` is the format (png, pdf, svg)."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path)


def _done(dataset: xr.Dataset) -> xr.Dataset:
    done = dataset.isel(point=np.flatnonzero(dataset["status"].values == DONE))
    if done.sizes["point"] == 0:
        raise ResultError(f"no point is done yet (of {dataset.sizes['point']})")
    return done


def _shown(done: xr.Dataset, kind: Kind) -> xr.Dataset:
    """The rows that measure what the figure shows."""
    return done.isel(point=np.flatnonzero(done[kind.result].notnull()))


def _is_measured(done: xr.Dataset, result: str) -> bool:
    return result in done and bool(done[result].notnull().any())


def _fits(dataset: xr.Dataset, done: xr.Dataset, kind: Kind) -> bool:
    if kind.experiments and dataset.attrs["experiment"] not in kind.experiments:
        return False
    if "capacity" in done and kind.result in AT_CAPACITY:
        return False
    if not _is_measured(done, kind.result) or (kind.wide and not _is_measured(done, kind.wide)):
        return False
    if kind.stored and not stores(dataset, int(done["point"].values[0]), kind.stored):
        return False
    return _varies(done, kind.along)


def _varies(dataset: xr.Dataset, name: str | None) -> bool:
    return name is None or name in sweep_axes(dataset) and count(dataset, name) > 1


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


def _title(dataset: xr.Dataset, done: xr.Dataset, kind: Kind) -> list[str]:
    """Lines: what all points have in common, in letters; then the replicates and what is still to come."""
    experiment = dataset.attrs["experiment"]
    fixed = [named(name, dataset[name].values[0], experiment) for name in _used(dataset, kind)
             if count(dataset, name) == 1]
    replicates = count(dataset, "replicate") if "replicate" in dataset.coords else 1
    words = []
    if replicates > 1:
        words.append(f"{replicates} replicates")
    if done.sizes["point"] < dataset.sizes["point"]:
        words.append(f"{done.sizes['point']:,} of {dataset.sizes['point']:,} points done")
    heading = f"{experiment}: {', '.join(fixed)}" if fixed else experiment
    return [it for it in (heading, "; ".join(words)) if it]


def _used(dataset: xr.Dataset, kind: Kind) -> list[str]:
    """The parameters for the title that mean something in this sweep: classes only where labels are classes, samples
    unless a search looks for them, the source of the data unless it is random numbers."""

    def is_always(name: str, value: str) -> bool:
        return name not in dataset.coords or set(np.unique(dataset[name].values)) == {value}

    unused = set() if "labels" in dataset.coords and is_always("labels", "classes") else {"classes"}
    unused |= {"samples"} if "capacity" in dataset else set()
    names = [*([] if is_always("source", "synthetic") else ["source"]), *kind.title]
    return [name for name in names if name in dataset.coords and name not in unused]
