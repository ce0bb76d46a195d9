"""Small embedders and models for tests: everything an embedder is, and nothing to download."""

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "a", "cat", "dog", "##s", "rust", "server", "中")


class HashEmbedder:
    """The same text gives the same vector; texts without a letter mean nothing to it."""

    def __init__(self, model: str = "hash-8", dimensions: int = 8) -> None:
        self.model = model
        self.dimensions = dimensions
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.asked += texts
        return [vector_of(text, self.dimensions) if text.strip() else b"" for text in texts]

    def close(self) -> None:
        pass


def vector_of(text: str, dimensions: int = 8) -> bytes:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    values = np.random.default_rng(seed).standard_normal(dimensions)
    return floats(values / np.linalg.norm(values))


def floats(values: Any) -> bytes:
    numbers = [float(value) for value in values]
    return struct.pack(f"<{len(numbers)}f", *numbers)


def write_tiny_model(folder: Path, width: int = 24) -> None:
    """Write a BERT of one layer with random weights, the way the package brings its own."""
    rng = np.random.default_rng(7)
    one = "encoder.layer.0"
    square = [f"{one}.attention.self.{part}" for part in ("query", "key", "value")]
    square += [f"{one}.attention.output.dense"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), width),
        "embeddings.position_embeddings.weight": (8, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        **{f"{name}.weight": (width, width) for name in square},
        **{f"{name}.bias": (width,) for name in square},
        f"{one}.intermediate.dense.weight": (4 * width, width),
        f"{one}.intermediate.dense.bias": (4 * width,),
        f"{one}.output.dense.weight": (width, 4 * width),
        f"{one}.output.dense.bias": (width,),
    }
    for level in ("embeddings", f"{one}.attention.output", f"{one}.output"):
        shapes[f"{level}.LayerNorm.weight"] = shapes[f"{level}.LayerNorm.bias"] = (width,)
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, shape in shapes.items():
        data = rng.standard_normal(shape).astype("<f4").tobytes()
        place = [len(body), len(body) + len(data)]
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": place}
        body += data
    text = json.dumps(head).encode()
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
