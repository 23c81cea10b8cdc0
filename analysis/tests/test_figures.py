"""What figures show, beyond what tests/e2e/test_analysis.py asks of them."""

import matplotlib
import numpy as np
import pytest
from files import DONE, ResultFile, write_capacity, write_memorize, write_probe
from matplotlib.figure import Figure

import mhasweep_analysis as mhas
from mhasweep_analysis import figures


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.h5"


def test_a_file_has_the_figures_that_it_has_the_data_for(path):
    write_memorize(path)
    assert figures.fitting(mhas.open(path)) == ["accuracy_against_heads"]
    write_probe(path)
    assert figures.fitting(mhas.open(path)) == ["rank_against_heads"]
    write_capacity(path, {"heads": [1, 2], "key_dim": [4, 8]}, {"context": 8}, lambda row: 9).close([DONE] * 8)
    results = mhas.open(path)
    assert figures.fitting(results)[:2] == ["capacity_against_heads", "capacity_against_key_dim"]
    assert figures.fitting(results)[0] == figures.choose(results)


def test_every_figure_is_in_the_package_and_says_what_it_shows():
    for name, kind in figures.FIGURES.items():
        assert getattr(figures, name) is kind.panel
        assert len(kind.panel.__doc__) > 40


def test_panels_are_as_wide_as_the_widest(path):
    out = ResultFile(path, "probe", {"heads": [1, 2, 4, 8], "context_type": ["own", "shared"]},
                     {"dim": 8, "context": 4, "samples": 100})
    out.column("rank", [h * 3 + 1 for h, _ in out.points], "result")
    out.close([DONE if h < 4 or kind == "shared" else 0 for h, kind in out.points])
    own, shared = figures.draw(mhas.open(path)).axes
    assert own.get_xlim() == shared.get_xlim() and own.get_ylim() == shared.get_ylim()
    assert shared.get_xlim()[1] > 8 and shared.get_ylim()[1] > 25


def test_the_rank_that_heads_add_is_summed_up_beside_the_proofs(path):
    axes = {"weights": ["random", "constructed"], "key_dim": [2, 4], "replicate": [0, 1]}
    out = ResultFile(path, "probe", axes, {"heads": 3, "context": 4, "dim": 8, "samples": 10})
    constructed = [weights == "constructed" for weights, _, _ in out.points]
    out.column("rank", [5] * 8, "result")
    out.column("rank_per_head_min", [1 if it else -1 for it in constructed], "result")
    out.curve("curve_rank_added", [[d, d - 1, d - 1 + r, np.nan] if it else [np.nan] * 4
                                   for it, (_, d, r) in zip(constructed, out.points)])
    out.close([DONE] * 8)
    results = mhas.open(path)
    np.testing.assert_array_equal(np.isnan(results["rank_per_head_min"]), ~np.array(constructed))
    assert "rank_added" in figures.fitting(results)
    figure = figures.draw(results, "rank_added")
    assert len(figure.axes) == 1  # random weights add nothing that was measured
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    np.testing.assert_allclose(lines["$d_h$ = 4"].get_ydata(), [4, 7, 10.5])
    np.testing.assert_allclose(lines[r"theory: $h\,(\min(n, d_h)-1)+1$"].get_ydata(), [2, 3, 4])


def test_learning_curves_keep_the_last_value_of_a_run_that_stopped_early(path):
    out = ResultFile(path, "memorize", {"heads": [1, 2], "replicate": [0, 1]}, {"samples": 10, "labels": "classes"})
    out.column("loss", [1.0] * 4, "result")
    out.curve("curve_step", [[5, 10, 15], [5, 10, np.nan]] * 2)
    out.curve("curve_loss", [[3, 2, 1]] * 4)
    out.curve("curve_accuracy", [[0.2, 0.4, 0.6], [0.8, 1.0, np.nan]] * 2)
    out.close([DONE] * 4)
    panel = figures.learning_curves(mhas.open(path), Figure().subplots())
    line = panel.get_lines()[0]
    np.testing.assert_array_equal(line.get_xdata(), [5, 10, 15])
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.7, 0.8])
    with pytest.raises(mhas.ResultError, match="holds no curves"):
        figures.learning_curves(mhas.open(path, curves=False), Figure().subplots())


def test_a_figure_for_a_dark_page_has_light_words_and_lines(path):
    write_memorize(path)
    results = mhas.open(path)
    assert figures.panel_count(results) == 2

    def lightness(figure):
        axes = figure.axes[0]
        colours = [axes.xaxis.label.get_color(), *(line.get_color() for line in axes.get_lines())]
        return [sum(matplotlib.colors.to_rgb(it)) / 3 for it in colours]

    light, dark = (figures.draw(results, columns=1, panel=(3, 3), dark=it) for it in (False, True))
    assert all(a < b for a, b in zip(lightness(light), lightness(dark)))
    assert min(lightness(dark)) > 0.35 and dark.get_size_inches()[0] == pytest.approx(3.6)


def test_the_slope_of_a_fit_stands_in_the_legend_with_its_interval(path):
    write_capacity(path, {"heads": [1, 2, 4]}, {"context": 8, "key_dim": 8},
                   lambda row: 7 * row["heads"] + row["replicate"]).close([DONE] * 6)
    results = mhas.open(path)
    words = [it.get_text() for it in figures.draw(results).axes[0].get_legend().get_texts()][-1]
    fit = mhas.fits.line(results["heads"], results["capacity"])
    assert f"({fit.slope.value:.3g} \\pm {fit.slope.high - fit.slope.value:.2g})" in words
