#!/usr/bin/env python3
"""Runs a small sweep and keeps its figure for the gallery: a picture for readers, and its numbers for a test.

    MHASWEEP=build/mhasweep analysis/gallery.py jobs/memorization/capacity-weights-small.yaml [--figure NAME]

Writes <sweep>.png and <sweep>.json into the folder `gallery` beside the sweep. analysis/tests/test_gallery.py runs
every sweep of which there is such a file again, draws its figure with mhasweep-plot, and compares its lines. What
training gives may differ between CPUs: `tolerance` in the JSON is by how much a line may, as a share of its largest
value (by the line's words, or "" for all); it is kept when the file is written again.

Exit status: 0 written, 1 the sweep failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import mhasweep_analysis as mhas
from mhasweep_analysis import figures

ROOT = Path(__file__).resolve().parents[1]
RANKS = 3
SCHEMA = {"sweep", "figure", "command", "core_seconds", "file_bytes", "tolerance", "panels"}


def numbers(figure: Figure) -> list[dict]:
    """The title of every panel and its lines by their words, without what a fit adds to them."""
    panels = []
    for axes in figure.axes:
        lines = {}
        for line in axes.get_lines():
            words = line.get_label()
            if words.startswith("_") or len(line.get_xdata()) == 0:
                continue
            words = words if words.startswith("theory") else re.sub(r": \$.*", "", words)
            lines[words] = [[round(float(it), 9) for it in np.asarray(data, float)]
                            for data in (line.get_xdata(), line.get_ydata())]
        panels.append({"title": axes.get_title(), "lines": lines})
    return panels


def run(sweep: Path, file: Path) -> None:
    """Runs the sweep; a small one needs no more than one process. Raises CalledProcessError if it does not succeed."""
    program = os.environ.get("MHASWEEP", "mhasweep")
    subprocess.run([program, "run", str(sweep), "-o", str(file), "--quiet"], check=True, cwd=ROOT)


def entry(sweep: Path, file: Path, name: str | None, tolerance: dict) -> tuple[dict, Figure]:
    results = mhas.open(file)
    name = figures.choose(results, name)
    figure = figures.draw(results, name)
    place = sweep.resolve().relative_to(ROOT)
    work = float((results["seconds"] * results["ranks"]).sum())
    return {
        "sweep": str(place),
        "figure": name,
        "command": f"mpirun -n {RANKS} mhasweep run {place} -o {place.stem}.h5 && "
                   f"mhasweep-plot {place.stem}.h5 --figure {name}",
        "core_seconds": float(f"{work:.2g}"),
        "file_bytes": file.stat().st_size,
        "tolerance": tolerance,
        "panels": numbers(figure),
    }, figure


def save_small(figure: Figure, path: Path) -> None:
    """A picture of 64 colours, which is a third of the bytes and looks the same."""
    whole = io.BytesIO()
    figure.savefig(whole, format="png", dpi=80)
    Image.open(whole).convert("RGB").quantize(64).save(path, optimize=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Runs a small sweep and keeps its figure for the gallery.")
    parser.add_argument("sweep", metavar="SWEEP.yaml", type=Path)
    parser.add_argument("--figure", metavar="NAME", choices=figures.FIGURES, help="default: what follows from it")
    options = parser.parse_args(arguments)
    if not options.sweep.is_file():
        parser.error(f"{options.sweep}: no such file")
    folder = options.sweep.parent / "gallery"
    kept = folder / f"{options.sweep.stem}.json"
    tolerance = json.loads(kept.read_text())["tolerance"] if kept.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / f"{options.sweep.stem}.h5"
        try:
            run(options.sweep.resolve(), file)
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"gallery: {options.sweep}: {error}", file=sys.stderr)
            return 1
        told, figure = entry(options.sweep, file, options.figure, tolerance)
    folder.mkdir(exist_ok=True)
    save_small(figure, kept.with_suffix(".png"))
    lines = [f' "{name}": {json.dumps(value)}' for name, value in told.items() if name != "panels"]
    panels = ",\n".join(f"  {json.dumps(panel)}" for panel in told["panels"])
    kept.write_text("{\n" + ",\n".join(lines) + ',\n "panels": [\n' + panels + "\n ]\n}\n")
    print(kept.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
