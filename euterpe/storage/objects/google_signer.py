"""Sign Google Cloud Storage requests with the requester's bearer token or service-account key.

Google accepts a token that is signed with that key (a "self-signed JWT"), so no token endpoint is ever
called: the `token_uri` of a key file comes from the requester, who could name any host there.
"""

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from euterpe.storage.objects.request import ObjectRequest

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_LIFETIME_S = 3600  # the longest that Google accepts
_RENEW_S = 300


@dataclass(frozen=True)
class BearerToken:
    token: str = field(repr=False)

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host, now
        return request.with_headers(authorization=f"Bearer {self.token}")


class ServiceAccount:
    """A signer that issues a token per hour and reuses it, as a signature takes a millisecond."""

    def __init__(self, key_file: str) -> None:
        """Raise ValueError when the key cannot be read."""
        try:
            parts = json.loads(key_file)
            key = load_pem_private_key(parts["private_key"].encode(), password=None)
            self._key_id, self._email = str(parts["private_key_id"]), str(parts["client_email"])
        except (TypeError, KeyError, AttributeError):  # a field is missing, or the key has a password
            raise ValueError("the service account's key file is malformed") from None
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("the private key is not an RSA key")  # noqa: TRY004  like any other bad key
        self._key = key
        self._token, self._expires_at = "", 0.0

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        del host
        if now.timestamp() > self._expires_at - _RENEW_S:
            self._token, self._expires_at = self._issue(int(now.timestamp())), now.timestamp() + _LIFETIME_S
        return request.with_headers(authorization=f"Bearer {self._token}")

    def _issue(self, now: int) -> str:
        header = {"typ": "JWT", "alg": "RS256", "kid": self._key_id}
        claims = {
            "iss": self._email,
            "sub": self._email,
            "scope": _SCOPE,
            "iat": now,
            "exp": now + _LIFETIME_S,
        }
        text = f"{_base64(json.dumps(header).encode())}.{_base64(json.dumps(claims).encode())}"
        return f"{text}.{_base64(self._key.sign(text.encode(), PKCS1v15(), SHA256()))}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
