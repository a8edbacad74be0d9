"""The configuration file: safe to write, safe to read, and who talks to whom."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import Invalid, NotFound
from windlass.sdk import contexts, http1

LOCAL = "http://127.0.0.1:7420"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "config.toml"


def test_a_saved_context_is_current_and_private(file: Path) -> None:
    contexts.save_context("local", LOCAL, "wl_1", path=file, project="nlp")
    found = contexts.load_contexts(file)
    assert found.current == "local"
    assert found.contexts["local"] == contexts.Context(server=LOCAL, api_key="wl_1", project="nlp")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = {one.name: stat.S_IMODE(one.stat().st_mode) for one in file.parent.iterdir()}
    assert kept == {"config.toml": 0o600, "config.toml.lock": 0o600}


def test_another_context_leaves_the_first_alone(file: Path) -> None:
    contexts.save_context("local", LOCAL, "wl_1", path=file)
    contexts.save_context("prod", "https://gpu.example", "wl_2", path=file, make_current=False)
    assert contexts.load_contexts(file).current == "local"
    contexts.use_context("prod", file)
    found = contexts.load_contexts(file)
    assert (found.current, list(found.contexts)) == ("prod", ["local", "prod"])


def test_a_context_written_again_keeps_its_defaults(file: Path) -> None:
    contexts.save_context("local", LOCAL, "wl_1", path=file, project="nlp", env="dev")
    contexts.save_context("local", LOCAL, "wl_2", path=file)
    again = contexts.load_contexts(file).contexts["local"]
    assert (again.api_key, again.project, again.env) == ("wl_2", "nlp", "dev")


def test_a_file_that_others_may_read_is_repaired_and_said(file: Path) -> None:
    contexts.save_context("local", LOCAL, "wl_1", path=file)
    file.chmod(0o644)
    assert "0644" in contexts.load_contexts(file).notes[0]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert contexts.load_contexts(file).notes == ()


def test_a_link_keeps_pointing_at_the_file(file: Path, tmp_path: Path) -> None:
    contexts.save_context("local", LOCAL, "wl_1", path=file)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    contexts.save_context("local", LOCAL, "wl_2", path=link)
    assert link.is_symlink()
    assert contexts.load_contexts(file).contexts["local"].api_key == "wl_2"


@pytest.mark.parametrize("text", ["current = ", "contexts = 3", "[contexts.a]\nserver = 3"])
def test_a_broken_file_says_so(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(Invalid, match="not a configuration file"):
        contexts.load_contexts(file)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_the_file(name: str, key: str) -> None:
    import tomllib

    written = contexts.Contexts(current=name, contexts={name: contexts.Context(server=LOCAL, api_key=key)})
    read = tomllib.loads(contexts._to_toml(written))
    assert read["current"] == name
    assert read["contexts"][name].get("api_key", "") == key


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        ({}, {}, ("http://127.0.0.1:7420", "wl_local", "local")),
        ({"context": "prod"}, {}, ("https://gpu.example", "wl_prod", "prod")),
        ({}, {"WINDLASS_CONTEXT": "prod"}, ("https://gpu.example", "wl_prod", "prod")),
        ({"context": "local"}, {"WINDLASS_CONTEXT": "prod"}, (LOCAL, "wl_local", "local")),
        ({}, {"WINDLASS_SERVER": "https://gpu.example:443"}, ("https://gpu.example:443", "wl_prod", "prod")),
        ({"server": "http://evil.example"}, {}, ("http://evil.example", "", "")),
        ({"server": "http://evil.example", "context": "prod"}, {}, ("http://evil.example", "", "prod")),
        (
            {"server": "http://other.example"},
            {"WINDLASS_API_KEY": "wl_x"},
            ("http://other.example", "wl_x", ""),
        ),
        ({}, {"WINDLASS_API_KEY": "wl_x"}, (LOCAL, "wl_x", "local")),
    ],
)
def test_who_talks_to_whom(
    file: Path, arguments: dict[str, str], environ: dict[str, str], expected: tuple[str, str, str]
) -> None:
    contexts.save_context("prod", "https://gpu.example", "wl_prod", path=file)
    contexts.save_context("local", LOCAL, "wl_local", path=file)
    found = contexts.resolve(
        context=arguments.get("context"),
        server=arguments.get("server"),
        environ={"WINDLASS_CONFIG": str(file), **environ},
    )
    assert (found.server, found.api_key, found.context) == expected


def test_without_a_file_the_default_server_is_asked_without_a_key(file: Path) -> None:
    found = contexts.resolve(environ={"WINDLASS_CONFIG": str(file)})
    assert (found.server, found.api_key) == (contexts.DEFAULT_SERVER, "")


def test_an_unknown_context_names_the_known_ones(file: Path) -> None:
    contexts.save_context("local", LOCAL, "wl_1", path=file)
    with pytest.raises(NotFound) as caught:
        contexts.resolve(context="lokal", environ={"WINDLASS_CONFIG": str(file)})
    assert "now: local" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:7420", "http://127.0.0.1:7420"),
        ("localhost", "http://localhost:7420"),
        ("http://[::1]:7420/", "http://[::1]:7420"),
        ("https://gpu.example/windlass/", "https://gpu.example:443/windlass"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    assert http1.parse_server(text).url == url


@pytest.mark.parametrize("text", ["", "http://", "ftp://x", "http://a b", "http://user:pw@host", "é"])
def test_what_is_not_an_address(text: str) -> None:
    with pytest.raises(Invalid):
        http1.parse_server(text)


def test_importing_the_sdk_loads_nothing_heavy() -> None:
    script = (
        "import sys, windlass.sdk\n"
        "heavy = {'msgspec', 'asyncio', 'ssl', 'yaml', 'http.client', 'socket', 'windlass.contracts.api'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from windlass.sdk import Client\n"
        "assert not {'asyncio', 'ssl', 'yaml', 'http.client'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
