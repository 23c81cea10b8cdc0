"""What stands in the sections of a page, as plain values for its template."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import xarray as xr

from mhasweep_analysis import claims
from mhasweep_analysis.claims import Claim, Mark, Outcome, Verdict
from mhasweep_analysis.figures import run
from mhasweep_analysis.reader import DONE, ResultError, sweep_axes
from mhasweep_analysis.report import words
from mhasweep_analysis.report.pictures import BUG

FAILED = "failed"
VALUES_MOST = 12  # of an axis that are all told
POINTS_MOST = 20  # of a reason that are all told
NUMBERS = re.compile(r"(?<!\w)[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
LONGEST = 5
TIMES = " \N{MULTIPLICATION SIGN} "
MARKS = tuple((mark.name.lower(), mark.value) for mark in Mark)
SIGNS = {Outcome.HOLDS: "\N{CHECK MARK}", Outcome.FAILS: "\N{MULTIPLICATION X}",
         Outcome.MEASURED: "\N{ALMOST EQUAL TO}", Outcome.ABSENT: "\N{EN DASH}"}

PROVENANCE = (("mhasweep_version", "mhasweep"), ("git_commit", "commit"), ("created", "file created"), ("seed", "seed"),
              ("spec_hash", "hash of the sweep"), ("mpi_library", "MPI"), ("mpi_size", "MPI ranks at creation"),
              ("blas_library", "BLAS"), ("blas_core", "BLAS kernels"), ("hdf5_version", "HDF5"),
              ("slurm_job_id", "SLURM job"))


class State(NamedTuple):
    points: int
    done: int
    failed: int
    running: int

    @property
    def open(self) -> int:
        return self.points - self.done - self.failed

    @property
    def text(self) -> str:
        if self.open == 0:
            return "all done" if self.failed == 0 else "finished, some points failed"
        return "running, or stopped before its end"


def state(dataset: xr.Dataset) -> State:
    status = dataset["status"].values
    return State(status.size, *(int(np.sum(status == it)) for it in (DONE, FAILED, "running")))


class Parameter(NamedTuple):
    name: str
    values: str
    meaning: str


class Asked(NamedTuple):
    experiment: str
    summary: str
    axes: list[Parameter]
    fixed: list[Parameter]


def asked(dataset: xr.Dataset) -> Asked:
    """The sweep in words: its axes with their values, what follows from them, and what is fixed."""
    axes = sweep_axes(dataset)
    names = [str(name) for name, it in dataset.coords.items() if it.dims == ("point",) and name != "point"]
    derived = [name for name in names if name not in axes and _unique(dataset, name).size > 1]
    sizes = [f"{name} {_unique(dataset, name).size}" for name in axes]
    summary = f"{words.count(dataset.sizes['point'], 'point')}: {TIMES.join(sizes)}" if sizes else "one point"
    if sizes and np.prod([_unique(dataset, name).size for name in axes]) != dataset.sizes["point"]:
        summary += ", not every combination"
    return Asked(str(dataset.attrs["experiment"]), summary,
                 [Parameter(name, _values(dataset, name), _meaning(dataset, name)) for name in (*axes, *derived)],
                 [Parameter(name, _values(dataset, name), _meaning(dataset, name)) for name in names
                  if name not in axes and name not in derived and name != "replicate"])


class Judged(NamedTuple):
    name: str
    statement: str
    source: str
    mark: str
    mark_words: str
    sign: str
    outcome: str
    slug: str  # of the outcome, for its colour
    quantity: str
    measured: str
    theory: str
    note: str
    points: int
    parts: list[Judged]  # of this claim, where other axes vary


def judged(dataset: xr.Dataset) -> list[Judged]:
    """Claims with their verdicts: those that the file can tell first, failures before the rest."""
    order = (Outcome.FAILS, Outcome.HOLDS, Outcome.MEASURED, Outcome.ABSENT)
    table = [(claim, _verdict(claim, dataset)) for claim in claims.of_experiment(str(dataset.attrs["experiment"]))]
    table.sort(key=lambda it: order.index(it[1].outcome))
    return [_judged(claim, verdict) for claim, verdict in table]


def _verdict(claim: Claim, dataset: xr.Dataset) -> Verdict:
    try:
        return claim.judge(dataset)
    except Exception as error:  # a fault of one claim must not cost the page; it says so
        return Verdict.absent(f"{BUG} ({error!r})")


def _judged(claim: Claim, verdict: Verdict, name: str = "", statement: str = "") -> Judged:
    value = "" if verdict.measured is None else words.measured(verdict.measured, verdict.interval)
    theory = _theory(verdict.theory)
    parts = [_judged(claim, it.verdict, claim.name, it.words) for it in verdict.parts]
    told = [it.verdict for it in verdict.parts if it.verdict.measured is not None]
    if told and verdict.measured is None:
        each = [it.measured for it in told if it.measured is not None]
        low, high = min(each), max(each)
        value = words.number(low) if low == high else f"{words.number(low)} to {words.number(high)}"
        theories = {_theory(it.theory) for it in told}
        theory = theories.pop() if len(theories) == 1 else ""
    return Judged(name or claim.name, statement or claim.statement, claim.source.text, claim.source.mark.name.lower(),
                  claim.source.mark.value, SIGNS[verdict.outcome], verdict.outcome.value,
                  verdict.outcome.name.lower(), verdict.quantity, value, theory, verdict.note, verdict.points, parts)


def _theory(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else words.number(value)


class Example(NamedTuple):
    point: int
    place: str
    text: str  # of this point, where the others of its kind have other numbers in theirs


class Reason(NamedTuple):
    text: str
    points: int
    examples: list[Example]
    more: int


def failures(dataset: xr.Dataset) -> list[Reason]:
    """The reasons of failed points, the most frequent first, with the points that had them. Those that differ in their
    numbers only ("diverged at step 7") are one kind, with an ellipsis for the numbers."""
    kinds: dict[str, list[int]] = {}
    texts = dataset["error"].values
    for row in np.flatnonzero(dataset["status"].values == FAILED):
        kinds.setdefault(NUMBERS.sub("\N{HORIZONTAL ELLIPSIS}", str(texts[row])), []).append(int(row))
    table = []
    for kind, rows in sorted(kinds.items(), key=lambda it: -len(it[1])):
        is_one = len({texts[row] for row in rows}) == 1
        examples = [Example(int(dataset["point"].values[row]), _place(dataset, row), "" if is_one else str(texts[row]))
                    for row in rows[:POINTS_MOST]]
        table.append(Reason((str(texts[rows[0]]) if is_one else kind) or "no reason was given", len(rows), examples,
                            max(0, len(rows) - POINTS_MOST)))
    return table


class Fact(NamedTuple):
    name: str
    value: str
    note: str = ""


class Longest(NamedTuple):
    point: int
    place: str
    seconds: str
    share: str  # of all work


class Cost(NamedTuple):
    facts: list[Fact]
    longest: list[Longest]


def cost(dataset: xr.Dataset) -> Cost:
    """What the points that ended took: core-hours, speed, and how busy the ranks were."""
    ended = np.flatnonzero(np.isfinite(dataset["seconds"].values.astype(float)))
    if ended.size == 0:
        return Cost([], [])
    rows = dataset.isel(point=ended)
    took = rows["seconds"].values.astype(float)
    ranks = rows["ranks"].values.astype(float) if "ranks" in rows else np.ones(took.size)
    work = took * ranks
    facts = [Fact("core-hours", f"{work.sum() / 3600:.3g}",
                  f"{words.seconds(float(work.sum()))} of one core: time at points, times the ranks at each"),
             Fact("a point", words.seconds(float(np.median(took))),
                  f"the median; the longest {words.seconds(float(took.max()))}")]
    flops = rows["flops"].values.astype(float) if "flops" in rows else np.full(took.size, np.nan)
    if np.nansum(flops) > 0:
        known = np.isfinite(flops)
        facts.append(Fact("GF/s of a core", f"{np.nansum(flops) / work[known].sum() / 1e9:.3g}",
                          f"{_flop(np.nansum(flops))} by the count of the program"))
    try:
        used = run.usage(dataset)
        facts.append(Fact("ranks busy", f"{100 * used.share:.0f} %",
                          f"of {words.count(used.workers, 'rank')} in {words.seconds(used.wall)}"
                          + (f", in {used.breaks.size + 1} runs" if used.breaks.size else "")))
    except ResultError:
        pass
    attempts = rows["attempts"].values.astype(float) if "attempts" in rows else np.ones(took.size)
    if attempts.max() > 1:
        facts.append(Fact("started again", f"{int((attempts > 1).sum()):,}", "points that an earlier run had begun"))
    order = np.argsort(-work, kind="stable")[:LONGEST]
    longest = [Longest(int(rows["point"].values[i]), _place(rows, i), words.seconds(float(took[i])),
                       f"{100 * work[i] / work.sum():.2g} %") for i in order]
    return Cost(facts, longest if ended.size > 1 else [])


def provenance(dataset: xr.Dataset) -> list[tuple[str, str]]:
    told = []
    for name, label in PROVENANCE:
        value = dataset.attrs.get(name, "")
        value = np.atleast_1d(value)[0] if not isinstance(value, str) else value
        if str(value) != "":
            told.append((label, str(value)))
    if "hostname" in dataset:
        hosts = sorted({str(it) for it in dataset["hostname"].values} - {""})
        if hosts:
            told.append(("machines", _listed(hosts)))
    return told


def _flop(value: float) -> str:
    for unit, factor in (("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} FLOP"


def _unique(dataset: xr.Dataset, name: str) -> np.ndarray:
    values = dataset[name].values
    unique, first = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_index=True)
    return unique[np.argsort(first)] if values.dtype.kind == "O" else unique


def _told(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return words.number(float(value)) if isinstance(value, (int, float, np.integer, np.floating)) else str(value)


def _values(dataset: xr.Dataset, name: str) -> str:
    return _listed([_told(it) for it in _unique(dataset, name)]) or "none"


def _listed(told: list[str]) -> str:
    if len(told) > VALUES_MOST:
        told = [*told[: VALUES_MOST - 2], "\N{HORIZONTAL ELLIPSIS}", told[-1]]
    return ", ".join(told)


def _meaning(dataset: xr.Dataset, name: str) -> str:
    return str(dataset[name].attrs.get("long_name", ""))


def _place(dataset: xr.Dataset, row: int) -> str:
    """Where on the axes of the sweep a point is."""
    return ", ".join(f"{name} {_told(dataset[name].values[row])}" for name in sweep_axes(dataset)) or "the only point"
