"""What claims are made of, and what their functions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import xarray as xr

from mhasweep_analysis import fits
from mhasweep_analysis.figures.parts import combinations, count
from mhasweep_analysis.fits import Interval
from mhasweep_analysis.reader import DONE, ResultError, sweep_axes

ALL = "all"  # of Claim.pooled: whatever else varies is taken together


class Outcome(Enum):
    HOLDS = "holds"
    FAILS = "fails"
    MEASURED = "measured only"
    ABSENT = "not in this file"


class Mark(Enum):
    """How far a source can be trusted, in words for the reader."""

    PAPER = "the paper's own text"
    CODE = "read in the authors' code or its saved outputs"
    CITING = "said of it by a paper that cites it"
    SECONDARY = "from a summary of the paper, plausible, not checked against its text"
    DERIVED = "derived for this project and checked numerically; not the paper's"
    QUESTION = "asked by this project; no source claims it"
    UNVERIFIED = "unverified"


@dataclass(frozen=True)
class Source:
    text: str  # where it is said: authors, title, arXiv number, place
    mark: Mark


@dataclass(frozen=True)
class Verdict:
    """What a file says about a claim.

    `measured` is the value of `quantity`, with its interval where there is one; `theory` what it should be (or not
    pass), as a number or a formula; `details` are more numbers by name, e.g. R2.
    """

    outcome: Outcome
    quantity: str = ""
    measured: float | None = None
    interval: tuple[float, float] | None = None
    theory: float | str | None = None
    points: int = 0
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()  # where other axes vary too: each of their combinations by itself

    @staticmethod
    def of(
        is_true: bool,
        quantity: str,
        measured: float | Interval,
        theory: float | str,
        points: int,
        note: str = "",
        **details: float,
    ) -> Verdict:
        value, interval = _split(measured)
        outcome = Outcome.HOLDS if is_true else Outcome.FAILS
        return Verdict(outcome, quantity, value, interval, theory, points, note, details)

    @staticmethod
    def measuring(quantity: str, measured: float | Interval, points: int, note: str = "", **details: float) -> Verdict:
        value, interval = _split(measured)
        return Verdict(Outcome.MEASURED, quantity, value, interval, None, points, note, details)

    @staticmethod
    def absent(why: str) -> Verdict:
        return Verdict(Outcome.ABSENT, note=why)


@dataclass(frozen=True)
class Part:
    words: str  # the values of the other axes
    verdict: Verdict


Rows = Callable[[xr.Dataset], np.ndarray]


@dataclass(frozen=True)
class Claim:
    """One sentence of a theory, and how it is measured.

    `results` are the variables that it reads, results and curves alike: rows in which a result is missing are left out.
    `axes` are the axes along which it is measured, with the least number of values that each must take. `rows` selects
    the rows that it speaks of, and `where` says so in words. Of the sweep's other axes each combination is measured by
    itself, but those in `pooled` (or all, by ALL) are taken together, as the replicates always are.
    """

    name: str
    experiments: tuple[str, ...]
    statement: str
    source: Source
    measure: Callable[[xr.Dataset], Verdict]
    results: tuple[str, ...]
    axes: Mapping[str, int] = field(default_factory=dict)
    rows: Rows | None = None
    where: str = ""
    pooled: tuple[str, ...] | str = ()

    def judge(self, dataset: xr.Dataset) -> Verdict:
        """The verdict on the rows of `dataset` that are done."""
        if dataset.attrs["experiment"] not in self.experiments:
            return Verdict.absent(f"the experiment is {dataset.attrs['experiment']}")
        missing = [name for name in self.results if name not in dataset]
        if missing:
            return Verdict.absent(f"holds no {', '.join(missing)}")
        done = self._select(dataset)
        if done.sizes["point"] == 0:
            return Verdict.absent(f"no point that is done{f' has {self.where}' if self.where else ''}")
        short = [name for name in self.axes if name not in done.coords or count(done, name) < self.axes[name]]
        if short:
            least = self.axes[short[0]]
            return Verdict.absent(
                f"{short[0]} takes fewer than {least} values" if least > 2 else f"{short[0]} does not vary"
            )
        return self._measure(done)

    def _select(self, dataset: xr.Dataset) -> xr.Dataset:
        keep = dataset["status"].values == DONE
        for name in self.results:
            if dataset[name].dims == ("point",):
                keep &= dataset[name].notnull().values
        done = dataset.isel(point=np.flatnonzero(keep))
        if self.rows is None or done.sizes["point"] == 0:
            return done
        return done.isel(point=np.flatnonzero(self.rows(done)))

    def _measure(self, done: xr.Dataset) -> Verdict:
        mine = (*self.axes, "replicate")
        others = (
            []
            if self.pooled == ALL
            else [name for name in sweep_axes(done) if name not in (*mine, *self.pooled) and count(done, name) > 1]
        )
        groups = [
            (words, rows)
            for words, rows in combinations(done, others)
            if all(count(rows, name) >= least for name, least in self.axes.items())
        ]
        if not groups:
            return Verdict.absent(f"{' and '.join(self.axes)} vary only together with {', '.join(others)}")
        parts = tuple(Part(words, self.measure(rows)) for words, rows in groups)
        return parts[0].verdict if len(parts) == 1 else _together(parts)


def _together(parts: tuple[Part, ...]) -> Verdict:
    """The verdict on all parts: it fails if one fails, and holds if one holds and none fails."""
    outcomes = [part.verdict.outcome for part in parts]
    outcome = next(it for it in (Outcome.FAILS, Outcome.HOLDS, Outcome.MEASURED, Outcome.ABSENT) if it in outcomes)
    of_them = sum(it == outcome for it in outcomes)
    told = [part.verdict for part in parts if part.verdict.measured is not None]
    return Verdict(
        outcome,
        told[0].quantity if told else "",
        points=sum(it.points for it in told),
        note=f"{outcome.value} in {of_them} of {len(parts)} parts",
        parts=parts,
    )


def _split(measured: float | Interval) -> tuple[float, tuple[float, float] | None]:
    if not isinstance(measured, Interval):
        return float(measured), None
    has_ends = not (np.isnan(measured.low) or np.isnan(measured.high))
    return measured.value, (measured.low, measured.high) if has_ends else None


# ---- which rows ----


def only(**values: object) -> Rows:
    """Rows whose parameters have these values (a tuple: one of them). Of a parameter that the file lacks: none."""

    def rows(dataset: xr.Dataset) -> np.ndarray:
        keep = np.ones(dataset.sizes["point"], dtype=bool)
        for name, wanted in values.items():
            if name not in dataset.coords:
                return np.zeros(dataset.sizes["point"], dtype=bool)
            keep &= np.isin(dataset[name].values, wanted if isinstance(wanted, tuple) else (wanted,))
        return keep

    return rows


def both(*conditions: Rows) -> Rows:
    return lambda dataset: np.logical_and.reduce([it(dataset) for it in conditions])


# ---- how a claim is decided ----


def exactly(measured: np.ndarray, theory: np.ndarray, what: str) -> Verdict:
    """Are these equal, point by point? Measures the largest difference."""
    away = np.abs(np.asarray(measured, float) - theory)
    equal = int(np.sum(away == 0))
    return Verdict.of(
        equal == away.size,
        f"largest |{what} - theory|",
        float(away.max()),
        0.0,
        away.size,
        f"equal at {equal:,} of {away.size:,} points",
    )


def at_least(measured: np.ndarray, theory: np.ndarray, what: str, formula: str) -> Verdict:
    """Is it nowhere below the theory's value? Measures the least ratio of both."""
    return _one_side(np.asarray(measured, float), np.asarray(theory, float), what, formula, np.min, "above or at")


