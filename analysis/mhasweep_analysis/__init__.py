"""Reads the result files of mhasweep into xarray and draws the figures of the papers.

    import mhasweep_analysis as mhas
    results = mhas.open("sweep.h5")          # one row per point; undone rows are NaN
    cube = mhas.grid(results)                # one dimension per axis of the sweep
    figure = mhas.figures.draw(results)      # the figure of the file's experiment, results and axes

From a shell: python3 -m mhasweep_analysis.plot sweep.h5 -o sweep.png
"""

from mhasweep_analysis import figures
from mhasweep_analysis.reader import ResultError, grid, open, stored, sweep_axes

__all__ = ["ResultError", "figures", "grid", "open", "stored", "sweep_axes"]
