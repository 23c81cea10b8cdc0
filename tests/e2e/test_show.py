"""What `mhasweep show` draws: bars, a table in which numbers stand below each other, colours where they are wanted, and
the page that follows a running sweep."""
import codecs
import datetime
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest
from fcntl import ioctl

import harness

RANKS = """\
experiment: probe
seed: 7
parameters: {heads: [1, 2, 3, 4], context: [2, 4], dim: 8, samples: 40, context_type: shared}
replicates: 2
"""
BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


class Sweep(harness.Folder):
    """A small sweep of which theory tells every number: rank = H (n - 1) + 1."""

    @classmethod
    def setUpClass(cls):
        cls.place = harness.Folder("run_program")
        cls.place.setUp()
        cls.addClassCleanup(cls.place.doCleanups)
        cls.place.write("ranks.yaml", RANKS)
        cls.place.run_program("run", "ranks.yaml", "--quiet")
        cls.file = cls.place.folder / "ranks.h5"


class Shown(Sweep):
    def show(self, *words, **more):
        more = {"LC_ALL": "C.UTF-8", **more}
        return self.run_program("show", self.file, *words, **more).stdout

    def chart(self, text):
        """The caption, and the bars by what stands before them."""
        lines = text.split("\n\n")[1].splitlines()
        return lines[0], [re.match(r"^ +(.*?)  (.*)$", line).groups() for line in lines[1:]]

    def test_bars_are_means_of_the_main_result_over_the_main_axis(self):
        caption, lines = self.chart(self.show())
        self.assertEqual(caption, "rank over heads 1 to 4, mean over replicate; bars from 2 to 13")
        ranks = {context: [heads * (context - 1) + 1 for heads in (1, 2, 3, 4)] for context in (2, 4)}
        bars = {context: "".join(3 * BLOCKS[min(7, int(8 * (rank - 2) / 11))] for rank in ranks[context])
                for context in (2, 4)}
        self.assertEqual(lines, [("context 2", bars[2]), ("4", bars[4])])

    def test_without_utf8_bars_are_ascii(self):
        for locale in ({"LC_ALL": "C"}, {"LC_ALL": "", "LC_CTYPE": "", "LANG": "de_DE"}):
            text = self.show(**locale)
            self.assertTrue(text.isascii())
            self.assertEqual(self.chart(text)[1][1][1], "".join(3 * ".:-=+*#@"[min(7, int(8 * (3 * heads - 1) / 11))]
                                                                for heads in (1, 2, 3, 4)))

    def test_three_decades_are_drawn_by_their_logarithms(self):
        self.write("lr.yaml", "experiment: memorize\nparameters: {heads: 1, dim: 2, context: 2, classes: 2, samples: 8, "
                   "batch: 8, steps: 3, eval_every: 3, logit_scale: [1, 2], lr: [0.01, 0.02], early_stop: false}\n")
        self.run_program("run", "lr.yaml", "--quiet")
        with harness.h5py.File(self.folder / "lr.h5", "r+") as file:
            file["accuracy"][:] = [1e-6, 1e-6, 1e-3, 1.0]
        caption, lines = self.chart(self.run_program("show", "lr.h5", LC_ALL="C").stdout)
        self.assertIn("bars from 1e-06 to 1, logarithmic", caption)
        self.assertEqual([bars for _, bars in lines], ["......", "+++@@@"] if lines[0][0].startswith("logit") else
                         ["...+++", "...@@@"])

    def test_a_single_point_and_a_sweep_without_results_have_no_bars(self):
        self.run_program("run", self.place.folder / "ranks.yaml", "-o", "one.h5", "--set", "heads=1", "--set",
                         "context=2", "--set", "replicates=1", "--quiet")
        self.assertNotIn(" over ", self.run_program("show", "one.h5").stdout)
        self.run_program("run", self.place.folder / "ranks.yaml", "-o", "none.h5", "--limit", "0", "--quiet", expect=75)
        self.assertNotIn(" over ", self.run_program("show", "none.h5").stdout)

    def test_many_values_of_an_axis_share_bars(self):
        self.run_program("run", self.place.folder / "ranks.yaml", "-o", "many.h5", "--quiet", "--set",
                         "logit_scale={from: 1, to: 200, step: 1}", "--set", "heads=1", "--set", "context=2", "--set",
                         "replicates=1")
        caption, (line,) = self.chart("\n\n" + self.run_program("show", "many.h5", LC_ALL="C").stdout.split("\n\n")[1]
                                      .replace("\n  ", "\n  x  "))
        self.assertIn("rank over logit_scale 1 to 200", caption)
        self.assertIn("2 everywhere", caption)
        self.assertEqual(line[1], 60 * "+")

    def test_decimal_points_stand_below_each_other(self):
        lines = self.show().split("\n\n")[2].splitlines()
        title_end = lines[0].index("residual") + len("residual")
        places = set()
        for line in lines[1:17]:
            cells = [it for it in re.finditer(r"\S+", line)]
            cell = next(it for it in cells if it.end() > title_end - len("residual") and it.start() < title_end)
            places.add(cell.start() + cell.group().index("."))
        self.assertEqual(len(places), 1)

    def test_curves_of_a_point_are_drawn(self):
        self.write("curve.yaml", "experiment: memorize\nparameters: {heads: 1, dim: 2, context: 2, classes: 2, samples: 8, "
                   "batch: 8, steps: 16, eval_every: 2, early_stop: false}\n")
        self.run_program("run", "curve.yaml", "--quiet")
        text = self.run_program("show", "curve.h5", "--point", "0", LC_ALL="C.UTF-8").stdout
        self.assertIn(f"  step      {BLOCKS}  from 2 to 16\n", text)
        self.assertRegex(text, r"(?m)^  loss      .{8}  from [\d.]+ to [\d.]+$")

    def test_people_get_dates_and_machines_numbers(self):
        started = json.loads(self.show("--point", "3", "--json"))["points"][0]["started"]
        date = datetime.datetime.fromtimestamp(int(started), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.assertRegex(self.show("--point", "3"), rf"(?m)^  started +{date}  when the last attempt that ended began$")

    def test_a_point_that_did_not_run_has_no_date(self):
        self.run_program("run", self.place.folder / "ranks.yaml", "-o", "none.h5", "--limit", "0", "--quiet", expect=75)
        self.assertRegex(self.run_program("show", "none.h5", "--point", "0").stdout, r"(?m)^  started +-  when")


class Terminal:
    """A terminal of 100 columns and 40 rows on which the program runs."""

    def __init__(self, test, *words, **more):
        environment = harness.environment(**{"TERM": "xterm", "LC_ALL": "C.UTF-8", **more})
        self.test, self.seen, self.decoder = test, "", codecs.getincrementaldecoder("utf-8")()
        self.master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(harness.command(*words), cwd=test.folder, env=environment, stdin=slave,
                                        stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        test.addCleanup(self.close)

    def read(self, seconds=0.2):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.seen += self.decoder.decode(os.read(self.master, 65536))
            except OSError:  # the other end is closed
                time.sleep(0.05)

    def wait_for(self, pattern, timeout=60):
        end = time.monotonic() + timeout
        while not re.search(pattern, self.seen):
            self.test.assertLess(time.monotonic(), end, f"waited for {pattern!r}, saw {self.seen[-2000:]!r}")
            self.read()

    def end(self, timeout=60):
        """Exit status, and all that was seen."""
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            self.test.assertLess(time.monotonic(), end, f"still runs; saw {self.seen[-2000:]!r}")
            self.read()
        for _ in range(5):
            self.read(0.05)
        return self.process.returncode, self.seen.replace("\r\n", "\n")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


class OnATerminal(Sweep):
    def test_curves_that_do_not_fit_stand_below_with_their_steps(self):
        self.write("curves.yaml", "experiment: overfit\nparameters: {dim: 4, samples: 4, test_samples: 4, steps: 40}\n")
        self.run_program("run", "curves.yaml", "--quiet")
        status, text = Terminal(self, "show", "curves.h5", "--point", "0").end()
        self.assertEqual(status, 0)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        first, second = text.split("The last of them:\n")[1].split("\n\n")
        titles = [block.splitlines()[0].split() for block in (first, second)]
        self.assertEqual(titles[0] + titles[1][1:], ["step", "train_loss", "train_error", "test_loss", "test_error",
                                                     "attention_clean", "attention_flipped"])
        for block in (first, second):
            self.assertEqual([line.split()[0] for line in block.splitlines()[1:] if line.strip()],
                             [str(step) for step in range(31, 41)])

    def test_curves_without_a_value_are_left_out(self):
        self.write("some.yaml", "experiment: optimize\nparameters: {dim: 8, samples: 4, test_samples: 0, tokens: 2, heads: 1, "
                   "steps: 8}\n")
        self.run_program("run", "some.yaml", "--quiet")
        status, text = Terminal(self, "show", "some.h5", "--point", "0").end()
        self.assertEqual(status, 0)
        records = text.split(" of them:\n")[1]
        self.assertRegex(records, r"^ +step +train_loss ")
        self.assertNotIn("test_loss", records)
        self.assertNotRegex(records, r" - |-\n")

    def test_a_title_without_room_stands_below_the_file(self):
        self.write("title.yaml", "experiment: overfit\nparameters: {dim: 4, samples: 4, test_samples: 4, steps: 4}\n")
        self.run_program("run", "title.yaml", "--quiet")
        status, text = Terminal(self, "show", "title.h5", NO_COLOR="1").end()
        self.assertEqual(status, 0)
        lines = text.splitlines()
        self.assertEqual(lines[0], "title.h5:")
        self.assertRegex(lines[1], r"^  attention that fits")
        self.assertLessEqual(max(map(len, lines)), 100)

    def test_colours_only_where_they_are_wanted(self):
        for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)):
            status, text = Terminal(self, "show", self.file, **more).end()
            self.assertEqual(status, 0)
            self.assertEqual("\033[32mdone\033[0m" in text, coloured, more)
            self.assertEqual("\033" in text, coloured, more)

    def test_results_without_room_are_named_and_bars_fit(self):
        status, text = Terminal(self, "show", self.file, NO_COLOR="1").end()
        self.assertEqual(status, 0)
        self.assertRegex(re.sub(r"\s+", " ", text), r"\(no room for .*largest_weight.*: see --point, --json or export\)")
        self.assertLessEqual(max(map(len, text.splitlines()[1:])), 100)
        table = text.split("\n\n")[2].splitlines()
        self.assertLessEqual(max(map(len, table[:17])), 100)


