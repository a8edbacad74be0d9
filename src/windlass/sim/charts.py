"""Curves and bars as SVG, readable on light and on dark. Nothing is fetched and nothing moves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 760, 220
_LEFT, _RIGHT, _TOP, _FOOT = 56, 28, 12, 28
_ROW, _NAME = 26, 180
_LETTER = 8  # of what is written behind a bar: its width at most

Point = tuple[float, float]


def curve(points: Sequence[Point], *, top: float, unit: str, label: str) -> str:
    """One line over hours; the area below it is filled. `top` is the highest value of the axis."""
    last = max((x for x, _ in points), default=1.0) or 1.0
    top = top or 1.0

    def at(x: float, y: float) -> str:
        across = _LEFT + x / last * (WIDTH - _LEFT - _RIGHT)
        down = _TOP + (1 - min(y, top) / top) * (HEIGHT - _TOP - _FOOT)
        return f"{across:.1f},{down:.1f}"

    line = " ".join(at(x, y) for x, y in points)
    area = f"{at(0, 0)} {line} {at(last, 0)}"
    grid = []
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        start, end = at(0, top * part), at(last, top * part)
        x1, y1 = start.split(",")
        x2, y2 = end.split(",")
        grid.append(f'<line class="grid" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
        grid.append(
            f'<text class="dim" x="{_LEFT - 6}" y="{y1}" dy="4" text-anchor="end">{top * part:g}{unit}</text>'
        )
    for hour in _hours(last):
        x, _ = at(hour, 0).split(",")
        grid.append(f'<text class="dim" x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{hour:g} h</text>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(grid)}'
        f'<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/></svg>'
    )


def bars(rows: Sequence[tuple[str, float, str]], *, label: str) -> str:
    """Name, length, and what to write behind the bar."""
    longest = max((length for _, length, _ in rows), default=0.0) or 1.0
    behind = 12 + _LETTER * max((len(told) for _, _, told in rows), default=0)
    height = _ROW * len(rows) + 8
    body = []
    for number, (name, length, told) in enumerate(rows):
        y = 4 + number * _ROW
        width = max(1.0, length / longest * (WIDTH - _NAME - behind))
        body.append(
            f'<text x="{_NAME - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="bar" x="{_NAME}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 8}"/>'
            f'<text class="dim" x="{_NAME + width + 6:.1f}" y="{y + 16}">{escape(told)}</text>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'
    )


def _hours(last: float) -> list[float]:
    step = next((step for step in (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 168) if last / step <= 12), last)
    return [step * number for number in range(int(last / step) + 1)]
