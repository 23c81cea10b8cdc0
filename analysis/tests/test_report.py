"""The report: what it tells of a file, that it stands by itself, and that a browser shows it whole."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import h5py
import numpy as np
import pytest
from files import DONE, FAILED, PENDING, RUNNING, ResultFile, write_capacity, write_memorize, write_probe

import mhasweep_analysis as mhas
from mhasweep_analysis import report
from mhasweep_analysis.figures import run
from mhasweep_analysis.report import sections, words

ANALYSIS = Path(__file__).resolve().parents[1]
HOSTILE = "<script>alert('x')</script> \"&\" $x_$ `ls` </style>\u202e"


class Page(HTMLParser):
    """The elements of a page in order: (tag, attributes), and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._inside = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._inside.append(tag)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self._inside:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self):
        return " ".join(self.text.split())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.h5"


def page_of(path):
    return Page(report.build(mhas.open(path)))


def add_run(path, started, seconds, first_rank, ranks=1, flops=2e9, size=3):
    with h5py.File(path, "a") as file:
        for name, values in (("started", started), ("seconds", seconds), ("first_rank", first_rank), ("ranks", ranks),
                             ("flops", flops)):
            if name in file:
                del file[name]
            file[name] = np.broadcast_to(np.asarray(values), file["point"].shape)
            file[name].dims[0].attach_scale(file["point"])
            file[name].attrs["role"] = "run"
        file.attrs["mpi_size"] = size


# ---- what it tells ----


def test_it_has_what_was_asked_figures_claims_cost_provenance_and_the_sweep_file(path):
    write_capacity(path, {"heads": [1, 2, 4]}, {"context": 8, "key_dim": 8, "weights": "random"},
                   lambda row: 7 * row["heads"] + 1).close([DONE] * 6)
    add_run(path, 1e9 + 1.5 * np.arange(6), 1.5, [1, 2] * 3)
    with h5py.File(path, "a") as file:
        file.attrs.update({"spec": "experiment: probe\nseed: 7\n", "seed": 7, "git_commit": "abc123"})
    page = page_of(path)
    assert [it["id"] for it in page.all("section")] == ["asked", "figures", "claims", "cost", "provenance", "spec"]
    assert "6 points: heads 3 \N{MULTIPLICATION SIGN} replicate 2" in page.words
    assert "1, 2, 4" in page.words and "6 done" in page.words
    assert "7 \N{MIDDLE DOT} theory 7" in page.words or "7 theory 7" in page.words
    assert "abc123" in page.words and "experiment: probe seed: 7" in page.words
    assert [it["id"] for it in page.all("figure")] == [
        "figure-capacity_against_heads", "figure-rank_against_heads", "figure-timeline"]


def test_verdicts_stand_in_words_failures_first(path):
    write_probe(path, rank=[h * 8 if kind == "own" else 3 for h in [1, 2, 4, 8, 16] for _ in range(3)
                            for kind in ["own", "shared"] for _ in range(2)])
    with h5py.File(path, "a") as file:
        for name in ("bound_shared", "bound_width", "bound_lower"):
            heads, n = file["heads"][:], file["context"][:]
            file[name] = heads * 8 if name == "bound_width" else heads * (n - 1) + 1
            file[name].dims[0].attach_scale(file["point"])
            file[name].attrs["role"] = "result"
        file["attention"] = np.zeros(60, "i1")
        file["attention"].dims[0].attach_scale(file["point"])
        file["attention"].attrs.update({"role": "parameter", "is_axis": 0, "flag_values": np.int8([0]),
                                        "flag_meanings": "softmax"})
    judged = sections.judged(mhas.open(path))
    assert [(it.name, it.outcome) for it in judged[:3]] == [
        ("rank_shared_exact", "fails"), ("rank_own_exact", "fails"), ("rank_reaches_bound", "fails")]
    page = page_of(path)
    verdicts = [it["class"] for it in page.all("span") if it.get("class", "").startswith("verdict")]
    assert verdicts[:3] == ["verdict fails"] * 3
    assert "not the paper's" in page.words and "claims that this file does not tell" in page.words


def test_failed_points_stand_under_their_reasons(path):
    status = [DONE] * 24
    status[3] = status[4] = status[9] = FAILED
    out_reason = {3: "diverged at step 7", 4: "diverged at step 7", 9: "singular"}
    write_memorize(path, status)
    with h5py.File(path, "a") as file:
        file["error"][9] = b"singular"
    failures = sections.failures(mhas.open(path))
    assert [(it.text, it.points) for it in failures] == [("diverged at step 7", 2), ("singular", 1)]
    assert failures[0].examples[0] == (3, "heads 1, samples 100, context_type shared, replicate 1", "")
    words_of = page_of(path).words
    assert "3 failed" in words_of and all(it in words_of for it in out_reason.values())


