"""What tests of claims and figures ask of the package, by the name of a claim or a figure."""

import numpy as np
from matplotlib.figure import Figure

from mhasweep_analysis import figures
from mhasweep_analysis.claims import CLAIMS


def verdict(name, dataset):
    return CLAIMS[name].judge(dataset)


def panel(name, dataset):
    return figures.FIGURES[name].panel(dataset, Figure().subplots())


def drawn(axes):
    """The heights of the lines of a figure, by their labels."""
    return {line.get_label(): np.asarray(line.get_ydata(), float) for line in axes.get_lines()}
