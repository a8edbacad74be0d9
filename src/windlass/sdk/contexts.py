"""The configuration file: which servers a person uses, as whom.

    current = "local"

    [contexts.local]
    server = "http://127.0.0.1:7420"
    api_key = "wdl_…"
    project = "nlp"        # optional defaults: project, env, tenant

    [contexts.local.login] # written by `windlass login`; it is used instead of the key
    issuer = "https://login.example.com"
    access_token = "…"

It lies at $WINDLASS_CONFIG, else $XDG_CONFIG_HOME/windlass/config.toml, else
~/.config/windlass/config.toml. It holds secrets, so it is written whole or not at all, with mode
0600; a file that others may read is repaired, and the reader is told. Whoever changes it holds a lock on
`config.toml.lock` beside it, so that two processes lose nothing of each other's.

`resolve` decides who talks to whom: an argument beats the environment beats the file. A key from
the file goes only to the server it was written for.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from windlass.core.errors import Invalid, NotFound
from windlass.sdk.http1 import parse_server

DEFAULT_SERVER = "http://127.0.0.1:7420"


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an identity provider gave. `expires_at` is when the access token ends, RFC 3339 UTC; `audience`
    is what it is for, where the provider wants to be told so, under the name `audience_parameter`."""

    provider: str
    issuer: str
    client_id: str
    access_token: str
    expires_at: str
    refresh_token: str = ""
    audience_parameter: str = ""
    audience: str = ""