def test_reasons_that_differ_in_numbers_only_are_one_kind(path):
    write_memorize(path, [FAILED] * 24)
    with h5py.File(path, "a") as file:
        file["error"][:] = [f"diverged at step {i}: loss is nan (lr 1e+0{i % 3})".encode() for i in range(24)]
        file["error"][7] = b""
    first, second = sections.failures(mhas.open(path))
    assert first.text == "diverged at step \N{HORIZONTAL ELLIPSIS}: loss is nan (lr \N{HORIZONTAL ELLIPSIS})"
    assert (first.points, len(first.examples), first.more) == (23, 20, 3)
    assert first.examples[1].text == "diverged at step 1: loss is nan (lr 1e+01)"
    assert (second.text, second.points) == ("no reason was given", 1)
    assert "and 3 more" in page_of(path).words


def test_a_file_with_nothing_done_says_so_and_has_no_figures(path):
    write_memorize(path, [RUNNING, *[PENDING] * 23])
    with h5py.File(path, "a") as file:
        file["seconds"][:] = np.nan
    page = page_of(path)
    assert "24 to come (1 begun)" in page.words and "No point has ended yet" in page.words
    assert page.all("img") == [] and "None of the" in page.words


def test_a_file_of_an_older_program_lacks_only_the_use_of_ranks(path):
    write_memorize(path)
    page = page_of(path)
    assert "Not drawn: the file does not tell when its points began" in page.words
    assert len(page.all("img")) == 1 and "core-hours" in page.words


def test_a_fault_of_one_figure_or_claim_is_told_and_does_not_cost_the_page(path, monkeypatch):
    def broken(*_):
        """A panel or claim with a fault."""
        raise ZeroDivisionError("<oops>")

    write_memorize(path)
    kind = mhas.figures.FIGURES["accuracy_against_heads"]
    claim = mhas.claims.CLAIMS["accuracy_linear_in_heads"]
    monkeypatch.setitem(mhas.figures.FIGURES, "accuracy_against_heads", kind._replace(panel=broken))
    monkeypatch.setitem(mhas.claims.CLAIMS, claim.name, dataclasses.replace(claim, measure=broken))
    page = page_of(path)
    assert page.words.count("please report it (ZeroDivisionError('<oops>'))") == 2
    assert "core-hours" in page.words and not page.all("img")


# ---- cost ----


def test_core_hours_and_speed_count_the_ranks_of_a_team(path):
    write_memorize(path)
    add_run(path, 1e9 + np.arange(24) * 10.0, 10.0, 1, ranks=[2] * 12 + [1] * 12, flops=4e9)
    facts = {it.name: it for it in sections.cost(mhas.open(path)).facts}
    assert facts["core-hours"].value == "0.1"  # 12 * 20 + 12 * 10 seconds
    assert facts["GF/s of a core"].value == "0.267"  # 24 * 4 GFLOP in 360 s
    assert facts["ranks busy"].value == "75 %"  # 360 of 2 * 240


