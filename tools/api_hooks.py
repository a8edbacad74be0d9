"""What schemathesis is told of this API beyond its description: an answer that goes on for ever is asked for
as one that ends, and a refusal, which the description has as `default`, has a status we know and says it."""

from typing import Any

import schemathesis  # type: ignore[import-not-found]

_REFUSALS = {400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429, 431}


@schemathesis.hook  # type: ignore[untyped-decorator]
def before_call(context: object, case: Any, kwargs: object) -> None:  # noqa: ARG001
    for name in ("watch", "follow"):
        if case.query:
            case.query.pop(name, None)


@schemathesis.check  # type: ignore[untyped-decorator]
def refusals_are_known(ctx: object, response: Any, case: object) -> None:  # noqa: ARG001
    if response.status_code < 400 or not response.content:
        return
    assert response.status_code in _REFUSALS, f"nobody knows the status {response.status_code}"
    told = response.json()
    assert told["status"] == response.status_code and told["code"] and told["title"], told
