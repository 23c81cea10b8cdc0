"""What the figures share: lines and bands over replicates, colours, axes, and the papers' letters in words.

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

from mhasweep_analysis import fits
from mhasweep_analysis.reader import ResultError, sweep_axes

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
# For a dark page or slide: no background, light words and lines.
DARK = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": "0.88",
    "axes.labelcolor": "0.88",
    "axes.edgecolor": "0.6",
    "xtick.color": "0.75",
    "ytick.color": "0.75",
    "grid.color": "0.25",
}
MARKERS = "osD^vP*X<>"
TICKS_MOST = 12
MEAN_AND_ENDS: tuple[Callable[[np.ndarray], float], ...] = (np.mean, np.min, np.max)

LETTERS = {"heads": "$H$", "dim": "$d$", "key_dim": "$d_h$", "value_dim": "$d_v$", "context": "$n$", "samples": "$T$",
           "neurons": "$M$", "features": "$k$", "true_features": "$k_0$", "tokens": "$N$", "birth_death": r"$\gamma$",
           "step_size": r"$\tau$"}
WORDS = {"heads": "heads $H$", "context": "context rows $n$", "key_dim": "key dimension of a head $d_h$",
         "samples": "samples $T$", "parameters": "parameters",
         "dim": "dimension $d$"}
# Where an experiment's theory has letters of its own.
LETTERS_OF = {"optimize": {"samples": "$n$", "tokens": "$T$", "relevant": r"$\zeta$", "signal": "$S$",
                           "noise": r"$\sigma$", "prototypes": "$M$", "step_size": r"$\eta$", "steps": "$K$",
                           "init_logit": "$a$", "target_loss": r"$\epsilon$"},
              "select": {"samples": "$n$", "tokens": "$T$", "step_size": r"$\eta$"},
              "overfit": {"samples": "$n$", "tokens": "$T$", "step_size": r"$\eta$", "signal": r"$\|\mu\|$"}}
WORDS_OF = {"optimize": {"samples": "samples $n$", "relevant": r"share of relevant tokens $\zeta$", "step": "steps $k$",
                         "noise": r"noise $\sigma$", "step_size": r"step size $\eta$",
                         "target_loss": r"target loss $\epsilon$", "init_logit": "logit $a$ of the relevant tokens"}}


Panel = Callable[[xr.Dataset, Axes], Axes]


class Kind(NamedTuple):
    """A figure.

    `panel` draws one panel of it, `experiments` are those that it is the figure of, `result` is what it shows, `along`
    the axis that it is drawn along, and `shown` what else a panel shows of the sweep's axes: every combination of the
    others has a panel of its own. `wide` is the curve or spectrum that it reads, `stored` the array of each point (by
    `store:`). `title` are the parameters that stand above it where all points have them in common.
    """

    panel: Panel
    experiments: tuple[str, ...]
    result: str
    along: str | None = None
    shown: tuple[str, ...] = ()
    wide: str = ""
    stored: str = ""
    title: tuple[str, ...] = ("context_type", "heads", "dim", "key_dim", "context", "samples", "classes")


class Spread(NamedTuple):
    """A result over the replicates, at each value of what it is drawn against."""

    at: np.ndarray
    mean: np.ndarray
    least: np.ndarray
    most: np.ndarray


def spread(dataset: xr.Dataset, result: str, along: str) -> Spread:
    at = np.unique(dataset[along].values)
    groups = [dataset[result].values[dataset[along].values == value] for value in at]
    return Spread(at, *(np.array([measure(group) for group in groups]) for measure in MEAN_AND_ENDS))


def combinations(dataset: xr.Dataset, names: list[str]) -> Iterator[tuple[str, xr.Dataset]]:
    """The rows of each combination of values of `names` that occurs, in order, and words for it."""

    def in_order(values: np.ndarray) -> np.ndarray:
        """Numbers by size; words as they come in the sweep."""
        unique, first = np.unique(values, return_index=True)
        return unique[np.argsort(first)] if values.dtype.kind == "O" else unique

    experiment = dataset.attrs.get("experiment", "")
    for values in product(*(in_order(dataset[name].values) for name in names)):
        keep = np.ones(dataset.sizes["point"], dtype=bool)
        for name, value in zip(names, values):
            keep &= dataset[name].values == value
        if keep.any():
            yield ", ".join(named(n, v, experiment) for n, v in zip(names, values)), dataset.isel(point=keep)


def lines(dataset: xr.Dataset, by: tuple[str, ...], along: str) -> list[tuple[str, xr.Dataset]]:
    """The rows of every line and its words: a line for each combination of values of `by`, as far as these vary.

    Refuses to average over axes other than the replicates.
    """
    for name in sweep_axes(dataset):
        if name not in (*by, along, "replicate") and count(dataset, name) > 1:
            raise ResultError(f"the rows differ in {name}: select one value of it for a panel")
    present = [name for name in by if name in dataset.coords]
    derived = [name for name in present if count(dataset, name) > 1 and dataset[name].attrs.get("is_axis", 0) == 0]
    varying = [name for name in present if count(dataset, name) > 1 and name not in derived]
    # A number of samples that an expression makes of the heads is one line, not one for every head.
    if derived and not varying:
        return [(named(derived[0], f"f({along})"), dataset)]
    return list(combinations(dataset, varying or present[:1]))


def band(axes: Axes, at: Spread, number: int, total: int, label: str, marker: str | None = None) -> None:
    """A line through the means and a band from the least to the greatest, for line `number` of `total`."""
    shade = colour(number, total)
    axes.fill_between(at.at, at.least, at.most, color=shade, alpha=0.18, linewidth=0)
    axes.plot(at.at, at.mean, color=shade, marker=MARKERS[number % len(MARKERS)] if marker is None else marker, ms=5,
              lw=width(number, total), label=label)


def fitted_line(axes: Axes, fit: fits.Line, x: np.ndarray, letter: str, shade: tuple[float, ...] | str) -> str:
    """Dots the line from the least to the greatest x; returns its formula with the slope's interval, for the legend."""
    ends = np.array([np.min(x), np.max(x)])
    axes.plot(ends, fit.at(ends), color=shade, lw=1, ls=(0, (1, 1.5)))
    away, slope = fit.slope.high - fit.slope.value, f"{fit.slope.value:.3g}"
    if not np.isnan(away) and away > 1e-9 * abs(fit.slope.value):
        slope = rf"({slope} \pm {away:.2g})"
    return rf"${slope}\,{letter} {fit.intercept.value:+.3g}$, $R^2 = {fit.r2:.3f}$"


