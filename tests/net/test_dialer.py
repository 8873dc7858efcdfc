import socket
import threading
from collections.abc import Mapping, Sequence

import pytest

from euterpe.net import dialer
from euterpe.net.dialer import Dial, Dialer, Resolve, system_dial, system_resolve
from euterpe.net.errors import EgressRefused, EgressTimeout, EgressUnreachable
from euterpe.net.limits import RequestLimits
from euterpe.net.policy import EgressPolicy
from euterpe.net.target import Target
from tests.net.fake_network import NO_TRUST, Names, Record
from tests.net.servers import Server, silent

FIRST, SECOND, THIRD = "93.184.215.14", "1.1.1.1", "2606:4700::1111"


def connect(resolve: Resolve, dial: Dial, *, deadline_s: float = 10) -> None:
    """Dials, and hangs up if somebody answers."""
    target = Target.parse("http://h.example/")
    made = Dialer(EgressPolicy(), resolve, dial, NO_TRUST)
    made.connect(target, RequestLimits(target.origin, deadline_s)).close()


class Fates:
    """A dialer that knows what becomes of an address; all others are at a server on loopback."""

    def __init__(self, port: int, fates: Mapping[str, OSError]) -> None:
        self._port, self._fates = port, fates
        self.tried: list[str] = []
        self.shares: list[float] = []

    def __call__(self, address: str, port: int, timeout_s: float) -> socket.socket:
        del port
        self.tried.append(address)
        self.shares.append(timeout_s)
        if address in self._fates:
            raise self._fates[address]
        return system_dial("127.0.0.1", self._port, timeout_s)


def test_the_next_address_is_tried_when_one_fails() -> None:
    names = Names({"h.example": [[FIRST, SECOND, THIRD]]})
    with Server(silent) as server:
        fates = Fates(server.port, {FIRST: TimeoutError(), SECOND: ConnectionRefusedError()})
        connect(names, fates)
    assert fates.tried == [FIRST, SECOND, THIRD]


def test_each_address_has_its_share_of_the_time() -> None:
    names = Names({"h.example": [[FIRST, SECOND]]})
    with Server(silent) as server:
        fates = Fates(server.port, {FIRST: TimeoutError()})
        connect(names, fates, deadline_s=100)
    assert fates.shares == [pytest.approx(50, abs=5), pytest.approx(100, abs=10)]


def test_only_the_first_four_addresses_are_tried() -> None:
    record = Record()
    names = Names({"h.example": [[f"1.1.1.{n}" for n in range(9)]]})
    with pytest.raises(EgressUnreachable):
        connect(names, record)
    assert len(record.dialled) == 4


def test_all_addresses_are_judged_even_those_that_are_never_tried() -> None:
    record = Record()
    names = Names({"h.example": [[*(f"1.1.1.{n}" for n in range(9)), "10.0.0.1"]]})
    with pytest.raises(EgressRefused):
        connect(names, record)
    assert record.dialled == []


def test_an_address_where_nothing_answers_is_a_timeout() -> None:
    names = Names({"h.example": [[FIRST]]})
    with pytest.raises(EgressTimeout, match=r"http://h\.example:80"):
        connect(names, Fates(0, {FIRST: TimeoutError()}))


def test_an_address_that_refuses_is_unreachable() -> None:
    names = Names({"h.example": [[FIRST]]})
    refused = ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(EgressUnreachable, match=r"cannot connect \(Connection refused\)"):
        connect(names, Fates(0, {FIRST: refused}))


@pytest.mark.parametrize("table", [{}, {"h.example": [[]]}])
def test_a_name_without_an_address_is_unreachable(table: dict[str, list[list[str]]]) -> None:
    record = Record()
    with pytest.raises(EgressUnreachable, match="the name has no address"):
        connect(Names(table), record)
    assert record.dialled == []


class TarPit:
    """A name server that answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked = 0

    def __call__(self, host: str) -> Sequence[str]:
        del host
        self.asked += 1
        self.let_go.wait()
        return [FIRST]

    def end(self) -> None:
        self.let_go.set()
        for thread in threading.enumerate():
            if thread.name == "euterpe-lookup":
                thread.join()


def test_the_deadline_holds_for_the_name_server() -> None:
    pit, record = TarPit(), Record()
    with pytest.raises(EgressTimeout):
        connect(pit, record, deadline_s=0.1)
    pit.end()
    assert record.dialled == []


def test_lookups_that_hang_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialer, "_MAX_LOOKUPS", 2)
    pit = TarPit()
    target = Target.parse("http://h.example/")
    made = Dialer(EgressPolicy(), pit, Record(), NO_TRUST)
    for _ in range(4):
        with pytest.raises(EgressTimeout):
            made.connect(target, RequestLimits(target.origin, 0.05))
    assert pit.asked == 2
    pit.end()
    with pytest.raises(EgressUnreachable):  # the record connects to nothing; but there is room to look up
        made.connect(target, RequestLimits(target.origin, 10))
    assert pit.asked == 3


def test_the_systems_resolver_knows_this_machine() -> None:
    assert "127.0.0.1" in system_resolve("localhost")


def test_the_system_dials_without_delay() -> None:
    with Server(silent) as server, system_dial("127.0.0.1", server.port, 10) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
