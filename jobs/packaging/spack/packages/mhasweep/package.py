"""Spack's recipe. From the root of the project:

    spack repo add jobs/packaging/spack
    spack install mhasweep
"""
import os

from spack.package import *


class Mhasweep(CMakePackage):
    """Parameter sweeps over multi-head attention models with MPI, ScaLAPACK and HDF5: what can a multi-head attention
    layer memorize, learn and generalize?"""

    # The clone that this file is part of; what is committed there is built.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 5))

    license("MIT")

    version("main", branch="main")

    variant("xsmm", default=True, description="libxsmm for small matrix products", when="target=x86_64:")
    variant("tests", default=False, description="Build the tests, to be run with ctest")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10: +mpi +hl")
    depends_on("openblas threads=none", when="^[virtuals=blas] openblas")
    depends_on("blas")
    depends_on("lapack")
    depends_on("scalapack")
    depends_on("arpack-ng +mpi")
    depends_on("libfyaml")
    depends_on("muparser")
    depends_on("gsl")
    depends_on("jansson")
    depends_on("zlib-api")
    depends_on("random123", type="build")
    depends_on("libxsmm", when="+xsmm")
    depends_on("cmocka", when="+tests")
    depends_on("py-h5py", type="run")
    depends_on("py-h5netcdf", type="run")
    depends_on("py-xarray", type="run")
    depends_on("py-matplotlib", type="run")
    depends_on("py-scipy", type="run")
    depends_on("py-jinja2", type="run")

    def cmake_args(self):
        algebra = self.spec["lapack"].libs + self.spec["blas"].libs
        return [
            self.define_from_variant("MHASWEEP_XSMM", "xsmm"),
            self.define_from_variant("MHASWEEP_TESTS", "tests"),
            self.define("MHASWEEP_BLAS", algebra.joined(";")),
            self.define("MHASWEEP_SCALAPACK", self.spec["scalapack"].libs.joined(";")),
            self.define("HDF5_ROOT", self.spec["hdf5"].prefix),
        ]

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", join_path(self.prefix.share, "mhasweep", "analysis"))
