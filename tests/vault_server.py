"""A real HTTP server that behaves as the transit engine of HashiCorp Vault."""

import base64
import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from euterpe.crypto.vault_client import VaultTransit
from euterpe.crypto.vault_key_provider import VaultKeyProvider

TIMEOUT_S = 30.0
Answer = tuple[int, dict[str, Any]]


def errors(status: int, *texts: str) -> Answer:
    return status, {"errors": list(texts)}


class VaultServer:
    """A Vault server with one engine and one key. The client reads its token from `token_file`."""

    def __init__(
        self,
        folder: Path,
        *,
        mount: str = "transit",
        key: str = "euterpe",
        namespace: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.mount, self.key, self.namespace = mount, key, namespace
        self.token_file = folder / "vault-token"
        self.issue_token("first")
        self.keys: dict[int, AESGCM] = {}
        self.min_decryption_version = 1
        self.ignores_associated_data = False  # True simulates a Vault before 1.13
        self.is_sealed = False
        self.answers: list[Answer] = []  # these answers replace the server's next answers
        self.calls: list[str] = []
        self._changed = threading.Condition()
        self._is_held, self._waiting = False, 0
        self.rotate()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{port}" if tls is None else f"https://localhost:{port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def issue_token(self, token: str) -> None:
        """Replace the token, as Vault Agent does when the old token expires."""
        self.token = token
        self.token_file.write_text(token + "\n")

    def rotate(self) -> None:
        self.keys[len(self.keys) + 1] = AESGCM(os.urandom(32))

    def transit(self, **options: Any) -> VaultTransit:
        quick = {"retry_s": 0.0, "rest_s": 0.0, "mount": self.mount, "namespace": self.namespace}
        return VaultTransit(self.url, self.token_file, **{**quick, **options})

    def provider(self, **options: Any) -> VaultKeyProvider:
        """Return a key provider that caches nothing, unless `options` set a time for its caches."""
        return VaultKeyProvider(
            self.transit(), self.key, **{"versions_valid_s": 0.0, "dek_valid_s": 0.0, **options}
        )

    def settings(self) -> dict[str, str]:
        """Return the environment of a program that keeps its keys in this server."""
        return {
            "EUTERPE_KEY_PROVIDER": "vault",
            "EUTERPE_VAULT_URL": self.url,
            "EUTERPE_VAULT_TOKEN_FILE": str(self.token_file),
        }

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay every answer until the block ends."""
        with self._changed:
            self._is_held = True
        try:
            yield
        finally:
            with self._changed:
                self._is_held = False
                self._changed.notify_all()

    def wait_for_waiting(self, count: int = 1) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._waiting >= count, TIMEOUT_S), self.calls

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        with self._changed:
            self.calls.append(f"{method} {path}")
            self._waiting += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: not self._is_held, TIMEOUT_S), "held for too long"
            self._waiting -= 1
            if self.answers:
                return self.answers.pop(0)
        return self._refusal(headers) or self._run(method, path, body)

    def _refusal(self, headers: Any) -> Answer | None:
        if self.is_sealed:
            return errors(503, "Vault is sealed")
        if headers.get("x-vault-namespace") != self.namespace:
            return errors(404, "no handler for route")
        if headers.get("x-vault-token") != self.token:
            return errors(403, "permission denied")
        return None

    def _run(self, method: str, path: str, body: bytes) -> Answer:
        match method, path.removeprefix(f"/v1/{self.mount}/").split("/"):
            case "GET", ["keys", self.key]:
                return self._describe()
            case "POST", ["encrypt", self.key]:
                return self._encrypt(json.loads(body))
            case "POST", ["decrypt", self.key]:
                return self._decrypt(json.loads(body))
        return errors(404)

    def _describe(self) -> Answer:
        versions = {"latest_version": len(self.keys), "min_decryption_version": self.min_decryption_version}
        return 200, {"data": {"name": self.key, "type": "aes256-gcm96", **versions}}

    def _encrypt(self, asked: dict[str, Any]) -> Answer:
        version = asked.get("key_version") or len(self.keys)
        if version not in self.keys:
            return errors(400, "requested version for encryption is higher than the latest key version")
        nonce, plaintext = os.urandom(12), base64.b64decode(asked["plaintext"])
        data = nonce + self.keys[version].encrypt(nonce, plaintext, self._associated(asked))
        ciphertext = f"vault:v{version}:{base64.b64encode(data).decode()}"
        return 200, {"data": {"ciphertext": ciphertext, "key_version": version}}

    def _decrypt(self, asked: dict[str, Any]) -> Answer:
        try:
            vault, named, text = asked["ciphertext"].split(":")
            version, data = int(named.removeprefix("v")), base64.b64decode(text, validate=True)
        except ValueError:
            return errors(400, "invalid ciphertext: could not decode base64")
        if vault != "vault" or version not in self.keys or len(data) < 12:
            return errors(400, "invalid ciphertext: no prefix or an invalid version")
        if version < self.min_decryption_version:
            return errors(400, "ciphertext or signature version is disallowed by policy (too old)")
        try:
            plaintext = self.keys[version].decrypt(data[:12], data[12:], self._associated(asked))
        except InvalidTag:
            return errors(400, "cipher: message authentication failed")
        return 200, {"data": {"plaintext": base64.b64encode(plaintext).decode()}}

    def _associated(self, asked: dict[str, Any]) -> bytes:
        return b"" if self.ignores_associated_data else base64.b64decode(asked.get("associated_data", ""))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        vault = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 5  # the seconds after which an idle connection ends

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, document = vault.answer(self.command, self.path, self.headers, body)
                text = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET  # noqa: N815  the name that http.server looks for

            def log_message(self, *_: object) -> None: ...

        return Handler
