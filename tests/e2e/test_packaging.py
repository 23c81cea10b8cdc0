"""The recipes under jobs/packaging are right as far as can be seen without Spack, Apptainer and a cluster."""
import ast
import os
import re
import subprocess
import types
import unittest

import harness

PACKAGING = harness.SOURCE / "jobs" / "packaging"
LISTS = "\n".join((harness.SOURCE / name).read_text() for name in ("CMakeLists.txt", "cmake/blas.cmake"))
OPTIONS = set(re.findall(r"(?m)^(?:option|set)\((MHASWEEP_\w+)", LISTS)) | {"HDF5_ROOT", "CBLAS_INCLUDE"}


class Libraries(list):
    def joined(self, separator):
        return separator.join(self)

    def __add__(self, other):
        return Libraries([*self, *other])


class Spack(harness.Folder):
    """The recipe runs with stand-ins for what Spack gives it."""

    def load(self):
        path = PACKAGING / "spack" / "packages" / "mhasweep" / "package.py"
        tree = ast.parse(path.read_text())
        tree.body = [it for it in tree.body if not (isinstance(it, ast.ImportFrom) and it.module == "spack.package")]
        self.calls = []

        def directive(name):
            return lambda *words, **more: self.calls.append((name, words, more))

        names = {name: directive(name) for name in ("version", "variant", "depends_on", "license")}
        spec = {"lapack": types.SimpleNamespace(libs=Libraries(["/s/liblapack.so"])),
                "blas": types.SimpleNamespace(libs=Libraries(["/s/libblas.so"])),
                "scalapack": types.SimpleNamespace(libs=Libraries(["/s/libscalapack.so"])),
                "hdf5": types.SimpleNamespace(prefix="/s/hdf5")}
        base = type("CMakePackage", (), {
            "spec": spec, "prefix": types.SimpleNamespace(share="/p/share"),
            "define": staticmethod(lambda name, value: f"-D{name}={value}"),
            "define_from_variant": lambda self, name, variant: f"-D{name}={variant}"})
        names |= {"CMakePackage": base, "join_path": os.path.join, "__file__": str(path)}
        exec(compile(tree, path, "exec"), names)
        return names["Mhasweep"]

    def test_every_option_that_it_sets_is_one(self):
        words = self.load()().cmake_args()
        self.assertIn("-DMHASWEEP_BLAS=/s/liblapack.so;/s/libblas.so", words)
        for word in words:
            self.assertIn(re.match(r"-D(\w+)=", word).group(1), OPTIONS)

    def test_variants_that_it_sets_are_declared_and_the_clone_is_its_source(self):
        package = self.load()
        variants = {words[0] for name, words, _ in self.calls if name == "variant"}
        self.assertLessEqual({word.split("=")[1] for word in package().cmake_args() if word.split("=")[1].isalpha()}, variants)
        self.assertEqual(package.git, f"file://{harness.SOURCE}")

    def test_it_depends_on_every_library_that_is_linked(self):
        self.load()
        wanted = {words[0].split("@")[0].split(" ")[0] for name, words, _ in self.calls if name == "depends_on"}
        modules = {"fyaml": "libfyaml", "muparser": "muparser", "gsl": "gsl", "jansson": "jansson", "zlib": "zlib-api",
                   "xsmm": "libxsmm", "openblas": "blas", "arpack_package": "arpack-ng", "parpack_package": "arpack-ng"}
        used = set(re.findall(r"pkg_check_modules\((\w+)", LISTS))
        for name in used:
            self.assertIn(modules[name], wanted, name)
        self.assertLessEqual({"mpi", "hdf5", "scalapack", "random123", "cmake"}, wanted)


class Apptainer(unittest.TestCase):
    def setUp(self):
        text = (PACKAGING / "mhasweep.def").read_text()
        head, *sections = re.split(r"(?m)^%(\w+)\n", text)
        self.head = dict(re.findall(r"(?m)^(\w+): (.+)$", head))
        self.sections = dict(zip(sections[::2], sections[1::2]))

    def test_it_has_what_a_definition_needs(self):
        self.assertEqual(self.head, {"Bootstrap": "docker", "From": "debian:bookworm-slim"})
        known = {"setup", "files", "post", "environment", "test", "runscript", "labels", "help", "startscript"}
        self.assertLessEqual(set(self.sections), known)

    def test_its_scripts_are_scripts(self):
        for name in ("setup", "post", "environment", "test", "runscript"):
            done = subprocess.run(["sh", "-n"], input=self.sections[name], text=True, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def test_what_it_runs_is_there(self):
        for word in re.findall(r"jobs/[\w./-]+\.sh", self.sections["post"]):
            self.assertTrue(os.access(harness.SOURCE / word, os.X_OK), word)
        self.assertIn('"name": "release"', (harness.SOURCE / "CMakePresets.json").read_text())

    def test_its_own_test_passes(self):
        program = os.path.dirname(os.path.abspath(harness.PROGRAM))
        done = subprocess.run(["sh", "-c", self.sections["test"]], text=True, capture_output=True, check=False, timeout=120,
                              env=harness.environment(PATH=f"{program}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2: 2 done", done.stdout)


class Instructions(unittest.TestCase):
    def test_every_option_that_the_readme_names_is_one(self):
        text = (PACKAGING / "README.md").read_text()
        self.assertLessEqual({f"MHASWEEP_{name}" for name in ("BLAS", "SCALAPACK", "XSMM", "TESTS")}, set(re.findall(r"MHASWEEP_\w+", text)))
        self.assertLessEqual(set(re.findall(r"MHASWEEP_\w+|HDF5_ROOT|CBLAS_INCLUDE", text)), OPTIONS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
