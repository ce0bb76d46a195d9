"""Vectors from a server: asked in batches, and every answer is checked before it is believed."""

import math
import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, strategies as st

from threadkeep.errors import Damaged
from threadkeep.memory.vectors.choice import BATCH, LONGEST_TEXT, ServerEmbedder, unit_vector


class Scripted:
    """A client that answers as a test wants, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Sequence[str]], list[list[float]]]) -> None:
        self._answer = answer
        self.batches: list[list[str]] = []

    def embeddings(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        assert model == "nomic"
        self.batches.append(list(texts))
        return self._answer(texts)


def lengths(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 0.0, 3.0] for text in texts]


def test_texts_go_in_batches_and_come_back_in_order() -> None:
    client = Scripted(lengths)
    embedder = ServerEmbedder(client, "nomic")
    texts = ["x" * (n % 7 + 1) for n in range(BATCH + 5)]
    texts[3] = "  \n"
    vectors = embedder.embed(texts)
    assert [len(batch) for batch in client.batches] == [BATCH, 4]
    assert vectors[3] == b""
    for text, vector in zip(texts[4:], vectors[4:], strict=True):
        numbers = struct.unpack("<3f", vector)
        assert math.hypot(*numbers) == pytest.approx(1, abs=1e-6)
        assert numbers[0] / numbers[2] == pytest.approx(len(text) / 3, rel=1e-5)
    assert embedder.dimensions == 3


def test_the_dimensions_are_asked_for_once_and_long_texts_are_cut() -> None:
    client = Scripted(lengths)
    embedder = ServerEmbedder(client, "nomic")
    assert embedder.dimensions == embedder.dimensions == 3
    assert len(client.batches) == 1
    embedder.embed(["x" * (LONGEST_TEXT + 1)])
    assert len(client.batches[1][0]) == LONGEST_TEXT


@pytest.mark.parametrize(
    "answer",
    [
        [[0.0, 0.0, 0.0]],
        [[math.nan, 1.0, 0.0]],
        [[math.inf, 1.0, 0.0]],
        [[1.0, 2.0]],
        [[]],
        [],
        [[1.0, 2.0, 3.0]] * 2,
    ],
)
def test_answers_that_are_no_vectors_are_refused(answer: list[list[float]]) -> None:
    embedder = ServerEmbedder(Scripted(lambda _: answer), "nomic", dimensions=3)
    with pytest.raises(Damaged, match="nomic"):
        embedder.embed(["text"])


@given(st.lists(st.floats(width=32), max_size=6))
def test_a_unit_vector_has_length_one_or_is_none(numbers: list[float]) -> None:
    vector = unit_vector(numbers)
    if vector is not None:
        found = struct.unpack(f"<{len(numbers)}f", vector)
        assert math.hypot(*found) == pytest.approx(1, abs=1e-5)
    else:
        length = math.hypot(*numbers)
        assert not math.isfinite(length) or length < 1e-5
