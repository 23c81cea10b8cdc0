# Which BLAS, LAPACK, ScaLAPACK and ARPACK are linked: sets `blas`, `blas_include` (where cblas.h is), `scalapack` and
# `arpack`.
#
# OpenBLAS if nothing is said; another one by MHASWEEP_BLAS, such as MKL, a site's own, or what the compiler's wrapper
# (Cray's cc) brings by itself; the same words for MHASWEEP_SCALAPACK. One library has to serve BLAS, CBLAS and LAPACK
# for everything in the program.

set(MHASWEEP_BLAS "" CACHE STRING
    "BLAS with LAPACK to link, e.g. '-lmkl_rt' or full names; wrapper: the compiler brings it; empty: OpenBLAS")

set(blas_include "")
if(MHASWEEP_BLAS STREQUAL "wrapper")
  set(blas "")
elseif(MHASWEEP_BLAS)
  set(blas ${MHASWEEP_BLAS})
else()
  pkg_check_modules(openblas QUIET openblas)
  find_library(OPENBLAS_LIBRARY NAMES openblas openblasp openblaso HINTS ${openblas_LIBRARY_DIRS})
  if(NOT OPENBLAS_LIBRARY)
    message(FATAL_ERROR "OpenBLAS is not found: put its folder into CMAKE_PREFIX_PATH (or PKG_CONFIG_PATH), or name "
                        "another BLAS with LAPACK, such as -DMHASWEEP_BLAS=-lmkl_rt")
  endif()
  set(blas ${OPENBLAS_LIBRARY})
endif()

# MKL calls the same header mkl_cblas.h; Debian has it in a folder mkl.
find_path(CBLAS_INCLUDE NAMES cblas.h HINTS ${openblas_INCLUDE_DIRS} PATH_SUFFIXES openblas)
if(NOT CBLAS_INCLUDE)
  find_path(MKL_INCLUDE NAMES mkl_cblas.h HINTS $ENV{MKLROOT}/include PATH_SUFFIXES mkl)
  if(MKL_INCLUDE)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/mkl/cblas.h CONTENT "#include <mkl_cblas.h>\n")
    set(CBLAS_INCLUDE ${PROJECT_BINARY_DIR}/generated/mkl)
    list(APPEND blas_include ${MKL_INCLUDE})
  elseif(NOT MHASWEEP_BLAS STREQUAL "wrapper")
    message(FATAL_ERROR "cblas.h of BLAS is not found: say where it is with -DCBLAS_INCLUDE=FOLDER")
  endif()
endif()
if(CBLAS_INCLUDE)
  list(APPEND blas_include ${CBLAS_INCLUDE})
endif()
list(REMOVE_ITEM blas_include ${CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES})

# Only ScaLAPACK itself is taken from here, never the BLAS and LAPACK that its package names: the one above, which is
# linked before it, serves both (libblas.so.3, which Debian's ScaLAPACK wants, is loaded too, but nothing in it is called).
if(MHASWEEP_SCALAPACK STREQUAL "wrapper")
  set(scalapack "")
elseif(MHASWEEP_SCALAPACK)
  set(scalapack ${MHASWEEP_SCALAPACK})
else()
  # Debian names it after its MPI, and has both: that of another MPI would link, and crash.
  if(MHASWEEP_MPICH)
    set(scalapack_of_mpi scalapack-mpich)
  else()
    set(scalapack_of_mpi scalapack-openmpi)
  endif()
  pkg_search_module(scalapack_package QUIET ${scalapack_of_mpi} scalapack)
  find_library(SCALAPACK_LIBRARY NAMES ${scalapack_of_mpi} scalapack HINTS ${scalapack_package_LIBDIR})
  if(NOT SCALAPACK_LIBRARY)
    message(FATAL_ERROR "ScaLAPACK is not found: put its folder into CMAKE_PREFIX_PATH, or name it, such as "
                        "-DMHASWEEP_SCALAPACK='-lscalapack;-lgfortran' or, of MKL with Open MPI, "
                        "-DMHASWEEP_SCALAPACK='-lmkl_scalapack_lp64;-lmkl_blacs_openmpi_lp64' (see jobs/packaging/README.md)")
  endif()
  set(scalapack ${SCALAPACK_LIBRARY})
endif()

# A few eigenvalues of large matrices. The same holds for ARPACK and PARPACK as for ScaLAPACK.
pkg_check_modules(arpack_package QUIET arpack)
pkg_check_modules(parpack_package QUIET parpack)
find_library(PARPACK_LIBRARY NAMES parpack HINTS ${parpack_package_LIBRARY_DIRS})
find_library(ARPACK_LIBRARY NAMES arpack HINTS ${arpack_package_LIBRARY_DIRS})
if(NOT PARPACK_LIBRARY OR NOT ARPACK_LIBRARY)
  message(FATAL_ERROR "ARPACK with PARPACK (arpack-ng, built with MPI) is not found: put its folder into CMAKE_PREFIX_PATH")
endif()
set(arpack ${PARPACK_LIBRARY} ${ARPACK_LIBRARY})

# A wrong choice is told here, and not by hundreds of lines of the linker.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES ${blas} ${scalapack} MPI::MPI_C m)
set(CMAKE_REQUIRED_INCLUDES ${blas_include})
check_c_source_compiles("
  #include <cblas.h>
  void dgesvd_(void);
  int main(void) { dgesvd_(); return cblas_ddot(0, 0, 1, 0, 1) != 0.0; }" MHASWEEP_BLAS_LINKS)
check_c_source_compiles("
  void pdgemm_(void);
  void Cblacs_gridexit(int);
  int main(void) { pdgemm_(); Cblacs_gridexit(0); return 0; }" MHASWEEP_SCALAPACK_LINKS)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_INCLUDES)
if(NOT MHASWEEP_BLAS_LINKS)
  unset(MHASWEEP_BLAS_LINKS CACHE) # so that a better choice is tried in the same folder
  message(FATAL_ERROR "a program with cblas.h and LAPACK does not link with '${blas}': see MHASWEEP_BLAS")
endif()
if(NOT MHASWEEP_SCALAPACK_LINKS)
  unset(MHASWEEP_SCALAPACK_LINKS CACHE)
  message(FATAL_ERROR "a program with ScaLAPACK does not link with '${scalapack}': see MHASWEEP_SCALAPACK")
endif()
