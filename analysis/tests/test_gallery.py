"""Every sweep of the gallery still gives the figure that is shown of it."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gallery
import mhasweep_analysis as mhas
from mhasweep_analysis import figures

ENTRIES = sorted(gallery.ROOT.glob("jobs/*/gallery/*.json"))
SMALL = 100_000  # bytes of a picture in the repository


def ids(path):
    return path.stem


def test_there_is_a_gallery():
    assert ENTRIES


@pytest.mark.parametrize("path", ENTRIES, ids=ids)
def test_an_entry_tells_its_command_and_cost_and_has_a_small_picture(path):
    told = json.loads(path.read_text())
    assert set(told) == gallery.SCHEMA
    assert (gallery.ROOT / told["sweep"]).is_file() and told["figure"] in figures.FIGURES
    assert told["core_seconds"] > 0 and told["file_bytes"] > 0 and told["sweep"] in told["command"]
    picture = path.with_suffix(".png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and len(picture) < SMALL
    assert struct.unpack(">I", picture[16:20])[0] >= 400  # pixels wide
    told_of = (path.parents[1] / "README.md").read_text()
    assert f"gallery/{path.stem}.png" in told_of


@pytest.mark.skipif("MHASWEEP" not in os.environ, reason="there is no program under test ($MHASWEEP)")
@pytest.mark.parametrize("path", ENTRIES, ids=ids)
def test_its_sweep_gives_the_figure_again(path, tmp_path):
    told = json.loads(path.read_text())
    file = tmp_path / "sweep.h5"
    gallery.run(gallery.ROOT / told["sweep"], file)
    done = subprocess.run([sys.executable, "-m", "mhasweep_analysis.plot", file, "--figure", told["figure"]], text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(gallery.ROOT / "analysis")})
    assert (done.returncode, done.stderr) == (0, "") and file.with_suffix(".png").is_file()
    now = gallery.numbers(figures.draw(mhas.open(file), told["figure"]))
    assert [it["title"] for it in now] == [it["title"] for it in told["panels"]]
    for panel, kept in zip(now, told["panels"]):
        assert list(panel["lines"]) == list(kept["lines"])
        for words, (x, y) in kept["lines"].items():
            share = told["tolerance"].get(words, told["tolerance"].get("", 1e-6))
            np.testing.assert_allclose(panel["lines"][words][0], x, rtol=1e-9, err_msg=words)
            most = share * np.max(np.abs(y))
            np.testing.assert_allclose(panel["lines"][words][1], y, rtol=0, atol=most, err_msg=words)


def test_numbers_are_those_of_the_lines_without_what_a_fit_adds():
    figure = figures.Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4], label="random weights: $7\\,H +1$, $R^2 = 1.000$")
    axes.plot([1, 2], [5, 6], label="theory: $H(n-1)+1$")
    axes.plot([1, 2], [0, 0])  # the dotted line of a fit
    axes.set_title("a panel")
    assert gallery.numbers(figure) == [{"title": "a panel", "lines": {
        "random weights": [[1, 2], [3, 4]], "theory: $H(n-1)+1$": [[1, 2], [5, 6]]}}]
