"""The package's type hints are true, by mypy with the settings of pyproject.toml."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="there is no mypy here")
def test_mypy_has_nothing_to_say(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", tmp_path], text=True, capture_output=True,
                          cwd=Path(__file__).resolve().parents[1])
    assert done.returncode == 0, done.stdout + done.stderr