def at_most(measured: np.ndarray, theory: np.ndarray, what: str, formula: str) -> Verdict:
    """Is it nowhere above the theory's value? Measures the largest ratio of both."""
    return _one_side(np.asarray(measured, float), np.asarray(theory, float), what, formula, np.max, "below or at")


def _one_side(
    measured: np.ndarray, theory: np.ndarray, what: str, formula: str, worst: Callable, words: str
) -> Verdict:
    if np.any(theory <= 0):
        raise ResultError(f"a ratio of {what} to {formula} needs positive values of the theory")
    ratio = measured / theory
    right = int(np.sum(ratio >= 1 if worst is np.min else ratio <= 1))
    name = "least" if worst is np.min else "largest"
    return Verdict.of(
        right == ratio.size,
        f"{name} {what} / ({formula})",
        float(worst(ratio)),
        f"{'>=' if worst is np.min else '<='} 1",
        ratio.size,
        f"{words} it at {right:,} of {ratio.size:,} points; "
        f"the ratio goes from {ratio.min():.3g} to {ratio.max():.3g}",
    )


def fitted(dataset: xr.Dataset, result: str, along: str) -> fits.Line:
    """The straight line of a result along an axis, all replicates together."""
    return fits.line(dataset[along].values, dataset[result].values)


def rise(dataset: xr.Dataset, result: str, along: str, falls: bool = False) -> Verdict:
    """Does the result rise (or fall) along the axis? Measures the change of its mean from the first to the last value.

    It holds if that change has the right sign by more than chance, and fails if it has not the right sign, or if a
    single step has the wrong one by more than chance. Chance is a 95 % interval by the scatter of the replicates at all
    values together; with one replicate every change counts.
    """
    values = np.unique(dataset[along].values)
    groups = [dataset[result].values[dataset[along].values == value] for value in values]
    scatter, sign = fits.noise(groups), -1.0 if falls else 1.0
    whole = fits.difference(groups[0], groups[-1], scatter)
    steps = [fits.difference(a, b, scatter) for a, b in zip(groups, groups[1:])]
    wrong = [f"{values[i]:g} to {values[i + 1]:g}" for i, step in enumerate(steps) if _sign(step) == -sign]
    quantity, points = f"change of {result}", int(dataset.sizes["point"])
    ends = f"{groups[0].mean():.4g} at {along} = {values[0]:g}, {groups[-1].mean():.4g} at {values[-1]:g}"
    if not wrong and whole.value * sign > 0 and _sign(whole) == 0:
        return Verdict.measuring(
            quantity, whole, points, f"{ends}: not more than chance, by the scatter of the replicates"
        )
    if wrong:
        ends += f"; against the claim from {along} = {', '.join(wrong)}"
    is_right = _sign(whole) == sign and not wrong
    return Verdict.of(is_right, quantity, whole, "< 0" if falls else "> 0", points, ends)


def _sign(change: Interval) -> float:
    """Of a change that is more than chance, else 0."""
    low, high = (change.value, change.value) if np.isnan(change.low) else (change.low, change.high)
    return 1.0 if low > 0 else -1.0 if high < 0 else 0.0
