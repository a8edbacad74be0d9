"""A context, a configuration or an address that is wrong is told in a sentence, by every command; and words
that were not the same everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.experience.test_commands import Run, run
from tests.sdk.canned_server import CannedServer

from windlass.contracts import api

__all__ = ["run"]  # a fixture


@pytest.mark.parametrize("command", [["get", "tenants"], ["whoami"], ["why", "sft-run"], ["queue"]])
@pytest.mark.parametrize(
    ("wrong", "code", "told"),
    [
        (["--context", "nope"], 4, "there is no context 'nope'"),
        (["--server", "ftp://x"], 2, "'ftp://x' is not an address of a server"),
        (["--server", "http://127.0.0.1:99999"], 2, "is not an address of a server"),
        (["--server", "http://[::1"], 2, "is not an address of a server"),
    ],
)
def test_what_is_chosen_wrongly_is_told(
    run: Run, command: list[str], wrong: list[str], code: int, told: str
) -> None:
    found, out, err = run(*command, *wrong)
    assert (found, out) == (code, "") and told in err and "bug" not in err


@pytest.mark.parametrize("content", ["x = [", "current = 3", None])
def test_a_configuration_that_cannot_be_read_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    config = tmp_path / "config.toml"
    if content is None:
        config.mkdir()
    else:
        config.write_text(content)
    monkeypatch.setenv("WINDLASS_CONFIG", str(config))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    found, out, err = run("get", "tenants")
    assert (found, out) == (2, "") and "config.toml" in err and "bug" not in err


# --- words ------------------------------------------------------------------------------------


def test_an_empty_list_names_what_it_was_narrowed_to(server: CannedServer, run: Run) -> None:
    server.answer("GET", "/v1/components", api.ComponentList(items=[]))
    server.answer("GET", "/v1/usage", api.UsageList(items=[]))
    assert run("get", "components", "-p", "nope", "-e", "dev")[2] == (
        "nothing to show of project nope, environment dev\n"
    )
    assert run("usage", "-t", "nope")[2] == "nothing to show of tenant nope\n"
    assert run("usage")[2] == "nothing to show\n"


def test_times_in_tables_are_written_one_way(server: CannedServer, run: Run) -> None:
    book = {"currency": "USD", "effectiveFrom": "2026-01-01T00:00:00.000Z", "prices": []}
    found = api.Document(
        api_version="windlass.dev/v1", kind="PriceBook", metadata={"name": "list"}, spec=book
    )
    server.answer("GET", "/v1/pricebooks", api.DocumentList(items=[found], revision=1))
    out = run("get", "pricebooks")[1]
    assert "FROM (UTC)" in out and "2026-01-01 00:00:00" in out
    server.answer("GET", "/v1/revision", api.Revision(revision=7, at="2026-01-01T00:00:00.123Z", actor="a"))
    out = run("get", "revision")[1]
    assert "AT (UTC)" in out and "2026-01-01 00:00:00" in out


def test_version_as_a_name(run: Run) -> None:
    assert run("version", "--server", "127.0.0.1:9", "-o", "name")[1] == "version/0.1.0\n"
