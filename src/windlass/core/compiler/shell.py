"""Text that a shell reads as exactly that text.

A word is written in single quotes, where nothing has a meaning; what is not printable ASCII is written as
octal bytes in `$'…'`. So whatever an author wrote stays inside one word, the script stays ASCII, and it has
no line but those the compiler began: a value cannot pose as a `#SBATCH` line, not even inside quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.core.errors import Invalid

_PLAIN = re.compile(r"[ -~]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

# What a shell computes, guards or changes by itself: exported, it would not arrive as it was written.
_OF_THE_SHELL = re.compile(
    r"BASH.*|COMP_WORDBREAKS|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO"
    r"|OLDPWD|OPTIND|PIPESTATUS|POSIXLY_CORRECT|PPID|PS[124]|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_"
)


def quoted(text: str, where: str) -> str:
    """One word. `where` names the value in the refusal of what no process can be given."""
    if "\0" in text:
        raise Invalid(f"{where} holds a NUL character, which no process can be given", remedy="leave it out")
    if _PLAIN.fullmatch(text):
        return "'" + text.replace("'", "'\\''") + "'"
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{where} holds half a character (a lone surrogate)", remedy="write UTF-8") from None
    return "$'" + "".join(_octal(byte) for byte in data) + "'"


def exported(name: str, value: str) -> str:
    """A line that puts a variable into the environment of what follows."""
    if not _VARIABLE.fullmatch(name):
        raise Invalid(f"{name!r} is not the name of a variable")
    if _OF_THE_SHELL.fullmatch(name):
        raise Invalid(
            f"the variable {name} belongs to the shell that starts the work on Slurm",
            remedy="give it another name, or set it inside the command",
        )
    return f"export {name}={quoted(value, f'the variable {name}')}"


def words(parts: Iterable[str], where: str) -> str:
    return " ".join(quoted(part, f"{where}, part {at}") for at, part in enumerate(parts, start=1))


def _octal(byte: int) -> str:
    if 0x20 <= byte <= 0x7E and byte not in b"\\'":
        return chr(byte)
    return f"\\{byte:03o}"
