"""From a model to a table: what each piece of its vocabulary means, in fewer numbers."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from threadkeep.embed.bert import BEGIN, END, Floats, Weights, piece_meanings
from threadkeep.embed.records import Progress
from threadkeep.embed.static import StaticTable, make_table

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
