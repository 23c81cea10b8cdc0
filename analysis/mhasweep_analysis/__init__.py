"""Reads the result files of mhasweep into xarray and draws the figures of the papers.

    import mhasweep_analysis as mhas
    results = mhas.open("sweep.h5")          # one row per point; undone rows are NaN
    cube = mhas.grid(results)                # one dimension per axis of the sweep
    table = mhas.to_frame(results)           # a pandas.DataFrame of the same rows
    figure = mhas.figures.draw(results)      # the figure of the file's experiment, results and axes
    verdicts = mhas.claims.judge(results)    # what theory says of it, and whether it is so
    fit = mhas.fits.line(results["heads"], results["capacity"])

From a shell: python3 -m mhasweep_analysis.plot sweep.h5 -o sweep.png
"""

from mhasweep_analysis import claims, figures, fits
from mhasweep_analysis.reader import ResultError, grid, open, stored, stores, sweep_axes, to_frame

__all__ = ["ResultError", "claims", "figures", "fits", "grid", "open", "stored", "stores", "sweep_axes", "to_frame"]
