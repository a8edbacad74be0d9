"""A failure, told to a person on stderr, and to a program on stdout when it asked for JSON or YAML."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import Reason, Unauthenticated, WindlassError
from windlass.experience.cli.session import Session
from windlass.sdk import api


def show(error: WindlassError, session: Session) -> None:
    error = for_a_person(error, session)
    session.complain(f"error: {sentence(error)}", fg="red")
    show_reasons(error.reasons, session, error.extra.get("where", ()))
    if error.remedy and not any(error.remedy == reason.remedy for reason in error.reasons):
        session.complain(f"  try: {error.remedy}")
    if session.machine:
        from windlass.experience.cli.output import print_value

        print_value(problem_of(error), session.output)


def for_a_person(error: WindlassError, session: Session) -> WindlassError:
    """The server speaks of requests and headers; whoever types a command has a context instead. What an
    identity provider said of a login is not the server's."""
    if not isinstance(error, Unauthenticated) or "requestId" not in error.extra:
        return error  # perhaps of the context itself: then there is none to ask
    if not session.access.api_key and session.access.login is None:
        return Unauthenticated(
            f"you have no key for {session.access.server}; run 'windlass up' or 'windlass login',"
            " or set WINDLASS_API_KEY",
            extra=error.extra,
        )
    return error


def sentence(error: WindlassError) -> str:
    """What the server refused, by its title and detail, once where they say the same or the title is
    a question. What this side says is a sentence by itself: a wrong flag is no document."""
    if error.title.endswith("?") or "problem" not in error.extra:
        return error.detail
    title = error.title[:1].lower() + error.title[1:]
    return error.detail if error.detail.lower().startswith(title.lower()) else f"{title}: {error.detail}"


def show_reasons(reasons: Sequence[Reason | api.Reason], session: Session, where: Sequence[str] = ()) -> None:
    """Each with its rule and what to do next. `where` are their places, such as `train.yaml:7`."""
    for index, reason in enumerate(reasons):
        place = f"{where[index]}: " if index < len(where) else ""
        session.complain(f"  {place}{reason_line(reason)}", fg="red")
        if reason.remedy:
            session.complain(f"    try: {reason.remedy}")


def reason_line(reason: Reason | api.Reason) -> str:
    """`spec.gpus: 16 is more than 8 [entitlement.max]`."""
    # Some messages name their field already; once is enough.
    field = f"{reason.field}: " if reason.field and not reason.message.startswith(reason.field) else ""
    return f"{field}{reason.message} [{reason.rule}]"


def warning_line(warning: api.Reason) -> str:
    """With what to do about it: there is no refusal to say so."""
    return reason_line(warning) + (f"; {warning.remedy}" if warning.remedy else "")


def problem_of(error: WindlassError) -> api.Problem:
    """What the server sent, or the same shape for what failed on this side."""
    sent = error.extra.get("problem")
    if isinstance(sent, api.Problem):
        return sent
    return api.Problem(
        type=f"https://windlass.dev/problems/{error.code}",
        title=error.title,
        status=error.status,
        code=error.code,
        detail=error.detail,
        request_id=str(error.extra.get("requestId", "")),
        reasons=[
            api.Reason(
                rule=one.rule,
                message=one.message,
                remedy=one.remedy,
                field=one.field,
                value=one.value,
                limit=one.limit,
                line=one.line,
            )
            for one in error.reasons
        ],
        remedy=error.remedy,
    )