def test_the_use_of_ranks_is_the_share_of_their_time_at_points(path):
    write_memorize(path)
    order = np.arange(24)
    add_run(path, 1e9 + (order // 2) * 1.0, np.where(order % 2, 0.5, 1.0), 1 + order % 2)
    used = run.usage(mhas.open(path))
    assert used.ranks.tolist() == [1, 2] and used.workers == 2 and used.breaks.size == 0
    assert (used.wall, used.work, used.share) == (12, 18, 0.75)
    np.testing.assert_allclose(used.busy.mean(axis=1), [1, 0.5], atol=1e-6)


def test_the_time_between_two_runs_of_a_sweep_is_left_out(path):
    write_memorize(path)
    order = np.arange(24)
    add_run(path, 1e9 + order * 2.0 + np.where(order >= 10, 36000.0, 0), 2.0, 1)
    used = run.usage(mhas.open(path))
    assert (used.wall, used.breaks.tolist(), used.share) == (48, [20], 1)
    facts = {it.name: it for it in sections.cost(mhas.open(path)).facts}
    assert "in 2 runs" in facts["ranks busy"].note


def test_an_idle_rank_counts(path):
    write_memorize(path)
    add_run(path, 1e9 + np.arange(24.0), 1.0, 1, size=5)
    used = run.usage(mhas.open(path))
    assert (used.share, used.ranks.tolist()) == (pytest.approx(0.25), [1, 2, 3, 4])
    np.testing.assert_allclose(used.busy.mean(axis=1), [1, 0, 0, 0], atol=1e-6)
    add_run(path, 1e9 + np.arange(24.0), 1.0, 0, size=1)
    assert run.usage(mhas.open(path)).share == pytest.approx(1)


# ---- words ----


@pytest.mark.parametrize("value, interval, text", [
    (6.95217, (6.83858, 7.06576), "6.95 [6.84, 7.07]"), (7, (7, 7), "7"), (7.0, None, "7"), (0.123456, None, "0.1235"),
    (1234.5, (1200, 1270), "1,234 [1,200, 1,270]"), (-0.5, (-1.25, 0.25), "\u22120.50 [\u22121.25, 0.25]")])
def test_a_value_has_the_digits_that_its_interval_leaves_meaning_to(value, interval, text):
    assert words.measured(value, interval) == text


@pytest.mark.parametrize("value, text", [
    (3e-6, "3 \N{MICRO SIGN}s"), (0.25, "250 ms"), (119, "119 s"), (180, "3 min"), (9000, "2.5 h"),
    (4 * 86400, "4 days"), (float("nan"), "unknown")])
def test_a_span_of_time_is_said_in_its_unit(value, text):
    assert words.seconds(value) == text


def test_formulas_are_set_and_words_stay_words():
    assert words.typeset("$d_h$ >= n") == "<var>d<sub>h</sub></var> \N{GREATER-THAN OR EQUAL TO} <var>n</var>"
    assert words.typeset(r"$\|\mu\|$ = 9, lambda_min / sqrt(H)") == (
        "\u2016<var>\u03bc</var>\u2016 = 9, <var>\u03bb<sub>min</sub></var> / \u221a(<var>H</var>)")
    assert words.typeset("H^{1/2} t^-p R^2 `mu^2 lambda_min`") == (
        "<var>H</var><sup>1/2</sup> t<sup>\u2212p</sup> R<sup>2</sup> <code>mu^2 lambda_min</code>")
    assert words.typeset("lambda_min_dense, formula") == "lambda_min_dense, formula"
    assert words.typeset("<b>&") == "&lt;b&gt;&amp;"
    assert "script" not in re.sub(r"&lt;/?script&gt;", "", words.typeset(HOSTILE)).replace("alert", "")


# ---- it stands by itself, and lets nothing in ----


def test_it_asks_nothing_of_the_network(path):
    write_memorize(path)
    text = report.build(mhas.open(path))
    page = Page(text)
    for tag, attributes in page.elements:
        assert tag not in ("script", "iframe", "object", "embed")
        for name in ("src", "srcset", "href"):
            if name in attributes:
                assert re.match(r"data:|#", attributes[name]), (tag, name, attributes[name][:60])
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"@import|url\(", text.split("</style>")[0])
    policy = [it["content"] for it in page.all("meta") if it.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def write_hostile(path):
    """Words that a user may give, all of them markup."""
    status = [DONE] * 24
    status[5] = FAILED
    write_memorize(path, status)
    with h5py.File(path, "a") as file:
        file["error"][5] = HOSTILE.encode()
        file["hostname"] = np.array([HOSTILE.encode()] * 24, "S80")
        file["path"] = np.array([HOSTILE.encode()] * 24, "S80")
        for name, role in (("hostname", "run"), ("path", "parameter")):
            file[name].dims[0].attach_scale(file["point"])
            file[name].attrs.update({"role": role, "long_name": HOSTILE, "is_axis": 1})
        file["source"] = file["path"][:]
        file["source"].dims[0].attach_scale(file["point"])
        file["source"].attrs.update({"role": "parameter", "long_name": HOSTILE, "is_axis": 0})
        for name in ("title", "spec", "spec_overrides", "git_commit", "mpi_library", "slurm_job_id", "created"):
            file.attrs[name] = HOSTILE


def test_whatever_words_a_file_has_they_stay_words(path):
    write_hostile(path)
    page = page_of(path)
    assert not page.all("script") and not page.all("b")
    assert page.text.count("alert('x')") >= 8  # title, reason, host, parameter, provenance, spec, overrides
    assert [tag for tag, _ in page.elements].count("style") == 1
    assert len(page.all("img")) == 1  # the figure whose title holds these words is drawn


# ---- reading it ----


def test_every_picture_has_words_and_headings_have_no_gaps(path):
    write_memorize(path)
    add_run(path, 1e9 + np.arange(24.0), 1.0, 1)
    page = page_of(path)
    pictures = page.all("img")
    assert len(pictures) == 2 and all(len(it["alt"]) > 60 and "\\" not in it["alt"] for it in pictures)
    assert "T = 100" in pictures[0]["alt"]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:]))
    assert page.all("html")[0]["lang"] == "en" and page.all("main")


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in parts]
    return np.dot([0.2126, 0.7152, 0.0722], linear)


