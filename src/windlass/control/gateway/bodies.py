"""A body that is one small JSON value of a known form."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from windlass.control.gateway.request import Request
from windlass.core.documents.tree import read_json
from windlass.core.errors import BadRequest, Invalid, UnsupportedMedia

T = TypeVar("T")


def read_body(request: Request, kind: type[T], what: str) -> T:
    if request.media != "json":
        raise UnsupportedMedia(f"{what} is JSON", remedy="send application/json")
    try:
        (tree,) = read_json(request.body)  # of two fields of one name it takes neither
        return msgspec.convert(tree.data, kind)
    except (Invalid, msgspec.MsgspecError, ValueError) as error:
        raise BadRequest(f"the request is not {what}: {error}", remedy="see /docs") from None
