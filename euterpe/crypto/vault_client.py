"""An HTTP client of HashiCorp Vault's transit engine, which encrypts with keys that never leave Vault.

The address comes from the operator and not from a requester, so the guards of `euterpe/net/` are not needed
here.
"""

import base64
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from euterpe.crypto.errors import KeyProviderUnavailable
from euterpe.runtime.retry import retry

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5


class _NoAnswer(KeyProviderUnavailable):
    """Vault did not answer, or is temporarily unable to answer. A repeated call may succeed."""


class BadVaultRequest(Exception):
    """Vault answered 400, because it does not accept the ciphertext, the AAD or the key version."""


@dataclass(frozen=True)
class KeyVersions:
    """The versions of a transit key that can decrypt: all from `oldest` to `latest`."""

    oldest: int
    latest: int


class VaultTransit:
    """A client of one transit engine. Thread-safe.

    A call that gets no answer is repeated for up to `retry_s`. If the call still fails, all further calls
    fail immediately for `rest_s`, so that callers do not wait in a queue while Vault is unavailable. The
    connections are closed when the client is garbage-collected.
    """

    def __init__(
        self,
        url: str,
        token_file: Path,
        *,
        mount: str = "transit",
        namespace: str | None = None,
        ca_file: Path | None = None,
        connect_s: float = 2.0,
        answer_s: float = 5.0,
        retry_s: float = 2.0,
        rest_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mount, self._url, self._token_file = mount, url.rstrip("/"), token_file
        self._retry_s, self._rest_s, self._clock = retry_s, rest_s, clock
        self._fails_until, self._last_failure = 0.0, ""
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise KeyProviderUnavailable(f"the CA file {ca_file} cannot be read: {error}") from None
        self._http = httpx.Client(
            base_url=f"{self._url}/v1/{mount}",
            headers={"x-vault-request": "true"} | ({"x-vault-namespace": namespace} if namespace else {}),
            verify=context,
            timeout=httpx.Timeout(answer_s, connect=connect_s),
            trust_env=False,  # an HTTP proxy must not see the tokens
        )
        weakref.finalize(self, self._http.close)

    def versions(self, key: str) -> KeyVersions:
        data = self._call("GET", f"/keys/{key}")
        match data:
            case {"latest_version": int(latest), "min_decryption_version": int(oldest)}:
                return KeyVersions(oldest, latest)
        raise KeyProviderUnavailable(
            f"{self._url} does not describe {self.mount}/keys/{key} as a transit key"
        )

    def encrypt(self, key: str, version: int, plaintext: bytes, aad: bytes) -> str:
        body = {"plaintext": _b64(plaintext), "associated_data": _b64(aad), "key_version": version}
        return self._text(self._call("POST", f"/encrypt/{key}", body), "ciphertext")

    def decrypt(self, key: str, ciphertext: str, aad: bytes) -> bytes:
        body = {"ciphertext": ciphertext, "associated_data": _b64(aad)}
        try:
            plaintext = self._text(self._call("POST", f"/decrypt/{key}", body), "plaintext")
            return base64.b64decode(plaintext, validate=True)
        except ValueError:
            raise self._not_vault() from None

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        if self._clock() < self._fails_until:
            raise KeyProviderUnavailable(self._last_failure)
        until = self._clock() + self._retry_s
        try:
            return retry(
                lambda: self._send(method, path, body),
                on=_NoAnswer,
                may_retry=lambda _: self._clock() < until,
                first_pause_s=_SHORTEST_PAUSE_S,
                longest_pause_s=_LONGEST_PAUSE_S,
            )
        except _NoAnswer as error:
            self._fails_until, self._last_failure = self._clock() + self._rest_s, str(error)
            raise

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> Mapping[str, Any]:
        token = self._token()
        try:
            answer = self._http.request(method, path, json=body, headers={"x-vault-token": token})
        except httpx.HTTPError as error:
            # Do not show the error's text, because it may quote a malformed header, which contains the token.
            raise _NoAnswer(f"Vault at {self._url} cannot be reached: {type(error).__name__}") from None
        match answer.status_code:
            case HTTPStatus.OK:
                return self._data(answer)
            case HTTPStatus.BAD_REQUEST:
                raise BadVaultRequest(_errors_of(answer))
            case HTTPStatus.FORBIDDEN if token != self._token():
                raise _NoAnswer("the token was replaced meanwhile")
            case HTTPStatus.FORBIDDEN:
                raise KeyProviderUnavailable(
                    f"Vault at {self._url} refuses {path} with 403: renew the token in {self._token_file}, "
                    "or give it a policy that allows this"
                )
            case HTTPStatus.NOT_FOUND:
                raise KeyProviderUnavailable(
                    f"Vault at {self._url} has no {self.mount}{path}: create the key, or correct "
                    "EUTERPE_VAULT_KEY, EUTERPE_VAULT_MOUNT and EUTERPE_VAULT_NAMESPACE"
                )
            case status if status < HTTPStatus.BAD_REQUEST:
                raise KeyProviderUnavailable(
                    f"{self._url} answered {status}: name the active node or a load balancer in "
                    "EUTERPE_VAULT_URL"
                )
            case status:  # 503: Vault is sealed; 429: above a rate limit; 412 and 47x: a replica answered
                raise _NoAnswer(f"Vault at {self._url} answered {status}: {_errors_of(answer)}")

    def _token(self) -> str:
        """Return the token. Read the file each time, because Vault Agent replaces the token."""
        try:
            token = self._token_file.read_text("ascii").strip()
        except (OSError, UnicodeError) as error:
            raise KeyProviderUnavailable(
                f"the token file {self._token_file} cannot be read ({type(error).__name__}); correct "
                "EUTERPE_VAULT_TOKEN_FILE, or wait for Vault Agent to write it"
            ) from None
        if not token:
            raise KeyProviderUnavailable(
                f"the token file {self._token_file} is empty: write the token, or wait for Vault Agent"
            )
        return token

    def _data(self, answer: httpx.Response) -> Mapping[str, Any]:
        try:
            match answer.json():
                case {"data": dict(data)}:
                    return data
        except ValueError:
            pass
        raise self._not_vault()

    def _text(self, data: Mapping[str, Any], member: str) -> str:
        match data.get(member):
            case str(text):
                return text
        raise self._not_vault()

    def _not_vault(self) -> KeyProviderUnavailable:
        return KeyProviderUnavailable(f"{self._url} did not answer as Vault does: correct EUTERPE_VAULT_URL")


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _errors_of(answer: httpx.Response) -> str:
    """Return Vault's own messages, because they name the cause and do not quote a secret."""
    try:
        match answer.json():
            case {"errors": [*errors]} if errors:
                return "; ".join(map(str, errors))[:500]
    except ValueError:
        pass
    return "no reason given"
