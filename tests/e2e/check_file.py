#!/usr/bin/python3
"""Is a result file what README.md promises to those who open it from Python?

    check_file.py FILE.h5 ...

Opens each file with h5py and with xarray (engine h5netcdf), looks at dimensions, attributes and flags, makes the
labelled grid, and runs h5dump -H. Prints one line a file; exits 1 with the reason at the first thing that is wrong.
Other end-to-end tests import `check`.
"""
import subprocess
import sys

import h5py
import numpy as np
import xarray as xr

ROOT_ATTRIBUTES = [
    "Conventions", "title", "experiment", "spec", "spec_overrides", "spec_canonical", "spec_hash", "seed",
    "schema_version", "mhasweep_version", "git_commit", "created", "mpi_library", "mpi_size", "blas_library",
    "blas_core", "hdf5_version", "slurm_job_id", "reused_files",
]
RUN_VARIABLES = ["status", "error", "attempts", "started", "seconds", "ranks", "first_rank", "flops", "hostname"]
DIMENSIONS_OF_ROLE = {
    "parameter": ("point",), "result": ("point",), "run": ("point",),
    "curve": ("point", "record"), "spectrum": ("point", "k"),
}


def require(condition, message):
    if not condition:
        raise AssertionError(message)


def check_attributes(file):
    for name in ROOT_ATTRIBUTES:
        require(name in file.attrs, f"no root attribute {name}")
    for name in ("spec", "spec_hash", "experiment", "created"):
        require(isinstance(file.attrs[name], str), f"root attribute {name} is no str")
    require(len(file.attrs["spec_hash"]) == 16, "spec_hash is not 16 hex digits")
    for name, variable in file.items():
        if not isinstance(variable, h5py.Dataset):
            continue
        for attribute in ("units", "long_name"):
            value = variable.attrs.get(attribute)
            require(isinstance(value, str) and value, f"{name}: {attribute} is {value!r}")
        require(variable.chunks is None, f"{name} is not contiguous")
        require(variable.id.get_offset() is not None, f"{name} is not allocated")
        if "flag_values" in variable.attrs:
            values, words = variable.attrs["flag_values"], variable.attrs["flag_meanings"].split()
            require(list(values) == list(range(len(words))), f"{name}: flag_values {values}, words {words}")
            require(values.dtype == variable.dtype == np.int8, f"{name}: flags of {variable.dtype}")
    require(file["status"].attrs["flag_meanings"] == "pending running done failed", "status words")


def check_dataset(data):
    points = data.sizes["point"]
    require(list(data["point"].values) == list(range(points)), "point is not 0 .. N-1")
    for name in RUN_VARIABLES:
        require(name in data, f"no variable {name}")
    for name, variable in data.variables.items():
        if "role" in variable.attrs:
            expected = DIMENSIONS_OF_ROLE[variable.attrs["role"]]
            require(variable.dims == expected, f"{name} has dimensions {variable.dims}, not {expected}")
    parameters = [name for name in data if data[name].attrs.get("role") == "parameter"]
    require(parameters and parameters[-1] == "replicate", "parameters do not end with replicate")
    for name in parameters:
        require(data[name].attrs["is_axis"] in (0, 1), f"{name}: is_axis")
    done = data["status"].values == 2
    for name in data:
        if data[name].attrs.get("role") == "result":
            require(np.isnan(data[name].values[~done].astype(float)).all(), f"{name} has numbers where nothing is done")
    return [name for name in parameters if data[name].attrs["is_axis"] == 1]


def check_grid(data, axes):
    """The labelled grid: every point is found again at its labels."""
    results = [name for name in data if data[name].attrs.get("role") == "result"]
    if len(axes) < 2:
        return
    labels = list(zip(*(data[axis].values for axis in axes)))
    if len(set(labels)) < len(labels):  # expressions over zipped or sampled axes need not be a grid
        return
    grid = data.set_index(point=axes)[results].unstack("point")
    for axis in axes:
        require(axis in grid.dims, f"{axis} is no dimension of the grid")
    for point in sorted({0, len(labels) // 2, len(labels) - 1}):
        for name in results:
            one = grid[name].sel(dict(zip(axes, labels[point]))).values
            require(np.array_equal(one, data[name].values[point], equal_nan=True), f"{name} of point {point} moved")


def check(path):
    """Raises AssertionError with the reason; returns the dataset's sizes."""
    with h5py.File(path, "r") as file:
        check_attributes(file)
    with xr.open_dataset(path, engine="h5netcdf") as data:
        axes = check_dataset(data)
        check_grid(data, axes)
        sizes = dict(data.sizes)
    dump = subprocess.run(["h5dump", "-H", path], capture_output=True, text=True, check=False)
    require(dump.returncode == 0 and "DATASET \"status\"" in dump.stdout, f"h5dump -H: {dump.stderr}")
    return sizes


def main():
    for path in sys.argv[1:]:
        try:
            print(f"{path}: ok, {check(path)}")
        except AssertionError as error:
            print(f"{path}: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
