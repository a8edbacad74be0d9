"""Who acts, from Python: keys, short-lived tokens, service accounts. Part of `Client`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from windlass.contracts import api
from windlass.sdk import calls, flows
from windlass.sdk.calls import Call
from windlass.sdk.flows import Flow

T = TypeVar("T")


class Credentials(ABC):
    """What a client can ask about credentials. How it is sent, the client says."""

    @abstractmethod
    def send(self, call: Call[T]) -> T:
        """One request and its typed answer."""

    @abstractmethod
    def _run(self, flow: Flow[T]) -> T:
        """Several, one after the other."""

    def login_info(self) -> api.LoginInfo:
        """Whom one can log in with here; the server tells everybody."""
        return self.send(calls.get(api.LoginInfo, "identity"))

    def whoami(self) -> api.WhoAmI:
        """Who the key belongs to, and what it may do."""
        return self.send(calls.get(api.WhoAmI, "whoami"))

    def keys(self, *, tenant: str | None = None) -> api.KeyList:
        """The API keys that you may see, without their secrets."""
        return self._run(flows.listing(api.KeyList, "keys", None, tenant=tenant))

    def create_key(
        self,
        name: str = "",
        role: str | None = None,
        *,
        tenant: str | None = None,
        expires_in_s: int | None = None,
        service_account: str | None = None,
        actions: Sequence[str] | None = None,
        project: str | None = None,
        site: str | None = None,
    ) -> api.NewKey:
        """The answer carries the secret; it is shown once. `actions` and `project` narrow the key."""
        request = api.KeyRequest(
            name=name,
            role=role,
            tenant=tenant,
            expires_in_s=expires_in_s,
            service_account=service_account,
            actions=None if actions is None else list(actions),
            project=project,
            site=site,
        )
        return self.send(calls.post(api.NewKey, request, "keys"))

    def rotate_key(self, id: str, *, overlap_s: int = 86_400) -> api.NewKey:
        """A successor with the same rights; the old key works on for the overlap."""
        request = api.RotateRequest(overlap_s=overlap_s)
        return self.send(calls.post(api.NewKey, request, "keys", id, "rotate"))

    def revoke_key(self, id: str) -> None:
        """The key opens nothing from now on. Twice is once."""
        return self.send(calls.delete("keys", id))

    def create_token(
        self, *, lifetime_s: int = 900, actions: Sequence[str] | None = None, project: str | None = None
    ) -> api.NewToken:
        """Exchanges this client's credential for one that lives shortly and may do no more."""
        narrowed = None if actions is None else list(actions)
        request = api.TokenRequest(lifetime_s=lifetime_s, actions=narrowed, project=project)
        return self.send(calls.post(api.NewToken, request, "tokens"))

    def tokens(self, *, tenant: str | None = None) -> api.TokenList:
        """Short-lived tokens, without their secrets."""
        return self.send(calls.get(api.TokenList, "tokens", tenant=tenant))

    def revoke_token(self, id: str) -> None:
        """The token opens nothing from now on. Twice is once."""
        return self.send(calls.delete("tokens", id))

    def create_service_account(
        self, name: str, role: str, *, tenant: str | None = None, note: str = ""
    ) -> api.ServiceAccount:
        """Who acts without being a person: a name with a role; `create_key` makes keys for it."""
        request = api.ServiceAccountRequest(name=name, role=role, tenant=tenant, note=note)
        return self.send(calls.post(api.ServiceAccount, request, "serviceaccounts"))

    def service_accounts(self, *, tenant: str | None = None) -> api.ServiceAccountList:
        """The service accounts you may see."""
        return self.send(calls.get(api.ServiceAccountList, "serviceaccounts", tenant=tenant))

    def delete_service_account(self, name: str, *, tenant: str | None = None) -> None:
        """Its keys end with it."""
        return self.send(calls.delete("serviceaccounts", name, tenant=tenant))
