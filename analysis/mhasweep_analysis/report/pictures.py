"""The figures of a page: drawn for light and dark pages, and for wide and narrow ones."""

from __future__ import annotations

import base64
import inspect
import io
import shlex
from pathlib import Path
from typing import NamedTuple

import matplotlib
import xarray as xr
from matplotlib.figure import Figure

from mhasweep_analysis import figures
from mhasweep_analysis.figures import run
from mhasweep_analysis.reader import DONE, ResultError, sweep_axes

WIDE = (5.0, 4.0)  # inches of a panel on a wide page, of which there is place for two
SMALL = (3.45, 3.4)  # where there are more
NARROW = (3.5, 3.6)  # on a phone
BUG = "an error of this package, please report it"


class Shape(NamedTuple):
    """One drawing of a figure."""

    uri: str
    width: int  # in CSS pixels
    height: int


class Picture(NamedTuple):
    name: str
    heading: str
    caption: str
    alt: str
    command: str
    shapes: dict[str, Shape]  # by light, dark, light_narrow and dark_narrow
    problem: str = ""  # why it could not be drawn


def of_file(dataset: xr.Dataset) -> list[Picture]:
    """Every figure that the file has the data for, the one of its experiment first. None while nothing is done."""
    try:
        names = figures.fitting(dataset)
    except ResultError:
        return []
    return [_picture(dataset, name) for name in names]


def of_time(dataset: xr.Dataset) -> Picture:
    """The use of the ranks over time."""
    told = inspect.getdoc(figures.timeline) or ""
    try:
        used = run.usage(dataset)
    except ResultError as error:
        return Picture("timeline", "Use of the ranks", "", "", "", {}, str(error))
    rows = min(max(used.ranks.size, 2), 24)
    shapes = {}
    for theme, dark in (("light", False), ("dark", True)):
        for kind, width in (("", 10.6), ("_narrow", NARROW[0])):
            with figures.style(dark):
                figure = Figure(figsize=(width, 0.9 + 0.26 * rows), layout="constrained", dpi=150)
                figures.timeline(dataset, figure.subplots())
                shapes[theme + kind] = _shape(figure, "timeline", dark)
    alt = (f"A row for each of {used.ranks.size} ranks over {used.wall:.4g} seconds, filled where the rank worked: "
           f"{100 * used.share:.0f} percent of the time of {used.workers}.")
    return Picture("timeline", "Use of the ranks", _first(told), alt, "", shapes)


def _picture(dataset: xr.Dataset, name: str) -> Picture:
    told = inspect.getdoc(figures.FIGURES[name].panel) or ""
    spaced = name.replace("_", " ").replace("key dim", "key dimension").replace("snr", "signal to noise")
    heading = spaced.capitalize()
    path = shlex.quote(Path(dataset.attrs["path"]).name)
    blank = Picture(name, heading, _first(told), "", f"python3 -m mhasweep_analysis.plot {path} --figure {name}", {})
    shapes, words = {}, ""
    try:
        for theme, dark in (("light", False), ("dark", True)):
            many = figures.panel_count(dataset, name) > 2
            wide = figures.draw(dataset, name, columns=3 if many else 2, panel=SMALL if many else WIDE, dark=dark)
            shapes[theme] = _shape(wide, name, dark)
            narrow = figures.draw(dataset, name, columns=1, panel=NARROW, dark=dark)
            shapes[f"{theme}_narrow"] = _shape(narrow, name, dark)
            words = _alternative(dataset, wide, told)
    except ResultError as error:
        return blank._replace(problem=str(error))
    except Exception as error:  # a fault of one figure must not cost the page; it says so
        return blank._replace(problem=f"{BUG} ({error!r})")
    return blank._replace(alt=words, shapes=shapes)


def _alternative(dataset: xr.Dataset, figure: Figure, told: str) -> str:
    """What one who does not see the picture is told: what it shows, over which values, and what its legend says."""
    axes = [it for it in figure.axes if it.get_label() != "<colorbar>"]
    named: list[str] = []
    for panel in axes:
        legend = panel.get_legend()
        texts = [] if legend is None else [it.get_text() for it in legend.get_texts()]
        title = panel.get_title()
        if texts:
            named.append((f"{title}: " if title else "") + "; ".join(texts))
    over = ", ".join(sweep_axes(dataset)) or "one point"
    done = int((dataset["status"] == DONE).sum())
    text = f"{_first(told)} {done} points over {over}. " + " | ".join(named)
    return text.replace("\\,", " ").replace("$", "").replace("\\", "")


def _first(told: str) -> str:
    """The first paragraph of a panel's words."""
    return " ".join(told.split("\n\n")[0].split())


def _shape(figure: Figure, name: str, dark: bool) -> Shape:
    out = io.BytesIO()
    with figures.style(dark), matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    width, height = (int(round(96 * it)) for it in figure.get_size_inches())
    return Shape("data:image/svg+xml;base64," + base64.b64encode(out.getvalue()).decode("ascii"), width, height)