def test_words_have_the_contrast_that_wcag_asks_in_both_themes():
    style = (ANALYSIS / "mhasweep_analysis" / "report" / "style.css").read_text()
    roots = re.findall(r":root \{(.*?)\}", style, re.S)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", it)) for it in roots)
    for theme in (light, dark):
        for word, grounds in (("ink", ("paper", "card", "wash")), ("soft", ("paper", "card", "wash")),
                              ("accent", ("paper", "card", "accent-wash")), ("good", ("good-wash", "wash")),
                              ("bad", ("bad-wash",)), ("plain", ("plain-wash", "wash"))):
            for ground in grounds:
                low, high = sorted((luminance(theme[word]), luminance(theme[ground])))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (word, ground)


# ---- the command ----


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "mhasweep_analysis.report", *map(str, arguments)], text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(ANALYSIS)})


def test_by_default_the_page_stands_beside_the_file(path):
    write_memorize(path)
    done = command(path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path.with_suffix('.html')}\n", "")
    assert path.with_suffix(".html").read_text().startswith("<!doctype html>")
    assert sorted(it.name for it in path.parent.iterdir()) == ["sweep.h5", "sweep.html"]


def test_wrong_usage_is_2_and_an_unwritable_page_1(path):
    missing = command(path)
    assert (missing.returncode, missing.stderr) == (2, f"mhasweep report: {path}: no such file\n")
    write_memorize(path)
    assert command(path, "-o", "page.pdf").returncode == 2
    lost = command(path, "-o", path.parent / "no" / "page.html")
    assert lost.returncode == 1 and "cannot be written" in lost.stderr


# ---- in a browser ----

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# A page of its own around it gives the report a width, which a window cannot have below 500, and takes its answer.
FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><body style="margin: 0">
<iframe src="asked.html" style="border: 0; width: {width}px; height: 900px"></iframe>
<script>addEventListener("message", it => document.body.setAttribute("data-told", it.data));</script></body>"""
ASK = """<script>addEventListener("load", () => parent.postMessage(JSON.stringify({
  pictures: [...document.images].map(it => [it.naturalWidth, it.getBoundingClientRect().width]),
  beyond: document.documentElement.scrollWidth - document.documentElement.clientWidth, width: innerWidth,
  ground: getComputedStyle(document.body).backgroundColor,
}), "*"));</script></body>"""


def browse(page, theme):
    """What Chromium says of a page: its document, and the lines of the console."""
    profile = page.parent / "profile"
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
         f"--user-data-dir={profile}", "--window-size=1400,900", f"--blink-settings=preferredColorScheme={theme}",
         "--dump-dom", f"file://{page}"], text=True, capture_output=True, timeout=200)
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here to look at the page with")
def test_a_browser_shows_every_figure_within_the_page_and_has_nothing_to_complain(path):
    write_hostile(path)
    add_run(path, 1e9 + np.arange(24.0), 1.0, 1)
    text = report.build(mhas.open(path))
    page = path.with_suffix(".html")
    page.write_text(text)
    assert browse(page, 1)[1] == []
    # The same page, asked by a script: its own policy would not let one in.
    asked = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", text).replace("</body>", ASK)
    path.with_name("asked.html").write_text(asked)
    for width, theme, ground in ((390, 0, "rgb(20, 23, 27)"), (1280, 1, "rgb(251, 251, 249)")):  # dark, light
        frame = path.with_name("frame.html")
        frame.write_text(FRAME.format(width=width))
        document, console = browse(frame, theme)
        assert console == []
        told = json.loads(Page(document).all("body")[0]["data-told"])
        assert (told["width"], told["beyond"], told["ground"]) == (width, 0, ground)
        assert len(told["pictures"]) == 2
        for natural, shown in told["pictures"]:
            assert natural > 0 and 0.7 * min(natural, width - 60) <= shown <= width
