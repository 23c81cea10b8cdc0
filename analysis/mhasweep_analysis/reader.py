"""A result file as an xarray.Dataset: only finished rows, words for coded values, parameters as coordinates."""

from __future__ import annotations

import os
from pathlib import Path

# A running sweep may hold a lock on its file. Nothing here writes, and the status of a row tells whether it is final,
# so reading needs none. HDF5 looks at this once, when it is loaded.
os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")

import h5py
import numpy as np
import pandas as pd
import xarray as xr

DONE = "done"
MISSING = -1  # in integers and flags of a point that does not measure them
NONE_FOUND = ("capacity",)  # here -1 is a value: a search for which not even the least number held
MEASURED = ("result", "curve", "spectrum")  # roles of variables that mean something only in rows that are done


class ResultError(Exception):
    """A result file that cannot be read or does not hold what is asked of it; the text is for the user."""


def open(path: str | os.PathLike[str], curves: bool = True) -> xr.Dataset:
    """Reads the result file at `path`, also while a sweep is still writing it.

    Results of rows whose `status` is not "done", and those that a point does not measure, are NaN; integer results
    become floating-point for that. Choices and `status` become words, flags of the sweep become booleans, flags among
    the results 0 and 1. All parameters and the replicate are coordinates of the dimension `point`. `curves=False`
    leaves out everything with more dimensions than `point` (curves and spectra), which may be large.

    Raises ResultError if there is no such file or it is not a result file.
    """
    path = Path(path)
    if not path.is_file():
        raise ResultError(f"{path}: no such file")
    try:
        with xr.open_dataset(path, engine="h5netcdf", mask_and_scale=False, decode_times=False) as raw:
            if "status" not in raw or raw["status"].dims != ("point",) or "experiment" not in raw.attrs:
                raise ResultError(f"{path}: not a result file of mhasweep (no status of points in it)")
            wide = [name for name, variable in raw.variables.items() if len(variable.dims) > 1]
            if not curves:
                raw = raw.drop_vars(wide).drop_dims("record", errors="ignore")
            # The status before the data: a row that is done by then has all its data in the file.
            status = raw["status"].values.copy()
            data = raw.load()
    except OSError as error:
        raise ResultError(f"{path}: cannot be read as an HDF5 file ({error})") from error

    done = _words(data["status"].copy(data=status)) == DONE
    data["status"] = data["status"].copy(data=status)
    decoded = {name: _decode(str(name), data.variables[name], done) for name in data.data_vars}
    data = data.assign(decoded)
    data = data.set_coords([name for name in decoded if decoded[name].attrs.get("role") == "parameter"])
    data.attrs["path"] = str(path)
    return data


def sweep_axes(dataset: xr.Dataset) -> list[str]:
    """Names of the parameters that the sweep varies, and `replicate` if there are several, in the order of the file."""
    axes = [str(name) for name, it in dataset.coords.items() if int(it.attrs.get("is_axis", 0)) == 1]
    if "replicate" in dataset.coords and "replicate" not in axes and np.unique(dataset["replicate"]).size > 1:
        axes.append("replicate")
    return axes


def grid(dataset: xr.Dataset) -> xr.Dataset:
    """The sweep as a labelled grid: one dimension per axis in place of `point`.

    Raises ResultError if the points are no full grid (a sweep with `zip`, `where` or `sample`).
    """
    axes = sweep_axes(dataset)
    if not axes:
        raise ResultError("the sweep has one point only: there is no axis to make a grid of")
    sizes = {name: np.unique(dataset[name].values).size for name in axes}
    points = dataset.sizes["point"]
    if np.prod(list(sizes.values())) != points:
        shape = " x ".join(f"{name} {size}" for name, size in sizes.items())
        raise ResultError(f"{points} points are no full grid of {shape} (a sweep with zip, where or sample)")
    # An axis becomes a dimension; the other parameters stay as they are, one value per point.
    with np.errstate(invalid="ignore"):  # xarray first fills integers with a NaN cast to integer, then with the values
        return dataset.drop_vars("point", errors="ignore").set_index(point=axes).unstack("point")


def to_frame(dataset: xr.Dataset, finished: bool = True) -> pd.DataFrame:
    """The rows as a pandas.DataFrame with the index `point`: parameters first, then results and how each was run.

    Only rows that are done, unless `finished` is false. Curves and spectra are left out: they have more dimensions.
    """
    names = [name for name, it in dataset.variables.items() if it.dims == ("point",) and name != "point"]
    names.sort(key=lambda name: name not in dataset.coords)
    frame = pd.DataFrame({name: dataset[name].values for name in names}, index=pd.Index(dataset["point"], name="point"))
    return frame[frame["status"] == DONE] if finished else frame


def stored(dataset: xr.Dataset, point: int, name: str) -> np.ndarray:
    """The array `name` that the sweep stored of a point (`store: [weights, data, z, attention]`).

    Raises ResultError if the file holds none.
    """
    path = dataset.attrs["path"]
    try:
        with h5py.File(path, "r") as file:
            if f"stored/{point}/{name}" not in file:
                raise ResultError(f"{path}: holds no {name} of point {point}; the sweep file has to ask for it "
                                  "(store:)")
            return file[f"stored/{point}/{name}"][()]
    except OSError as error:
        raise ResultError(f"{path}: cannot be read as an HDF5 file ({error})") from error


def stores(dataset: xr.Dataset, point: int, name: str) -> bool:
    """Did the sweep store the array `name` of a point? False for a dataset that does not come from a file."""
    path = dataset.attrs.get("path", "")
    if not Path(path).is_file():
        return False
    with h5py.File(path, "r") as file:
        return f"stored/{point}/{name}" in file


def _decode(name: str, variable: xr.Variable, done: np.ndarray) -> xr.Variable:
    """One variable with words for codes, text for bytes, and NaN where its row is not done or has no value of it."""
    role = variable.attrs.get("role", "")
    if variable.dtype.kind == "S":
        return variable.copy(data=np.char.decode(variable.values, "utf-8", "replace").astype(object))
    if "flag_meanings" in variable.attrs and variable.dtype.kind in "iu":
        is_flag = variable.attrs["flag_meanings"].split() == ["false", "true"]
        if not is_flag:
            return variable.copy(data=_words(variable))
        if role == "parameter":
            return variable.copy(data=variable.values == 1)
    if role in MEASURED and variable.dtype.kind in "iuf":
        kind = variable.dtype if variable.dtype.kind == "f" else np.float64
        values = variable.values.astype(kind)
        values[~done] = np.nan
        if variable.dtype.kind != "f" and name not in NONE_FOUND:
            values[variable.values == variable.attrs.get("_FillValue", MISSING)] = np.nan
        return variable.copy(data=values)
    return variable


def _words(variable: xr.DataArray | xr.Variable) -> np.ndarray:
    """Words in place of the codes of a variable with flag_values and flag_meanings; "" for a code without a word."""
    words = variable.attrs["flag_meanings"].split()
    codes = np.atleast_1d(variable.attrs.get("flag_values", np.arange(len(words))))
    named = dict(zip(codes.tolist(), words))
    return np.array([named.get(code, "") for code in variable.values.tolist()], dtype=object)
