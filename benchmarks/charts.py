"""What was measured as pictures: goals as bars beside their limit, growth as lines. Plain SVG."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from benchmarks.report import Goal, Growth

_WIDTH, _LABEL, _LINE = 1000, 560, 22
_MET, _MISSED, _INK = "#2e7d5b", "#b3452f", "#333333"
_COLOURS: Final = ("#2e7d5b", "#b3452f", "#30618c", "#8a6d1d", "#6b4a86", "#3f7f86", "#7a7a7a")
_MOST: Final = 3.0  # limits: a bar that is longer is cut, its figure says how long it is
_PLOT: Final = (70, 30, 640, 420)  # left, top, right, bottom


def goals_svg(goals: Sequence[Goal]) -> str:
    """Draw a bar for each goal; the line is what it should not go beyond."""
    height = _LINE * (len(goals) + 2)
    at_limit = _LABEL + (_WIDTH - _LABEL - 90) / _MOST
    pieces = [
        (
            f'<line x1="{at_limit:.0f}" y1="{_LINE}" x2="{at_limit:.0f}" y2="{height}"'
            f' stroke="{_INK}" stroke-dasharray="4 3"/>'
        ),
        _text(at_limit, _LINE - 6, "goal", "middle"),
        *(piece for place, goal in enumerate(goals) for piece in _bar(goal, place)),
    ]
    return _svg(_WIDTH, height, pieces)


def _bar(goal: Goal, place: int) -> Iterator[str]:
    top = _LINE * (place + 1) + 4
    share = goal.measured / goal.limit if goal.limit else _MOST
    whole = min(max(share, 0.01), _MOST) if share == share else 0  # noqa: PLR0124  (NaN)
    width = whole * (_WIDTH - _LABEL - 90) / _MOST
    yield _text(_LABEL - 8, top + 12, goal.what, "end")
    yield (
        f'<rect x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_LINE - 8}"'
        f' fill="{_MET if goal.met else _MISSED}"/>'
    )
    figures = f"{goal.measured:.2f} of {goal.limit:g}{goal.unit}"
    yield _text(_LABEL + width + 6, top + 12, figures, "start")


def growth_svg(growths: Sequence[Growth]) -> str:
    """Draw the cost of each at its sizes over the cost at the smallest, both in powers of ten."""
    left, top, right, bottom = _PLOT
    highest = max((cost / one.costs[0] for one in growths for cost in one.costs), default=1)
    decades = max(1.0, math.log10(highest))

    def spot(factor: float, cost: float) -> str:
        across = left + (right - left) * math.log10(factor) / 2
        up = bottom - (bottom - top) * math.log10(max(cost, 0.1)) / decades
        return f"{across:.1f},{up:.1f}"

    pieces = [
        f'<path d="M{left},{top} L{left},{bottom} L{right},{bottom}" fill="none" stroke="{_INK}"/>',
        *(
            _text(left + (right - left) * n / 2, bottom + 18, f"{10**n}×", "middle")
            for n in range(3)
        ),
        _text(left - 8, bottom + 4, "1×", "end"),
        _text(left - 8, top + 4, f"{highest:.0f}×", "end"),
    ]
    for place, one in enumerate(growths):
        colour = _COLOURS[place % len(_COLOURS)]
        spots = " ".join(
            spot(size / one.sizes[0], cost / one.costs[0])
            for size, cost in zip(one.sizes, one.costs, strict=True)
        )
        pieces.append(
            f'<polyline points="{spots}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        said = f"{one.what}: exponent {one.exponent:.2f}"
        pieces.append(_text(right + 20, top + _LINE * place, said, "start", colour))
    return _svg(_WIDTH + 100, max(bottom + 40, top + _LINE * len(growths)), pieces)


def _text(x: float, y: float, words: str, anchor: str, colour: str = _INK) -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}>{escape(words)}</text>"


def _svg(width: float, height: float, pieces: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        ' font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, '<rect width="100%" height="100%" fill="#ffffff"/>', *pieces, "</svg>", ""]
    )
