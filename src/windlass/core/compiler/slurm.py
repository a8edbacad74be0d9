"""For Slurm: one batch script, and the options that it is submitted with.

A Slurm site has a partition for each GPU class, an account for each tenant, a QOS for each tier, and a gres
type for each class: `gpu:<class>`, `gpu:<class>_<mig profile>`; of shared GPUs, shards on nodes with the
feature `<class>`. The options say all that was decided; a template or trait may add the few in `OPEN`.

Workers have a node each unless they were placed otherwise. A sweep is an array: each run is one worker, and
as many run at once as there are workers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.core.compiler.shell import exported, quoted, words
from windlass.core.compiler.work import Work
from windlass.core.errors import Invalid

Options = dict[str, str | int | bool]

PREFERENCE_WAIT = "00:05:00"
"""How long a preferred rack is waited for. It is Slurm's own default limit of such a wait."""
FOREVER = "3650-00:00:00"

OPEN: Mapping[str, re.Pattern[str]] = {
    "array": re.compile(r"[1-9][0-9]{0,6}"),
    "constraint": re.compile(r"[A-Za-z0-9_.-]+(&[A-Za-z0-9_.-]+)*"),
    "dependency": re.compile(
        r"singleton|after(any|corr|notok|ok)?(:[0-9]+)+(,after(any|corr|notok|ok)?(:[0-9]+)+)*"
    ),
    "distribution": re.compile(r"[a-zA-Z*]+(:[a-z*]+){0,2}"),
    "hint": re.compile(r"[a-z_]+"),
    "licenses": re.compile(r"[A-Za-z0-9_.-]+(:[0-9]+)?(,[A-Za-z0-9_.-]+(:[0-9]+)?)*"),
    "tmp": re.compile(r"[1-9][0-9]*[KMGT]?"),
}
"""What a template or a trait may say. All else is the platform's."""

_WORD = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)
_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
IMAGE_VARIABLE = "WINDLASS_IMAGE"
_TOLD = ("WINDLASS_COMPONENT", IMAGE_VARIABLE, "WINDLASS_NODE", "WINDLASS_WORKER")
_OF_THE_PLATFORM = frozenset((*_RANKS, "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"))
_WHO = "export WINDLASS_WORKER=${SLURM_ARRAY_TASK_ID:-$SLURM_PROCID} WINDLASS_NODE=$SLURMD_NODENAME"
_RANK = "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=0 LOCAL_WORLD_SIZE=1"
"""A worker sees only its own GPUs, as if it were alone on its node."""
_MEET = (
    'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
    "MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))",
    "export MASTER_ADDR MASTER_PORT",
)


