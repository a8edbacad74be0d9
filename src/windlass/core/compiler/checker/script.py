"""A batch script, read as a shell would read it, by a reader that knows only what may be there.

It is a list of statements of known forms, whose changing parts are quoted words. Anything else is not
understood, and what is not understood is a breach: a reader that guesses can be led astray.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from windlass.core.compiler.checker.breaches import Breach, breach

# A word in '…', where \' between two such is a quote; or in $'…' with octal bytes.
_WORD = r"(?:'[^'\n]*'(?:\\''[^'\n]*')*|\$'(?:[^'\\\n]|\\[0-3][0-7][0-7])*')"
_ONE = re.compile(_WORD)
_LAUNCH = re.compile(
    rf'set -- "\$\(command -v srun\)"((?: {_WORD})+) \\\n'
    rf"  /bin/sh -c ({_WORD}) sh \\\n"
    rf"  ({_WORD}(?: {_WORD})*)"
)
_EXPORT = re.compile(rf"export ([A-Za-z_][A-Za-z0-9_]*)=({_WORD})")
_DIRECTIVE = re.compile(r"\s*#\s*(SBATCH|PBS|BSUB)", re.IGNORECASE)
_FIXED = (
    'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
    "MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))",
    "export MASTER_ADDR MASTER_PORT",
)
_WHO = "export WINDLASS_WORKER=${SLURM_ARRAY_TASK_ID:-$SLURM_PROCID} WINDLASS_NODE=$SLURMD_NODENAME; "
_RANKED = "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=0 LOCAL_WORLD_SIZE=1; "
_START = 'exec "$@"'


@dataclass(slots=True)
class Script:
    """What a script would do."""

    options: dict[str, str | bool] = field(default_factory=dict)
    launch: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def read_script(text: str, *, ranked: bool) -> tuple[Script, list[Breach]]:
    """`ranked`: its workers are told who they are of all."""
    script = Script()
    return script, list(_read(text, script, ranked=ranked))


def _read(text: str, script: Script, *, ranked: bool) -> Iterator[Breach]:
    lines = text.split("\n")
    if not text.isascii() or "\0" in text or "\r" in text:
        yield breach("script", ("script",), "text with other than plain characters", "printable ASCII")
    if lines[0] != "#!/bin/bash" or lines[-1] != "" or text.splitlines() != lines[:-1]:
        yield breach("script", ("script",), shown_line(lines[0]), "a script for bash, in plain lines")
    at = 1
    while at < len(lines) and lines[at].startswith("#SBATCH --"):
        yield from _option(lines[at], at, script)
        at += 1
    for number, line in enumerate(lines[at:], start=at):
        if _DIRECTIVE.match(line):
            yield breach("script", ("script", number), shown_line(line), "no option after the first command")
    yield from _statements(lines[at:-1], at, script, ranked=ranked)


def _option(line: str, number: int, script: Script) -> Iterator[Breach]:
    name, equals, value = line.removeprefix("#SBATCH --").partition("=")
    if name in script.options or not re.fullmatch(r"[a-z-]+", name) or re.search(r"[\s'\"\\#]", value):
        yield breach("script", ("script", number), shown_line(line), "one option, once, without quotes")
    script.options[name] = value if equals else True


def _statements(lines: list[str], first: int, script: Script, *, ranked: bool) -> Iterator[Breach]:
    whole = "\n".join(lines)
    launch = _LAUNCH.match(whole)
    if launch is None:
        yield breach("script", ("script", first), shown_line(whole.partition("\n")[0]), "the start of srun")
        return
    script.launch = [_text(word) for word in _ONE.findall(launch[1])]
    script.command = [_text(word) for word in _ONE.findall(launch[3])]
    if _text(launch[2]) != (_WHO + _RANKED + _START if ranked else _WHO + _START):
        yield breach("script", ("script", first + 1), "another start of a worker", "the platform's")
    rest = whole[launch.end() :].split("\n")
    fixed = _FIXED if ranked else ()
    if rest[0] or tuple(rest[1 : 1 + len(fixed)]) != fixed or rest[-1] != _START:
        yield breach(
            "script", ("script", first + 3), "other statements", "the platform's, from first to last"
        )
    for number, line in enumerate(rest[1 + len(fixed) : -1], start=first + 3 + len(fixed)):
        if (export := _EXPORT.fullmatch(line)) is None or export[1] in script.variables:
            yield breach("script", ("script", number), shown_line(line), "an exported variable, quoted, once")
        else:
            script.variables[export[1]] = _text(export[2])


def shown_line(line: str) -> str:
    """Its beginning: a line may hold the value of a variable, and that a secret."""
    return repr(line[:24])


def _text(word: str) -> str:
    """What a shell makes of it."""
    if word.startswith("$'"):
        data = re.sub(rb"\\([0-3][0-7][0-7])", lambda match: bytes([int(match[1], 8)]), word[2:-1].encode())
        return data.decode("utf-8", "surrogateescape")
    return word[1:-1].replace("'\\''", "'")
