"""Whatever an author writes, a shell gives back unchanged: asked of a real one."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from windlass.core.compiler.shell import exported, quoted, words
from windlass.core.errors import Invalid

ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
AWKWARD = st.text(st.sampled_from("'\"\\$`!#;&|<>(){}[]*?~= \n\r\t\x1b\x7f\u2028é😀an017"), max_size=12)


def said(script: str) -> list[str]:
    """The NUL-separated words that a bash prints, started with nothing in its environment."""
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@settings(max_examples=120)
@given(st.lists(ANY_TEXT | AWKWARD, min_size=1, max_size=6))
@example(["'; touch /tmp/x; '", "$(id)", "`id`", "\n#SBATCH --account=other\n", "\\'", "-n", ""])
def test_bash_reads_back_exactly_the_words(parts: list[str]) -> None:
    assert said(f"printf '%s\\0' {words(parts, 'the command')}") == parts


@settings(max_examples=120)
@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), ANY_TEXT | AWKWARD)
@example("PATH", "/opt/tool")
@example("LC_ALL", "C")
def test_a_variable_arrives_as_written_or_is_refused(name: str, value: str) -> None:
    try:
        line = exported(name, value)
    except Invalid:
        return
    shown = said(f'set -- "$(command -v env)" -0\n{line}\nexec /bin/sh -c \'exec "$@"\' sh "$@"')
    assert f"{name}={value}" in shown


def names_bash_knows() -> list[str]:
    known = [*said("compgen -A variable | tr '\\n' '\\0'"), "UID", "IFS", "RANDOM", "PS1", "OPTERR", "TMOUT"]
    return sorted(set(known))


@pytest.mark.parametrize("name", names_bash_knows())
def test_a_name_that_bash_knows_arrives_or_is_refused(name: str) -> None:
    test_a_variable_arrives_as_written_or_is_refused.hypothesis.inner_test(name, "7up")  # type: ignore[attr-defined]


@given(ANY_TEXT | AWKWARD)
def test_a_word_has_no_line_of_its_own_and_is_ascii(text: str) -> None:
    word = quoted(text, "it")
    assert word.isascii() and len(word.splitlines()) == 1


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_process_can_be_given_is_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid, match="the variable TOKEN"):
        exported("TOKEN", text)


@pytest.mark.parametrize("name", ["RANDOM", "UID", "BASH_ENV", "SHELLOPTS", "IFS", "_"])
def test_what_the_shell_keeps_to_itself_is_refused_by_name(name: str) -> None:
    with pytest.raises(Invalid, match=f"the variable {name} belongs to the shell"):
        exported(name, "x")


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A;id", "é", "A\n"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match=re.escape(repr(name))):
        exported(name, "x")
