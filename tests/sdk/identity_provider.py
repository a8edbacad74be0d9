"""An identity provider on a canned server: device codes, refresh tokens that rotate, and an end to the
whole login when one is used twice, as careful providers do it."""

from __future__ import annotations

import itertools
import threading
from typing import Any
from urllib.parse import parse_qsl

from tests.sdk.canned_server import Asked, CannedServer, Reply

DEVICE = {"device_code": "dc", "user_code": "WDJB-MJHT", "interval": 5, "expires_in": 600}


class RotatingProvider:
    def __init__(self, server: CannedServer, *, lifetime_s: int = 300) -> None:
        self.issuer = server.url
        self.lifetime_s = lifetime_s
        self.refreshes = 0
        self.ended = False
        self.revoked: list[str] = []
        self.approved = False
        self._counter = itertools.count(1)
        self._refresh = ""
        self._turn = threading.Lock()
        server.answer(
            "GET",
            "/.well-known/openid-configuration",
            {
                "issuer": self.issuer,
                "token_endpoint": f"{self.issuer}/token",
                "device_authorization_endpoint": f"{self.issuer}/device",
                "revocation_endpoint": f"{self.issuer}/revoke",
            },
        )
        device = {**DEVICE, "verification_uri": f"{self.issuer}/enter"}
        server.answer("POST", "/device", Reply(value=device))
        server.answer("POST", "/token", self.answer)
        server.answer("POST", "/revoke", self._revoke)

    def first(self) -> dict[str, Any]:
        """A login's first tokens."""
        with self._turn:
            return self._tokens()

    def answer(self, asked: Asked) -> Reply:
        form = dict(parse_qsl(asked.body.decode()))
        with self._turn:
            if form["grant_type"] != "refresh_token":
                return Reply(value=self._tokens()) if self.approved else _error("authorization_pending")
            self.refreshes += 1
            if self.ended or form["refresh_token"] != self._refresh:
                self.ended = True
                return _error("invalid_grant")
            return Reply(value=self._tokens())

    def _tokens(self) -> dict[str, Any]:
        number = next(self._counter)
        self._refresh = f"refresh-{number}"
        return {
            "access_token": f"access.{number}.x",
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
            "refresh_token": self._refresh,
        }

    def _revoke(self, asked: Asked) -> Reply:
        self.revoked.append(dict(parse_qsl(asked.body.decode()))["token"])
        self.ended = True
        return Reply(value={})


def _error(code: str) -> Reply:
    return Reply(400, {"error": code})
