"""Another identity provider, unlike the one in memory: a server of its own behind TLS, with a certificate of
an authority that is made here. Its tokens have the shape of another vendor's: several audiences, groups in an
object within an object and with spaces, ES256, a new key whenever asked."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey
from tests.control.providers import AUDIENCE, signed


class Authority:
    """Signs certificates; `file` is what one has to trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        self._folder = folder
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        made = self._begun(self._name, self._key.public_key(), days=1)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(usage, critical=True)
        self.file.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def serving(self, host: str, days: int = 1) -> ssl.SSLContext:
        """What a server of that name needs; `days` below zero: a certificate that is over."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
        names: list[x509.GeneralName] = (
            [x509.IPAddress(ip_address(host))] if host[0].isdigit() else [x509.DNSName(host)]
        )
        made = self._begun(subject, key.public_key(), days)
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        file = self._folder / f"server-{host}-{days}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + _pem(made.sign(self._key, hashes.SHA256())))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .issuer_name(self._name)
            .subject_name(subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=3))
            .not_valid_after(now + timedelta(days=days))
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class TlsProvider:
    issuer = ""

    def __init__(self) -> None:
        self._keys: list[ECKey] = []
        self.rotate()

    def rotate(self) -> None:
        """A new key; the one before is published for a while yet."""
        key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256", "kid": f"2026/{len(self._keys)}"})
        self._keys = [*self._keys[-1:], key]

    def token(self, *groups: str, **more: Any) -> str:
        now = time.time()
        claims = {
            "iss": self.issuer,
            "aud": ["account", AUDIENCE],
            "azp": "windlass",
            "sub": "f:0b1c:ada",
            "preferred_username": "ada",
            "iat": now,  # with a fraction, as some write it
            "exp": now + 300.5,
            "resource_access": {"windlass": {"roles": list(groups)}, "account": {"roles": ["view"]}},
            **more,
        }
        key = self._keys[-1]
        return signed({"alg": "ES256", "kid": key.kid, "typ": "JWT"}, claims, key)

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=tls)
        self.issuer = f"https://localhost:{server.sockets[0].getsockname()[1]}/realms/acme"
        async with server:
            yield

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        jwks = "/realms/acme/protocol/certs"
        answers: dict[str, Any] = {
            "/realms/acme/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "jwks_uri": self.issuer.removesuffix("/realms/acme") + jwks,
            },
            jwks: {"keys": [key.as_dict(private=False) for key in self._keys]},
        }
        body = json.dumps(answers[path]).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()