class Context(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server and identity, with defaults for what a person would else repeat."""

    server: str
    api_key: str = ""
    project: str | None = None
    env: str | None = None
    tenant: str | None = None
    login: Login | None = None


class Contexts(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `notes` is what its reader should know, such as a repaired mode."""

    current: str = ""
    contexts: dict[str, Context] = {}
    notes: tuple[str, ...] = ()


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who talks to whom: what `resolve` found. `context` is empty when none was used; with a `login`
    the key is not shown."""

    server: str
    api_key: str
    context: str = ""
    project: str | None = None
    env: str | None = None
    tenant: str | None = None
    login: Login | None = None
    notes: tuple[str, ...] = ()


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    if named := environ.get("WINDLASS_CONFIG"):
        return Path(named)
    base = environ.get("XDG_CONFIG_HOME")
    folder = Path(base) if base else Path.home() / ".config"
    return folder / "windlass" / "config.toml"


def load_contexts(path: Path | None = None) -> Contexts:
    """The file's contexts; none when there is no file."""
    path = path or config_path()
    try:
        notes = _repair_mode(path)
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise Invalid(
            f"cannot read {path}: {error.strerror}",
            remedy="make it readable, or name another file in WINDLASS_CONFIG",
        ) from None
    try:
        found = msgspec.convert(tomllib.loads(text), Contexts)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Invalid(
            f"{path} is not a configuration file: {error}", remedy="correct it, or move it away"
        ) from None
    return msgspec.structs.replace(found, notes=notes)


def save_context(
    name: str,
    server: str,
    api_key: str,
    *,
    make_current: bool = True,
    project: str | None = None,
    env: str | None = None,
    tenant: str | None = None,
    path: Path | None = None,
) -> Path:
    """Adds or replaces one context; defaults it had and that are not given stay. A login does not: the key
    is what is to be used from now on. Returns the file."""
    parse_server(server)
    path = path or config_path()
    with _changing(path):
        before = load_contexts(path)
        known = before.contexts.get(name) or Context(server=server)
        context = Context(
            server=server,
            api_key=api_key,
            project=project or known.project,
            env=env or known.env,
            tenant=tenant or known.tenant,
        )
        _write(path, _with(before, name, context, make_current=make_current))
    return path


def use_context(name: str, path: Path | None = None, *, tenant: str | None = None) -> Context:
    """Makes an existing context the current one; with a tenant, that is its default from now on."""
    path = path or config_path()
    with _changing(path):
        before = load_contexts(path)
        context = _named(before, name, path)
        if tenant is not None:
            context = msgspec.structs.replace(context, tenant=tenant)
        _write(path, _with(before, name, context, make_current=True))
    return context


# --- logins -----------------------------------------------------------------------------------


def save_login(
    name: str, server: str, login: Login, *, tenant: str | None = None, path: Path | None = None
) -> Path:
    """Keeps a login in a context, which is made where it is not there, and makes it the current one."""
    path = path or config_path()
    with _changing(path):
        before = load_contexts(path)
        known = before.contexts.get(name)
        if known is None or not _same(server, known.server):
            known = Context(server=server)
        context = msgspec.structs.replace(known, login=login, tenant=tenant or known.tenant)
        _write(path, _with(before, name, context, make_current=True))
    return path


def drop_login(name: str, path: Path | None = None) -> Login | None:
    """Forgets a context's login and gives it back, for whoever wants to revoke it."""
    path = path or config_path()
    with _changing(path):
        before = load_contexts(path)
        known = before.contexts.get(name)
        if known is None or known.login is None:
            return None
        _write(path, _with(before, name, msgspec.structs.replace(known, login=None), make_current=False))
    return known.login


def renew_login(
    name: str, good: Callable[[Login], bool], renew: Callable[[Login], Login], path: Path | None = None
) -> Login | None:
    """The context's login, renewed where it is not `good`. One process asks the provider while the others
    wait, and then take what it got: a refresh token that is used twice ends the login."""
    path = path or config_path()
    with _changing(path):
        before = load_contexts(path)
        known = before.contexts.get(name)
        if known is None or known.login is None:
            return None
        if good(known.login):
            return known.login
        login = renew(known.login)
        _write(path, _with(before, name, msgspec.structs.replace(known, login=login), make_current=False))
    return login


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Alone, among the processes of this person. The kernel lets go of the lock however a process ends."""
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _with(before: Contexts, name: str, context: Context, *, make_current: bool) -> Contexts:
    return Contexts(
        current=name if make_current or not before.current else before.current,
        contexts={**before.contexts, name: context},
    )


def resolve(
    *,
    context: str | None = None,
    server: str | None = None,
    api_key: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Access:
    path = config_path(environ)
    file = load_contexts(path)
    server = server or environ.get("WINDLASS_SERVER") or None
    api_key = api_key or environ.get("WINDLASS_API_KEY") or None
    named = context or environ.get("WINDLASS_CONTEXT") or None
    name: str
    chosen: Context | None
    if named:
        name, chosen = named, _named(file, named, path)
    elif server:
        # A bare server: the context that was written for it, if there is one.
        name, chosen = _for_server(file, server)
    else:
        name, chosen = _current(file, path)
    if server and chosen is not None and not _same(server, chosen.server):
        # The defaults still hold, but its key and its login were not made for this server.
        chosen = msgspec.structs.replace(chosen, api_key="", login=None)
    if chosen is None:
        chosen = Context(server=server or DEFAULT_SERVER)
    return Access(
        server=server or chosen.server,
        api_key=api_key or chosen.api_key,
        context=name,
        project=chosen.project,
        env=chosen.env,
        tenant=chosen.tenant,
        login=None if api_key else chosen.login,
        notes=file.notes,
    )


def _current(file: Contexts, path: Path) -> tuple[str, Context | None]:
    if not file.current:
        return _for_server(file, DEFAULT_SERVER)
    return file.current, _named(file, file.current, path)


def _for_server(file: Contexts, server: str) -> tuple[str, Context | None]:
    # The current one first: two contexts may be two identities on one server.
    names = sorted(file.contexts, key=lambda name: name != file.current)
    for name in names:
        if _same(server, file.contexts[name].server):
            return name, file.contexts[name]
    return "", None


def _same(one: str, other: str) -> bool:
    return parse_server(one) == parse_server(other)


def _named(file: Contexts, name: str, path: Path) -> Context:
    context = file.contexts.get(name)
    if context is None:
        known = ", ".join(sorted(file.contexts)) or "none"
        raise NotFound(
            f"there is no context {name!r} in {path}",
            remedy=f"`windlass context list` shows them (now: {known}); `windlass up` writes `local`",
        )
    return context


def _repair_mode(path: Path) -> tuple[str, ...]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return ()
    try:
        path.chmod(0o600)
    except OSError:
        return (f"{path} holds keys and others may read it (mode {mode:04o}); run chmod 600 on it",)
    return (f"{path} holds keys and others could read it (mode {mode:04o}); it is 0600 now",)


def _write(path: Path, contexts: Contexts) -> None:
    """Whole or not at all; a link keeps pointing at the real file."""
    try:
        _replace(path.resolve(), _to_toml(contexts))
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> Invalid:
    return Invalid(
        f"cannot write {path}: {error.strerror}",
        remedy="make its folder writable, or name another file in WINDLASS_CONFIG",
    )


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _to_toml(contexts: Contexts) -> str:
    lines = [f"current = {_text(contexts.current)}"]
    for name, context in contexts.contexts.items():
        parts = msgspec.to_builtins(context)
        login = parts.pop("login", None)
        lines += ["", f"[contexts.{_text(name)}]", *_pairs(parts)]
        if login:
            lines += ["", f"[contexts.{_text(name)}.login]", *_pairs(login)]
    return "\n".join(lines) + "\n"


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{key} = {_text(value)}" for key, value in values.items()]


def _text(value: str) -> str:
    """A TOML basic string is a JSON string, but for the delete character."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
