"""Secrets are known by their form, and what only looks a little like one is not taken for one.

None stands here as it would be found: each is put together, so that no scanner takes this file for a leak."""

from __future__ import annotations

import time

import pytest

from windlass.core.secret_forms import FORMS, secret_in, secrets_within

BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" * 8
A, B = "abcDEF0123456789", "ABCDEFGHIJKLMNOP"


def pem(kind: str = "", line: str = "\n") -> str:
    return f"-----BEGIN {kind}PRIVATE KEY-----{line}{BODY}{line}-----END {kind}PRIVATE KEY-----"


SECRETS = {
    "a private key": [
        pem(),
        pem("RSA "),
        pem("EC "),
        pem("OPENSSH "),
        pem(line="\\n"),
        '{"private_key": "' + pem(line="\\n") + '"}',
        "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\n" + BODY,
    ],
    "a secret access key of AWS": [
        "AKIA" + B + ":" + "w/+1" * 10,
        "ASIA" + B + '", "' + "w/+1" * 10,
        "aws_secret_access_key = " + "w/+1" * 10,
        "export AWS_SECRET_ACCESS_KEY=" + "w/+1" * 10,
        '{"SecretAccessKey": "' + "w/+1" * 10 + '"}',
    ],
    "an account key of Azure": ["AccountName=x;AccountKey=" + "A" * 86 + "==;EndpointSuffix=core"],
    "an API key of Google": ["AI" + "za" + "a" * 35],
    "a client secret of Google": ["GOC" + "SPX-" + "a" * 28],
    "a token of GitHub": [
        *(f"gh{kind}_" + "a1" * 18 for kind in "pousr"),
        "--token=ghp" + "_" + "a1" * 18,
        "https://x:gh" + "p_" + "a1" * 18 + "@github.com/acme/x",
        "https://gh" + "p_" + "a1" * 18 + "@github.com/acme/x",
        "github" + "_pat_" + "a" * 22 + "_" + "b" * 59,
    ],
    "a token of GitLab": ["glp" + "at-" + "a-_1" * 5],
    "a token of Hugging Face": ["h" + "f_" + "aB" * 17],
    "a key of NVIDIA": ["nv" + "api-" + A * 4],
    "a key of OpenAI": [
        "sk-proj-" + A * 2 + "T3Blbk" + "FJ" + A * 2,
        "sk-" + A * 2 + "T3Blbk" + "FJ" + A * 2,
    ],
    "a key of Anthropic": ["sk-" + "ant-api03-" + A * 6],
    "a key of Weights & Biases": ["wandb" + "_v1_" + A * 3],
    "a token of Slack": ["xo" + "xb-1234567890-1234567890-" + A * 2],
    "a webhook of Slack": ["https://hooks.slack" + ".com/services/T" + B[:9] + "/B" + B[:9] + "/" + "a" * 24],
    "a key of Stripe": ["sk" + "_live_" + A * 2, "rk" + "_live_" + A * 2],
    "a token of npm": ["np" + "m_" + "a1" * 18],
    "a token of PyPI": ["py" + "pi-AgEIcHlwaS5vcmc" + A * 4],
    "a token of Docker Hub": ["dckr" + "_pat_" + "a" * 27],
    "a token of Databricks": ["da" + "pi" + "0f" * 16],
    "a token of Vault": ["hv" + "s." + A * 2],
    "a key of SendGrid": ["S" + "G." + "a" * 22 + "." + "b" * 43],
    "a key of this platform": ["wdl_" + "0" * 32 + "_" + "a" * 43, "wdt_" + "0" * 32 + "_" + "a" * 43],
}


@pytest.mark.parametrize(
    ("what", "text"), [(what, text) for what, all_of in SECRETS.items() for text in all_of]
)
def test_a_known_secret_is_found_and_named_alone_and_inside_other_text(what: str, text: str) -> None:
    assert (
        secret_in(text) == secret_in(f"run --with '{text}' now") == secret_in(f"first\n{text}\nlast") == what
    )


def test_every_form_has_an_example() -> None:
    texts = [text for all_of in SECRETS.values() for text in all_of]
    assert all(any(form.mark in text and form.pattern.search(text) for text in texts) for form in FORMS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hf_model_name",
        "s3://bucket/AKIA",
        "AKIA" + B,  # an id says who, not the secret
        "https://b.s3.example/x?X-Amz-Credential=AKIA" + B + "%2F20260101%2Fs3&X-Amz-Signature=" + "0f" * 32,
        "sha256:" + "0f" * 32,
        "grep -r -- '-----BEGIN PRIVATE KEY-----' /etc",
        "-----BEGIN PUBLIC KEY-----\n" + BODY,
        "-----BEGIN CERTIFICATE-----\n" + BODY,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + BODY,
        "ssh-ed25519 " + BODY[:68] + " me@here",
        "aws_secret_access_key=$(cat /run/key)",
        "ghp_" + "a" * 12,
        "ghp_" + "a" * 60,
        "xghp_" + "a" * 36,
        "https://user:password@host/db",
        "dapi" + "0f" * 10,
        "rapid" + "api" + "0f" * 16,
        "sk-learn-" + "a" * 60,
        "wandb: " + "0f" * 20,
        "npm_config_registry",
        "xoxo-love",
        BODY,
        "hvs.example.com",
        "SG.1.2",
        "SECRET_ACCESS_KEY_FILE=/run/secrets/" + "a" * 40,
    ],
)
def test_what_is_no_secret_is_let_through(text: str) -> None:
    assert secret_in(text) is None


def test_they_are_found_at_any_depth_by_name_and_as_keys() -> None:
    token, key = SECRETS["a token of GitHub"][0], "w/+1" * 10
    tree = {"a": [{"b": ("x", f"--t={token}")}], token: 1, "AWS_SECRET_ACCESS_KEY": key, "OTHER": key, "n": 3}
    assert list(secrets_within(tree, ("spec",))) == [
        (("spec", "a", 0, "b", 1), "a token of GitHub"),
        (("spec",), "a token of GitHub"),
        (("spec", "AWS_SECRET_ACCESS_KEY"), "a secret access key of AWS"),
    ]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.mark)
def test_a_megabyte_made_to_be_slow_is_looked_through_at_once(form: object) -> None:
    mark = form.mark  # type: ignore[attr-defined]
    shapes = (mark, mark + "A" * 19, f"-----BEGIN {mark}-----\n" + " " * 40, mark + "=" + "a1" * 19)
    for shape in shapes:
        text = shape * (1_000_000 // len(shape))
        began = time.process_time()
        secret_in(text)
        assert time.process_time() - began < 1