ENTER, LEAVE, CLEAR = "\033[?1049h", "\033[?1049l", "\033[H\033[2J"


class Watch(Sweep):
    LONG = ("experiment: memorize\nparameters: {heads: [1, 2], dim: 8, context: 4, samples: 40, steps: 1000000000, "
            "eval_every: 1000000, batch: 16, early_stop: false}\n")

    def test_a_finished_sweep_is_shown_once(self):
        status, text = Terminal(self, "show", self.file, "--watch").end()
        self.assertEqual(status, 0)
        self.assertNotIn(CLEAR, text)
        self.assertIn("16: 16 done", text.split(LEAVE)[1])
        self.assertEqual(len(re.findall(r"(?m)^ +\d+ +\d .*done", text)), 16)

    def test_a_running_sweep_is_followed_to_its_end(self):
        self.write("sweep.yaml", "experiment: memorize\nparameters: {heads: {from: 1, to: 12, step: 1}, dim: 16, "
                   "context: 8, samples: 400, steps: 3000, classes: 20, batch: 64, early_stop: false}\n")
        run = self.start_program("run", "sweep.yaml", "--quiet")
        self.wait_for_done(self.folder / "sweep.h5", 1, run)
        terminal = Terminal(self, "show", "sweep.h5", "--watch", "0.1")
        terminal.wait_for(r"\[[#.]{40}\] +\d+% +\d+/12")
        status, text = terminal.end(timeout=120)
        self.assertEqual(status, 0)
        self.assertTrue(text.startswith(ENTER))
        frames, page = text.split(LEAVE)
        self.assertGreater(frames.count(CLEAR), 2)
        self.assertIn("running", frames)
        self.assertIn("accuracy over heads", frames)
        self.assertNotIn("No run is seen", frames)
        shares = [int(share) for share in re.findall(r"\] (\d+)%", frames)]
        self.assertEqual(shares, sorted(shares))
        self.assertIn("12: 12 done", page)
        self.assertEqual(run.wait(60), 0)

    def test_an_interrupt_leaves_the_terminal_as_it_was(self):
        self.write("long.yaml", self.LONG)
        run = self.start_program("run", "long.yaml", "--quiet", ranks=2)
        path = self.folder / "long.h5"
        self.wait_for("a point", lambda: path.exists() and (harness.statuses(path) == harness.RUNNING).any())
        for number in (signal.SIGINT, signal.SIGTERM):
            terminal = Terminal(self, "show", "long.h5", "--watch", "600")
            terminal.wait_for(r"Ctrl-C ends this")
            self.assertIn("1 running", terminal.seen)
            terminal.process.send_signal(number)
            status, text = terminal.end(timeout=20)
            self.assertEqual(status, 75)
            self.assertIn("\033[?25h" + LEAVE, text)  # the cursor is back
            self.assertIn("1 pending", text.split(LEAVE)[1])
        self.assertIsNone(run.poll())
        run.send_signal(signal.SIGUSR1)
        run.send_signal(signal.SIGUSR1)
        run.wait(60)

    def test_a_sweep_that_nobody_writes_is_told_so(self):
        self.run_program("run", self.place.folder / "ranks.yaml", "-o", "part.h5", "--limit", "3", "--quiet", expect=75)
        terminal = Terminal(self, "show", "part.h5", "-w")
        terminal.wait_for("No run is seen to write it: mhasweep run ... --resume goes on")
        self.assertIn("rank over", terminal.seen)
        terminal.process.send_signal(signal.SIGINT)
        self.assertEqual(terminal.end()[0], 75)

    def test_a_file_that_vanishes_ends_it(self):
        self.run_program("run", self.place.folder / "ranks.yaml", "-o", "part.h5", "--limit", "3", "--quiet", expect=75)
        terminal = Terminal(self, "show", "part.h5", "--watch=0.1")
        terminal.wait_for("Ctrl-C")
        (self.folder / "part.h5").unlink()
        status, text = terminal.end()
        self.assertEqual(status, 1)
        self.assertRegex(text.split(LEAVE)[1], "part.h5: there is no such file")

    def test_elsewhere_than_on_a_terminal_it_is_refused(self):
        for words in (("--watch",), ("--watch", "3"), ("-w3",)):
            ended = self.run_program("show", self.file, *words, expect=2)
            self.assertEqual(ended.stdout, "")
            self.assertIn("--watch draws on a terminal", ended.stderr)

    def test_what_does_not_go_with_it_is_refused(self):
        for words, reason in ((("--watch", "--json"), "goes with --all only"), (("--watch", "-p", "1"), "--all only"),
                              (("--watch=0",), "not a number from 0.1"), (("--watch=x",), "not a number from 0.1"),
                              (("--watch", "0.01"), "not a number from 0.1"), (("--watch", "x"), "unexpected word")):
            self.assertIn(reason, self.run_program("show", self.file, *words, expect=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
