"""What a client asks an identity provider: where it answers, a device code, tokens, and their end.

OpenID Connect discovery, RFC 8628 (device codes), RFC 6749 (refresh), RFC 7009 (revocation). Nothing is
followed that the issuer's own document does not name, nor off TLS; answers are small and have a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import msgspec

from windlass.core.errors import Invalid, NotPermitted, Unauthenticated, Unavailable
from windlass.core.identity.addresses import discovery_address, is_endpoint, is_issuer
from windlass.core.units import format_timestamp
from windlass.sdk.connection import Connection, Lost
from windlass.sdk.contexts import Login
from windlass.sdk.http1 import encode_request, parse_server

Sleep = Callable[[float], None]
Clock = Callable[[], float]

_TIMEOUT_S = 10.0
_MAX_BYTES = 256 * 1024
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_SLOWER_S = 5.0  # as RFC 8628 has it
_LOG_IN = "run `windlass login`"
_NAMED_AS = ("resource", "audience")
_NOT_NOW = ("temporarily_unavailable", "server_error")


class Endpoints(NamedTuple):
    issuer: str
    token: str
    device: str
    revocation: str


class Asker(NamedTuple):
    """As whom a client asks, and for what. A provider with several APIs is told which one the token is for:
    as `resource` (RFC 8707) or, with some, as `audience`; others refuse to be told."""

    client_id: str
    audience_parameter: str = ""
    audience: str = ""

    @property
    def form(self) -> dict[str, str]:
        named = {self.audience_parameter: self.audience} if self.audience_parameter in _NAMED_AS else {}
        return {"client_id": self.client_id, **named}


class DeviceCode(NamedTuple):
    """`uri` is where a person enters `user_code`; `complete_uri` has it entered already, if given."""

    device_code: str
    user_code: str
    uri: str
    complete_uri: str
    interval_s: float
    expires_in_s: float


class Refused(Exception):
    """The provider answered with an OAuth error; its code is the text."""


def discover(issuer: str) -> Endpoints:
    if not is_issuer(issuer):
        raise Invalid(f"{issuer[:200]!r} is not an issuer that is safe to log in with")
    status, about = _exchange(issuer, discovery_address(issuer), None)
    if status != 200 or about.get("issuer") != issuer:
        raise Unavailable(
            f"{issuer} does not describe itself as an OpenID provider (status {status})",
            remedy="ask who runs the server whether the IdentityProvider document is right",
        )
    found = [about.get(f"{name}_endpoint") for name in ("token", "device_authorization", "revocation")]
    token, device, revocation = (str(one) if is_endpoint(one, issuer) else "" for one in found)
    if not token:
        raise Unavailable(f"{issuer} names no token endpoint")
    return Endpoints(issuer, token, device, revocation)


def start_device(endpoints: Endpoints, asker: Asker, scopes: list[str]) -> DeviceCode:
    if not endpoints.device:
        raise Invalid(
            f"{endpoints.issuer} offers no login by device code",
            remedy="have the device flow enabled for the client at the provider, or use an API key",
        )
    form = {**asker.form, "scope": " ".join(scopes)}
    if "offline_access" in scopes:
        form["prompt"] = "consent"  # without it OpenID Connect gives no refresh token
    try:
        answer = _asked(endpoints.issuer, endpoints.device, form)
    except Refused as refused:
        raise Invalid(
            f"{endpoints.issuer} does not let {asker.client_id!r} log in: {refused}",
            remedy="the client must be public, and allowed the device flow, the scopes and the audience",
        ) from None
    code, user_code = answer.get("device_code"), answer.get("user_code")
    uri, complete = answer.get("verification_uri"), answer.get("verification_uri_complete")
    if not isinstance(code, str) or not _printable(user_code, 64) or not is_endpoint(uri, endpoints.issuer):
        raise Unavailable(f"{endpoints.issuer} gave no usable device code")
    return DeviceCode(
        code,
        str(user_code),
        str(uri),
        str(complete) if is_endpoint(complete, endpoints.issuer) else "",
        _seconds(answer.get("interval"), 5.0),
        _seconds(answer.get("expires_in"), 600.0),
    )


def await_device(
    endpoints: Endpoints, asker: Asker, device: DeviceCode, sleep: Sleep, clock: Clock
) -> Mapping[str, Any]:
    """Asks at the provider's pace until the person has answered; the provider's token response."""
    form = {"grant_type": _DEVICE_GRANT, "device_code": device.device_code, **asker.form}
    ends, pause_s = clock() + device.expires_in_s, device.interval_s
    while clock() + pause_s < ends:
        sleep(pause_s)
        try:
            return _asked(endpoints.issuer, endpoints.token, form)
        except Unavailable:
            pause_s += _SLOWER_S
        except Refused as refused:
            match str(refused):
                case "authorization_pending":
                    pass
                case "slow_down":
                    pause_s += _SLOWER_S
                case "access_denied":
                    raise NotPermitted("the login was denied", remedy=f"{_LOG_IN} and allow it") from None
                case "expired_token":
                    break
                case other:
                    raise Unauthenticated(f"the login failed: {other}", remedy=f"{_LOG_IN} again") from None
    raise Unauthenticated("the code was not entered in time", remedy=f"{_LOG_IN} again")


def login_of(provider: str, issuer: str, asker: Asker, answer: Mapping[str, Any], now_s: float) -> Login:
    token = answer.get("access_token")
    if not _printable(token, 64 * 1024) or str(answer.get("token_type", "")).lower() != "bearer":
        raise Unavailable(f"{issuer} gave no bearer token")
    if str(token).count(".") != 2:
        raise Invalid(
            f"{issuer} gave an access token that is not a JWT, which the server cannot check",
            remedy="have the provider issue JWTs for the audience of the IdentityProvider document; one that"
            " has to be told the audience wants audienceParameter in that document",
        )
    refresh = answer.get("refresh_token")
    return Login(
        provider=provider,
        issuer=issuer,
        client_id=asker.client_id,
        access_token=str(token),
        expires_at=format_timestamp(int((now_s + _seconds(answer.get("expires_in"), 300.0)) * 1000)),
        refresh_token=str(refresh) if _printable(refresh, 64 * 1024) else "",
        audience_parameter=asker.audience_parameter,
        audience=asker.audience,
    )


def refresh(login: Login, now_s: float) -> Login:
    """The login with a new access token. A provider that rotates refresh tokens gives a new one too."""
    if not login.refresh_token:
        raise Unauthenticated("your login has ended", remedy=_LOG_IN)
    asker = Asker(login.client_id, login.audience_parameter, login.audience)
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, **asker.form}
    try:
        answer = _asked(login.issuer, discover(login.issuer).token, form)
    except Refused as refused:
        raise Unauthenticated(f"your login has ended ({refused})", remedy=_LOG_IN) from None
    renewed = login_of(login.provider, login.issuer, asker, answer, now_s)
    if renewed.refresh_token:
        return renewed
    return msgspec.structs.replace(renewed, refresh_token=login.refresh_token)


def revoke(login: Login) -> bool:
    """Whether the provider was told that the login is over."""
    endpoint = discover(login.issuer).revocation
    if not endpoint or not login.refresh_token:
        return False
    form = {
        "token": login.refresh_token,
        "token_type_hint": "refresh_token",
        "client_id": login.client_id,
    }
    status, _ = _exchange(login.issuer, endpoint, form)
    return status == 200


def _asked(issuer: str, url: str, form: Mapping[str, str]) -> Mapping[str, Any]:
    status, answer = _exchange(issuer, url, form)
    error = answer.get("error")
    if status == 200 and error is None:
        return answer
    # RFC 6749 has 400 and 401; others say "still pending" with 403, 428 or 200, and "slow down" with 429.
    refused = (status == 200 or 400 <= status < 500) and _printable(error, 100) and error not in _NOT_NOW
    if refused and (status != 429 or error == "slow_down"):
        raise Refused(error)
    raise Unavailable(f"{issuer} answered with status {status}", remedy="try again soon")


def _exchange(issuer: str, url: str, form: Mapping[str, str] | None) -> tuple[int, Mapping[str, Any]]:
    """A GET, or a POST of the form; the status and what JSON object came with it. Follows nothing."""
    address, _, query = url.partition("?")
    place = parse_server(address)
    path = (address.partition("://")[2].partition("/")[2] or "") + (f"?{query}" if query else "")
    headers = {"Accept": "application/json", "Connection": "close"}
    body = None
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = "&".join(f"{name}={quote_plus(value)}" for name, value in form.items()).encode("ascii")
    request = encode_request(
        place._replace(prefix=""), "GET" if form is None else "POST", f"/{path}", headers, body
    )
    try:
        status, content = _sent(place, request)
    except (Lost, Unavailable) as error:
        raise Unavailable(
            f"the identity provider {issuer} cannot be reached ({error})", remedy="try again soon"
        ) from None
    try:
        answer = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = {}
    return status, answer if isinstance(answer, dict) else {}


def _sent(place: Any, request: bytes) -> tuple[int, bytes]:
    ends = time.monotonic() + _TIMEOUT_S
    connection = Connection(place, connect_timeout_s=_TIMEOUT_S)
    try:
        answer, content = connection.send(request, _TIMEOUT_S)
        for piece in connection.rest(answer):
            content += piece
            if len(content) > _MAX_BYTES or time.monotonic() > ends:
                raise Lost("its answer is too large or too slow")
        return answer.status, content
    finally:
        connection.close()


def _printable(value: object, longest: int) -> bool:
    """Text that may be shown and sent: ASCII without control characters and spaces."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        return False
    return value.isascii() and value.isprintable() and " " not in value


def _seconds(value: object, usual: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 10 * 366 * 86_400:
        return usual
    return float(value)
