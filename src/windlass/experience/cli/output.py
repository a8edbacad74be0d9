"""What was asked for, on stdout: JSON as the API says it, YAML as a view of it, names, or a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.experience.cli.session import Session
from windlass.experience.cli.tables import Row, print_table


def write(text: str) -> None:
    """One line of output."""
    sys.stdout.write(f"{text}\n")


def print_value(value: Any, output: str) -> None:
    """An API value as indented JSON, or YAML."""
    encoded = msgspec.json.encode(value)
    if output == "yaml":
        sys.stdout.write(to_yaml(msgspec.json.decode(encoded)))
    else:
        write(msgspec.json.format(encoded, indent=2).decode())


def print_next(value: Any, output: str) -> None:
    """One of several values: JSON in a line of its own, YAML as a document of its own."""
    if output == "yaml":
        sys.stdout.write(f"---\n{to_yaml(msgspec.to_builtins(value))}")
    else:
        write(msgspec.json.encode(value).decode())


def show(
    session: Session, value: Any, headers: Sequence[str], rows: Sequence[Row], names: Sequence[str] = ()
) -> None:
    """One answer in the form the session asks for."""
    if not rows and session.output in {"table", "wide"}:
        session.say("nothing to show" + session.narrowed)
    elif session.machine:
        print_value(value, session.output)
    elif session.output == "name":
        for name in names or [row[0] for row in rows]:
            write(name)
    else:
        print_table(session, headers, rows)


def to_yaml(value: Any) -> str:
    """YAML that every reader reads alike: strings that some reader takes for a number, a date or
    a truth value are quoted; no aliases; keys in the order of the API."""
    import re

    import yaml

    plain = re.compile(r"[A-Za-z/][\w./-]*( [\w./()-]+)*")
    # YAML 1.1 and 1.2 disagree about these; PyYAML quotes most, but not for every reader.
    words = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", "nan", "inf"}
    base = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc,valid-type]  # the C dumper where libyaml is there
        def ignore_aliases(self, _: Any) -> bool:
            return True

    def text(dumper: Any, string: str) -> Any:
        style = None
        if "\n" in string:
            style = "|"
        elif not plain.fullmatch(string) or string.lower() in words:
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", string, style=style)

    Dumper.add_representer(str, text)
    dumped: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
    return dumped