def compile_slurm(
    work: Work, template: Mapping[str, Any], patches: Sequence[tuple[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """`patches` are those of the traits, each with its trait's name; their order does not matter."""
    parts = [(f"type {work.type}", template), *((f"trait {name}", patch) for name, patch in patches)]
    asked = _asked(parts)
    variables = _variables(work, parts)
    command = work.command or tuple(str(part) for part in template.get("command") or ())
    if not command:
        raise Invalid(
            "work on a Slurm site needs a command: nothing there knows what an image would start",
            remedy="write spec.command",
        )
    runs = asked.pop("array", None)
    options = {**_identity(work), **_size(work, array=runs is not None), **_conduct(work), **asked}
    if runs is not None:
        if work.at.queueing == "platform":
            raise Invalid(
                "a run of an array cannot be sent to a node of its own",
                remedy="send it to a site whose queue is Slurm's (`queueing: site`)",
            )
        options["array"] = f"0-{int(runs) - 1}%{work.workers}"
    if features := sorted({*_features(work), *filter(None, str(asked.get("constraint", "")).split("&"))}):
        options["constraint"] = "&".join(features)
    options = dict(sorted(options.items()))
    return {"options": options, "script": _script(work, options, variables, command)}


def refused(part: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    """Each thing that a template or a patch may not hold, with its place, before expressions have values."""
    options, variables = part.get("options"), part.get("variables")
    for name, given in options.items() if isinstance(options, Mapping) else ():
        form = OPEN.get(name)
        if form is None:
            yield ("options", name), f"the platform decides the option {name}; open are {', '.join(OPEN)}"
        elif not str(given).startswith("${") and not form.fullmatch(str(given)):
            yield ("options", name), f"{given!r} is not a value of the option {name}"
    for name in variables if isinstance(variables, Mapping) else ():
        if _is_ours(name):
            yield ("variables", name), f"the platform sets the variable {name} for each worker"


_OF_THE_LAUNCH = (
    "SLURM_",
    "SBATCH_",
    "SRUN_",
    "SALLOC_",
    "_SLURM_",
    "SPANK_",
    "PYXIS_",
    "ENROOT_",
    "WINDLASS_",
)
"""How such variables begin. They are options by another way: with them a step would get another image, or
folders of its node."""


def _is_ours(variable: str) -> bool:
    return variable in _OF_THE_PLATFORM or variable.startswith(_OF_THE_LAUNCH)


def _asked(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Options:
    """The open options of the template and the traits, where they agree."""
    found: dict[str, tuple[str, str]] = {}
    for author, part in parts:
        if unknown := set(part) - {"options", "variables", "command"}:
            raise Invalid(f"{author}: a part for Slurm has no {', '.join(sorted(unknown))}")
        for name, given in (part.get("options") or {}).items():
            value = _open_value(author, name, given)
            if name == "constraint" and name in found:
                value = "&".join(sorted({*value.split("&"), *found[name][1].split("&")}))
            elif name in found and found[name][1] != value:
                raise _conflict(f"the Slurm option {name}", found[name][0], author)
            found[name] = (author, value)
    return {name: value for name, (_, value) in sorted(found.items())}


def _open_value(author: str, name: str, given: Any) -> str:
    form = OPEN.get(name)
    if form is None:
        raise Invalid(
            f"{author} sets the Slurm option {name}, which the platform decides",
            remedy=f"leave it out; open are {', '.join(OPEN)}",
        )
    if isinstance(given, bool) or not isinstance(given, str | int) or not form.fullmatch(str(given)):
        raise Invalid(f"{author}: {given!r} is not a value of the Slurm option {name}")
    return str(given)


def _variables(work: Work, parts: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """What the author wrote stands; what the type and the traits add has to agree."""
    found: dict[str, tuple[str, str]] = {}
    for author, part in parts:
        for name, given in (part.get("variables") or {}).items():
            value = str(given).lower() if isinstance(given, bool) else str(given)
            if name in found and found[name][1] != value:
                raise _conflict(f"the variable {name}", found[name][0], author)
            found[name] = (author, value)
    found |= {name: ("the author", value) for name, value in work.variables.items()}
    for name, (author, _) in found.items():
        if _is_ours(name):
            raise Invalid(f"{author} sets the variable {name}, which the platform sets for each worker")
    return {name: value for name, (_, value) in sorted(found.items())}


def _conflict(what: str, one: str, other: str) -> Invalid:
    first, second = sorted((one, other))
    return Invalid(f"{what} has two values: {first} and {second} disagree", remedy="leave one of them out")


def _identity(work: Work) -> Options:
    """Who it belongs to, and what that entitles it to."""
    attribution = {
        "tenant": work.tenant,
        "project": work.project,
        "env": work.env,
        "component": work.name,
        "type": work.type.partition("@")[0],
        "type-version": work.type.partition("@")[2],
        "tier": work.tier,
        "profile": work.profile,
    }
    return {
        "job-name": f"{work.project}.{work.env}.{work.name}",
        "account": work.tenant,
        "qos": work.tier,
        "partition": work.hardware.gpu_class,
        "comment": ",".join(f"windlass.dev/{key}={value}" for key, value in attribution.items()),
    }


def _size(work: Work, *, array: bool) -> Options:
    """Nodes, tasks, and what each of them holds."""
    cpus: Options = {"cpus-per-task": work.cpu} if work.cpu else {}
    if array:
        placed: Counter[str] = Counter()
        nodes, per_node = 1, 1
    else:
        placed = Counter(work.nodes)
        together = work.topology is not None and work.topology.level == "node" and _required(work)
        nodes = len(placed) or (1 if together else work.workers)
        per_node = work.workers // nodes
    if len(set(placed.values())) > 1:
        return cpus | _uneven(work, nodes)
    memory: Options = {"mem": f"{work.memory_gib * per_node}G"} if work.memory_gib else {}
    return {
        **cpus,
        **memory,
        "nodes": nodes,
        "ntasks-per-node": per_node,
        "gres": f"{_gres(work)}:{work.units * per_node}",
    }


def _uneven(work: Work, nodes: int) -> Options:
    """Some nodes were given more workers than others, which amounts per node cannot say."""
    if work.hardware.sharing == "time-slice":
        raise Invalid("Slurm counts shards per node: workers with shares need as many on each node")
    memory: Options = {"mem-per-gpu": f"{work.hardware.per_gpu.memory_gib}G"} if work.memory_gib else {}
    kind = _gres(work).partition(":")[2]
    return {**memory, "nodes": nodes, "ntasks": work.workers, "gpus-per-task": f"{kind}:{work.units}"}


def _gres(work: Work) -> str:
    hardware = work.hardware
    match hardware.sharing:
        case "dedicated":
            return f"gpu:{hardware.gpu_class}"
        case "mig":
            return f"gpu:{hardware.gpu_class}_{_word(hardware.mig_profile or '', 'the MIG profile')}"
        case "time-slice":
            return "shard"


def _features(work: Work) -> list[str]:
    """A shard has no type, so that the class is said as a feature."""
    return [work.hardware.gpu_class] if work.hardware.sharing == "time-slice" else []


def _conduct(work: Work) -> Options:
    """How it starts, how it is told to end, and what becomes of it then."""
    options: Options = {"export": "NIL"}  # the agent's environment is not the job's
    options["requeue" if work.preemptible or work.retries else "no-requeue"] = True
    if work.nodes:
        options["nodelist"] = ",".join(_word(node, "a node's name") for node in sorted(set(work.nodes)))
    elif work.at.queueing == "platform":
        options["hold"] = True  # the platform's queue lets it go
    if work.time_limit is not None:
        options["time"] = _clock(-(-work.time_limit // 1000))
    if work.dedicated or work.at.isolation == "dedicated-nodes":
        options["exclusive"] = True
    if work.checkpoint is not None:
        options["signal"] = f"{work.checkpoint.signal}@{min(-(-work.checkpoint.grace // 1000), 65535)}"
    if work.topology is not None and not work.nodes:
        options |= _near(work)
    return options


def _near(work: Work) -> Options:
    """Slurm knows leaf switches and no other level. It starts work after `max_switch_wait` wherever there
    is room: a site that queues by itself has that raised for required racks to be kept."""
    assert work.topology is not None
    if not _required(work):
        return {"switches": f"1@{PREFERENCE_WAIT}"}
    match work.topology.level:
        case "node":
            return {}
        case "rack":
            return {"switches": f"1@{FOREVER}"}
    if work.at.queueing == "platform":
        return {}
    raise Invalid(
        f"Slurm's own queue cannot keep work within one {work.topology.level}",
        remedy="ask for level rack or node, for mode preferred, or for a site whose queue is the platform's",
    )


def _required(work: Work) -> bool:
    return work.topology is not None and work.topology.mode == "required"


def _script(work: Work, options: Options, variables: Mapping[str, str], command: Sequence[str]) -> str:
    """The argv is built before the variables are set: a PATH or a name of the author's cannot change what
    is started, and the shell's own parameters hold it, which no variable can name."""
    launch = ["--export=ALL", f"--kill-on-bad-exit={int(work.workload == 'job')}"]
    if "cpus-per-task" in options:
        launch.append(f"--cpus-per-task={options['cpus-per-task']}")
    if options.get("ntasks-per-node") != 1 and work.hardware.sharing != "time-slice":
        # Said outright: from a typed --gpus-per-task alone, Slurm 22.05 binds no GPU at all.
        launch.append(f"--gpu-bind=per_task:{work.units}")
    launch += _container(work, variables)
    job = work.workload == "job"  # replicas of a service are not of one world
    start = "; ".join([_WHO, *([_RANK] if job else []), 'exec "$@"'])
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH --{name}" + ("" if value is True else f"={value}") for name, value in options.items()),
        f'set -- "$(command -v srun)" {words(launch, "srun")} \\',
        f"  /bin/sh -c {quoted(start, 'the start of a worker')} sh \\",
        f"  {words(command, 'the command')}",
        *(_MEET if job else ()),
        exported("WINDLASS_COMPONENT", work.path),
        exported(IMAGE_VARIABLE, work.image),
        *(exported(name, value) for name, value in variables.items()),
        'exec "$@"',
    ]
    return "\n".join(lines) + "\n"


def _container(work: Work, variables: Mapping[str, str]) -> list[str]:
    """With pyxis, whose way to write a registry is enroot's. Without: the nodes have what is needed."""
    match work.at.containers:
        case "never":
            return []
        case "auto":
            host, slash, rest = work.image.partition("/")
            remote = slash and ("." in host or ":" in host or host == "localhost")
            kept = ",".join(sorted({*variables, *_RANKS, *_TOLD}))
            return [
                f"--container-image={f'{host}#{rest}' if remote else work.image}",
                f"--container-env={kept}",
            ]
    raise Invalid(
        f"a Slurm site does not run containers with {work.at.containers}",
        remedy="its `containers` are auto (pyxis) or never",
    )


def _clock(seconds: int) -> str:
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{day}-{hour:02d}:{minute:02d}:{second:02d}"


def _word(text: str, what: str) -> str:
    """A value that comes from a document or a site and that an option line takes as it is."""
    if not _WORD.fullmatch(text):
        raise Invalid(
            f"{what} is {text!r}, which Slurm cannot be told: letters, digits, `_`, `.`, `+` and `-`"
        )
    return text
