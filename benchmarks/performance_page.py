"""The performance page and its picture, from a stored result and nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.comparing import Line
from benchmarks.plotting import Bar, Group, plot
from benchmarks.reporting import number

Result = dict[str, Any]
_SPOKEN = {"dstack": "dstack", "skypilot": "SkyPilot", "windlass": "Windlass"}
_PLOTTED = {
    "submitCpuMs": "Submit: server CPU",
    "readCpuMs": "Read one: server CPU",
    "listCpuMs": "List of 100: server CPU",
    "burstPerSecond": "Submits per second, 16 clients",
    "queuedCpuPercent": "At rest, work waiting: CPU of a core",
    "emptyCpuPercent": "At rest, empty: CPU of a core",
    "emptyMemoryMb": "At rest, empty: memory",
    "helpCpuS": "Command line, help: CPU",
    "showCpuS": "Command line, list: CPU",
}
_METHOD = """\
- Every pair below was measured in the same minutes on the same machine: both platforms are up, and take
  turns round by round (Windlass, peer, Windlass, peer). Shown is the best round of either.
- Each runs with its own defaults on the loopback, on SQLite, without a cloud, and with usage reporting
  off. Peers are installed from the package index, at the versions named.
- **CPU** is user and system time of *all* processes of a server, **memory** what they have in RAM, a page
  they share counted once. CPU hardly depends on what else the machine does; answers and rates do.
- **times** is how much less Windlass needs, or of a rate how much more it does. Below 1 the peer is better.
- Clients keep their connection open. The work submitted has to wait: Windlass's small fleet is held by one
  running job, whose supervisor is a process of its own and not counted.
"""
_REPEAT = """\
```console
$ make performance DATE=2026-01-31
```

takes about five minutes, and one or two more the first time, when the peers are installed into
`~/.cache/windlass/peers` (or under `XDG_CACHE_HOME`). It measures, then writes this page and
its picture from [performance.json](performance.json). Nothing else is left behind.
[The benchmarks](../benchmarks/README.md) say what is measured, what is not, and how to run one of them.
"""


def page(result: Result) -> str:
    return "\n".join(
        [
            "# Performance",
            "",
            "<!-- Written by `make performance` from performance.json; edit neither by hand. -->",
            "",
            f"Measured on {result['date']}: {_machine(result)}.",
            "",
            "![How many times less Windlass needs, or more it does, than each peer](performance.svg)",
            "",
            "## How it was measured",
            "",
            _METHOD,
            *(line for one in result["peers"] for line in _beside(one)),
            "## Windlass alone, with a long queue",
            "",
            *_alone(result),
            "",
            "## Measure it yourself",
            "",
            _REPEAT,
        ]
    )


def picture(result: Result) -> str:
    groups = [
        Group(what, _value(lines[0][1], mine=True), [_bar(peer, line) for peer, line in lines])
        for key, what in _PLOTTED.items()
        if (lines := [(one, line) for one in result["peers"] for line in _lines(one) if line.key == key])
    ]
    return plot("How many times less Windlass needs, or more it does, than each peer", groups)


def _beside(one: Result) -> list[str]:
    name = _SPOKEN[one["peer"]]
    lines = _lines(one)
    gaps = list(dict.fromkeys(one["gaps"].values()))
    rows = [
        f"| {line.what} | {_value(line, mine=True)} | {_value(line, mine=False)} |"
        f" {'' if line.times is None else number(line.times)} |"
        for line in lines
    ]
    return [
        f"## Beside {name} {one['versions'][one['peer']]}",
        "",
        _amounts(name, one),
        "",
        f"| | Windlass {one['versions']['windlass']} | {name} | times |",
        "|---|--:|--:|--:|",
        *rows,
        "",
        *(f"- `-`: {name} has no equivalent here: {why}." for why in gaps),
        *(f"- {remark}" for remark in one["remarks"]),
        *(f"- {_SPOKEN[side]}: {_calls(calls)}." for side, calls in one["calls"].items()),
        "",
    ]


def _amounts(name: str, one: Result) -> str:
    """What was the same for both, and what was not."""
    sizes = one["settings"]
    queued = not one["gaps"]
    return (
        f"Best of {sizes['rounds']} rounds, each of {sizes['reads']} reads, {sizes['lists']} lists"
        + (f" and {sizes['submits']} submits" if queued else "")
        + f"; {sizes['seconds']:g} s at rest."
        + (
            f" In each of {sizes['bursts']} rounds {sizes['clients']} clients send"
            f" {sizes['burst']} submits to Windlass and {sizes['peer_burst']} to {name},"
            " which takes longer for each."
            if queued
            else ""
        )
    )


def _calls(calls: dict[str, str]) -> str:
    named = {"show": "list on the command line", "help": "help"}
    return "; ".join(f"{named.get(key, key)} is `{call}`" for key, call in calls.items())


def _alone(result: Result) -> list[str]:
    queued = result["alone"][0]["settings"]["queued"]
    rows = [
        f"| {one['what']} | {number(one['value'])} {one['unit']} | {_budget(one)} |"
        for report in result["alone"]
        for one in report["measures"]
    ]
    return [
        f"{queued:,} components wait before anything is measured.",
        "",
        "| | measured | budget |",
        "|---|--:|--:|",
        *rows,
    ]


def _budget(measure: dict[str, Any]) -> str:
    if measure["budget"] is None:
        return ""
    return f"{'at least ' if measure['atLeast'] else ''}{number(measure['budget'])} {measure['unit']}"


def _lines(one: Result) -> list[Line]:
    return [
        Line(line["key"], line["what"], line["unit"], line["windlass"], line["peer"], line["moreIsBetter"])
        for line in one["lines"]
    ]


def _bar(one: Result, line: Line) -> Bar:
    return Bar(f"{_SPOKEN[one['peer']]} {one['versions'][one['peer']]}", line.times, _value(line, mine=False))


def _value(line: Line, *, mine: bool) -> str:
    value = line.windlass if mine else line.peer
    return "-" if value is None else f"{number(value)} {line.unit}"


def _machine(result: Result) -> str:
    facts = result["machine"]
    load = result["load"]
    return (
        f"{facts['cores']} cores, {facts['cpu']}, Python {facts['python']}, SQLite {facts['sqlite']};"
        f" load {load['before'][0]} before and {load['after'][0]} after"
    )
