"""The address of the server, the API key and the TLS files of a remote worker."""

import os
import platform
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

import euterpe
from euterpe.client.connection import options
from euterpe.crypto.errors import MalformedApiKey
from euterpe.domain.errors import EuterpeError

# The worker closes connections that are idle for this time. Servers and proxies often close idle connections
# after 30 s or more. If a server closes a connection just when the worker uses it, the request must be sent
# again.
_IDLE_S = 20.0
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")


class ServerSettingsError(EuterpeError):
    """The address, the key or a file is not usable. The message names the setting."""

    code = "server_settings"


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a remote worker.

    `is_insecure` allows `http://` to hosts other than this machine, for a network that encrypts by itself.
    """

    url: str
    api_key: str = field(repr=False)
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    is_insecure: bool = False

    def client_options(self, connections: int) -> Mapping[str, Any]:
        """Return the arguments of an httpx client. Raise `ServerSettingsError`."""
        try:
            known = options(self.url, self.api_key)
        except MalformedApiKey as error:
            raise ServerSettingsError(f"EUTERPE_API_KEY: {error}") from None
        except ValueError as error:
            raise ServerSettingsError(f"EUTERPE_SERVER: {error}") from None
        is_https = self._is_https()
        agent = f"euterpe-worker/{euterpe.__version__} python/{platform.python_version()}"
        return {
            **known,
            "headers": {**known["headers"], "user-agent": agent},
            "limits": httpx.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=_IDLE_S,
            ),
            "verify": self._tls() if is_https else False,
            # Use the proxy of the environment variables only for HTTPS: a proxy cannot read TLS, but could
            # read plain HTTP.
            "trust_env": is_https,
        }

    def _is_https(self) -> bool:
        parts = urlsplit(self.url)
        if parts.scheme == "https":
            return True
        if self.is_insecure or _is_loopback(parts.hostname or ""):
            return False
        raise ServerSettingsError(
            "EUTERPE_SERVER must be https://, because the API key would be readable on the way; "
            "EUTERPE_SERVER_INSECURE=1 allows http:// in a network that encrypts by itself"
        )

    def _tls(self) -> ssl.SSLContext:
        try:
            context = (
                httpx.create_ssl_context()
                if self.ca_file is None
                else ssl.create_default_context(cafile=self.ca_file)
            )
        except OSError as error:
            raise ServerSettingsError(f"{self._ca_setting()} cannot be read: {error}") from None
        if self.client_cert is not None:
            try:
                context.load_cert_chain(self.client_cert, self.client_key)
            except OSError as error:
                raise ServerSettingsError(
                    f"EUTERPE_CLIENT_CERT and EUTERPE_CLIENT_KEY are not a certificate and its key: {error}"
                ) from None
        return context

    def _ca_setting(self) -> str:
        """Return the setting that names the trusted certificates, with its value."""
        if self.ca_file is not None:
            return f"EUTERPE_SERVER_CA: {self.ca_file}"
        variables = ("SSL_CERT_FILE", "SSL_CERT_DIR")
        named = [f"{name}: {os.environ[name]}" for name in variables if os.environ.get(name)]
        return ", ".join(named) or "the certificates of the system"


def new_client(settings: ServerSettings, connections: int) -> httpx.AsyncClient:
    """Return the HTTP client of a worker. Raise `ServerSettingsError`, also for an unusable proxy."""
    arguments = settings.client_options(connections)
    try:
        return httpx.AsyncClient(**arguments)
    except (ImportError, ValueError) as error:
        # The address of a proxy may contain a password, so only the names of the variables are shown.
        used = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
        raise ServerSettingsError(
            f"{' or '.join(used)}: the proxy is not usable; it must be an http:// or https:// address"
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
