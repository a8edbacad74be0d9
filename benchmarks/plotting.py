"""A comparison as a picture: bars on a logarithmic axis, as SVG, readable on light and on dark.

One group of bars per thing measured, one bar per peer: how many times better Windlass is. A bar to the
left of the line at 1 means that the peer is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

_LABEL, _PLOT, _AFTER = 250, 400, 130  # widths: names, bars, room for the last value
_TOP, _BAR, _GAP, _BETWEEN, _FOOT = 58, 13, 3, 12, 28
_COLOURS = ("a", "b", "c")
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 14px; font-weight: 600 } .dim { fill: #59636e } .grid { stroke: #d1d9e0 }
  .one { stroke: #1f2328; stroke-width: 1.5 } .a { fill: #0969da } .b { fill: #bc4c00 } .c { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .dim { fill: #9198a1 } .grid { stroke: #3d444d } .one { stroke: #f0f6fc }
    .a { fill: #4493f8 } .b { fill: #db6d28 } .c { fill: #3fb950 }
  }"""


@dataclass(frozen=True, slots=True)
class Bar:
    """`times` is None where the peer has no equivalent: no bar then, but a word."""

    peer: str
    times: float | None
    value: str


@dataclass(frozen=True, slots=True)
class Group:
    """`value` is ours."""

    what: str
    value: str
    bars: list[Bar]


def plot(title: str, groups: list[Group]) -> str:
    peers = list(dict.fromkeys(bar.peer for group in groups for bar in group.bars))
    low, high = _decades([bar.times for group in groups for bar in group.bars if bar.times])

    def across(times: float | None) -> float:
        times = times or 1.0
        return _LABEL + (math.log10(times) - low) / (high - low) * _PLOT

    body: list[str] = []
    down = _TOP
    for group in groups:
        body += _group(group, down, peers, across(1.0), [across(bar.times) for bar in group.bars])
        down += _height(group) + _BETWEEN
    width, height = _LABEL + _PLOT + _AFTER, down + _FOOT
    frame = [*_legend(title, peers), *_axis([10.0**power for power in range(low, high + 1)], across, down)]
    one = across(1.0)
    line = f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="{_TOP - 6}" y2="{down}"/>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 0 {width + 8} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}\n</style>",
            *frame,
            *body,
            line,
            "</svg>\n",
        ]
    )


def _decades(times: list[float]) -> tuple[int, int]:
    """Powers of ten that hold all of them, and 1."""
    powers = [math.log10(value) for value in [*times, 1.0]]
    low = math.floor(min(powers))
    return low, max(math.ceil(max(powers)), low + 1)


def _height(group: Group) -> int:
    return max(len(group.bars), 2) * (_BAR + _GAP)


def _group(group: Group, down: int, peers: list[str], one: float, ends: list[float]) -> list[str]:
    made = [
        _text(0, down + _BAR - 2, group.what),
        _text(0, down + 2 * _BAR + _GAP - 2, f"Windlass {group.value}", "dim"),
    ]
    for number, (bar, end) in enumerate(zip(group.bars, ends, strict=True)):
        top = down + number * (_BAR + _GAP)
        if bar.times is None:
            made.append(_text(one + 6, top + _BAR - 2, f"{bar.peer}: no equivalent", "dim"))
            continue
        left, wide = min(one, end), max(abs(end - one), 1.0)
        colour = _COLOURS[peers.index(bar.peer) % len(_COLOURS)]
        made.append(
            f'<rect class="{colour}" x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{_BAR}" rx="2"/>'
        )
        made.append(_text(max(one, end) + 6, top + _BAR - 2, f"{bar.value} ({_short(bar.times)}×)"))
    return made


def _legend(title: str, peers: list[str]) -> list[str]:
    made = [_text(0, 16, title, "title")]
    across = 0
    for number, peer in enumerate(peers):
        colour = _COLOURS[number % len(_COLOURS)]
        made.append(f'<rect class="{colour}" x="{across}" y="27" width="12" height="12" rx="2"/>')
        made.append(_text(across + 18, 37, peer))
        across += 38 + 7 * len(peer)
    return made


def _axis(ticks: list[float], across: Callable[[float], float], down: int) -> list[str]:
    made = []
    for tick in ticks:
        x = across(tick)
        made.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{down}"/>')
        name = "as Windlass" if tick == 1 else f"{tick:g}×"
        made.append(_text(x, down + 16, name, "dim", middle=True))
    return made


def _text(x: float, y: float, what: str, kind: str = "", *, middle: bool = False) -> str:
    classed = f' class="{kind}"' if kind else ""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text{classed} x="{x:.1f}" y="{y}"{anchor}>{escape(what)}</text>'


def _short(times: float) -> str:
    return f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
