"""Keys and signatures as strangers send them: whatever they are, the answer is yes or no."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.control.providers import edwards, elliptic, rsa

from windlass.control.identity.jose import load_keys, made_by

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
MEMBERS = st.fixed_dictionaries(
    {"kty": st.sampled_from(["RSA", "EC", "OKP", "oct", "x"])},
    optional={
        "crv": st.sampled_from(["P-256", "P-384", "P-521", "secp256k1", "Ed25519", "X25519", "P-999", ""]),
        **{name: st.text(max_size=60) | JSON for name in ("n", "e", "x", "y", "d", "kid", "alg", "use")},
    },
)
PAIRS = [
    ("ES256", elliptic("jose")),
    ("RS256", rsa("jose")),
    ("PS256", rsa("jose")),
    ("EdDSA", edwards("jose")),
]


@given(JSON | st.fixed_dictionaries({"keys": JSON | st.lists(MEMBERS | JSON, max_size=4)}))
@example({"keys": [{"kty": "OKP", "crv": "P-256", "x": ""}]})
@example({"keys": [{"kty": "EC", "crv": "Ed25519", "x": "", "y": ""}]})
@settings(max_examples=300, deadline=None)
def test_whatever_a_provider_publishes_gives_keys_or_none(published: Any) -> None:
    assert isinstance(load_keys(published), tuple)


@pytest.mark.parametrize(("algorithm", "own"), PAIRS, ids=lambda one: str(one)[:5])
def test_whatever_is_said_to_be_a_signature_is_one_or_not(algorithm: str, own: Any) -> None:
    (key,) = load_keys({"keys": [own.as_dict(private=False)]})

    @given(
        st.binary(max_size=600) | st.binary(min_size=64, max_size=64) | st.binary(min_size=256, max_size=256)
    )
    @settings(max_examples=100, deadline=None)
    def refused(signature: bytes) -> None:
        assert made_by(key, algorithm, b"message", signature) is False

    refused()


def test_a_private_key_that_was_published_by_mistake_only_verifies() -> None:
    (key,) = load_keys({"keys": [elliptic("jose").as_dict(private=True)]})
    assert not key.key.is_private


def test_a_hundred_keys_are_looked_at_and_no_more() -> None:
    one = elliptic("jose").as_dict(private=False)
    assert len(load_keys({"keys": [{**one, "kid": str(number)} for number in range(150)]})) == 100
