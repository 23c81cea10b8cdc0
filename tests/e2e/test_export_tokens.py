"""Tokens that analysis/export_tokens.py writes from PyTorch models of random weights, and mhasweep on them."""
import importlib.util
import subprocess
import sys
import unittest

import h5py
import numpy

import harness

SCRIPT = harness.SOURCE / "analysis" / "export_tokens.py"
sys.path.insert(0, str(SCRIPT.parent))
import export_tokens  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None


def vision_transformer(torch):
    """As timm has them: blocks, a [CLS] token, learned positions; 4 x 4 patches of 16 x 16 images."""

    class ViT(torch.nn.Module):
        def __init__(self, dim=32, depth=2):
            super().__init__()
            self.embed = torch.nn.Conv2d(1, dim, 4, 4)
            self.cls = torch.nn.Parameter(torch.randn(1, 1, dim))
            self.positions = torch.nn.Parameter(0.02 * torch.randn(1, 17, dim))
            self.blocks = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(dim, 4, 4 * dim, 0.0, "gelu", norm_first=True, batch_first=True)
                for _ in range(depth))

        def forward(self, images):
            rows = self.embed(images).flatten(2).transpose(1, 2)
            rows = torch.cat([self.cls.expand(len(rows), -1, -1), rows], 1) + self.positions
            self.states = [rows]
            for block in self.blocks:
                self.states.append(block(self.states[-1]))
            return self.states[-1]

    torch.manual_seed(0)
    return ViT()


def language_model(torch):
    """As GPT-2 of Hugging Face: h, keyword arguments, blocks that give tuples."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, rows):
            return rows + torch.tanh(self.linear(rows)), None

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(50, 8)
            self.h = torch.nn.ModuleList(Block() for _ in range(3))

        def forward(self, input_ids):
            rows = self.embed(input_ids)
            for block in self.h:
                rows = block(rows)[0]
            return rows

    torch.manual_seed(1)
    return Model()


@unittest.skipUnless(HAS_TORCH, "PyTorch is not there (Debian: python3-torch)")
class ExportTokens(harness.Folder):
    def setUp(self):
        super().setUp()
        import torch
        self.torch = torch

    def test_layers_of_a_vision_transformer_are_read_back(self):
        model = vision_transformer(self.torch)
        images = self.torch.rand(300, 1, 16, 16)
        paths = export_tokens.export(model, images.split(128), self.folder / "vit.h5", layers=(0, 1, 2))
        self.assertEqual([path.name for path in paths], ["vit-layer0.h5", "vit-layer1.h5", "vit-layer2.h5"])
        with self.torch.no_grad():
            model(images)
        for path, state in zip(paths, model.states):
            with h5py.File(path) as file:
                tokens = file["tokens"][:]
            self.assertEqual((tokens.dtype, tokens.shape), (numpy.dtype("f4"), (300, 18, 32)))
            numpy.testing.assert_allclose(tokens[:, 1:], state.numpy(), atol=1e-5)
            numpy.testing.assert_array_equal(tokens[:, 0], tokens[:, 1])
        self.write("sweep.yaml", """
experiment: assumptions
parameters: {source: tokens, path: [vit-layer0.h5, vit-layer1.h5], samples: 300, context: 17, dim: 32, orders: 300}
""")
        self.run_program("run", "sweep.yaml", "-o", "out.h5")
        self.assertEqual(harness.column(self.folder / "out.h5", "assumption1").tolist(), [0.0, 1.0])
        self.assertEqual(harness.column(self.folder / "out.h5", "assumption2").tolist(), [1.0, 1.0])
        self.assertGreater(harness.column(self.folder / "out.h5", "assumption3")[0], 0.9)

    def test_last_token_of_a_language_model_is_the_query(self):
        model = language_model(self.torch)
        batches = ({"input_ids": self.torch.randint(50, (5, 7))} for _ in range(2))
        path, = export_tokens.export(model, batches, self.folder / "gpt.h5", layers=[3], query="last")
        with h5py.File(path) as file:
            self.assertEqual(file["tokens"].shape, (10, 8, 8))
            numpy.testing.assert_array_equal(file["tokens"][:, 0], file["tokens"][:, 7])

    def test_nothing_half_written_is_left(self):
        model = language_model(self.torch)
        ids = self.torch.randint(50, (5, 7))
        refused = [([], [0], "no sample"), ([{"input_ids": ids}], [4], "layers 0 to 3"),
                   ([{"input_ids": ids}, {"input_ids": ids[:, :3]}], [0, 1], "follow samples of")]
        for batches, layers, words in refused:
            with self.assertRaisesRegex(export_tokens.ExportError, words):
                export_tokens.export(model, batches, self.folder / "gpt.h5", layers=layers)
            self.assertEqual(list(self.folder.iterdir()), [])
        with self.assertRaisesRegex(export_tokens.ExportError, "blocks in none of the places"):
            export_tokens.export(self.torch.nn.Linear(2, 2), [ids], self.folder / "linear.h5")
        export_tokens.export(model, [{"input_ids": ids}], self.folder / "gpt.h5", layers=[0])
        with self.assertRaises(OSError):  # never overwritten
            export_tokens.export(model, [{"input_ids": ids}], self.folder / "gpt.h5", layers=[0])
        self.assertEqual(len(list(self.folder.iterdir())), 1)


class Words(harness.Folder):
    def refused(self, *words, expect=2):
        ended = subprocess.run([sys.executable, str(SCRIPT), *words], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(ended.returncode, expect, ended.stderr)
        self.assertNotIn("Traceback", ended.stderr)
        return ended.stderr

    def test_wrong_words_are_refused(self):
        self.assertIn("timm:NAME or hf:NAME", self.refused("vit", "--images", ".", "-o", "a.h5"))
        self.assertIn("--images", self.refused("timm:vit", "-o", "a.h5"))
        self.assertIn("from 1 up", self.refused("timm:vit", "--images", ".", "-o", "a.h5", "--samples", "0"))

    def test_missing_package_is_named(self):
        for library, package in (("timm", "timm"), ("hf", "transformers")):
            if importlib.util.find_spec(package) is None:
                self.assertIn(package, self.refused(f"{library}:any", "--images", ".", "-o", "a.h5"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
