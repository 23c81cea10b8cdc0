"""What analysis/README.md says is so: its script runs and prints what it shows, and it names every figure and claim."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mhasweep_analysis import claims, figures

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "analysis" / "README.md").read_text()
NUMBER = re.compile(r"-?\d+\.\d+")


def blocks(language):
    return [text for named, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.S | re.M) if named == language]


@pytest.mark.parametrize("name", [*figures.FIGURES, *claims.CLAIMS])
def test_every_figure_and_every_claim_is_named(name):
    assert f"`{name}`" in README


@pytest.mark.skipif("MHASWEEP" not in os.environ, reason="there is no program under test ($MHASWEEP)")
def test_the_script_goes_from_the_file_to_a_slope_with_its_interval(tmp_path):
    command = re.search(r"`mhasweep (run \S+ -o capacity\.h5)`", README).group(1).split()
    command[1] = str(ROOT / command[1])
    subprocess.run([os.environ["MHASWEEP"], *command, "--quiet"], check=True, cwd=tmp_path)
    (script,), (shown,) = blocks("python"), blocks("")
    assert len(script.strip().splitlines()) <= 12
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "analysis")})
    assert (done.returncode, done.stderr) == (0, "")
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", shown)
    # Where rounding has a say (trained and constructed weights), another CPU may come to other last samples.
    numbers = [[float(it) for it in NUMBER.findall(text)] for text in (done.stdout, shown)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.15)
    random = [line for line in shown.splitlines() if line.startswith("random")]
    assert all(line in done.stdout for line in random) and len(random) == 2
    assert (tmp_path / "capacity.pdf").read_bytes().startswith(b"%PDF")
