"""Real loopback servers, well-behaved and hostile, and a certificate authority for tests."""

import datetime
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Serve = Callable[["Server", socket.socket], None]


class Server:
    """A server that handles each connection with `serve`. `requests` lists the received requests."""

    def __init__(self, serve: Serve, tls: ssl.SSLContext | None = None) -> None:
        self._serve, self._tls = serve, tls
        self.requests: list[bytes] = []
        self.accepted = 0
        self.hung_up = threading.Semaphore(0)  # released when a connection has ended
        self.stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        for sock in (self._listener, *self._open):
            with suppress(OSError):  # the connection may have ended already
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    @property
    def pair(self) -> str:
        """Return the entry by which an EgressPolicy allows this server."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{self.pair}/hook"

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(sock)
            thread = threading.Thread(target=self._talk, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _talk(self, sock: socket.socket) -> None:
        with suppress(OSError):  # the client may close the connection at any time
            if self._tls:
                sock.settimeout(10)
                sock = self._tls.wrap_socket(sock, server_side=True)
            self._serve(self, sock)
        sock.close()
        self.hung_up.release()

    def read_request(self, sock: socket.socket) -> bytes:
        """Return a complete request, or b"" if the client has closed the connection."""
        request = b""
        while b"\r\n\r\n" not in request:
            if not (more := sock.recv(65536)):
                return b""
            request += more
        head, _, body = request.partition(b"\r\n\r\n")
        length = int(header(head, "content-length") or 0)
        while len(body) < length:
            if not (more := sock.recv(1 << 20)):
                return b""
            body += more
        self.requests.append(head + b"\r\n\r\n" + body)
        return self.requests[-1]

    def drip(self, sock: socket.socket, data: bytes, at_once: int = 1) -> None:
        """Send `at_once` bytes every 20 ms.

        The data is finite, so a client without a deadline does not hang.
        """
        for start in range(0, len(data), at_once):
            if self.stopping.wait(0.02):
                return
            sock.sendall(data[start : start + at_once])


def header(head: bytes, name: str) -> str | None:
    for line in head.decode("latin-1").split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return None


def answering(*answers: bytes) -> Serve:
    """Return a handler that gives these answers in turn, then repeats the last answer.

    Connections stay open.
    """

    def serve(server: Server, sock: socket.socket) -> None:
        while server.read_request(sock):
            sock.sendall(answers[min(len(server.requests), len(answers)) - 1])

    return serve


def saying(*parts: bytes, reset: bool = False) -> Serve:
    """Return a handler that reads a request, sends these parts, and then closes or resets the connection."""

    def serve(server: Server, sock: socket.socket) -> None:
        server.read_request(sock)
        for part in parts:
            sock.sendall(part)
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return serve


def endless(start: bytes, forever: bytes) -> Serve:
    def serve(server: Server, sock: socket.socket) -> None:
        server.read_request(sock)
        sock.sendall(start)
        while not server.stopping.is_set():
            sock.sendall(forever)

    return serve


def silent(server: Server, _: socket.socket) -> None:
    server.stopping.wait()


class Authority:
    """A certificate authority that only its own client contexts trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign("Euterpe test CA", self._key, [], authority=True)

    @property
    def pem(self) -> str:
        """Return the authority's own certificate."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.pem)

    def server_context(self, names: Iterable[str], *, expired: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate_file(names, expired=expired))
        return context

    def certificate_file(self, names: Iterable[str], *, expired: bool = False) -> Path:
        """Return a file with a new key and its certificate, for a server or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign("a test server", key, list(names), expired=expired)
        file = self._folder / f"{certificate.serial_number}.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
        )
        return file

    def _sign(
        self,
        subject: str,
        key: ec.EllipticCurvePrivateKey,
        names: list[str],
        *,
        expired: bool = False,
        authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        ends = now + datetime.timedelta(days=-1 if expired else 1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Euterpe test CA")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=2))
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        return builder.sign(self._key, hashes.SHA256())
