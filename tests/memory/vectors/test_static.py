"""Tables of vectors: rounding keeps their order, a damaged one is refused, any text has a mean."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from tests.memory.vectors.embedders import WORDS
from threadkeep.errors import Damaged
from threadkeep.memory.vectors.distillation import main_directions, piece_weights, says_something
from threadkeep.memory.vectors.static_vectors import (
    StaticEmbedder,
    make_table,
    pack_table,
    unpack_table,
)

VECTORS = np.random.default_rng(3).standard_normal((len(WORDS), 16)).astype(np.float32)
TABLE = make_table("toy", WORDS, VECTORS * piece_weights(WORDS)[:, None])


def values(vector: bytes) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.frombuffer(vector, "<f4")


def test_a_table_comes_back_as_it_was() -> None:
    again = unpack_table(pack_table(TABLE))
    assert (again.model, again.vocabulary, again.dimensions) == ("toy", WORDS, 16)
    assert np.array_equal(again.rows, TABLE.rows)
    assert np.array_equal(again.scales, TABLE.scales)


@given(st.data())
def test_a_table_that_is_not_whole_is_refused(data: st.DataObject) -> None:
    packed = bytearray(pack_table(TABLE))
    at = data.draw(st.integers(0, len(packed) - 1))
    if data.draw(st.booleans()):
        packed[at] ^= data.draw(st.integers(1, 255))
    else:
        del packed[at:]
    with pytest.raises(Damaged):
        unpack_table(bytes(packed))


@given(arrays.arrays(np.float32, (4, 6), elements=st.floats(-50, 50, width=32)))
def test_rounding_moves_no_number_further_than_half_a_step(
    vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    table = make_table("toy", WORDS[:4], vectors)
    back = table.rows * table.scales[:, None]
    assert (np.abs(back - vectors) <= table.scales[:, None] * 0.51 + 1e-30).all()


def test_vectors_have_length_one_and_like_texts_are_alike() -> None:
    embedder = StaticEmbedder(TABLE)
    cats, cat, server = map(values, embedder.embed(["Cats", "a cat", "rust server"]))
    assert np.linalg.norm(cats) == pytest.approx(1, abs=1e-5)
    assert cats @ cat > cats @ server


def test_a_text_that_says_nothing_has_no_vector() -> None:
    assert StaticEmbedder(TABLE).embed(["", " \n", "...", "🙂", "cat"])[:4] == [b""] * 4


@given(st.lists(st.text(alphabet="cat dogs.rust中 \x00🙂", max_size=30), max_size=8))
def test_a_batch_gives_what_each_text_gives_alone(texts: list[str]) -> None:
    embedder = StaticEmbedder(TABLE)
    together = embedder.embed(texts)
    alone = [embedder.embed([text])[0] for text in texts]
    assert [len(v) for v in together] == [len(v) for v in alone]
    for one, other in zip(together, alone, strict=True):
        assert np.allclose(values(one), values(other), atol=1e-5)


def test_rare_pieces_weigh_more_and_marks_nothing() -> None:
    weights = dict(zip(WORDS, piece_weights(WORDS), strict=True))
    assert weights["[CLS]"] == weights["."] == 0
    assert 0 < weights["a"] < weights["cat"] < weights["server"]
    assert says_something("##s")
    assert not says_something("[unused1]")


def test_the_strongest_directions_come_first_and_are_held_back() -> None:
    rng = np.random.default_rng(1)
    meanings = (rng.standard_normal((200, 5)) * [1, 100, 10, 0.1, 0]).astype(np.float32)
    spread = main_directions(meanings, 3).std(axis=0)
    assert spread[0] > spread[1] > spread[2]
    assert spread[0] / spread[1] < 5  # it was ten times as strong
