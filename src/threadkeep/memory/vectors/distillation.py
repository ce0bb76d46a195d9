"""From a model to a table: what each piece of its vocabulary means, in fewer numbers."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from threadkeep.errors import Damaged
from threadkeep.memory.records import Progress
from threadkeep.memory.vectors.static_vectors import StaticTable, make_table

# ------------------------------------------------------------------------------
# A small BERT on numpy alone: just enough to ask it what each piece of its vocabulary means.

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]

BEGIN: Final = "[CLS]"
END: Final = "[SEP]"
HEADS: Final = 12  # of MiniLM-L6
_BATCH: Final = 512  # pieces at once: the quickest of 64 to 1,024, and a few megabytes
_TINY: Final = np.float32(1e-12)
_KINDS: Final = {"F32": "<f4", "F16": "<f2"}


class _Tensor(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_weights(data: bytes) -> dict[str, Floats]:
    """Read the numbers of a safetensors file, by name."""
    try:
        size = int.from_bytes(data[:8], "little")
        head = msgspec.json.decode(data[8 : 8 + size], type=dict[str, msgspec.Raw])
        head.pop("__metadata__", None)
        tensors = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in head.items()}
        body = memoryview(data)[8 + size :]
        return {n: _array(t, body) for n, t in tensors.items() if t.dtype in _KINDS}
    except (msgspec.MsgspecError, ValueError) as error:
        msg = f"the weights of the model cannot be read: {error}"
        raise Damaged(msg, hint="install the package with the weights again") from error


def _array(tensor: _Tensor, body: memoryview) -> Floats:
    begin, end = tensor.data_offsets
    flat = np.frombuffer(body[begin:end], _KINDS[tensor.dtype]).reshape(tensor.shape)
    return np.asarray(flat, np.float32)


def piece_meanings(
    weights: Weights, begin: int, end: int, progress: Progress | None = None
) -> Floats:
    """Return what the model makes of each piece of its vocabulary when it stands alone."""
    count = len(weights["embeddings.word_embeddings.weight"])
    meanings = []
    for first in range(0, count, _BATCH):
        pieces = np.arange(first, min(first + _BATCH, count))
        framed = np.stack([np.full_like(pieces, begin), pieces, np.full_like(pieces, end)], axis=1)
        meanings.append(encode(weights, framed).mean(axis=1))
        if progress is not None:
            progress(min(first + _BATCH, count), count)
    return np.concatenate(meanings)


def encode(weights: Weights, pieces: NDArray[np.int64]) -> Floats:
    """Run texts of equal length through the model: texts x pieces in, x width out."""
    length = pieces.shape[1]
    hidden = (
        weights["embeddings.word_embeddings.weight"][pieces]
        + weights["embeddings.position_embeddings.weight"][:length]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    hidden = _levelled(weights, "embeddings.LayerNorm", hidden)
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        hidden = _layer(weights, f"encoder.layer.{layer}", hidden)
        layer += 1
    return hidden


def _layer(weights: Weights, name: str, hidden: Floats) -> Floats:
    seen = _dense(weights, f"{name}.attention.output.dense", _attention(weights, name, hidden))
    hidden = _levelled(weights, f"{name}.attention.output.LayerNorm", hidden + seen)
    inner = _gelu(_dense(weights, f"{name}.intermediate.dense", hidden))
    outer = _dense(weights, f"{name}.output.dense", inner)
    return _levelled(weights, f"{name}.output.LayerNorm", hidden + outer)


def _attention(weights: Weights, name: str, hidden: Floats) -> Floats:
    texts, length, width = hidden.shape

    def heads(part: str) -> Floats:
        flat = _dense(weights, f"{name}.attention.self.{part}", hidden)
        return flat.reshape(texts, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)

    scores = heads("query") @ heads("key").transpose(0, 1, 3, 2)
    scores *= np.float32((width // HEADS) ** -0.5)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    seen = np.asarray(scores @ heads("value"), np.float32)
    return seen.transpose(0, 2, 1, 3).reshape(texts, length, width)


def _dense(weights: Weights, name: str, values: Floats) -> Floats:
    flat = values.reshape(-1, values.shape[-1]) @ weights[f"{name}.weight"].T
    flat += weights[f"{name}.bias"]
    return flat.reshape(*values.shape[:-1], -1)


def _levelled(weights: Weights, name: str, values: Floats) -> Floats:
    centred = np.asarray(values - values.mean(axis=-1, keepdims=True), np.float32)
    spread = np.square(centred).mean(axis=-1, keepdims=True)
    centred /= np.sqrt(spread + _TINY)
    centred *= weights[f"{name}.weight"]
    centred += weights[f"{name}.bias"]
    return centred


def _gelu(values: Floats) -> Floats:
    """The usual approximation by tanh: numpy has no error function, and 0.001 does not matter."""
    inner = np.square(values)
    inner *= np.float32(0.044715)
    inner += np.float32(1.0)
    inner *= values
    inner *= np.float32(0.7978845608)
    np.tanh(inner, out=inner)
    inner += np.float32(1.0)
    inner *= values
    inner *= np.float32(0.5)
    return inner


# How rare a piece must be to count in full. 1e-4 was best of 1e-5 to 1e-3 on LoCoMo; without any
# weight recall@10 is 0.448 instead of 0.473.
_RARE: Final = 1e-4
# Between directions as strong as the model made them (0) and all equally strong (1). One half was
# best: recall@10 0.493 and MRR 0.341, against 0.484 and 0.329 for 0.
_EVEN_OUT: Final = 0.5

_NOISE: Final = 1e-6  # a direction this much weaker than the strongest is rounding, not meaning


def distil(
    model: str,
    vocabulary: Sequence[str],
    weights: Weights,
    dimensions: int,
    progress: Progress | None = None,
) -> StaticTable:
    """Make the table of a BERT: each piece alone through the model, then the main directions."""
    begin, end = vocabulary.index(BEGIN), vocabulary.index(END)
    meanings = piece_meanings(weights, begin, end, progress)
    vectors = main_directions(meanings, dimensions)
    vectors *= piece_weights(vocabulary)[:, None]
    return make_table(model, vocabulary, vectors)


def main_directions(meanings: Floats, dimensions: int) -> Floats:
    """Keep the directions in which the meanings differ most, the strongest held back."""
    centred = meanings - meanings.mean(axis=0)
    spread, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    strongest = np.argsort(spread)[::-1][:dimensions]
    strength = np.sqrt(np.maximum(spread[strongest], spread.max() * _NOISE))
    scaled = directions[:, strongest] / strength**_EVEN_OUT
    return np.asarray(centred @ scaled.astype(np.float32), np.float32)


def piece_weights(vocabulary: Sequence[str]) -> Floats:
    """Weigh rare pieces more than frequent ones; marks and placeholders count nothing.

    A vocabulary is in the order of frequency, so the place of a piece tells how frequent it is.
    """
    share = 1.0 / (np.arange(len(vocabulary)) + 2.0)
    share /= share.sum()
    says = np.fromiter(map(says_something, vocabulary), np.bool_, len(vocabulary))
    return (says * _RARE / (_RARE + share)).astype(np.float32)


def says_something(piece: str) -> bool:
    """Tell whether a piece is a word or a part of one, and no mark and no placeholder."""
    placeholder = len(piece) > 1 and piece.startswith("[")
    return not placeholder and any(map(str.isalnum, piece))
