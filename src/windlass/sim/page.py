"""A run as one page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from windlass.sim.charts import bars, curve

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --dim: #59636e; --line: #d1d9e0; --accent: #0969da;
  --paper: #ffffff }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --dim: #9198a1; --line: #3d444d;
  --accent: #4493f8; --paper: #0d1117 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 800px;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
svg { width: 100%; height: auto } text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.dim { fill: var(--dim); color: var(--dim) } .grid { stroke: var(--line) }
.line { fill: none; stroke: var(--accent); stroke-width: 1.5 } .area { fill: var(--accent); opacity: .15 }
.bar { fill: var(--accent) } table { border-collapse: collapse; width: 100% }
td, th { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line) }
td:first-child, th:first-child { text-align: left }
"""


def page(report: Mapping[str, Any]) -> str:
    world, curve_points = report["world"], report["curve"]
    hours = [point["seconds"] / 3600 for point in curve_points]
    busy = [100 * point["utilisation"] for point in curve_points]
    waiting = [float(point["waiting"]) for point in curve_points]
    title = f"{world['nodes']} nodes, {world['gpus']:g} GPUs, {world['hours']:g} hours"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{_summary(report)}</p>",
        "<h2>How full the fleet was</h2>",
        curve(list(zip(hours, busy, strict=True)), top=100, unit=" %", label="utilisation over time"),
        "<h2>How many waited</h2>",
        curve(
            list(zip(hours, waiting, strict=True)),
            top=_round_up(max(waiting, default=0)),
            unit="",
            label="waiting over time",
        ),
        "<h2>How long they waited, by tier</h2>",
        _waits(report["waitSeconds"]),
        "<h2>Who had what</h2>",
        _queues(report["fairness"]),
        "<h2>Preemptions and estimates</h2>",
        _rest(report),
    ]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _summary(report: Mapping[str, Any]) -> str:
    never = report["neverStarted"]
    return (
        f"{report['world']['arrivals']} workloads came, {report['started']} started, "
        f"{report['finished']} ended, {never} had not started when time was up. "
        f"GPUs were in use {100 * report['utilisation']:.1f} % of the time."
    )


def _waits(tiers: Mapping[str, Mapping[str, float]]) -> str:
    chart = bars(
        [
            (f"{tier}, {name}", waits[key], in_words(waits[key]))
            for tier, waits in tiers.items()
            for key, name in (("p50", "half"), ("p90", "nine of ten"), ("p99", "99 of 100"))
        ],
        label="wait by tier",
    )
    rows = "".join(
        f"<tr><td>{escape(tier)}</td><td>{waits['count']}</td><td>{in_words(waits['mean'])}</td></tr>"
        for tier, waits in tiers.items()
    )
    return f"{chart}<table><tr><th>tier</th><th>started</th><th>mean wait</th></tr>{rows}</table>"


def _queues(fairness: Mapping[str, Any]) -> str:
    chart = bars(
        [
            (queue, had["gpuHours"], f"{had['gpuHours']:,.0f} GPU h, {100 * had['share']:.1f} %")
            for queue, had in fairness["queues"].items()
        ],
        label="GPU hours by queue",
    )
    index = fairness["index"]
    told = (
        "No queue has a guarantee." if index is None else f"Jain's index over use per guarantee: {index:.3f}."
    )
    return f'{chart}<p class="dim">{told}</p>'


def _rest(report: Mapping[str, Any]) -> str:
    preemptions, estimates = report["preemptions"], report["estimates"]
    rows = [(f"preempted: {reason}", f"{count}") for reason, count in preemptions["byReason"].items()]
    rows.append(("work lost to preemption", f"{preemptions['lostGpuHours']:,.1f} GPU h"))
    rows.append(("estimates that could be checked", f"{estimates['scored']}"))
    if estimates["scored"]:
        rows.append(("starts inside the told interval", f"{100 * estimates['inside']:.0f} %"))
        rows.append(("median error", in_words(estimates["medianErrorSeconds"])))
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def in_words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _round_up(value: float) -> float:
    step = 1.0
    while step * 10 < value:
        step *= 10
    return max(4.0, -(-value // step) * step)
