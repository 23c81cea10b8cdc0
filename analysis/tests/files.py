"""Result files for the tests, written with h5py in the layout of the program's own, and rows without a file: every status
and value is known."""

import itertools

import h5py
import numpy as np
import xarray as xr

STATUS = ["pending", "running", "done", "failed"]
CHOICES = {"context_type": ["own", "shared"], "labels": ["regression", "classes"],
           "weights": ["random", "constructed", "trained"], "attention": ["softmax", "linear", "hard", "dcmha"],
           "stage": ["embedding", "attention"]}
PENDING, RUNNING, DONE, FAILED = range(4)


class ResultFile:
    """Writes a result file: axes make the grid, every other variable is a column."""

    def __init__(self, path, experiment, axes, fixed):
        self.file = h5py.File(path, "w", track_order=True)
        self.file.attrs.update({"experiment": experiment, "Conventions": "CF-1.8", "title": "a sweep for a test"})
        self.points = list(itertools.product(*axes.values()))
        self.point = self.file.create_dataset("point", data=np.arange(len(self.points)))
        self.point.make_scale("point")
        for number, name in enumerate(axes):
            self.column(name, [point[number] for point in self.points], "parameter", axis=1)
        for name, value in fixed.items():
            self.column(name, [value] * len(self.points), "parameter")

    def column(self, name, values, role, axis=None, words=None):
        """One variable over the points; strings become coded choices."""
        if words is None and isinstance(values[0], str) and role == "parameter":
            words = CHOICES[name]
            values = [words.index(value) for value in values]
        data = np.array(values)
        if words:
            data = data.astype("i1")
        if data.dtype.kind == "U":
            data = data.astype("S256")
        variable = self.file.create_dataset(name, data=data)
        variable.dims[0].attach_scale(self.point)
        variable.attrs.update({"role": role, "units": "1", "long_name": name})
        if axis is not None:
            variable.attrs["is_axis"] = np.int32(axis)
        elif role == "parameter":
            variable.attrs["is_axis"] = np.int32(0)
        if words:
            variable.attrs["flag_values"] = np.arange(len(words), dtype="i1")
            variable.attrs["flag_meanings"] = " ".join(words)

    def curve(self, name, values, along="record", role="curve"):
        if along not in self.file:
            self.file.create_dataset(along, data=np.arange(np.shape(values)[1])).make_scale(along)
        variable = self.file.create_dataset(name, data=np.array(values, "f4" if role == "curve" else "f8"))
        variable.dims[0].attach_scale(self.point)
        variable.dims[1].attach_scale(self.file[along])
        variable.attrs.update({"role": role, "units": "1", "long_name": name})

    def close(self, status, error=None):
        self.column("status", status, "run", words=STATUS)
        self.column("error", error or [""] * len(status), "run")
        self.column("seconds", [1.5] * len(status), "run")
        self.file.close()


def write_memorize(path, status=None):
    """3 heads x 2 samples x 2 contexts x 2 replicates; accuracy = heads / 10 + replicate / 100 - samples / 1e4."""
    axes = {"heads": [1, 2, 4], "samples": [100, 200], "context_type": ["own", "shared"], "replicate": [0, 1]}
    fixed = {"dim": 16, "key_dim": 16, "context": 8, "labels": "classes", "classes": 20}
    out = ResultFile(path, "memorize", axes, fixed)
    accuracy = [h / 10 + r / 100 - t / 1e4 for h, t, _, r in out.points]
    status = status or [DONE] * len(accuracy)
    out.column("accuracy", accuracy, "result")
    out.column("best_step", [500] * len(accuracy), "result")
    out.column("parameters", [1000] * len(accuracy), "result")
    out.curve("curve_loss", [[2.0, 1.0, np.nan]] * len(accuracy))
    out.close(status, ["diverged at step 7" if it == FAILED else "" for it in status])
    return accuracy


def write_probe(path, rank=None):
    """5 heads x 3 contexts x 2 kinds x 2 replicates, with the rank of the theory unless given."""
    axes = {"heads": [1, 2, 4, 8, 16], "context": [2, 4, 8], "context_type": ["own", "shared"], "replicate": [0, 1]}
    out = ResultFile(path, "probe", axes, {"dim": 8, "key_dim": 8, "samples": 100})
    theory = [min(100, h * (n - 1) + 1 if kind == "shared" else 8 * h) for h, n, kind, _ in out.points]
    out.column("rank", theory if rank is None else rank, "result")
    out.column("memorized", [1] * len(theory), "result", words=["false", "true"])
    out.close([DONE] * len(theory))


def write_trained(path, along, values, labels="classes"):
    """A training along one axis, for 2 numbers of samples and 2 replicates; accuracy = place of the value / 10 +
    replicate / 100 - samples / 1e4, loss = half of it."""
    fixed = {"heads": 8, "context": 4, "key_dim": 16, "dim": 16, "context_type": "shared", "labels": labels,
             "classes": 20}
    fixed.pop(along)
    out = ResultFile(path, "memorize", {along: values, "samples": [100, 200], "replicate": [0, 1]}, fixed)
    accuracy = np.array([values.index(v) / 10 + r / 100 - t / 1e4 for v, t, r in out.points])
    out.column("accuracy", accuracy if labels == "classes" else accuracy * np.nan, "result")
    out.column("loss", accuracy / 2, "result")
    out.column("parameters", [1000] * len(accuracy), "result")
    out.close([DONE] * len(accuracy))


def write_capacity(path, axes, fixed, capacity):
    """A sweep that searched; capacity(heads, context, key_dim, replicate)."""
    everything = {"dim": 16, "context_type": "shared", "attention": "softmax", "samples": 4000, **fixed}
    out = ResultFile(path, "probe", {**axes, "replicate": [0, 1]}, everything)
    rows = [{**everything, **dict(zip([*axes, "replicate"], point))} for point in out.points]
    out.column("capacity", [capacity(row) for row in rows], "result")
    out.column("rank", [1] * len(rows), "result")
    out.column("bound_lower", [it["heads"] * (min(it["context"], it["key_dim"]) - 1) + 1 for it in rows], "result")
    out.column("bound_shared", [it["heads"] * (it["context"] - 1) + 1 for it in rows], "result")
    out.column("bound_width", [it["heads"] * 16 for it in rows], "result")
    return out


def rows(experiment, defaults, results, curves=None, **axes):
    """A dataset as `open` gives it, of one row for each combination of the axes; `results` and `curves` are functions of
    a row (a dict of the parameters), or values."""
    grid = np.array(np.meshgrid(*(np.arange(len(it)) for it in axes.values()), indexing="ij")).reshape(len(axes), -1).T
    table = [{**defaults, **{name: axes[name][i] for name, i in zip(axes, row)}} for row in grid]
    value = {name: [it(row) if callable(it) else it for row in table] for name, it in results.items()}
    data = {name: ("point", np.array(it, float)) for name, it in value.items()}
    data |= {name: (("point", "record"), np.array([it(row) for row in table], float))
             for name, it in (curves or {}).items()}
    data["status"] = ("point", np.array(["done"] * len(table), dtype=object))

    def column(name):
        values = [row[name] for row in table]
        return np.array(values, dtype=object if isinstance(values[0], str) else None)

    dataset = xr.Dataset(data, {name: ("point", column(name)) for name in defaults})
    for name in axes:
        dataset[name].attrs["is_axis"] = 1
    return dataset.assign_coords(point=np.arange(len(table))).assign_attrs(experiment=experiment)
