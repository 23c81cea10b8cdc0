"""Fits with confidence intervals: straight lines, powers (straight on log-log axes), means and shares.

Every interval is Student's t-interval of ordinary least squares over all points, each replicate a point of its own: the
replicates of a sweep have random numbers of their own, so they are independent. It takes the scatter about the line, be
it of replicates or of a law that is not quite straight, as equal for all points. Shares of a count have Wilson's
interval. With too few points to tell, the ends of an interval are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

CONFIDENCE = 0.95
ROUNDING = 1e-9  # of an interval's ends, as a share of its value: exact data leave intervals of no width


class Interval(NamedTuple):
    """A value and the ends of its confidence interval."""

    value: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        """Is it in the interval, up to rounding? With no interval (NaN): is it the value?"""
        slack = ROUNDING * max(abs(self.value), abs(value))
        low, high = (self.value, self.value) if np.isnan(self.low) else (self.low, self.high)
        return bool(low - slack <= value <= high + slack)

    def scaled(self, factor: float) -> Interval:
        ends = sorted((self.low * factor, self.high * factor))
        return Interval(self.value * factor, *ends)

    def within(self, least: float, most: float) -> Interval:
        """With its ends cut to what is possible, as 0 to 1 for a share."""
        return Interval(self.value, float(np.clip(self.low, least, most)), float(np.clip(self.high, least, most)))


class Line(NamedTuple):
    """y = slope x + intercept, by least squares."""

    slope: Interval
    intercept: Interval
    r2: float
    points: int
    mean: float  # of x
    spread: float  # sum of (x - mean)^2
    noise: float  # standard deviation about the line
    reach: float  # Student's quantile

    def at(self, x: ArrayLike) -> np.ndarray:
        return self.slope.value * np.asarray(x, float) + self.intercept.value

    def band(self, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the confidence interval of the line at every x (of its mean, not of new points)."""
        far = (np.asarray(x, float) - self.mean) ** 2 / self.spread
        away = self.reach * self.noise * np.sqrt(1 / self.points + far)
        return self.at(x) - away, self.at(x) + away


class Power(NamedTuple):
    """y = factor x^exponent, by least squares of the logarithms."""

    exponent: Interval
    factor: Interval
    r2: float
    points: int

    def at(self, x: ArrayLike) -> np.ndarray:
        return self.factor.value * np.asarray(x, float) ** self.exponent.value


def line(x: ArrayLike, y: ArrayLike, confidence: float = CONFIDENCE) -> Line:
    """The least-squares straight line through the points.

    R^2 is the share of y's variance that the line explains; 1 for a level line through equal values. Raises ValueError
    with fewer than two different x.
    """
    x, y = _pairs(x, y)
    mean, spread = float(x.mean()), float(np.sum((x - x.mean()) ** 2))
    if spread == 0:
        raise ValueError("a line needs points at two different x")
    slope = float(np.sum((x - mean) * (y - y.mean())) / spread)
    start = float(y.mean() - slope * mean)
    left, total = float(np.sum((y - slope * x - start) ** 2)), float(np.sum((y - y.mean()) ** 2))
    noise = np.sqrt(left / (x.size - 2)) if x.size > 2 else np.nan
    reach = _student(x.size - 2, confidence)
    return Line(
        _around(slope, reach * noise / np.sqrt(spread)),
        _around(start, reach * noise * np.sqrt(1 / x.size + mean**2 / spread)),
        1 - left / total if total > 0 else 1.0,
        x.size,
        mean,
        spread,
        float(noise),
        reach,
    )


def power(x: ArrayLike, y: ArrayLike, confidence: float = CONFIDENCE) -> Power:
    """The best power law: a straight line on log-log axes. Its interval of the factor is that of its logarithm.

    Raises ValueError if an x or y is not positive, or with fewer than two different x.
    """
    x, y = _pairs(x, y)
    if np.any(x <= 0) or np.any(y <= 0):
        raise ValueError("a power law needs positive numbers")
    logs = line(np.log(x), np.log(y), confidence)
    return Power(logs.slope, Interval(*(float(np.exp(it)) for it in logs.intercept)), logs.r2, logs.points)


def mean(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The mean of independent values with Student's t-interval."""
    values = np.asarray(values, float)
    return _around(float(values.mean()), _student(values.size - 1, confidence) * _error(values))


class Noise(NamedTuple):
    """Standard deviation of replicates about their means, and how many degrees of freedom it is known by."""

    deviation: float
    freedom: int


def noise(groups: Sequence[ArrayLike]) -> Noise:
    """The scatter of replicates within groups, taken as equal in all: a few replicates of many points tell it."""
    arrays = [np.asarray(it, float) for it in groups]
    freedom = sum(it.size - 1 for it in arrays)
    left = sum(float(np.sum((it - it.mean()) ** 2)) for it in arrays)
    return Noise(float(np.sqrt(left / freedom)) if freedom > 0 else np.nan, freedom)


def difference(
    first: ArrayLike, second: ArrayLike, scatter: Noise | None = None, confidence: float = CONFIDENCE
) -> Interval:
    """The mean of `second` less that of `first`, with Student's t-interval by the scatter of both, or that given."""
    first, second = np.asarray(first, float), np.asarray(second, float)
    known = noise([first, second]) if scatter is None else scatter
    error = known.deviation * np.sqrt(1 / first.size + 1 / second.size)
    return _around(float(second.mean() - first.mean()), _student(known.freedom, confidence) * error)


def share(count: int, total: int, confidence: float = CONFIDENCE) -> Interval:
    """The share of `count` in `total` independent trials, with Wilson's score interval."""
    if total == 0:
        return Interval(np.nan, np.nan, np.nan)
    z, p = float(ndtri((1 + confidence) / 2)), count / total
    middle = (p + z * z / (2 * total)) / (1 + z * z / total)
    away = z / (1 + z * z / total) * np.sqrt(p * (1 - p) / total + z * z / (4 * total**2))
    return Interval(p, max(0.0, float(middle - away)), min(1.0, float(middle + away)))


def _pairs(x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Both as numbers, without the pairs of which one is missing."""
    x, y = np.asarray(x, float).ravel(), np.asarray(y, float).ravel()
    if x.size != y.size:
        raise ValueError(f"{x.size} x and {y.size} y are no points")
    there = ~(np.isnan(x) | np.isnan(y))
    if not there.any():
        raise ValueError("there are no points to fit")
    return x[there], y[there]


def _student(freedom: float, confidence: float) -> float:
    return float(stdtrit(freedom, (1 + confidence) / 2)) if freedom > 0 else np.nan


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else np.nan


def _around(value: float, away: float) -> Interval:
    return Interval(value, float(value - away), float(value + away))
