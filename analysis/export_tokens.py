#!/usr/bin/env python3
"""Writes the tokens of a transformer's layers into files that `source: tokens` of mhasweep reads.

    export_tokens.py timm:vit_base_patch16_224.augreg_in21k --images FOLDER -o vit.h5 --layers 0 1
    export_tokens.py hf:bert-large-uncased --texts FILE -o bert.h5 --layers 1 --tokens 512
    export_tokens.py hf:gpt2-large --texts FILE -o gpt2.h5 --query last --random --tokens 1024

One file a layer, OUT-layer0.h5, OUT-layer1.h5 ...: a dataset `tokens` of float32 and the shape (samples, n + 1, d).
Layer 0 is what enters the first block (the embedding with its positions), layer i what leaves block i. Row 0 of a
sample is the query, a copy of its first token ([CLS]) or its last one; rows 1 to n are all of its tokens, the query's
among them, as in the paper (arXiv 2306.02010, section 5). A timm or Hugging Face model needs that package, PyTorch and
h5py; `export` takes any PyTorch model that has a list of blocks.

Exit status: 0 written, 1 a file could not be read or written, 2 wrong usage or a package is missing.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

# Where models keep their blocks: timm's ViT, Hugging Face's ViT and BERT, its GPT-2, and these inside of others.
BLOCKS = ("blocks", "encoder.layer", "layers", "encoder.layers", "h", "transformer.h", "vit.encoder.layer",
          "bert.encoder.layer")
PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}


class ExportError(Exception):
    """What is wrong, in words for the user."""


def need(name: str):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExportError(f"the Python package {name} is needed here: {error}") from None


def blocks_of(model):
    """The model's blocks, in order."""
    for path in BLOCKS:
        found = model
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None and hasattr(found, "__len__") and len(found) > 0:
            return list(found)
    raise ExportError(f"{type(model).__name__} has its blocks in none of the places known: {', '.join(BLOCKS)}")


def first_tensor(value):
    """Blocks give a tensor, or a tuple that begins with it."""
    return value[0] if isinstance(value, (tuple, list)) else value


class Capture:
    """Keeps what enters the first block (layer 0) and what leaves the others, while it is entered."""

    def __init__(self, model, layers):
        self.blocks = blocks_of(model)
        self.layers = layers
        self.seen = {}
        unknown = [layer for layer in layers if not 0 <= layer <= len(self.blocks)]
        if unknown:
            raise ExportError(f"there is no layer {unknown[0]}: the model has layers 0 to {len(self.blocks)}")

    def keep(self, layer, tensor):
        self.seen[layer] = tensor.detach().float().cpu().numpy()

    def __enter__(self):
        self.handles = []
        for layer in self.layers:
            if layer == 0:
                hook = lambda module, inputs: self.keep(0, inputs[0])
                self.handles.append(self.blocks[0].register_forward_pre_hook(hook))
            else:
                hook = lambda module, inputs, output, layer=layer: self.keep(layer, first_tensor(output))
                self.handles.append(self.blocks[layer - 1].register_forward_hook(hook))
        return self

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()


def layer_path(output: Path, layer: int) -> Path:
    return output.with_name(f"{output.stem}-layer{layer}{output.suffix or '.h5'}")


def append(file, tokens, query: str):
    """Adds a batch (samples, n, d) to the file, each sample with its query in front."""
    numpy = need("numpy")
    row = 0 if query == "first" else tokens.shape[1] - 1
    whole = numpy.concatenate([tokens[:, row:row + 1], tokens], axis=1)
    if not numpy.isfinite(whole).all():
        raise ExportError(f"{file.filename}: the model gave numbers that are not finite")
    if "tokens" not in file:
        file.create_dataset("tokens", data=whole, dtype="f4", maxshape=(None, *whole.shape[1:]),
                            chunks=(1, *whole.shape[1:]))
        return
    dataset = file["tokens"]
    if dataset.shape[1:] != whole.shape[1:]:
        raise ExportError(f"samples of {whole.shape[1]} rows follow samples of {dataset.shape[1]}; all need as many")
    dataset.resize(dataset.shape[0] + len(whole), axis=0)
    dataset[-len(whole):] = whole


