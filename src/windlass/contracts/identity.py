"""What the API says of who acts: keys, short-lived tokens, service accounts, logins. Part of `api`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.contracts.wire import Wire

KEY_ROLES = ("platform-admin", "platform-viewer", "tenant-admin", "developer", "viewer", "agent")
MAX_KEY_LIFE_S = 10 * 366 * 86_400
MAX_OVERLAP_S = 30 * 86_400
MAX_TOKEN_LIFE_S = 3_600

# What the description of the API tells of limits; the gateway judges, in words that say what to do.
_Name = Annotated[str, Meta(extra_json_schema={"maxLength": 100})]
_Role = Annotated[str, Meta(extra_json_schema={"enum": list(KEY_ROLES)})]


class Key(Wire, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    name: str
    role: str
    tenant: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None = None
    service_account: str | None = None
    actions: list[str] | None = None
    project: str | None = None
    site: str | None = None
    replaced_by: str | None = None


class NewKey(Wire, frozen=True, kw_only=True):
    """The only answer, with that of a token, that ever carries a secret."""

    key: Key
    secret: str


class KeyList(Wire, frozen=True, kw_only=True):
    items: list[Key]
    cursor: str | None = None


class KeyRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """With `serviceAccount` the role and the tenant are that account's; `name` may then be left out.
    `actions` and `project` narrow the key within its role."""

    name: _Name = ""
    role: Annotated[str | None, Meta(extra_json_schema={"enum": [*KEY_ROLES, None]})] = None
    tenant: str | None = None
    expires_in_s: Annotated[int | None, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_KEY_LIFE_S})] = (
        None
    )
    service_account: str | None = None
    actions: list[str] | None = None
    project: str | None = None
    site: str | None = None  # of an agent's key: the site it speaks for


class RotateRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the old key works on beside its successor; 0 ends it at once."""

    overlap_s: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_OVERLAP_S})] = 86_400


class Token(Wire, frozen=True, kw_only=True):
    """A short-lived token without its secret. `parent` is what it was exchanged for."""

    id: str
    name: str
    role: str
    tenant: str | None
    parent: str
    created_at: str
    expires_at: str
    revoked_at: str | None
    actions: list[str] | None = None
    project: str | None = None


class NewToken(Wire, frozen=True, kw_only=True):
    token: Token
    secret: str


class TokenList(Wire, frozen=True, kw_only=True):
    items: list[Token]
    cursor: str | None = None


class TokenRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """It lives for `lifetimeS` at most, and never longer than what it is exchanged for."""

    lifetime_s: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_TOKEN_LIFE_S})] = 900
    actions: list[str] | None = None
    project: str | None = None


class ServiceAccount(Wire, frozen=True, kw_only=True):
    """Who acts without being a person: a name with a role, and keys of its own."""

    name: str
    role: str
    tenant: str | None
    note: str
    created_at: str
    created_by: str


class ServiceAccountList(Wire, frozen=True, kw_only=True):
    items: list[ServiceAccount]
    cursor: str | None = None


class ServiceAccountRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    name: _Name
    role: _Role
    tenant: str | None = None
    note: str = ""


class WhoAmI(Wire, frozen=True, kw_only=True):
    """`via` is what was shown: a key, a token (short-lived), or oidc (a provider's token). `can` is `may`
    in words."""

    name: str
    role: str
    tenant: str | None
    key_id: str
    expires_at: str | None
    may: list[str]
    can: list[str] = []
    via: str = "key"
    provider: str | None = None
    service_account: str | None = None
    project: str | None = None


class LoginProvider(Wire, frozen=True, kw_only=True):
    """What a client needs in order to log in: nothing here is secret. The audience is named to the
    provider, under that parameter, where there is one."""

    name: str
    issuer: str
    client_id: str
    scopes: list[str]
    audience_parameter: str | None = None
    audience: str | None = None


class LoginInfo(Wire, frozen=True, kw_only=True):
    providers: list[LoginProvider]
