"""The analysis package reads result files as they are specified, whole or half done, and draws them.

The first part runs on small files written here with h5py in the layout of the result file, so that every status and
value is known; the second on files that the program under test ($MHASWEEP) has just written.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "analysis"), str(SOURCE / "analysis" / "tests")]

import h5py
import numpy as np
from matplotlib.figure import Figure

import mhasweep_analysis as mhas
from files import (
    DONE, FAILED, PENDING, RUNNING, STATUS, ResultFile, write_capacity, write_memorize, write_probe, write_trained)
from mhasweep_analysis import figures, plot, report

class InAFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="mhasweep-analysis-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "sweep.h5"


class Reading(InAFolder):
    def test_only_rows_that_are_done_have_results(self):
        status = [DONE] * 24
        status[3], status[5], status[7] = PENDING, RUNNING, FAILED
        accuracy = write_memorize(self.path, status)
        results = mhas.open(self.path)
        done = np.array(status) == DONE
        for name in ("accuracy", "best_step", "parameters"):
            np.testing.assert_array_equal(np.isnan(results[name]), ~done, name)
        np.testing.assert_array_equal(results["accuracy"][done], np.array(accuracy)[done])
        self.assertTrue(np.isnan(results["curve_loss"][3]).all())
        self.assertEqual(results["curve_loss"][0, 1], 1)

    def test_status_reason_and_provenance_stay(self):
        status = [DONE] * 24
        status[7] = FAILED
        write_memorize(self.path, status)
        results = mhas.open(self.path)
        self.assertEqual(results["status"].values.tolist(), [STATUS[it] for it in status])
        self.assertEqual(results["error"].values[7], "diverged at step 7")
        self.assertEqual(results["error"].values[0], "")
        self.assertTrue((results["seconds"] == 1.5).all())

    def test_choices_are_words_and_parameters_are_coordinates(self):
        write_memorize(self.path)
        results = mhas.open(self.path)
        self.assertEqual(sorted(set(results["context_type"].values)), ["own", "shared"])
        self.assertIn("heads", results.coords)
        self.assertEqual(mhas.sweep_axes(results), ["heads", "samples", "context_type", "replicate"])
        self.assertEqual(results["accuracy"].attrs["units"], "1")

    def test_flags_among_the_results_are_numbers(self):
        write_probe(self.path)
        self.assertEqual(float(mhas.open(self.path)["memorized"].mean()), 1)

    def test_curves_can_be_left_out(self):
        write_memorize(self.path)
        self.assertNotIn("curve_loss", mhas.open(self.path, curves=False))

    def test_the_grid_has_a_dimension_for_every_axis(self):
        write_memorize(self.path)
        cube = mhas.grid(mhas.open(self.path))
        self.assertEqual(dict(cube["accuracy"].sizes), {"heads": 3, "samples": 2, "context_type": 2, "replicate": 2})
        at = cube["accuracy"].sel(heads=4, samples=200, context_type="own", replicate=1)
        self.assertAlmostEqual(float(at), 0.39)
        self.assertEqual(cube["curve_loss"].sizes["record"], 3)

    def test_points_that_are_no_grid_are_refused(self):
        write_memorize(self.path)
        results = mhas.open(self.path)
        with self.assertRaisesRegex(mhas.ResultError, "23 points are no full grid of heads 3 x samples 2"):
            mhas.grid(results.isel(point=slice(1, None)))

    def test_what_is_no_result_file_is_named(self):
        with self.assertRaisesRegex(mhas.ResultError, "no such file"):
            mhas.open(self.path)
        self.path.write_text("not HDF5")
        with self.assertRaisesRegex(mhas.ResultError, "cannot be read as an HDF5 file"):
            mhas.open(self.path)
        h5py.File(self.path, "w").close()
        with self.assertRaisesRegex(mhas.ResultError, "not a result file of mhasweep"):
            mhas.open(self.path)


class Drawing(InAFolder):
    def panel(self, function, **selected):
        results = mhas.open(self.path)
        for name, value in selected.items():
            results = results.isel(point=results[name].values == value)
        return function(results, Figure().subplots())

    def test_accuracy_is_the_mean_over_replicates_with_a_line_for_every_number_of_samples(self):
        write_memorize(self.path)
        axes = self.panel(figures.accuracy_against_heads, context_type="own")
        lines = {line.get_label(): line for line in axes.get_lines()}
        self.assertEqual(list(lines), ["$T$ = 100", "$T$ = 200", "guessing"])
        np.testing.assert_array_equal(lines["$T$ = 200"].get_xdata(), [1, 2, 4])
        np.testing.assert_allclose(lines["$T$ = 200"].get_ydata(), np.array([0.1, 0.2, 0.4]) + 0.005 - 0.02)
        np.testing.assert_allclose(lines["guessing"].get_ydata(), 1 / 20)

    def test_a_panel_does_not_average_over_other_axes(self):
        write_memorize(self.path)
        with self.assertRaisesRegex(mhas.ResultError, "differ in context_type"):
            self.panel(figures.accuracy_against_heads)

    def test_the_rank_stands_on_the_line_of_the_theory(self):
        write_probe(self.path)
        for kind, formula in (("shared", r"theory: $\min(T,\, H(n-1)+1)$"), ("own", r"theory: $\min(T,\, Hd)$")):
            axes = self.panel(figures.rank_against_heads, context_type=kind)
            labels = [text.get_text() for text in axes.get_legend().get_texts()]
            self.assertEqual(labels, [f"measured, $n$ = {n}" for n in (2, 4, 8)] + [formula])
            drawn = [line for line in axes.get_lines() if len(line.get_xdata())]
            measured = [line for line in drawn if line.get_linestyle() == "None"]
            theory = [line for line in drawn if line.get_linestyle() != "None"]
            self.assertEqual(len(theory), 3 if kind == "shared" else 1)
            for number, markers in enumerate(measured):
                line = theory[number if kind == "shared" else 0]
                np.testing.assert_array_equal(markers.get_xdata(), [1, 2, 4, 8, 16])
                at_markers = np.interp(markers.get_xdata(), line.get_xdata(), line.get_ydata())
                np.testing.assert_allclose(markers.get_ydata(), at_markers)
            self.assertEqual(theory[-1].get_ydata().max(), 100)
            bend = 99 / 7 if kind == "shared" else 100 / 8
            self.assertTrue(np.isclose(theory[-1].get_xdata(), bend).any())

    def test_a_rank_off_the_line_is_drawn_where_it_was_measured(self):
        write_probe(self.path, rank=[3] * 60)
        axes = self.panel(figures.rank_against_heads, context_type="shared")
        markers = [line for line in axes.get_lines() if line.get_linestyle() == "None" and len(line.get_xdata())]
        self.assertEqual([line.get_ydata().tolist() for line in markers], [[3] * 5] * 3)

    def drawn(self, name, **selected):
        """The panel `name`, its lines by their words, and the words of its legend."""
        axes = self.panel(getattr(figures, name), **selected)
        words = [text.get_text() for text in axes.get_legend().get_texts()]
        return axes, {line.get_label(): line for line in axes.get_lines()}, words

    def test_accuracy_is_drawn_against_context_and_key_dim(self):
        for along, values in (("context", [1, 4, 8]), ("key_dim", [1, 2, 4, 8])):
            path = self.path = self.folder / f"{along}.h5"
            write_trained(path, along, values)
            self.assertEqual(figures.choose(mhas.open(path)), f"accuracy_against_{along}")
            axes, lines, _ = self.drawn(f"accuracy_against_{along}")
            np.testing.assert_array_equal(lines["$T$ = 200"].get_xdata(), values)
            np.testing.assert_allclose(lines["$T$ = 200"].get_ydata(), np.arange(len(values)) / 10 + 0.005 - 0.02)
        # The key dimension where it is the context's size; powers of it are evenly apart.
        self.assertEqual(lines["$d_h = n$"].get_xdata(), [4, 4])
        self.assertEqual(axes.get_xscale(), "log")

    def test_the_error_of_a_regression_is_drawn_beside_that_of_a_constant(self):
        for along, values in (("heads", [1, 2, 4, 8]), ("context", [1, 4, 8])):
            path = self.path = self.folder / f"{along}.h5"
            write_trained(path, along, values, labels="regression")
            self.assertEqual(figures.choose(mhas.open(path)), f"loss_against_{along}")
            axes, lines, _ = self.drawn(f"loss_against_{along}")
            self.assertEqual((axes.get_ylabel(), axes.get_xscale()), ("mean squared error", "linear"))
            np.testing.assert_allclose(lines["$T$ = 100"].get_ydata(), (np.arange(len(values)) / 10 + 0.005 - 0.01) / 2)
            np.testing.assert_allclose(lines["best constant"].get_ydata(), 1 / 12)
        with self.assertRaisesRegex(mhas.ResultError, "shows accuracy, which .* does not measure here"):
            figures.draw(mhas.open(self.path), "accuracy_against_heads")

    def test_capacity_stands_beside_the_theory_and_its_straight_line(self):
        def capacity(row):
            return 5 * row["heads"] + 3 if row["weights"] == "constructed" else 7 * row["heads"] + 1 + row["replicate"]

        axes = {"weights": ["random", "constructed"], "heads": [1, 2, 4]}
        write_capacity(self.path, axes, {"context": 8, "key_dim": 4}, capacity).close([DONE] * 12)
        self.assertEqual(figures.choose(mhas.open(self.path)), "capacity_against_heads")
        _, lines, words = self.drawn("capacity_against_heads")
        self.assertEqual(words, [r"theory: $H(\min(n, d_h)-1)+1$", "theory: $H(n-1)+1$",
                                 r"random weights: $(7 \pm 0.56)\,H +1.5$, $R^2 = 0.997$",
                                 r"constructed weights: $5\,H +3$, $R^2 = 1.000$"])
        heads = np.array([1, 2, 4])
        for line, expected in zip(words, (3 * heads + 1, 7 * heads + 1, 7 * heads + 1.5, 5 * heads + 3)):
            np.testing.assert_allclose(lines[line].get_ydata(), expected)
        fit = [line for line in lines.values() if line.get_label() not in words]
        np.testing.assert_allclose(fit[-1].get_ydata(), [8, 23])

    def test_one_bound_is_drawn_where_both_are_the_same(self):
        write_capacity(self.path, {"heads": [1, 2, 4]}, {"context": 8, "key_dim": 8}, lambda row: 9).close([DONE] * 6)
        _, _, words = self.drawn("capacity_against_heads")
        self.assertEqual(words[0], r"theory: $H(\min(n, d_h)-1)+1 = H(n-1)+1$")
        self.assertIn("$R^2 = 1.000$", words[1])

    def test_a_sweep_along_several_axes_in_turn_has_a_panel_for_each(self):
        axes = {"heads": [2, 4, 8], "context": [2, 4], "key_dim": [1, 2, 4]}
        out = write_capacity(self.path, axes, {}, lambda row: row["heads"] * row["context"])
        out.close([DONE if (c == 4 and k == 4) or (h == 8 and k == 4) or (h == 8 and c == 4) else PENDING
                   for h, c, k, _ in out.points])
        results = mhas.open(self.path)
        for along, fixed, expected in (("heads", "$n$ = 4, $d_h$ = 4", [8, 16, 32]),
                                       ("context", "$H$ = 8, $d_h$ = 4", [16, 32]),
                                       ("key_dim", "$H$ = 8, $n$ = 4", [32, 32, 32])):
            figure = figures.draw(results, f"capacity_against_{along}")
            self.assertEqual([it.get_title() for it in figure.axes], [fixed])
            measured = [line for line in figure.axes[0].get_lines() if line.get_marker() != "None"]
            np.testing.assert_allclose(measured[0].get_ydata(), expected)

    def test_a_search_that_found_nothing_counts_as_none(self):
        write_capacity(self.path, {"heads": [1, 2]}, {"context": 8, "key_dim": 8}, lambda row: -1).close([DONE] * 4)
        _, lines, words = self.drawn("capacity_against_heads")
        np.testing.assert_array_equal(lines[words[-1]].get_ydata(), [0, 0])

    def test_variants_stand_at_their_parameters(self):
        axes = {"attention": ["softmax", "dcmha"], "heads": [2, 4], "samples": [100, 200], "replicate": [0, 1]}
        out = ResultFile(self.path, "memorize", axes, {"dim": 16, "labels": "classes", "classes": 20})
        out.column("accuracy", [h / 10 + 0.2 * (a == "dcmha") for a, h, _, _ in out.points], "result")
        out.column("parameters", [100 * h + (a == "dcmha") for a, h, _, _ in out.points], "result")
        out.close([DONE] * 16)
        self.assertEqual(figures.choose(mhas.open(self.path)), "variants_against_parameters")
        _, lines, _ = self.drawn("variants_against_parameters", samples=200)
        self.assertEqual(list(lines), ["softmax", "dcmha"])
        np.testing.assert_allclose(lines["dcmha"].get_xdata(), [201, 401])
        np.testing.assert_allclose(lines["dcmha"].get_ydata(), [0.4, 0.6])
        self.assertEqual([it.get_title() for it in figures.draw(mhas.open(self.path)).axes], ["$T$ = 100", "$T$ = 200"])

    def test_a_spectrum_is_a_line_for_every_key_dimension_up_to_its_rank(self):
        fixed = {"heads": 2, "context": 2, "context_type": "shared", "attention": "softmax", "dim": 8, "samples": 5}
        out = ResultFile(self.path, "probe", {"key_dim": [1, 4], "replicate": [0, 1]}, fixed)
        out.column("rank", [3] * 4, "result")
        out.column("bound_shared", [3] * 4, "result")
        values = [[8 * 10.0 ** (-k * (2 if d == 1 else 1) - r) if k else 8 for k in range(3)] + [np.nan]
                  for d, r in out.points]
        out.curve("spectrum", values, along="k", role="spectrum")
        out.close([DONE] * 4)
        self.assertEqual(figures.choose(mhas.open(self.path, curves=False)), "spectrum")
        axes, lines, words = self.drawn("spectrum")
        self.assertEqual(words, ["$d_h$ = 1", "$d_h$ = 4", "theory: $H(n-1)+1 = 3$"])
        np.testing.assert_allclose(lines["$d_h$ = 1"].get_ydata(), [1, 10**-2.5, 10**-4.5])  # geometric means
        np.testing.assert_allclose(lines["$d_h$ = 4"].get_ydata(), [1, 10**-1.5, 10**-2.5])
        self.assertEqual(lines[words[2]].get_xdata(), [3, 3])
        with self.assertRaisesRegex(mhas.ResultError, "holds no spectrum"):
            figures.draw(mhas.open(self.path, curves=False))

    def test_a_kruskal_curve_has_a_line_for_every_stage_and_marks_n_and_d(self):
        axes = {"stage": ["embedding", "attention"], "replicate": [0, 1]}
        out = ResultFile(self.path, "assumptions", axes, {"context": 2, "dim": 3, "samples": 50})
        out.column("kruskal_99", [1, 1, 3, 3], "result")
        share = np.array([[1, 0, 0], [1, 0.2, 0], [1, 1, 0.5], [1, 1, 0.7]])
        out.curve("curve_k", [[1, 2, 3]] * 4)
        for name, values in (("share", share), ("share_low", share - 0.1), ("share_high", share + 0.1)):
            out.curve(f"curve_{name}", values)
        out.close([DONE] * 4)
        self.assertEqual(figures.choose(mhas.open(self.path, curves=False)), "kruskal_curve")
        axes, lines, words = self.drawn("kruskal_curve")
        self.assertEqual(words, ["stage = embedding", "stage = attention", "$n$ = 2", "$d$ = 3"])
        np.testing.assert_allclose(lines["stage = embedding"].get_ydata(), [1, 0.1, 0], rtol=1e-6)
        np.testing.assert_allclose(lines["stage = attention"].get_ydata(), [1, 1, 0.6], rtol=1e-6)
        self.assertEqual([lines[it].get_xdata()[0] for it in words[2:]], [2, 3])
        low = axes.collections[1].get_paths()[0].vertices[:, 1].min()
        self.assertAlmostEqual(low, 0.4, places=6)
        with self.assertRaisesRegex(mhas.ResultError, "holds no curves"):
            figures.draw(mhas.open(self.path, curves=False))

    def test_there_is_a_panel_for_every_kind_of_context_and_a_note_of_what_is_missing(self):
        status = [DONE] * 24
        status[0] = PENDING
        write_memorize(self.path, status)
        figure = figures.draw(mhas.open(self.path))
        self.assertEqual([axes.get_title() for axes in figure.axes], ["own contexts", "shared context"])
        self.assertTrue(any("23 of 24 points done" in text.get_text() for text in figure.texts))


class Plotting(InAFolder):
    def plot(self, *arguments):
        return subprocess.run([sys.executable, "-m", "mhasweep_analysis.plot", *map(str, arguments)], text=True,
                              capture_output=True, env={**os.environ, "PYTHONPATH": str(SOURCE / "analysis")})

    def test_the_ending_of_the_name_is_the_format(self):
        write_probe(self.path)
        for ending, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")):
            out = self.folder / f"figure{ending}"
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(plot.main([str(self.path), "-o", str(out)]), 0)
            self.assertEqual(out.read_bytes()[: len(start)], start)
        self.assertEqual(sorted(it.name for it in self.folder.iterdir()),
                         ["figure.pdf", "figure.png", "figure.svg", "sweep.h5"])

    def test_by_default_the_picture_stands_beside_the_file(self):
        write_memorize(self.path)
        done = self.plot(self.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.strip(), str(self.folder / "sweep.png"))
        self.assertTrue((self.folder / "sweep.png").is_file())

    def test_a_file_with_nothing_done_is_a_clear_line_and_2(self):
        write_memorize(self.path, [PENDING] * 24)
        done = self.plot(self.path)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"mhasweep plot: {self.path}: no point is done yet (of 24)\n")
        self.assertFalse((self.folder / "sweep.png").exists())

    def test_wrong_usage_is_2_and_an_unwritable_picture_1(self):
        write_memorize(self.path)
        self.assertEqual(self.plot(self.folder / "none.h5").returncode, 2)
        self.assertEqual(self.plot(self.path, "-o", "figure.gif").returncode, 2)
        self.assertEqual(self.plot(self.path, "--figure", "none").returncode, 2)
        wrong = self.plot(self.path, "--figure", "rank_against_heads")
        self.assertEqual((wrong.returncode, "does not measure" in wrong.stderr), (2, True))
        lost = self.plot(self.path, "-o", self.folder / "no" / "figure.png")
        self.assertEqual((lost.returncode, "cannot be written" in lost.stderr), (1, True))


@unittest.skipUnless("MHASWEEP" in os.environ, "no program under test")
class FilesOfTheProgram(InAFolder):
    def run_sweep(self, spec, *options, expect=0):
        (self.folder / "sweep.yaml").write_text(spec)
        done = subprocess.run([os.environ["MHASWEEP"], "run", "sweep.yaml", "--quiet", *options], cwd=self.folder,
                              text=True, capture_output=True)
        self.assertEqual(done.returncode, expect, done.stderr)
        return mhas.open(self.path)

    def test_a_probe_reads_as_a_grid_and_is_drawn(self):
        results = self.run_sweep("""
            experiment: probe
            parameters: {heads: [1, 2, 3], context: [2, 4], context_type: [own, shared], dim: 8, samples: 20}
            replicates: 2
            """)
        self.assertEqual(mhas.sweep_axes(results), ["heads", "context", "context_type", "replicate"])
        self.assertEqual(set(results["status"].values), {"done"})
        cube = mhas.grid(results)
        self.assertEqual(dict(cube["rank"].sizes), {"heads": 3, "context": 2, "context_type": 2, "replicate": 2})
        shared = cube["rank"].sel(context_type="shared", replicate=1)
        np.testing.assert_array_equal(shared.values, [[2, 4], [3, 7], [4, 10]])
        self.assertTrue(set(np.unique(results["memorized"])) <= {0, 1})
        self.assertEqual(len(figures.draw(results).axes), 2)

    def test_attention_maps_are_drawn_as_they_are_stored(self):
        results = self.run_sweep("""
            experiment: probe
            parameters: {heads: 3, context: 5, attention: [softmax, hard], dim: 4, samples: 20, attention_samples: 7}
            store: [attention]
            """)
        maps = mhas.stored(results, 1, "attention")
        self.assertEqual(maps.shape, (7, 3, 5))
        self.assertEqual(set(np.unique(maps)), {0.0, 1.0})
        panel = figures.attention_maps(results.isel(point=[1]), Figure().subplots(), sample=2)
        np.testing.assert_array_equal(np.asarray(panel.collections[0].get_array()).reshape(3, 5), maps[2])
        figure = figures.draw(results, "attention_maps")
        drawn = [np.asarray(it.collections[0].get_array()).reshape(3, 5) for it in figure.axes[:2]]
        np.testing.assert_allclose(drawn, [mhas.stored(results, i, "attention").mean(0) for i in (0, 1)])
        with self.assertRaisesRegex(mhas.ResultError, "holds no Z of point 0"):
            mhas.stored(results, 0, "Z")

    def test_saturated_heads_are_counted_from_the_stored_maps(self):
        results = self.run_sweep("""
            experiment: probe
            parameters: {heads: [2, 3], context: 4, dim: 4, samples: 30, attention_samples: 30, logit_scale: 50}
            replicates: 2
            store: [attention]
            """)
        panel = figures.saturation(results, Figure().subplots())
        lines = {line.get_label(): line for line in panel.get_lines()}
        for heads, points in ((2, (0, 1)), (3, (2, 3))):
            sharpest = [mhas.stored(results, point, "attention").max(axis=2) for point in points]
            share = np.mean([np.mean(it > 0.99) for it in sharpest])
            self.assertTrue(0 < share < 1)
            line = lines[f"$H$ = {heads}: {100 * share:.1f} % saturated"]
            self.assertAlmostEqual(np.interp(0.5, line.get_xdata(), line.get_ydata()),
                                   np.mean([np.mean(it <= 0.5) for it in sharpest]))
            self.assertEqual(line.get_ydata()[-1], 1)
        self.assertEqual(len(figures.draw(results, "saturation").axes), 1)

    def test_the_program_writes_what_the_figures_of_a_probe_and_of_assumptions_read(self):
        results = self.run_sweep("""
            experiment: probe
            parameters: {heads: 3, key_dim: [1, 2, 8], context: 4, context_type: shared, dim: 8, samples: 20}
            store: [spectrum]
            """)
        self.assertEqual(figures.choose(results), "spectrum")
        axes = figures.draw(results).axes[0]
        values = results["spectrum"].values[2]
        drawn = [line for line in axes.get_lines() if line.get_label() == "$d_h$ = 8"][0].get_ydata()
        np.testing.assert_allclose(drawn[:10], (values / values[0])[:10])
        self.path.unlink()
        results = self.run_sweep("""
            experiment: assumptions
            parameters: {context: 4, dim: 8, samples: 40, orders: 50, stage: [embedding, attention]}
            """)
        drawn = figures.draw(results).axes[0].get_lines()[0]
        np.testing.assert_allclose(drawn.get_xdata(), range(1, 9))
        np.testing.assert_allclose(drawn.get_ydata(), results["curve_share"].values[0, :8])
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(plot.main([str(self.path), "-o", str(self.folder / "curve.png")]), 0)

    def test_a_search_of_the_program_is_drawn_on_the_line_of_the_theory(self):
        results = self.run_sweep("""
            experiment: probe
            parameters: {heads: [1, 2, 4], context: 4, context_type: shared, dim: 8}
            search: {parameter: samples, until: "memorized == true", to: 100}
            """)
        words = [it.get_text() for it in figures.draw(results).axes[0].get_legend().get_texts()]
        self.assertEqual(words[1], r"random weights: $3\,H +1$, $R^2 = 1.000$")

    def test_a_file_of_the_program_tells_when_its_ranks_were_busy_and_is_reported(self):
        before = time.time()
        results = self.run_sweep("""
            experiment: probe
            parameters: {heads: [1, 2, 3], context: 4, context_type: shared, dim: 8, samples: [5, 20]}
            """)
        self.assertTrue(((results["started"] >= before) & (results["started"] <= time.time())).all())
        used = figures.run.usage(results)
        self.assertEqual((used.ranks.tolist(), used.workers), ([0], 1))
        self.assertAlmostEqual(used.work, float(results["seconds"].sum()))
        self.assertTrue(0 < used.share <= 1)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(report.main([str(self.path)]), 0)
        page = self.path.with_suffix(".html").read_text()
        for part in ("6 points: heads 3", "figure-rank_against_heads", "claim-rank_shared_exact", "figure-timeline"):
            self.assertIn(part, page)

    def test_a_training_that_was_cut_short_reads_as_far_as_it_came(self):
        results = self.run_sweep("""
            experiment: memorize
            parameters: {heads: [1, 2], samples: [10, 20], dim: 4, context: 2, classes: 2, steps: 20, eval_every: 5}
            """, "--limit", "3", expect=75)
        done = (results["status"] == "done").values
        self.assertEqual(done.sum(), 3)
        np.testing.assert_array_equal(np.isnan(results["accuracy"]), ~done)
        np.testing.assert_array_equal(np.isnan(results["curve_loss"]).all("record"), ~done)
        self.assertEqual(results["labels"].values[0], "classes")
        self.assertIs(bool(results["early_stop"].values[0]), True)
        figure = figures.draw(results)
        self.assertTrue(any("3 of 4 points done" in text.get_text() for text in figure.texts))


if __name__ == "__main__":
    unittest.main()
