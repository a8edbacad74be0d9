"""settings.md: what can be set from outside, by flag, environment variable or configuration file.

What a variable is for is the one thing here that the code cannot say; `READ` and `TOLD` say it. A
variable that the source uses and no table explains stops the generator, and so does the opposite.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields

import click
import msgspec

from tools.reference.cli import option_row
from tools.reference.environment import SOURCE, keys_of, variables_in
from tools.reference.markdown import code, codes, fence, lines_of, table
from windlass.core.compiler.slurm import IMAGE_VARIABLE
from windlass.experience.cli.session import common_options
from windlass.experience.cli.up import up
from windlass.sdk import contexts
from windlass.sdk.client import Client
from windlass.site.orchestrators.local.launch import Limits
from windlass.site.orchestrators.local.processes import WORK_VARIABLE

READ: Mapping[str, str] = {
    "WINDLASS_SERVER": "The server's address. Beats the configuration file; `--server` beats it.",
    "WINDLASS_API_KEY": "The key to show. Beats the configuration file.",
    "WINDLASS_CONTEXT": "A context of the configuration file, instead of the current one.",
    "WINDLASS_CONFIG": "Where the configuration file is.",
    "WINDLASS_DATABASE": "The database of `windlass server` and `windlass migrate`; `--database` beats it."
    " The driver also heeds PGPASSWORD and PGPASSFILE.",
    "WINDLASS_LOG_LEVEL": "How much the server logs: `debug`, `info`, `warning` (the default) or `error`.",
    "WINDLASS_OTLP_ENDPOINT": "Where `windlass up`, `server` and `agent` send traces, such as"
    " `http://127.0.0.1:4318`; not set or"
    " empty: they do not trace. `--otlp` beats it.",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "The same, where WINDLASS_OTLP_ENDPOINT is not set. The exporter also"
    " heeds the standard OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE and"
    " OTEL_EXPORTER_OTLP_COMPRESSION.",
    "OTEL_SERVICE_NAME": "What traces call this process, instead of `windlass`.",
    "WINDLASS_LIMIT_PRINCIPAL": "How much one person or key may ask of `windlass up`: RATE or RATE:BURST,"
    " units a second and at once, 0 for no limit. `--limit-principal` beats it.",
    "WINDLASS_LIMIT_TENANT": "The same for everybody of one tenant together. `--limit-tenant` beats it.",
    "WINDLASS_LIMIT_ADDRESS": "The same for what comes from one address without a valid key."
    " `--limit-address` beats it.",
    "WINDLASS_DEBUG": "Set to anything: a bug prints its traceback.",
    "_WINDLASS_COMPLETE": "Set by the completion script while the shell completes a line.",
    "XDG_CONFIG_HOME": "The folder above `windlass/config.toml`; else `~/.config`.",
    "XDG_DATA_HOME": "The folder above `windlass`, the data folder of `windlass up`; else `~/.local/share`.",
    "NO_COLOR": "Set to anything: no colour.",
    "TERM": "`dumb`: no colour and no moving progress.",
    "VISUAL": "The editor of `windlass edit`.",
    "EDITOR": "The editor of `windlass edit`, where VISUAL is not set.",
    "PATH": "Where jobs of the local site, and what starts them, look for programs.",
}

TOLD: Mapping[str, str] = {
    "WINDLASS_COMPONENT": "project/env/name of the component.",
    "WINDLASS_WORKLOAD": "The id of this run.",
    "WINDLASS_ATTEMPT": "Which attempt of the run this is, from 1.",
    "WINDLASS_WORKER": "The index of this worker, from 0.",
    "WINDLASS_NODE": "The node this worker was placed on.",
    "WINDLASS_WORK": "The worker's own folder, where it starts; processes only.",
    "WINDLASS_IMAGE": "The component's image; on a Slurm site only.",
    "CUDA_VISIBLE_DEVICES": "The GPUs this worker holds.",
    "CUDA_DEVICE_ORDER": "The order those numbers count in.",
    "RANK": "Of a job: the index of this worker.",
    "WORLD_SIZE": "Of a job: how many workers there are.",
    "LOCAL_RANK": "Of a job: always 0; a worker sees only its own GPUs.",
    "LOCAL_WORLD_SIZE": "Of a job: always 1.",
    "MASTER_ADDR": "Of a job: where worker 0 can listen.",
    "MASTER_PORT": "Of a job: a port for worker 0.",
    "HOST": "Of a service: the address to listen on.",
    "PORT": "Of a service: the port to listen on.",
}

_LAUNCH = "site/orchestrators/local/launch.py"


def page() -> str:
    found = variables_in()
    told = keys_of("variables", SOURCE / _LAUNCH) | {WORK_VARIABLE, IMAGE_VARIABLE}
    _agree("READ", READ, set(found) - told)
    _agree("TOLD", TOLD, told)
    return lines_of(
        "Settings",
        "the source that reads them",
        *_environment(found),
        *_flags(),
        *_configuration(),
        *_sdk(),
        *_site(),
    )


def _agree(name: str, explained: Mapping[str, str], used: set[str]) -> None:
    missing, stale = sorted(used - set(explained)), sorted(set(explained) - used)
    if missing or stale:
        raise LookupError(
            f"tools/reference/settings.py, {name}: explain {missing or 'none'}, remove {stale or 'none'}"
        )


def _environment(found: Mapping[str, set[str]]) -> list[str]:
    rows = [[code(name), text, codes(sorted(found[name]))] for name, text in READ.items()]
    job = [[code(name), text] for name, text in TOLD.items()]
    return [
        "## Environment variables",
        "",
        *table(["Variable", "For", "Named in"], rows),
        "## What a job on the local site is told",
        "",
        "Besides the intent's own `variables`. The server's environment is not passed on.",
        "",
        *table(["Variable", "Is"], job),
    ]


def _flags() -> list[str]:
    context = click.Context(up, info_name="up")
    shared = {option.name for option in common_options()}
    own = [one for one in up.params if isinstance(one, click.Option) and one.name not in shared]
    headers = ["Option", "Means", "Default"]
    return [
        "## Flags of every command",
        "",
        *table(headers, [option_row(option, context) for option in common_options()]),
        "## Flags of the platform",
        "",
        f"Of {code('windlass up')}; those of the other commands are in [cli](cli.md).",
        "",
        *table(headers, [option_row(option, context) for option in own]),
    ]


def _configuration() -> list[str]:
    _, sample, *rest = (contexts.__doc__ or "").strip().split("\n\n")
    context = msgspec.structs.fields(contexts.Context)
    required = codes(field.encode_name for field in context if field.required)
    optional = codes(field.encode_name for field in context if not field.required)
    text = "\n".join(line.removeprefix("    ") for line in sample.splitlines())
    lines = ["## The configuration file", "", *fence("toml", text + "\n" + "\n".join(_more(rest)))]
    lines += [f"A context has {required}; optional are {optional}.", ""]
    for paragraph in rest:
        if not paragraph.startswith("    "):
            lines += [" ".join(paragraph.split()), ""]
    return lines


def _more(paragraphs: list[str]) -> list[str]:
    """The rest of the sample: its indented paragraphs."""
    indented = [part for part in paragraphs if part.startswith("    ")]
    return [line.removeprefix("    ") for part in indented for line in ("", *part.splitlines())]


def _sdk() -> list[str]:
    parameters = list(inspect.signature(Client.__init__).parameters.values())[1:]
    rows = [
        [code(one.name), code(repr(one.default))]
        for one in parameters
        if not callable(one.default) and one.default is not inspect.Parameter.empty
    ]
    return ["## The SDK's clients", "", *table(["Argument", "Default"], rows)]


def _site() -> list[str]:
    limits = Limits()
    rows = [[code(field.name), str(getattr(limits, field.name))] for field in fields(Limits)]
    return [
        "## Limits of the local site",
        "",
        f"{(Limits.__doc__ or '').strip()} They are fixed in this release.",
        "",
        *table(["Limit", "Is"], rows),
    ]
