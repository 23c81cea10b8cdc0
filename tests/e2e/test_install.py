"""What `cmake --install` puts where, and that others find and use it: the program, and the library by CMake and by
pkg-config."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import harness

BUILD = pathlib.Path(harness.PROGRAM).resolve().parent
CACHE = (BUILD / "CMakeCache.txt").read_text()
SANITIZED = bool(re.search(r"(?m)^MHASWEEP_SANITIZE:STRING=.+$", CACHE))
CONSUMER = harness.SOURCE / "tests" / "consumer"
RANKS = "".join(f"heads {heads} rank {heads * 3 + 1}\n" for heads in (1, 2, 3))  # H (n - 1) + 1


def run(*command, **more):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=300, check=False,
                          **{"env": harness.environment(), **more})


class Installed(harness.Folder):
    @classmethod
    def setUpClass(cls):
        cls.place = harness.Folder("run")
        cls.place.setUp()
        cls.addClassCleanup(cls.place.doCleanups)
        first = cls.place.folder / "first"
        done = run("cmake", "--install", BUILD, "--prefix", first)
        assert done.returncode == 0, done.stderr
        cls.prefix = cls.place.folder / "elsewhere"  # it may be moved
        first.rename(cls.prefix)

    def check(self, done, stdout=None):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if stdout is not None:
            self.assertEqual(done.stdout, stdout)

    def find(self, name):
        found = [path for path in self.prefix.rglob(name) if path.is_file()]
        self.assertEqual(len(found), 1, f"{name}: {found}")
        return found[0]

    def test_everything_is_there(self):
        for path in ("bin/mhasweep", "include/mhasweep/base.h", "include/mhasweep/experiments.h",
                     "share/man/man1/mhasweep.1", "share/man/man5/mhasweep-sweep.5",
                     "share/man/man7/mhasweep-experiments.7", "share/bash-completion/completions/mhasweep",
                     "share/zsh/site-functions/_mhasweep", "share/doc/mhasweep/README.md", "share/doc/mhasweep/LICENSE",
                     "share/mhasweep/jobs/sweep.sbatch", "share/mhasweep/jobs/memorization/heads-own.yaml",
                     "share/mhasweep/analysis/mhasweep_analysis/plot.py"):
            self.assertTrue((self.prefix / path).is_file(), path)
        for name in ("libmhasweep.a", "mhasweep.pc", "mhasweep-config.cmake", "mhasweep-config-version.cmake"):
            self.find(name)
        self.assertTrue(os.access(self.prefix / "bin" / "mhasweep", os.X_OK))
        self.assertTrue(os.access(self.prefix / "share/mhasweep/jobs/quickstart.sh", os.X_OK))
        self.assertEqual(list(self.prefix.rglob("__pycache__")), [])

    def test_no_installed_text_names_the_folder_of_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.is_file() and path.suffix not in (".a", ".png") and path.name != "mhasweep":
                self.assertNotIn(str(BUILD), path.read_text(errors="replace"), path)

    def test_the_program_runs_from_where_it_was_moved(self):
        program = self.prefix / "bin" / "mhasweep"
        self.check(run(program, "--version"), run(harness.PROGRAM, "--version").stdout)
        self.write("sweep.yaml", "experiment: probe\nparameters: {heads: [1, 2], dim: 4, context: 3}\n")
        self.check(run(program, "run", "sweep.yaml", "--quiet", cwd=self.folder))
        self.check(run(program, "show", "sweep.h5", cwd=self.folder))

    @unittest.skipUnless(shutil.which("ldd"), "there is no ldd here")
    def test_the_program_loads_the_libraries_it_was_built_with(self):
        files = []
        for program in (harness.PROGRAM, self.prefix / "bin" / "mhasweep"):
            done = run("ldd", program)
            self.check(done)
            files.append(sorted(re.sub(r" \(0x[0-9a-f]+\)", "", line) for line in done.stdout.splitlines()))
        self.assertEqual(*files)

    def test_the_analysis_runs_from_where_it_was_moved(self):
        self.write("sweep.yaml", "experiment: probe\nparameters: {heads: [1, 2], dim: 4, context: 3}\n")
        self.check(run(harness.PROGRAM, "run", "sweep.yaml", "--quiet", cwd=self.folder))
        for name, output, start in (("plot", "ranks.png", b"\x89PNG"), ("report", "report.html", b"<!doctype html>")):
            command = self.folder / name
            command.symlink_to(self.prefix / "bin" / f"mhasweep-{name}")
            self.check(run(command, "sweep.h5", "-o", output, cwd=self.folder,
                           env=harness.environment(PYTHON="/usr/bin/python3")))
            self.assertTrue((self.folder / output).read_bytes().startswith(start), name)

    @unittest.skipUnless(shutil.which("man"), "there is no man here")
    def test_man_finds_the_pages(self):
        env = harness.environment(MANPATH=str(self.prefix / "share" / "man"), LC_ALL="C.UTF-8")
        for words in (("mhasweep",), ("5", "mhasweep-sweep"), ("mhasweep-experiments",)):
            done = run("man", *words, env=env)
            self.check(done)
            self.assertIn(words[-1].upper(), done.stdout)

    @unittest.skipIf(SANITIZED, "the library is built with sanitizers, whose flags its users do not have")
    def test_a_cmake_project_finds_and_uses_the_library(self):
        compiler = re.search(r"(?m)^CMAKE_C_COMPILER:\w+=(.+)$", CACHE).group(1)
        self.check(run("cmake", "-S", CONSUMER, "-B", self.folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                       f"-DCMAKE_C_COMPILER={compiler}"))
        self.check(run("cmake", "--build", self.folder / "build"))
        self.check(run(self.folder / "build" / "consumer"), RANKS)

    def test_a_project_that_wants_another_version_is_refused(self):
        shutil.copytree(CONSUMER, self.folder / "newer")
        lists = self.folder / "newer" / "CMakeLists.txt"
        lists.write_text(lists.read_text().replace("mhasweep 0.1", "mhasweep 7.0"))
        done = run("cmake", "-S", self.folder / "newer", "-B", self.folder / "build",
                   f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("7.0", done.stderr)

    @unittest.skipIf(SANITIZED, "the library is built with sanitizers, whose flags its users do not have")
    def test_pkg_config_finds_the_library(self):
        env = harness.environment(PKG_CONFIG_PATH=str(self.find("mhasweep.pc").parent))
        flags = run("pkg-config", "--cflags", "--libs", "mhasweep", env=env)
        self.check(flags)
        program = self.folder / "consumer"
        self.check(run("cc", "-std=c11", CONSUMER / "consumer.c", "-o", program, *flags.stdout.split()))
        self.check(run(program), RANKS)


class Choices(harness.Folder):
    """Libraries that are named, and wrong ones; configuring only, as building takes minutes."""

    def configure(self, *words):
        return run("cmake", "-S", harness.SOURCE, "-B", self.folder / "build", "-DMHASWEEP_TESTS=OFF", *words)

    def test_blas_and_scalapack_can_be_named(self):
        scalapack = re.search(r"(?m)^SCALAPACK_LIBRARY:\w+=(.+)$", CACHE)
        if scalapack is None:
            self.skipTest("this build was told which ScaLAPACK to take")
        done = self.configure(f"-DMHASWEEP_SCALAPACK={scalapack.group(1)}", "-DMHASWEEP_BLAS=-lblas;-llapack")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("-lblas -llapack", (self.folder / "build" / "mhasweep.pc").read_text())
        self.assertNotIn("openblas", (self.folder / "build" / "mhasweep.pc").read_text().split("Libs:")[1])

    def test_a_compiler_that_brings_them_is_trusted(self):
        libraries = [re.search(rf"(?m)^{name}:\w+=(.+)$", CACHE) for name in ("OPENBLAS_LIBRARY", "SCALAPACK_LIBRARY")]
        if None in libraries:
            self.skipTest("this build was told which BLAS or ScaLAPACK to take")
        compiler = self.write("cc", '#!/bin/sh\nexec cc "$@" ' + " ".join(found.group(1) for found in libraries) + "\n")
        compiler.chmod(0o755)
        done = self.configure(f"-DCMAKE_C_COMPILER={compiler}", "-DMHASWEEP_BLAS=wrapper", "-DMHASWEEP_SCALAPACK=wrapper")
        self.assertEqual(done.returncode, 0, done.stderr)
        linked = (self.folder / "build" / "mhasweep.pc").read_text().split("Libs:")[1]
        self.assertNotIn("openblas", linked)
        self.assertNotIn("scalapack", linked)

    def test_a_blas_or_scalapack_that_does_not_link_is_told_at_once(self):
        done = self.configure("-DMHASWEEP_BLAS=-lno_such_blas")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"no_such_blas.*see\s+MHASWEEP_BLAS")
        shutil.rmtree(self.folder / "build")
        done = self.configure("-DMHASWEEP_SCALAPACK=-lm")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"see\s+MHASWEEP_SCALAPACK")

    def test_the_header_of_mkl_serves_as_cblas_h(self):
        folder = self.folder / "mkl" / "include"
        folder.mkdir(parents=True)
        header = re.search(r"(?m)^CBLAS_INCLUDE:\w+=(.+)$", CACHE).group(1)
        shutil.copy(pathlib.Path(header) / "cblas.h", folder / "mkl_cblas.h")
        for name in ("openblas_config.h", "cblas_mangling.h"):
            if (pathlib.Path(header) / name).exists():
                shutil.copy(pathlib.Path(header) / name, folder)
        done = self.configure(f"-DMKL_INCLUDE={folder}", "-DCBLAS_INCLUDE=")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.folder / "build" / "generated" / "mkl" / "cblas.h").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
