"""A login that is kept fresh: a bearer token whenever one is needed, renewed before it ends.

Several processes share the login of a context. They take turns at the file's lock, so that a refresh
token is used once; who comes second finds what the first one got (`contexts.renew_login`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from windlass.core.errors import Unauthenticated, Unavailable
from windlass.core.units import parse_timestamp
from windlass.sdk.contexts import Access, Login, renew_login

Renew = Callable[[Login, float], Login]

EARLY_S = 30.0
"""How long before its end an access token is renewed."""


def _ask_provider(login: Login, now_s: float) -> Login:
    from windlass.sdk.provider import refresh

    return refresh(login, now_s)


class KeptLogin:
    """Of one context. Threads may share it."""

    def __init__(
        self,
        context: str,
        login: Login,
        *,
        now: Callable[[], float] = time.time,
        renew: Renew = _ask_provider,
    ) -> None:
        self._context = context
        self._login = login
        self._now = now
        self._renew = renew
        self._turn = threading.Lock()

    def fresh(self) -> str | None:
        """The access token, unless it ends soon."""
        return self._login.access_token if self._left_s(self._login) > EARLY_S else None

    def bearer(self) -> str:
        """An access token that works now. While the provider is away, the old one for as long as it lasts."""
        with self._turn:
            if self.fresh() is None:
                try:
                    self._have(lambda login: self._left_s(login) > EARLY_S)
                except (Unavailable, Unauthenticated):
                    if self._left_s(self._login) <= 0:
                        raise
            return self._login.access_token

    def after_refusal(self, refused: str) -> str | None:
        """Another token than the one the server refused; None when there is no other."""
        with self._turn:
            try:
                self._have(lambda login: login.access_token != refused and self._left_s(login) > 0)
            except (Unavailable, Unauthenticated):
                return None
            token = self._login.access_token
        return token if token != refused else None

    def _have(self, good: Callable[[Login], bool]) -> None:
        found = renew_login(self._context, good, lambda login: self._renew(login, self._now()))
        if found is None:
            raise Unauthenticated("you were logged out meanwhile", remedy="run `windlass login`")
        self._login = found

    def _left_s(self, login: Login) -> float:
        try:
            return parse_timestamp(login.expires_at) / 1000 - self._now()
        except ValueError:  # a file that somebody edited
            return 0.0


def kept_login(access: Access) -> KeptLogin | None:
    return KeptLogin(access.context, access.login) if access.login is not None else None
