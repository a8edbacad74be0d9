"""The command line is quick because it loads little, and its tables match what they point at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer

from windlass.core.documents.kinds import KINDS as CATALOG_KINDS
from windlass.experience.cli.kinds import find_kind
from windlass.experience.cli.main import COMMANDS, make_root

HEAVY = [
    "rich",
    "yaml",
    "ssl",
    "starlette",
    "uvicorn",
    "asyncio",
    "http.client",
    "email",
    "difflib",
]
PROGRAM = """
import sys
from windlass.experience.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
loaded = [name for name in {heavy!r} if name in sys.modules]
sys.stderr.write("loaded: " + ",".join(loaded))
sys.exit(code)
"""


def start(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(heavy=HEAVY)
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )


def test_help_loads_nothing_heavy() -> None:
    done = start("--help")
    assert done.returncode == 0
    assert "Run a command on GPUs" in done.stdout
    assert done.stderr == "loaded: "


def test_listing_components_loads_nothing_heavy(server: CannedServer) -> None:
    server.answer("GET", "/v1/components", samples.components(samples.component()))
    done = start("get", "components", WINDLASS_SERVER=server.url)
    assert done.returncode == 0
    assert done.stderr == "loaded: "


def written() -> list[str]:
    """Commands whose module exists."""
    return [name for name, entry in COMMANDS.items() if find_spec(entry.target.partition(":")[0])]


@pytest.mark.parametrize("name", written())
def test_the_table_says_what_the_command_says(name: str) -> None:
    root = make_root()
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(200) == COMMANDS[name].help


def test_every_catalog_kind_is_known_by_each_of_its_names() -> None:
    for kind in CATALOG_KINDS.values():
        for word in (kind.name, kind.plural, *kind.short):
            found = find_kind(word)
            assert (found.kind, found.plural, found.document) == (kind.name, kind.plural, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = start("completion", shell)
    assert done.returncode == 0
    assert "_WINDLASS_COMPLETE" in done.stdout


def complete(words: str, position: int, **environ: str) -> list[str]:
    done = start(COMP_WORDS=words, COMP_CWORD=str(position), _WINDLASS_COMPLETE="bash_complete", **environ)
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_completion_offers_commands_kinds_and_names(server: CannedServer) -> None:
    server.answer("GET", "/v1/components", samples.components(samples.component()))
    assert complete("windlass qu", 1) == ["queue", "quota"]
    assert complete("windlass get ten", 2) == ["tenants"]
    assert complete("windlass why sf", 2, WINDLASS_SERVER=server.url) == ["sft-run"]
    assert complete("windlass why sf", 2, WINDLASS_SERVER="http://127.0.0.1:9") == []


def test_completion_knows_projects_and_their_environments(server: CannedServer) -> None:
    projects = [
        samples.document("Project", "nlp", {"environments": ["dev", "prod"]}, tenant="acme"),
        samples.document("Project", "vision", {"environments": ["live"]}, tenant="acme"),
    ]
    server.answer("GET", "/v1/projects", samples.documents(*projects))
    asking = {"WINDLASS_SERVER": server.url}
    assert complete("windlass run -p ", 3, **asking) == ["nlp", "vision"]
    assert complete("windlass run -p nlp -e ", 5, **asking) == ["dev", "prod"]
    assert complete("windlass queue -e l", 3, **asking) == ["live"]


def test_completion_offers_what_fits_the_place(server: CannedServer) -> None:
    tenants = samples.documents(samples.document("Tenant", "acme"), samples.document("Tenant", "beta"))
    server.answer("GET", "/v1/tenants", tenants)
    server.answer("GET", "/v1/components", samples.components(samples.component()))
    assert complete("windlass get tenant ", 3, WINDLASS_SERVER=server.url) == ["acme", "beta"]
    assert complete("windlass get component sf", 3, WINDLASS_SERVER=server.url) == ["sft-run"]
    assert complete("windlass get event ", 3, WINDLASS_SERVER=server.url) == []
    assert complete("windlass wait x --for s", 4) == ["Starting", "Suspended", "Succeeded"]
    done = start(COMP_WORDS="windlass apply -f ", COMP_CWORD="3", _WINDLASS_COMPLETE="bash_complete")
    assert done.stdout.startswith("file,")


@pytest.mark.parametrize(("words", "position"), [("windlass qu x", 2), ("windlass qu", 2)])
def test_completion_after_half_a_command_is_silent(words: str, position: int) -> None:
    done = start(COMP_WORDS=words, COMP_CWORD=str(position), _WINDLASS_COMPLETE="bash_complete")
    assert "Usage" not in done.stderr


def test_a_reader_that_has_seen_enough_ends_it_quietly(server: CannedServer) -> None:
    many = [samples.component(path=f"nlp/prod/run-{number}") for number in range(5000)]
    server.answer("GET", "/v1/components", samples.components(*many))
    command = f"{sys.executable} -m windlass.experience.cli.main get components | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "WINDLASS_SERVER": server.url},
    )
    assert (done.returncode, done.stderr) == (141, "")


def test_there_is_no_colour_in_a_pipe_nor_in_messages_to_a_file(tmp_path: Path) -> None:
    done = start("get", "components", "--server", "127.0.0.1:9")
    assert "\x1b" not in done.stdout + done.stderr


def everything() -> Iterator[tuple[str, click.Command]]:
    root = make_root()
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", one) for below, one in command.commands.items())


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in everything()])
def test_the_help_of_every_command_has_an_example_of_it(name: str, command: click.Command) -> None:
    assert f"windlass {name}" in (command.help or "")


def test_a_platform_that_cannot_write_its_context_says_so_and_stops(tmp_path: Path) -> None:
    done = start(
        "up",
        *("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"),
        WINDLASS_CONFIG="/proc/nowhere/config.toml",
    )
    assert done.returncode == 2
    assert "cannot write /proc/nowhere/config.toml" in done.stderr and "WINDLASS_CONFIG" in done.stderr
    assert "this is a bug" not in done.stderr
