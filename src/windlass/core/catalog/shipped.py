"""The component types and traits that come with every release: the documents in the folder `shipped`.

They are part of every catalog, also offline, and are never stored: an installation that is upgraded
gets the new ones at once. They cannot be changed or deleted; a document of the same name takes
another version. They are written as anybody would write theirs, and are a place to copy from.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from windlass.core.documents.kinds import Document, DocumentKey
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml


def _documents() -> tuple[Document, ...]:
    """Read with the code, as the code is: they are part of the package."""
    folder = files("windlass.core.catalog").joinpath("shipped")
    pages = sorted(page.name for page in folder.iterdir() if page.name.endswith(".yaml"))
    trees = [tree for name in pages for tree in read_yaml(folder.joinpath(name).read_bytes())]
    parsed = parse_all(trees)
    assert not parsed.problems, parsed.problems
    return tuple(item.value for item in parsed.documents)


SHIPPED: Mapping[DocumentKey, Document] = {document.key: document for document in _documents()}
