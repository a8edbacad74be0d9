"""`edit KIND NAME` and `delete KIND NAME`."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from windlass.core.errors import Invalid, WindlassError
from windlass.experience.cli import completing
from windlass.experience.cli.apply import line_of
from windlass.experience.cli.complaints import show
from windlass.experience.cli.describe import document_text
from windlass.experience.cli.exits import worst
from windlass.experience.cli.files import read_sources
from windlass.experience.cli.kinds import KindName, find_document_kind
from windlass.experience.cli.names import find_component
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import SCOPE, Session, command, pass_session


@command("edit", takes=SCOPE, short_help="Change a document in your editor.")
@click.argument("kind", shell_complete=completing.complete_kind)
@click.argument("name", shell_complete=completing.complete_name)
@pass_session
def edit(session: Session, kind: str, name: str) -> None:
    """Change a document in your editor ($VISUAL, $EDITOR, or vi).

    It is applied only if nobody else changed it meanwhile (exit 5). When it is refused, your
    text is kept, and its file is named.

    \b
      windlass edit tier gold
      windlass edit envelope nlp-prod -t acme
    """
    found = find_document_kind(kind, "edit")
    session.takes(f"edit {found.kind.lower()}", *found.scope)
    text, version = _fetch(session, found, name)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix="windlass-", delete=False) as file:
        file.write(text)
    path = Path(file.name)
    try:
        _open_editor(path)
        if _untouched(path, text):
            session.say("nothing was changed")
        else:
            _apply(session, path, version)
    except WindlassError:
        if _untouched(path, text):
            path.unlink(missing_ok=True)
        else:  # nobody's text is thrown away
            session.complain(f"your text is in {path}; correct it, then: windlass apply -f {path}")
        raise
    path.unlink(missing_ok=True)


def _untouched(path: Path, text: str) -> bool:
    """Also when the editor removed the file: there is nothing of the author's in it."""
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return True


@command("delete", takes=SCOPE, short_help="Delete documents, or components that have ended.")
@click.argument("kind", shell_complete=completing.complete_kind)
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=completing.complete_name)
@pass_session
def delete(session: Session, kind: str, names: Sequence[str]) -> int:
    """Delete documents, or components that have ended.

    What still waits or runs is cancelled first with `windlass cancel`.

    \b
      windlass delete component sft-run
      windlass delete envelope nlp-prod -t acme
    """
    found = find_document_kind(kind, "delete")
    session.takes(f"delete {found.kind.lower()}", *found.scope)
    codes = []
    for name in names:
        try:
            _delete(session, found, name)
        except WindlassError as error:
            if len(names) == 1:
                raise
            show(error, session)
            codes.append(error.exit_code)
    return worst(codes)


def _delete(session: Session, kind: KindName, name: str) -> None:
    if kind.kind == "Component":
        name = find_component(session, name)
        session.client.delete_component(name)
    else:
        session.client.delete_document(kind.plural, name, tenant=kind.tenant_of(session))
    if not session.machine:
        write(f"{kind.kind.lower()}/{name}" + ("" if session.output == "name" else " deleted"))


def _fetch(session: Session, kind: KindName, name: str) -> tuple[str, int | None]:
    """The document as its author would write it, and the version it has now. What the platform
    ships has none until somebody changes it."""
    if kind.kind == "Component":
        component = session.client.component(find_component(session, name))
        return document_text(component), component.metadata.version
    document = session.client.document(kind.plural, name, tenant=kind.tenant_of(session))
    return document_text(document), document.metadata.get("version")


def _open_editor(path: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except OSError as error:
        raise Invalid(f"cannot start the editor {editor!r}: {error.strerror}", remedy="set EDITOR") from None
    if done.returncode != 0:
        raise Invalid(f"the editor ended with {done.returncode}; nothing was applied")


def _apply(session: Session, path: Path, version: int | None) -> None:
    sources = read_sources([str(path)])
    if len(sources) != 1:
        raise Invalid(f"one document is edited at a time; there are {len(sources)}")
    answer = session.client.apply(sources[0].document, if_match=version)
    if session.machine:
        print_value(answer, session.output)
    else:
        write(line_of(answer.results[0]))