def export(model, batches, output, layers=(0, 1), query="first", about=""):
    """Runs the model on every batch (a dict of keyword arguments, or one argument) and writes a file a layer.

    Returns the paths. Existing files are not overwritten.
    """
    torch, h5py = need("torch"), need("h5py")
    output = Path(output)
    paths = [layer_path(output, layer) for layer in layers]
    files = []
    model.eval()
    try:
        with Capture(model, layers) as capture:
            for path, layer in zip(paths, layers):
                files.append(h5py.File(path, "x"))
                files[-1].attrs.update(model=about or type(model).__name__, layer=layer, query=query)
            with torch.no_grad():
                for batch in batches:
                    model(**batch) if isinstance(batch, dict) else model(batch)
                    for file, layer in zip(files, layers):
                        append(file, capture.seen[layer], query)
        if any("tokens" not in file for file in files):
            raise ExportError("there was nothing to export: no sample came")
    except BaseException:
        for file in files:  # no half-written file is left
            name = file.filename
            file.close()
            Path(name).unlink()
        raise
    for file in files:
        file.close()
    return paths


# ---- models and data of the two libraries ----


def pictures(folder: Path, count: int):
    image = need("PIL.Image")
    names = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURES)
    if not names:
        raise ExportError(f"{folder}: has no pictures ({', '.join(sorted(PICTURES))})")
    for name in names[:count]:
        yield image.open(name).convert("RGB")


def in_batches(items, size: int):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def load_timm(name: str, options):
    timm, torch = need("timm"), need("torch")
    if options.images is None:
        raise ExportError("a timm model reads pictures; say where they are with --images")
    model = timm.create_model(name, pretrained=not options.random, num_classes=0)
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=model))
    samples = (transform(picture) for picture in pictures(options.images, options.samples))
    return model, (torch.stack(batch) for batch in in_batches(samples, options.batch))


def token_blocks(text: str, tokenizer, length: int, count: int):
    """Samples of `length` tokens each, cut from one text; with the special tokens that the model is used to."""
    special = tokenizer.num_special_tokens_to_add()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    size = length - special
    for first in range(0, min(count * size, len(ids) - size + 1), size):
        yield tokenizer.build_inputs_with_special_tokens(ids[first:first + size])


def load_hugging_face(name: str, options):
    transformers, torch = need("transformers"), need("torch")
    if options.random:
        model = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(name))
    else:
        model = transformers.AutoModel.from_pretrained(name)
    if options.images is not None:
        processor = transformers.AutoImageProcessor.from_pretrained(name)
        groups = in_batches(pictures(options.images, options.samples), options.batch)
        return model, ({"pixel_values": processor(group, return_tensors="pt")["pixel_values"]} for group in groups)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    text = options.texts.read_text(encoding="utf-8")
    groups = in_batches(token_blocks(text, tokenizer, options.tokens, options.samples), options.batch)
    return model, ({"input_ids": torch.tensor(group)} for group in groups)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="export_tokens.py", description="Writes the tokens of a transformer's layers "
                                     "into files that `source: tokens` of mhasweep reads.")
    parser.add_argument("model", metavar="MODEL", help="timm:NAME or hf:NAME")
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--images", metavar="FOLDER", type=Path, help="pictures, one a sample, in order of their names")
    data.add_argument("--texts", metavar="FILE", type=Path, help="a text, cut into samples")
    parser.add_argument("-o", "--output", metavar="OUT.h5", type=Path, required=True,
                        help="OUT-layerN.h5 is written for each layer")
    parser.add_argument("--layers", metavar="N", type=int, nargs="+", default=[0, 1],
                        help="0: the embedding; i: behind block i (default: 0 1)")
    parser.add_argument("--query", choices=("first", "last"), default="first",
                        help="which token is the query: first for ViT and BERT, last for GPT-2")
    parser.add_argument("--samples", metavar="T", type=int, default=2000, help="at most so many (default 2000)")
    parser.add_argument("--tokens", metavar="N", type=int, default=512, help="of a sample of text (default 512)")
    parser.add_argument("--batch", metavar="N", type=int, default=16, help="samples at once (default 16)")
    parser.add_argument("--random", action="store_true", help="random weights instead of the trained ones")
    options = parser.parse_args(arguments)
    library, _, name = options.model.partition(":")
    loaders = {"timm": load_timm, "hf": load_hugging_face}
    if library not in loaders or not name:
        parser.error(f"{options.model}: a model is timm:NAME or hf:NAME")
    if min(options.samples, options.tokens, options.batch) < 1:
        parser.error("--samples, --tokens and --batch take numbers from 1 up")
    try:
        model, batches = loaders[library](name, options)
        for path in export(model, batches, options.output, options.layers, options.query, options.model):
            print(path)
    except ExportError as error:
        print(f"export_tokens: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"export_tokens: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
