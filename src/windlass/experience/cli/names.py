"""From what a person calls a component to project/env/name.

`name`, `project/name` and `project/env/name` are all good. What is missing comes from -p and -e,
then from the context's defaults; if that leaves more than one, the person is asked to say which.
"""

from __future__ import annotations

from windlass.core.errors import Invalid, NotFound
from windlass.experience.cli.lazy import did_you_mean
from windlass.experience.cli.session import Session
from windlass.sdk import api


def path_of(component: api.Component) -> str:
    metadata = component.metadata
    return f"{metadata.project}/{metadata.env}/{metadata.name}"


def find_component(session: Session, text: str) -> str:
    """The one component that `text` means. Asks the server only when the text leaves it open."""
    text = text.removeprefix("component/")
    parts = text.split("/")
    if not all(parts) or len(parts) > 3:
        raise Invalid(
            f"{text!r} does not name a component",
            remedy="write name, project/name or project/env/name, such as nlp/prod/sft-run",
        )
    if len(parts) > 1:
        _agrees(text, "--project", session.chosen_project, parts[0])
    project = parts[0] if len(parts) > 1 else session.project
    if len(parts) == 3:
        _agrees(text, "--env", session.chosen_env, parts[1])
        env: str | None = parts[1]
    else:
        env = session.chosen_env or (session.env if project == session.project else None)
    name = parts[-1]
    if project and env and not session.chosen_tenant:
        return f"{project}/{env}/{name}"
    return _only_one(session, name, project, env)


def _agrees(text: str, flag: str, given: str | None, named: str) -> None:
    if given and given != named:
        raise Invalid(f"{text} and {flag} {given} contradict each other", remedy=f"leave {flag} out")


def _only_one(session: Session, name: str, project: str | None, env: str | None) -> str:
    found = session.client.components(project=project, env=env, tenant=session.tenant, name=name).items
    paths = sorted(path_of(one) for one in found if one.metadata.name == name)
    if len(paths) == 1:
        return paths[0]
    if paths:
        raise Invalid(
            f"{name!r} could be {' or '.join(paths)}",
            remedy=f"say which: windlass … {paths[0]}, or use -p and -e",
        )
    visible = session.client.components(project=project, env=env, tenant=session.tenant, limit=500).items
    near = did_you_mean(name, sorted({one.metadata.name for one in visible}))
    where = f" in project {project}" if project else ""
    raise NotFound(f"no component {name!r}{where} that you may see{near}", remedy="`windlass get components`")