def value_axis(axes: Axes, dataset: xr.Dataset, name: str) -> None:
    """Label and ticks of the axis along the parameter `name`: its values, if there are few. Powers of a key dimension
    are evenly apart; heads and context rows never are, since lines in them are straight by the theory."""
    axes.set_xlabel(WORDS.get(name, name))
    values = np.unique(dataset[name].values)
    if name == "key_dim" and values.size > 3 and np.unique(values[1:] / values[:-1]).size == 1:
        axes.set_xscale("log", base=values[1] / values[0])
        axes.xaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
        axes.minorticks_off()
    else:
        axes.set_xlim(left=0)
    if values.size <= TICKS_MOST:
        axes.set_xticks(values)
    else:
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))


def words_of(name: str, experiment: str = "") -> str:
    """A parameter in words for an axis."""
    return WORDS_OF.get(experiment, {}).get(name, WORDS.get(name, name))


def named(name: str, value: object, experiment: str = "") -> str:
    if name == "context_type":
        return f"{value} context" if value == "shared" else f"{value} contexts"
    if name in ("weights", "attention"):
        return str(value) if name == "attention" else f"{value} weights"
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    text = f"{value:g}" if isinstance(value, (float, np.floating)) else f"{value:,}" if is_number else f"{value}"
    text = text.replace("$", r"\$")  # no formula, whatever a user calls a file
    return f"{LETTERS_OF.get(experiment, {}).get(name, LETTERS.get(name, name))} = {text}"


def count(dataset: xr.Dataset, name: str) -> int:
    return int(np.unique(dataset[name].values).size)


def width(number: int, total: int) -> float:
    """Of a line: the first ones are wider, so that lines that fall on one another all show."""
    return 1.5 + 0.5 * max(0, min(total, 5) - 1 - number)


def colour(number: int, total: int) -> tuple[float, float, float, float]:
    """Of line `number` of `total`: of the viridis map, without the end that is too near to the background."""
    least, most = (0.4, 1.0) if is_dark() else (0.0, 0.85)
    return matplotlib.colormaps["viridis"](least + (most - least) * number / max(total - 1, 1))


def is_dark() -> bool:
    return matplotlib.colors.to_rgb(matplotlib.rcParams["text.color"])[0] > 0.5
