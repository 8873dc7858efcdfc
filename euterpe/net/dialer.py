"""The dialer, which prevents DNS rebinding, and the pool of idle connections.

The dialer resolves a name once, checks each address of the name, and connects to a checked address.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import ip_address

import httpcore

from euterpe.net.errors import EgressUnreachable, EgressUntrusted
from euterpe.net.limits import RequestLimits
from euterpe.net.policy import Address, EgressPolicy
from euterpe.net.stream import GuardedStream, connection_cut_error
from euterpe.net.target import Target

Resolve = Callable[[str], Sequence[str]]
Dial = Callable[[str, int, float], socket.socket]

# The number of concurrent lookups is limited, because a lookup cannot be interrupted, and a hostile name
# server can delay a lookup for half a minute.
MAX_LOOKUPS = 100
_MAX_ADDRESSES = 4


def system_resolve(host: str) -> list[str]:
    """Return the addresses of the host, in the order in which to try them."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def system_dial(address: str, port: int, timeout_s: float) -> socket.socket:
    sock = socket.create_connection((address, port), timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Dialer:
    def __init__(
        self,
        policy: EgressPolicy,
        resolve: Resolve,
        dial: Dial,
        ssl_context: ssl.SSLContext,
        *,
        max_lookups: int = MAX_LOOKUPS,
    ) -> None:
        self._policy, self._resolve, self._dial, self._ssl_context = policy, resolve, dial, ssl_context
        self._lookups = threading.BoundedSemaphore(max_lookups)

    def connect(self, target: Target, limits: RequestLimits) -> GuardedStream:
        addresses = self._addresses(target.host, limits)
        for address in addresses:
            self._policy.check(target.host, address, target.port)
        sock = self._dial_one_of(addresses[:_MAX_ADDRESSES], target.port, limits)
        if target.scheme == "https":
            sock = self._secured(sock, target.host, limits)
        return GuardedStream(sock, limits.clock)

    def _addresses(self, host: str, limits: RequestLimits) -> list[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            pass
        try:
            found = self._look_up(host, limits)
        except TimeoutError:
            raise limits.timeout() from None
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise EgressUnreachable(limits.where, "the name has no address")
        return [ip_address(address) for address in found]

    def _look_up(self, host: str, limits: RequestLimits) -> Sequence[str]:
        """Resolve the host in a separate thread, so that the deadline also limits the wait for DNS."""
        if not self._lookups.acquire(timeout=limits.begin_wait()):
            raise TimeoutError
        answer: Future[Sequence[str]] = Future()

        def look() -> None:
            try:
                answer.set_result(self._resolve(host))
            except Exception as error:  # noqa: BLE001  `answer.result` raises it in the caller's thread
                answer.set_exception(error)
            finally:
                self._lookups.release()

        threading.Thread(target=look, name="euterpe-lookup", daemon=True).start()
        return answer.result(limits.begin_wait())

    def _dial_one_of(self, addresses: Sequence[Address], port: int, limits: RequestLimits) -> socket.socket:
        """Dial the addresses in turn until a connection is made.

        Each address gets only a share of the time that is left, because an address may never answer.
        """
        last = OSError()
        for tried, address in enumerate(addresses):
            share = limits.begin_wait() / (len(addresses) - tried)
            try:
                return self._dial(str(address), port, share)
            except OSError as error:
                last = error
        if isinstance(last, TimeoutError):
            raise limits.timeout()
        raise EgressUnreachable(limits.where, f"cannot connect ({last.strerror})")

    def _secured(self, sock: socket.socket, host: str, limits: RequestLimits) -> socket.socket:
        try:
            sock.settimeout(limits.begin_wait())  # this timeout covers the whole handshake
            return self._ssl_context.wrap_socket(sock, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise EgressUntrusted(limits.where, error.verify_message) from None
        except TimeoutError:
            raise limits.timeout() from None
        except OSError as error:
            raise connection_cut_error(limits, error) from None
        finally:
            # After a successful handshake `close` has no effect: the wrapped socket now owns the descriptor.
            sock.close()


class IdleConnections:
    """A pool of at most `most` idle connections to all origins. A full pool closes the oldest connection.

    Thread-safe.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_origin: dict[str, list[httpcore.HTTP11Connection]] = {}
        self._oldest_first: dict[httpcore.HTTP11Connection, str] = {}

    def take(self, origin: str) -> httpcore.HTTP11Connection | None:
        """Return the origin's most recently used connection, or None.

        The most recent connection is taken so that surplus connections stay unused and expire.
        """
        while True:
            with self._lock:
                if origin not in self._by_origin:
                    return None
                connection = self._by_origin[origin][-1]
                self._forget(connection)
            if not connection.has_expired():
                return connection
            connection.close()

    def keep(self, origin: str, connection: httpcore.HTTP11Connection) -> None:
        with self._lock:
            self._by_origin.setdefault(origin, []).append(connection)
            self._oldest_first[connection] = origin
            surplus = self._surplus()
        for old in surplus:
            old.close()

    def close(self) -> None:
        """Close the idle connections.

        A connection that is in use is closed later, when `keep` receives it.
        """
        with self._lock:
            self._most = 0
            surplus = self._surplus()
        for old in surplus:
            old.close()

    def _surplus(self) -> list[httpcore.HTTP11Connection]:
        surplus = []
        while self._oldest_first:
            oldest = next(iter(self._oldest_first))
            if len(self._oldest_first) <= self._most and not oldest.has_expired():
                break
            self._forget(oldest)
            surplus.append(oldest)
        return surplus

    def _forget(self, connection: httpcore.HTTP11Connection) -> None:
        origin = self._oldest_first.pop(connection)
        same = self._by_origin[origin]
        same.remove(connection)
        if not same:
            del self._by_origin[origin]
