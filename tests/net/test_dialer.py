import socket
import threading
from collections.abc import Mapping, Sequence

import pytest

from euterpe.net.dialer import Dial, Dialer, Resolve, system_dial, system_resolve
from euterpe.net.errors import EgressRefused, EgressTimeout, EgressUnreachable
from euterpe.net.limits import RequestLimits
from euterpe.net.policy import EgressPolicy
from euterpe.net.target import Target
from tests.net.fake_network import NO_TRUST, FakeResolver, RecordingDialer
from tests.net.servers import Server, silent

FIRST, SECOND, THIRD = "93.184.215.14", "1.1.1.1", "2606:4700::1111"


def connect(resolve: Resolve, dial: Dial, *, deadline_s: float = 10) -> None:
    """Connect, and close the connection again."""
    target = Target.parse("http://h.example/")
    tested = Dialer(EgressPolicy(), resolve, dial, NO_TRUST)
    tested.connect(target, RequestLimits(target.origin, deadline_s)).close()


class ScriptedDialer:
    """A dialer that raises an error for some addresses and connects all others to a server on loopback."""

    def __init__(self, port: int, errors: Mapping[str, OSError]) -> None:
        self._port, self._errors = port, errors
        self.tried: list[str] = []
        self.timeouts: list[float] = []

    def __call__(self, address: str, port: int, timeout_s: float) -> socket.socket:
        del port
        self.tried.append(address)
        self.timeouts.append(timeout_s)
        if address in self._errors:
            raise self._errors[address]
        return system_dial("127.0.0.1", self._port, timeout_s)


def test_the_next_address_is_tried_when_one_fails() -> None:
    resolver = FakeResolver({"h.example": [[FIRST, SECOND, THIRD]]})
    with Server(silent) as server:
        scripted = ScriptedDialer(server.port, {FIRST: TimeoutError(), SECOND: ConnectionRefusedError()})
        connect(resolver, scripted)
    assert scripted.tried == [FIRST, SECOND, THIRD]


def test_each_address_has_its_share_of_the_time() -> None:
    resolver = FakeResolver({"h.example": [[FIRST, SECOND]]})
    with Server(silent) as server:
        scripted = ScriptedDialer(server.port, {FIRST: TimeoutError()})
        connect(resolver, scripted, deadline_s=100)
    assert scripted.timeouts == [pytest.approx(50, abs=5), pytest.approx(100, abs=10)]


def test_only_the_first_four_addresses_are_tried() -> None:
    record = RecordingDialer()
    resolver = FakeResolver({"h.example": [[f"1.1.1.{n}" for n in range(9)]]})
    with pytest.raises(EgressUnreachable):
        connect(resolver, record)
    assert len(record.dialled) == 4


def test_all_addresses_are_checked_even_those_that_are_never_tried() -> None:
    record = RecordingDialer()
    resolver = FakeResolver({"h.example": [[*(f"1.1.1.{n}" for n in range(9)), "10.0.0.1"]]})
    with pytest.raises(EgressRefused):
        connect(resolver, record)
    assert record.dialled == []


def test_an_address_where_nothing_answers_is_a_timeout() -> None:
    resolver = FakeResolver({"h.example": [[FIRST]]})
    with pytest.raises(EgressTimeout, match=r"http://h\.example:80"):
        connect(resolver, ScriptedDialer(0, {FIRST: TimeoutError()}))


def test_an_address_that_refuses_is_unreachable() -> None:
    resolver = FakeResolver({"h.example": [[FIRST]]})
    refused = ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(EgressUnreachable, match=r"cannot connect \(Connection refused\)"):
        connect(resolver, ScriptedDialer(0, {FIRST: refused}))


@pytest.mark.parametrize("table", [{}, {"h.example": [[]]}])
def test_a_name_without_an_address_is_unreachable(table: dict[str, list[list[str]]]) -> None:
    record = RecordingDialer()
    with pytest.raises(EgressUnreachable, match="the name has no address"):
        connect(FakeResolver(table), record)
    assert record.dialled == []


class TarPit:
    """A resolver that answers only after `release`."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.lookups = 0

    def __call__(self, host: str) -> Sequence[str]:
        del host
        self.lookups += 1
        self.released.wait()
        return [FIRST]

    def release(self) -> None:
        self.released.set()
        for thread in threading.enumerate():
            if thread.name == "euterpe-lookup":
                thread.join()


def test_the_deadline_holds_for_the_name_server() -> None:
    tar_pit, record = TarPit(), RecordingDialer()
    with pytest.raises(EgressTimeout):
        connect(tar_pit, record, deadline_s=0.1)
    tar_pit.release()
    assert record.dialled == []


def test_lookups_that_hang_are_bounded() -> None:
    tar_pit = TarPit()
    target = Target.parse("http://h.example/")
    tested = Dialer(EgressPolicy(), tar_pit, RecordingDialer(), NO_TRUST, max_lookups=2)
    for _ in range(4):
        with pytest.raises(EgressTimeout):
            tested.connect(target, RequestLimits(target.origin, 0.05))
    assert tar_pit.lookups == 2
    tar_pit.release()
    with pytest.raises(EgressUnreachable):  # the lookup is made; only the connection fails
        tested.connect(target, RequestLimits(target.origin, 10))
    assert tar_pit.lookups == 3


def test_the_systems_resolver_knows_this_machine() -> None:
    assert "127.0.0.1" in system_resolve("localhost")


def test_the_system_dials_without_delay() -> None:
    with Server(silent) as server, system_dial("127.0.0.1", server.port, 10) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
