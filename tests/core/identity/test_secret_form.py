"""What a secret looks like, to people, to the door and to scanners."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.identity.secret_form import SCANNED, is_ours, is_whole, written

ID = "key_" + "0123456789abcdef" * 2
CHANCE = "a-b_" * 10 + "xyz"


def test_a_secret_is_found_by_the_pattern_that_the_documentation_gives_to_scanners() -> None:
    for kind in ("key", "token"):
        secret = written(kind, ID, CHANCE)
        assert re.findall(SCANNED, f'key = "{secret}"\n') == [secret]
        assert is_ours(secret) and is_whole(secret)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=len(written("key", ID, CHANCE)) - 1), st.characters())
def test_a_secret_with_one_wrong_character_is_noticed_before_anybody_looks_it_up(at: int, wrong: str) -> None:
    secret = written("key", ID, CHANCE)
    if secret[at] != wrong:
        assert not is_whole(secret[:at] + wrong + secret[at + 1 :])


@pytest.mark.parametrize("cut", [1, 6, 7, 40])
def test_a_secret_that_was_cut_off_is_noticed(cut: int) -> None:
    shortened = written("key", ID, CHANCE)[:-cut]
    assert is_ours(shortened)
    assert is_whole(shortened) == (cut == 6), "without the whole checksum it looks like an old key"


def test_a_key_from_before_the_checksum_is_still_a_key() -> None:
    assert is_whole(f"wdl_{ID.removeprefix('key_')}_{CHANCE}")
    assert not is_whole(f"wdt_{ID.removeprefix('key_')}_{CHANCE}"), "tokens always had one"
