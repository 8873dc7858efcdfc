"""An object store for signed URLs, which quotes the URL of a request that it refuses."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.net.servers import Authority, Server
from tests.service.installation import Installation
from tests.storage.fake_stores import Call, MemoryStore, Reply, http_handler


class SignedUrlStore(MemoryStore):
    def __call__(self, call: Call) -> Reply:
        if call.path.startswith("/refused"):
            quoting = f"<Error><Code>AccessDenied</Code><Resource>{call.target}</Resource></Error>"
            return Reply(403, {"location": call.target}, quoting.encode())
        return super().__call__(call)


@contextmanager
def signed_url_store(installation: Installation, folder: Path, clip: Path) -> Iterator[str]:
    """Yield the URL of a store that the installation may call and whose certificate it trusts."""
    authority = Authority(folder)
    (certificate,) = authority.client_context().get_ca_certs(binary_form=True)
    (folder / "ca.pem").write_text(ssl.DER_cert_to_PEM_cert(certificate))
    store = SignedUrlStore(**{"clip.mp4": clip.read_bytes()})
    with Server(http_handler(store), authority.server_context(["localhost"])) as server:
        installation.environ["SSL_CERT_FILE"] = str(folder / "ca.pem")
        installation.environ["EUTERPE_EGRESS_ALLOW"] += f",localhost:{server.port}"
        yield f"https://localhost:{server.port}"
