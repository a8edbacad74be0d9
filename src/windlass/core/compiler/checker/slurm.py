"""The laws of work on a Slurm site: what the options say, and that the script says nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.core.compiler.checker.breaches import Breach, Law, breach
from windlass.core.compiler.checker.script import Script, read_script
from windlass.core.compiler.work import Work

_OPEN: Mapping[str, str] = {
    "dependency": r"[a-z]+(:[0-9]+)*(,[a-z]+(:[0-9]+)*)*",
    "distribution": r"[a-zA-Z*:]+",
    "hint": r"[a-z_]+",
    "licenses": r"[A-Za-z0-9_.:,-]+",
    "tmp": r"[0-9]+[KMGT]?",
}
"""What a type or a trait may have asked for."""
_CLOCK = re.compile(r"([0-9]+)-([0-9]{2}):([0-9]{2}):([0-9]{2})")
_OF_THE_WORKER = re.compile(
    r"_?(SLURM|SBATCH|SRUN|SALLOC|SPANK|PYXIS|ENROOT|WINDLASS|BASH)_?.*|.*_VISIBLE_DEVICES"
    r"|(LOCAL_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)"
)
_TOLD = ("WINDLASS_COMPONENT", "WINDLASS_IMAGE")


def slurm_breaches(work: Work, manifest: Any, runs: int | None = None) -> Iterator[Breach]:
    if not isinstance(manifest, Mapping) or set(manifest) != {"options", "script"}:
        yield breach("shape", ("manifest",), "something else", "options and script")
        return
    options, text = manifest["options"], manifest["script"]
    if not isinstance(options, Mapping) or not isinstance(text, str):
        yield breach("shape", ("manifest",), "something else", "a mapping of options and a script as text")
        return
    script, broken = read_script(text, ranked=work.workload == "job")
    yield from broken
    stated = {name: value if value is True else str(value) for name, value in options.items()}
    for name in sorted({*stated, *script.options}):
        if stated.get(name) != script.options.get(name):
            yield breach("script", ("script", f"--{name}"), script.options.get(name), stated.get(name))
    yield from _decided(work, stated)
    yield from _sizes(work, stated, runs)
    yield from _limits(work, stated)
    yield from _known(work, stated)
    yield from _launch(work, script, stated)
    yield from _variables(work, script)


def _decided(work: Work, options: Mapping[str, Any]) -> Iterator[Breach]:
    """What has one right value."""
    keys = ("tenant", "project", "env", "component", "type", "type-version", "tier", "profile")
    kind, _, version = work.type.partition("@")
    values = (work.tenant, work.project, work.env, work.name, kind, version, work.tier, work.profile)
    comment = ",".join(f"windlass.dev/{key}={value}" for key, value in zip(keys, values, strict=True))
    wanted: list[tuple[Law, str, Any]] = [
        ("name", "job-name", f"{work.project}.{work.env}.{work.name}"),
        ("label", "comment", comment),
        ("account", "account", work.tenant),
        ("priority", "qos", work.tier),
        ("queue", "partition", work.hardware.gpu_class),
        ("secret", "export", "NIL"),
        ("gate", "hold", True if work.at.queueing == "platform" and not work.nodes else None),
        ("node", "nodelist", ",".join(sorted(set(work.nodes))) or None),
        (
            "isolation",
            "exclusive",
            True if work.dedicated or work.at.isolation == "dedicated-nodes" else None,
        ),
        ("retries", "requeue", True if work.preemptible or work.retries else None),
        ("retries", "no-requeue", None if work.preemptible or work.retries else True),
        ("amount", "cpus-per-task", str(work.cpu) if work.cpu else None),
    ]
    for law, name, value in wanted:
        if options.get(name) != value:
            yield breach(law, ("options", name), options.get(name), value)


def _sizes(work: Work, options: Mapping[str, Any], wanted: int | None) -> Iterator[Breach]:
    """Tasks, GPUs and memory, summed over nodes however they were said."""
    array = options.get("array")
    workers = work.workers
    if array is not None:
        runs = re.fullmatch(r"0-([0-9]{1,7})%([0-9]+)", str(array))
        if runs is None or int(runs[2]) != workers or wanted not in (None, int(runs[1]) + 1):
            yield breach("gang", ("options", "array"), array, f"{wanted or ''} runs, {workers} at once")
        workers = 1
    nodes = _number(options.get("nodes"))
    per_node = _number(options.get("ntasks-per-node"))
    tasks = nodes * per_node if "ntasks-per-node" in options else _number(options.get("ntasks"))
    if tasks != workers or nodes < 1 or ("ntasks" in options and "ntasks-per-node" in options):
        yield breach("gang", ("options", "nodes"), f"{tasks} workers on {nodes} nodes", f"{workers} workers")
    if work.nodes and array is None and nodes != len(set(work.nodes)):
        yield breach("node", ("options", "nodes"), nodes, len(set(work.nodes)))
    kind, count = _gpus(options, nodes, tasks)
    if kind != _gpu_kind(work) or count != work.units * workers:
        found = options.get("gres") or options.get("gpus-per-task")
        yield breach(
            "gpus", ("options", "gres"), found, f"{work.units * workers} of {_gpu_kind(work)} in all"
        )
    memory = options.get("mem"), options.get("mem-per-gpu")
    if work.memory_gib and memory not in (
        (f"{work.memory_gib * per_node}G", None),
        (None, f"{work.hardware.per_gpu.memory_gib}G"),
    ):
        yield breach(
            "amount", ("options", "mem"), memory[0] or memory[1], f"{work.memory_gib}G for each worker"
        )


def _gpus(options: Mapping[str, Any], nodes: int, tasks: int) -> tuple[str, int]:
    if "gres" in options and "gpus-per-task" in options:
        return "both gres and gpus-per-task", 0
    if "gres" in options:
        kind, _, count = str(options["gres"]).rpartition(":")
        return kind, _number(count) * nodes
    kind, _, count = str(options.get("gpus-per-task", "")).rpartition(":")
    return f"gpu:{kind}", _number(count) * tasks


def _gpu_kind(work: Work) -> str:
    if work.hardware.sharing == "time-slice":
        return "shard"
    slice_of = f"_{work.hardware.mig_profile}" if work.hardware.sharing == "mig" else ""
    return f"gpu:{work.hardware.gpu_class}{slice_of}"


def _number(value: Any) -> int:
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else -1


def _limits(work: Work, options: Mapping[str, Any]) -> Iterator[Breach]:
    if work.time_limit is not None:
        clock = _CLOCK.fullmatch(str(options.get("time")))
        length = 0
        if clock is not None:
            day, hour, minute, second = map(int, clock.groups())
            length = ((day * 24 + hour) * 60 + minute) * 60 + second
        if length != (work.time_limit + 999) // 1000:
            yield breach("time", ("options", "time"), options.get("time"), f"{work.time_limit} ms")
    elif "time" in options:
        yield breach("time", ("options", "time"), options["time"], None)
    signal = None
    if work.checkpoint is not None:
        grace = min((work.checkpoint.grace + 999) // 1000, 65535)
        signal = f"{work.checkpoint.signal}@{grace}"
    if options.get("signal") != signal:
        yield breach("time", ("options", "signal"), options.get("signal"), signal)
    features = str(options.get("constraint", "")).split("&")
    if work.hardware.sharing == "time-slice" and work.hardware.gpu_class not in features:
        yield breach("gpus", ("options", "constraint"), options.get("constraint"), work.hardware.gpu_class)


def _known(work: Work, options: Mapping[str, Any]) -> Iterator[Breach]:
    judged = frozenset(
        (
            *(
                "job-name",
                "comment",
                "account",
                "qos",
                "partition",
                "export",
                "hold",
                "nodelist",
                "exclusive",
            ),
            *(
                "requeue",
                "no-requeue",
                "cpus-per-task",
                "array",
                "nodes",
                "ntasks",
                "ntasks-per-node",
                "gres",
            ),
            *("gpus-per-task", "mem", "mem-per-gpu", "time", "signal"),
        )
    )
    forms = {**_OPEN, "constraint": r"[A-Za-z0-9_.-]+(&[A-Za-z0-9_.-]+)*"}
    if work.topology is not None:
        forms["switches"] = r"1@[0-9:-]+"
    for name in sorted(set(options) - judged):
        form = forms.get(name)
        if form is None or not isinstance(options[name], str) or not re.fullmatch(form, options[name]):
            yield breach("owned", ("options", name), options[name], "an option that a type or trait may set")


def _launch(work: Work, script: Script, options: Mapping[str, Any]) -> Iterator[Breach]:
    if work.command and tuple(script.command) != work.command:
        yield breach("command", ("script", "command"), script.command, list(work.command))
    known = {"--export=ALL", f"--kill-on-bad-exit={int(work.workload == 'job')}"}
    if work.cpu:
        known.add(f"--cpus-per-task={work.cpu}")
    if options.get("ntasks-per-node") != "1" and work.hardware.sharing != "time-slice":
        known.add(f"--gpu-bind=per_task:{work.units}")
    images = [part for part in script.launch if part.startswith("--container-image=")]
    wanted = []
    if work.at.containers != "never":
        host, slash, rest = work.image.partition("/")
        elsewhere = bool(slash) and (host == "localhost" or any(mark in host for mark in ".:"))
        wanted = [f"--container-image={host}#{rest}" if elsewhere else f"--container-image={work.image}"]
    if images != wanted:
        yield breach("image", ("script", "srun"), ", ".join(images) or None, ", ".join(wanted) or None)
    for part in script.launch:
        if (
            part not in known
            and part not in images
            and not re.fullmatch(r"--container-env=[A-Za-z0-9_,]+", part)
        ):
            yield breach("script", ("script", "srun"), part, "an argument of the platform")
    for part in sorted(known - set(script.launch)):
        yield breach("gpus" if "gpu" in part else "script", ("script", "srun"), None, part)


def _variables(work: Work, script: Script) -> Iterator[Breach]:
    """Values are not shown: one may be a secret."""
    told = {"WINDLASS_COMPONENT": work.path, "WINDLASS_IMAGE": work.image}
    for name, value in sorted({**work.variables, **told}.items()):
        if script.variables.get(name) != value:
            law: Law = "image" if name == "WINDLASS_IMAGE" else "variable"
            yield breach(law, ("script", name), "another value or none", "what was decided")
    for name in sorted(script.variables):
        if name not in _TOLD and _OF_THE_WORKER.fullmatch(name):
            yield breach("owned", ("script", name), "set", "a variable of the platform")
