"""What the documentation tells people to write and type is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.command_lines import SHELLS, command_lines, complaint, simple_commands
from tests.docs.pages import ROOT, Block, all_pages, blocks, headings, links
from tools.reference.markdown import slug

from windlass.core.documents.kinds import API_VERSION, KINDS
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml

DOCUMENTS = [block for block in blocks("yaml", "yml") if f"apiVersion: {API_VERSION}" in block.text]
COMMANDS = [(block, *found) for block in blocks(*SHELLS) for found in command_lines(block)]


@pytest.mark.parametrize("block", DOCUMENTS, ids=str)
def test_a_document_parses(block: Block) -> None:
    problems = parse_all(read_yaml(block.text)).problems
    assert [problem.reason.message for problem in problems] == []


def test_there_is_a_document_of_every_kind() -> None:
    shown = "\n".join(block.text for block in DOCUMENTS)
    assert all(f"kind: {kind}\n" in shown for kind in (*KINDS, "Component"))


def test_every_command_line_is_one() -> None:
    wrong = [
        f"{block.path.relative_to(ROOT)}:{line}: {' '.join(words)}: {why}"
        for block, line, words in COMMANDS
        if (why := complaint(words)) is not None
    ]
    assert len(COMMANDS) > 30
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    ["windlass quue", "windlass queue --colour", "windlass wait sft-run", "windlass get", "make coffee"],
)
def test_a_wrong_command_line_is_noticed(line: str) -> None:
    (words,) = simple_commands(line)
    assert complaint(words) is not None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("export KEY=$(windlass key list)", ["windlass", "key", "list"]),
        ("kustomize build | windlass apply -f -", ["windlass", "apply", "-f", "-"]),
        ("WINDLASS_DEBUG=1 windlass queue  # who waits", ["windlass", "queue"]),
        (
            """windlass run --gpus 1 -- sh -c 'a; b'""",
            ["windlass", "run", "--gpus", "1", "--", "sh", "-c", "a; b"],
        ),
    ],
)
def test_a_command_is_found_inside_a_line_of_shell(line: str, found: list[str]) -> None:
    assert found in list(simple_commands(line))


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = [link for link in links(page) if not _leads(page, link)]
    assert broken == []


def _leads(page: Path, link: str) -> bool:
    if link.startswith(("http://", "https://", "mailto:")):
        return True
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in {slug(heading) for heading in headings(target)}
