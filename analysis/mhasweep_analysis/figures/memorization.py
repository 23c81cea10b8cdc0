"""What trained attention memorizes: accuracy, loss and capacity against the sizes of the model."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from mhasweep_analysis import fits
from mhasweep_analysis.figures.parts import (
    WORDS, Kind, Spread, band, colour, count, fitted_line, lines, named, spread, value_axis)
from mhasweep_analysis.reader import ResultError

ACCURACY = "memorized share of the samples (accuracy)"
CAPACITY = "capacity: most samples memorized"
CAPACITY_LINES = ("weights", "attention", "context_type")


def accuracy_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the samples that are memorized against heads: a line for every number of samples.

    A line is the mean over the replicates, its band reaches from the least to the greatest of them. The dashed line is
    guessing (1 / classes).
    """
    return _accuracy(dataset, axes, "heads")


def accuracy_against_context(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the samples that are memorized against the rows of a context: a line for every number of samples.

    Otherwise as accuracy_against_heads.
    """
    return _accuracy(dataset, axes, "context")


def accuracy_against_key_dim(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Share of the samples that are memorized against the key dimension: a line for every number of samples, and a
    dotted one where the key dimension is the context's size, from which on the theory promises nothing more.

    Otherwise as accuracy_against_heads.
    """
    _accuracy(dataset, axes, "key_dim")
    _mark_context(dataset, axes)
    axes.legend()
    return axes


def loss_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Mean squared error (or cross-entropy) of the best model against heads: a line for every number of samples.

    A line is the mean over the replicates, its band reaches from the least to the greatest of them. The dashed line is
    the best constant's error for numbers uniform on [0, 1), 1/12.
    """
    return _loss(dataset, axes, "heads")


def loss_against_context(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Mean squared error (or cross-entropy) of the best model against the rows of a context: a line for every number of
    samples.

    Otherwise as loss_against_heads.
    """
    return _loss(dataset, axes, "context")


def capacity_against_heads(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The most samples that are memorized (a sweep with `search`) against heads, with the theory's line and the best
    straight line through all points, its slope with a 95 % interval (Student's, by fits.line), and R^2.

    A line for every kind of weights, attention and contexts: the mean over the replicates with a band from the least to
    the greatest. A search that found nothing counts as 0.
    """
    return _capacity(dataset, axes, "heads", has_fit=True)


def capacity_against_context(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The most samples that are memorized (a sweep with `search`) against the rows of a context, with the theory's.

    Otherwise as capacity_against_heads, without the fit.
    """
    return _capacity(dataset, axes, "context")


def capacity_against_key_dim(dataset: xr.Dataset, axes: Axes) -> Axes:
    """The most samples that are memorized (a sweep with `search`) against the key dimension, with the theory's, and a
    dotted line where the key dimension is the context's size, from which on the theory promises nothing more.

    Otherwise as capacity_against_heads, without the fit.
    """
    _capacity(dataset, axes, "key_dim")
    _mark_context(dataset, axes)
    axes.legend()
    return axes


def variants_against_parameters(dataset: xr.Dataset, axes: Axes) -> Axes:
    """What each kind of attention memorizes against the parameters of the whole model: its capacity if the sweep
    searched for it, else its accuracy.

    Numbers of heads make the points of a line; with `match_parameters: true` those of all kinds stand at the same
    parameters. Means over the replicates, and bands from the least to the greatest.
    """
    result = "capacity" if "capacity" in dataset else "accuracy"
    parts = lines(dataset, ("attention", "samples"), along="heads")
    for number, (words, rows) in enumerate(parts):
        at = spread(rows, result, "heads")
        parameters = spread(rows, "parameters", "heads").mean
        band(axes, at._replace(at=parameters), number, len(parts), words)
        if number == 0:
            for x, y, heads in zip(parameters, at.mean, at.at):
                axes.annotate(named("heads", int(heads)), (x, y), xytext=(0, -14), textcoords="offset points",
                              ha="center", fontsize=8, color="0.35")
    axes.set_xlabel(WORDS["parameters"])
    axes.set_ylabel(CAPACITY if result == "capacity" else ACCURACY)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.legend()
    return axes


def learning_curves(dataset: xr.Dataset, axes: Axes) -> Axes:
    """How training goes: the memorized share (classes) or the error against the steps, a line for every number of H.

    A line is the mean over the replicates, its band reaches from the least to the greatest; a run that stopped early
    keeps its last value.
    """
    if "curve_step" not in dataset:
        raise ResultError("holds no curves; the sweep file has to ask for them (store: [curves])")
    is_accuracy = bool(dataset["curve_accuracy"].notnull().any())
    parts = lines(dataset, ("heads",), along="replicate")
    for number, (words, rows) in enumerate(parts):
        steps = rows["curve_step"].values
        longest = steps[np.argmax(np.sum(~np.isnan(steps), axis=1))]
        values = _kept(rows["curve_accuracy" if is_accuracy else "curve_loss"].values)[:, ~np.isnan(longest)]
        at = Spread(longest[~np.isnan(longest)], values.mean(axis=0), values.min(axis=0), values.max(axis=0))
        band(axes, at, number, len(parts), words, marker="")
    axes.set_xlim(left=0)
    axes.set_xlabel("training steps")
    if is_accuracy:
        axes.set_ylim(-0.02, 1.04)
        axes.set_ylabel(ACCURACY)
    else:
        axes.set_yscale("log")
        axes.set_ylabel("mean loss over all samples")
    axes.legend()
    return axes


def _kept(values: np.ndarray) -> np.ndarray:
    """Rows with their last number in place of the NaN behind it."""
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(values.shape[1])), axis=1)
    return np.take_along_axis(values, last, axis=1)


def _accuracy(dataset: xr.Dataset, axes: Axes, along: str) -> Axes:
    parts = lines(dataset, ("samples",), along)
    for number, (words, rows) in enumerate(parts):
        band(axes, spread(rows, "accuracy", along), number, len(parts), words)
    if "classes" in dataset.coords and count(dataset, "classes") == 1:
        axes.axhline(1 / float(dataset["classes"][0]), color="0.5", lw=1, ls=(0, (4, 3)), label="guessing")
    axes.set_ylim(-0.02, 1.04)
    axes.set_ylabel(ACCURACY)
    value_axis(axes, dataset, along)
    axes.legend(title="samples")
    return axes


def _loss(dataset: xr.Dataset, axes: Axes, along: str) -> Axes:
    is_regression = str(dataset["labels"].values[0]) == "regression"
    parts = lines(dataset, ("samples",), along)
    for number, (words, rows) in enumerate(parts):
        band(axes, spread(rows, "loss", along), number, len(parts), words)
    if is_regression:
        axes.axhline(1 / 12, color="0.5", lw=1, ls=(0, (4, 3)), label="best constant")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("mean squared error" if is_regression else "cross-entropy")
    value_axis(axes, dataset, along)
    axes.legend(title="samples")
    return axes


def _capacity(dataset: xr.Dataset, axes: Axes, along: str, has_fit: bool = False) -> Axes:
    dataset = dataset.assign(capacity=dataset["capacity"].clip(min=0))
    parts = lines(dataset, CAPACITY_LINES, along)
    for bound, formula in _bounds(dataset):
        at = spread(dataset, bound, along)
        style = (0, (5, 2)) if bound == "bound_lower" else "-"
        axes.plot(at.at, at.mean, color="0.45", lw=1.4, ls=style, zorder=1, label=f"theory: ${formula}$")
    for number, (words, rows) in enumerate(parts):
        if has_fit and count(rows, along) > 2:
            fit = fits.line(rows[along].values, rows["capacity"].values)
            words += f": {fitted_line(axes, fit, rows[along].values, 'H', colour(number, len(parts)))}"
        band(axes, spread(rows, "capacity", along), number, len(parts), words)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(CAPACITY)
    value_axis(axes, dataset, along)
    axes.legend()
    return axes


def _bounds(dataset: xr.Dataset) -> list[tuple[str, str]]:
    """The columns of the theory that bear on these rows, with their formulas: what is promised, and what no attention
    can pass with a linear readout of one number. The second is that of softmax, and left out for other kinds."""
    bounds = [("bound_lower", r"H(\min(n, d_h)-1)+1")]
    if set(np.unique(dataset["attention"].values)) == {"softmax"} and count(dataset, "context_type") == 1:
        is_shared = str(dataset["context_type"].values[0]) == "shared"
        highest = ("bound_shared", "H(n-1)+1") if is_shared else ("bound_width", "Hd")
        if np.array_equal(dataset[highest[0]], dataset["bound_lower"]):
            return [(highest[0], f"{bounds[0][1]} = {highest[1]}")]
        bounds.append(highest)
    return bounds


def _mark_context(dataset: xr.Dataset, axes: Axes) -> None:
    if count(dataset, "context") == 1:
        axes.axvline(int(dataset["context"][0]), color="0.5", lw=1, ls=(0, (1, 2)), label="$d_h = n$")


BOTH = ("memorize", "probe")
FIGURES = {
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
    "learning_curves": Kind(learning_curves, ("memorize",), "loss", shown=("heads",), wide="curve_step"),
}
