"""Where the points of a graph lie: forces push them apart and pull neighbours together.

The same graph always gets the same places: points begin on a spiral, in their order, and nothing
is left to chance.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_GOLDEN: Final = math.pi * (3 - math.sqrt(5))
_STEPS: Final = 90
_HEAT: Final = 0.12  # how far a point may go in the first step; less in each that follows
_GRAVITY: Final = 0.9
_NEAR: Final = 3.0  # points farther apart than so many ideal lengths do not push each other


class Point(NamedTuple):
    """A place on the unit square."""

    x: float
    y: float


@lru_cache(maxsize=8)
def laid_out(count: int, edges: tuple[tuple[int, int, float], ...]) -> tuple[Point, ...]:
    """Give places for so many points, given which are tied and how strongly; all within 0 to 1."""
    if count <= 0:
        return ()
    xs, ys = _spiral(count)
    ideal = 1.0 / math.sqrt(count)
    ties = [(a, b, min(4.0, 1 + math.log1p(max(0.0, weight)))) for a, b, weight in edges if a != b]
    for step in range(_STEPS):
        push = _pushes(xs, ys, ideal)
        _pull(push, xs, ys, ties, ideal)
        _move(push, xs, ys, _HEAT * (1 - step / _STEPS))
    return _fitted(xs, ys)


def _spiral(count: int) -> tuple[list[float], list[float]]:
    radii = [math.sqrt((number + 0.5) / count) / 2 for number in range(count)]
    turns = [number * _GOLDEN for number in range(count)]
    xs = [r * math.cos(t) for r, t in zip(radii, turns, strict=True)]
    return xs, [r * math.sin(t) for r, t in zip(radii, turns, strict=True)]


def _cells(
    xs: Sequence[float], ys: Sequence[float], size: float
) -> dict[tuple[int, int], list[int]]:
    """Sort points into squares, so that only neighbours are compared."""
    cells: dict[tuple[int, int], list[int]] = {}
    for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
        cells.setdefault((math.floor(x / size), math.floor(y / size)), []).append(number)
    return cells


def _pushes(xs: Sequence[float], ys: Sequence[float], ideal: float) -> list[list[float]]:
    size = _NEAR * ideal
    cells = _cells(xs, ys, size)
    push = [[-_GRAVITY * x * ideal, -_GRAVITY * y * ideal] for x, y in zip(xs, ys, strict=True)]
    for (column, row), here in cells.items():
        near = [
            other
            for dx in (-1, 0, 1)
            for dy in (-1, 0, 1)
            for other in cells.get((column + dx, row + dy), ())
        ]
        for number in here:
            _push_one(push[number], number, near, (xs, ys), ideal)
    return push


def _push_one(
    push: list[float],
    number: int,
    near: Iterable[int],
    places: tuple[Sequence[float], Sequence[float]],
    ideal: float,
) -> None:
    xs, ys = places
    x, y = xs[number], ys[number]
    for other in near:
        dx, dy = x - xs[other], y - ys[other]
        apart = dx * dx + dy * dy
        if other != number and apart < (_NEAR * ideal) ** 2:
            force = ideal * ideal / max(apart, 1e-6)
            push[0] += dx * force
            push[1] += dy * force


def _pull(
    push: list[list[float]],
    xs: Sequence[float],
    ys: Sequence[float],
    ties: Iterable[tuple[int, int, float]],
    ideal: float,
) -> None:
    for a, b, weight in ties:
        dx, dy = xs[a] - xs[b], ys[a] - ys[b]
        force = weight * math.hypot(dx, dy) / ideal * 0.5
        push[a][0] -= dx * force
        push[a][1] -= dy * force
        push[b][0] += dx * force
        push[b][1] += dy * force


def _move(push: Iterable[list[float]], xs: list[float], ys: list[float], most: float) -> None:
    for number, (dx, dy) in enumerate(push):
        length = math.hypot(dx, dy)
        if length > 0:
            step = min(length, most) / length
            xs[number] += dx * step
            ys[number] += dy * step


def _fitted(xs: Sequence[float], ys: Sequence[float]) -> tuple[Point, ...]:
    """Stretch the places to the whole square, each axis for itself."""
    return tuple(Point(x, y) for x, y in zip(_stretched(xs), _stretched(ys), strict=True))


def _stretched(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    if high - low < 1e-9:  # noqa: PLR2004  (one point, or all on a line)
        return [0.5 for _ in values]
    return [min(1.0, max(0.0, (value - low) / (high - low))) for value in values]
