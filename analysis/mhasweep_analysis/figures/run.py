"""How a sweep was run: which rank was busy when."""

from __future__ import annotations

from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from mhasweep_analysis.figures.parts import is_dark
from mhasweep_analysis.reader import ResultError

BINS = 400
IDLE_LEAST = 60.0  # seconds in which no rank worked that may part one run of the program from the next
TICKS_MOST = 16


class Usage(NamedTuple):
    """The ranks' time. Where a sweep was resumed, the time between two runs is left out of `edges`."""

    ranks: np.ndarray  # their numbers
    edges: np.ndarray  # seconds since the first point began, idle time between runs left out
    busy: np.ndarray  # (rank, bin): share of the bin in which it worked
    breaks: np.ndarray  # where on that clock one run ended and the next began
    wall: float  # seconds in all runs
    work: float  # seconds of ranks at points; a team of k ranks counts k times
    workers: int  # ranks that could have worked

    @property
    def share(self) -> float:
        return self.work / (self.wall * self.workers) if self.wall > 0 else np.nan


def usage(dataset: xr.Dataset) -> Usage:
    """Who was busy when, from the start, time and rank of every point that ended, failed ones too.

    Raises ResultError if no point has ended or the file is of a version that did not keep when points began.
    """
    if "started" not in dataset or "first_rank" not in dataset:
        raise ResultError("does not tell when its points began (it was written by an older mhasweep)")
    ended = np.flatnonzero(np.isfinite(dataset["started"].values) & np.isfinite(dataset["seconds"].values))
    if ended.size == 0:
        raise ResultError(f"no point has ended yet (of {dataset.sizes['point']})")
    rows = dataset.isel(point=ended)
    order = np.argsort(rows["started"].values, kind="stable")
    begun, took, rank, ranks = (rows[name].values[order] for name in ("started", "seconds", "first_rank", "ranks"))
    begun, breaks = _without_pauses(begun - begun[0], took)
    wall = float(np.max(begun + took))
    edges = np.linspace(0, max(wall, 1e-9), BINS + 1)
    size = int(np.atleast_1d(dataset.attrs.get("mpi_size", 1))[0])
    launched = np.arange(1, size if breaks.size == 0 else 1)  # rank 0 hands out and does not work, unless it is alone
    lanes = np.union1d(np.unique(rank), launched).astype(int)
    busy = np.array([_busy(begun[rank == lane], took[rank == lane], edges) for lane in lanes])
    workers = max(lanes.size, int(ranks.max()))
    return Usage(lanes, edges, busy, breaks, wall, float(np.sum(took * ranks)), workers)


def timeline(dataset: xr.Dataset, axes: Axes) -> Axes:
    """Which rank was busy when: a row for every MPI rank, filled where it worked at points.

    Time goes from left to right. A team's point stands in the row of its first rank. Upright lines part the runs of a
    sweep that was resumed; the time between them is left out.
    """
    used = usage(dataset)
    unit, factor = next(it for it in (("hours", 3600), ("minutes", 60), ("seconds", 1))
                        if used.wall >= 2 * it[1] or it[1] == 1)
    shades = ("#2a2f36", "#3fbc9f") if is_dark() else ("#eceff1", "#1f6f78")
    map_of = matplotlib.colors.LinearSegmentedColormap.from_list("busy", shades)
    axes.pcolormesh(used.edges / factor, np.arange(used.ranks.size + 1) - 0.5, used.busy, cmap=map_of, vmin=0, vmax=1,
                    rasterized=True)
    if used.ranks.size <= 64:  # a gap between the rows, as long as they are high enough
        axes.hlines(np.arange(1, used.ranks.size) - 0.5, 0, used.edges[-1] / factor, lw=2, zorder=3,
                    color="#171a1f" if is_dark() else "white")
    for at in used.breaks:
        axes.axvline(at / factor, color="white" if is_dark() else "black", lw=1.4, ls=(0, (3, 2)))
    step = -(-used.ranks.size // TICKS_MOST)
    axes.set_yticks(np.arange(0, used.ranks.size, step), [f"{it:d}" for it in used.ranks[::step]])
    axes.invert_yaxis()
    axes.set_ylabel("MPI rank")
    axes.set_xlabel(f"{unit} since the first point began")
    axes.grid(False)
    return axes


def _without_pauses(begun: np.ndarray, took: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start times on a clock that stands still between runs, and where it stood still.

    A pause is idle time of all ranks that is longer than a minute and than the longest point: while a run goes on, its
    ranks wait for one another no longer than that.
    """
    idle_from = np.maximum.accumulate(begun + took)
    pause = begun[1:] - idle_from[:-1]
    is_pause = pause > max(IDLE_LEAST, float(took.max()))
    skipped = np.concatenate([[0.0], np.cumsum(np.where(is_pause, pause, 0.0))])
    return begun - skipped, (idle_from[:-1] - skipped[:-1])[is_pause]


def _busy(begun: np.ndarray, took: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share of every bin in which a rank worked; it does one point after the other."""
    if begun.size == 0:
        return np.zeros(edges.size - 1)
    ends = np.minimum(begun + took, np.append(begun[1:], np.inf))
    times = np.column_stack([begun, ends]).ravel()
    worked = np.column_stack([np.zeros(begun.size), ends - begun]).ravel().cumsum()
    return np.clip(np.diff(np.interp(edges, times, worked)) / np.diff(edges), 0, 1)
