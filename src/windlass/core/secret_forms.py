"""Secrets that are known by their form: the keys and tokens whose makers gave them a mark to be found by.

Only what cannot well be anything else: a mark, the alphabet and the length that its maker writes, and an edge
before it. How random a text looks is never asked. A table to add to; each form has a beginning that is looked
for first, so that what holds none of them costs next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Form:
    """`mark` is part of every text that `written`, a regular expression, finds."""

    what: str
    mark: str
    written: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Made when a mark is first seen: most programs never see one, and all of them together take time."""
        return re.compile(self.written, re.ASCII)


def _token(what: str, mark: str, rest: str, *, length: int, more: bool = False) -> Form:
    """A mark and so many characters after it, not in the middle of a longer word; `more` may follow."""
    end = "" if more else f"(?!{rest})"
    return Form(what, mark, rf"(?<![A-Za-z0-9_-]){re.escape(mark)}{rest}{{{length}}}{end}")


_LETTERS, _HEX, _WORD = "[A-Za-z0-9]", "[0-9a-f]", "[A-Za-z0-9_-]"
# A line may end in a real newline, or in the two characters \n of JSON and of variables in one line.
_LINE_END = r"(?:[\r\n\t ]|\\[rn])*"
# AWS gave its secret keys a length and no mark: they are known by what stands before them, an id or a name.
# An id alone is no secret; links that are signed for a while hold one, too.
_OF_AWS = "a secret access key of AWS"
_AWS_LENGTH = r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
_QUOTE = r"""[\"' ]{0,3}"""

FORMS: tuple[Form, ...] = (
    Form(
        "a private key",
        "PRIVATE KEY",
        r"-----BEGIN (?:(?:RSA|EC|DSA|OPENSSH) )?PRIVATE KEY-----"
        rf"{_LINE_END}(?:[A-Za-z0-9+/=]{_LINE_END}){{48}}",
    ),
    Form(
        "a private key",
        "PGP PRIVATE KEY",
        r"-----BEGIN PGP PRIVATE KEY BLOCK-----\s[^-]{48}",
    ),
    *(
        Form(_OF_AWS, mark, rf"(?<![A-Z0-9]){mark}[A-Z2-7]{{16}}{_QUOTE}[:,]{_QUOTE}{_AWS_LENGTH}")
        for mark in ("AKIA", "ASIA")
    ),
    *(
        Form(_OF_AWS, mark, rf"(?i:secret_?access_?key){_QUOTE}[=:]{_QUOTE}{_AWS_LENGTH}")
        for mark in ("ecret", "ECRET")
    ),
    Form("an account key of Azure", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    _token("an API key of Google", "AIza", _WORD, length=35),
    _token("a client secret of Google", "GOCSPX-", _WORD, length=28),
    _token("a token of GitHub", "ghp_", _LETTERS, length=36),
    _token("a token of GitHub", "gho_", _LETTERS, length=36),
    _token("a token of GitHub", "ghu_", _LETTERS, length=36),
    _token("a token of GitHub", "ghs_", _LETTERS, length=36),
    _token("a token of GitHub", "ghr_", _LETTERS, length=36, more=True),
    Form("a token of GitHub", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _token("a token of GitLab", "glpat-", _WORD, length=20, more=True),
    _token("a token of Hugging Face", "hf_", _LETTERS, length=34),
    _token("a key of NVIDIA", "nvapi-", _WORD, length=60, more=True),
    Form("a key of OpenAI", "T3BlbkFJ", r"(?<=[A-Za-z0-9_-]{20})T3BlbkFJ[A-Za-z0-9_-]{20}"),
    _token("a key of Anthropic", "sk-ant-", _WORD, length=80, more=True),
    _token("a key of Weights & Biases", "wandb_v1_", _WORD, length=40, more=True),
    Form("a token of Slack", "xox", r"(?<![A-Za-z0-9])xox[abeoprs]-[0-9]{10,13}-[A-Za-z0-9-]{20}"),
    Form(
        "a webhook of Slack",
        "hooks.slack.com/",
        r"hooks\.slack\.com/services/T[A-Z0-9]{8,12}/B[A-Z0-9]{8,12}/[A-Za-z0-9]{24}",
    ),
    _token("a key of Stripe", "sk_live_", _LETTERS, length=24, more=True),
    _token("a key of Stripe", "rk_live_", _LETTERS, length=24, more=True),
    _token("a token of npm", "npm_", _LETTERS, length=36),
    _token("a token of PyPI", "pypi-AgEIcHlwaS5vcmc", _WORD, length=50, more=True),
    _token("a token of Docker Hub", "dckr_pat_", _WORD, length=27),
    _token("a token of Databricks", "dapi", _HEX, length=32),
    _token("a token of Vault", "hvs.", _WORD, length=24, more=True),
    Form(
        "a key of SendGrid",
        "SG.",
        r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])",
    ),
    Form("a key of this platform", "wdl_", r"wdl_[0-9a-f]{32}_[A-Za-z0-9_-]{43}"),
    Form("a key of this platform", "wdt_", r"wdt_[0-9a-f]{32}_[A-Za-z0-9_-]{43}"),
)

_AWS_VALUE = re.compile(_AWS_LENGTH, re.ASCII)


def secret_in(text: str) -> str | None:
    """What secret a text holds, in words; None where it holds none that is known. Never the secret itself."""
    for form in FORMS:
        if form.mark in text and form.pattern.search(text):
            return form.what
    return None


def secrets_within(tree: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Each place that holds one, with what it holds; where it is the key of a mapping, the mapping."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            if (what := secret_in(str(key))) is not None:
                yield path, what
            elif isinstance(value, str):
                if (what := _secret_of(str(key), value)) is not None:
                    yield (*path, str(key)), what
            else:
                yield from secrets_within(value, (*path, str(key)))
    elif isinstance(tree, list | tuple):
        for at, value in enumerate(tree):
            yield from secrets_within(value, (*path, at))
    elif isinstance(tree, str) and (what := secret_in(tree)) is not None:
        yield path, what


def _secret_of(name: str, value: str) -> str | None:
    """The same of a variable or a field, whose name may say what its value is."""
    if name.upper() == "AWS_SECRET_ACCESS_KEY" and _AWS_VALUE.fullmatch(value.strip()):
        return _OF_AWS
    return secret_in(value)
