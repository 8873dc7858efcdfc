"""SSRF: no URL and no DNS answer of a requester can make the egress dial an internal address."""

from collections.abc import Callable

import pytest

from euterpe.net.dialer import Dial, Resolve
from euterpe.net.egress import Egress
from euterpe.net.errors import EgressRefused
from euterpe.net.policy import EgressPolicy
from tests.net.fake_network import NO_TRUST, FakeResolver, RecordingDialer
from tests.net.servers import Server, answering

# Hosts that must be refused. The tests put each host into a URL unchanged.
HOSTS = [
    "127.0.0.1",
    "127.8.8.8",
    "127.0.0.1.",
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    # loopback and metadata addresses in decimal, hexadecimal, octal and short forms
    "2130706433",
    "2852039166",
    "0x7f000001",
    "0x7f.0x0.0x0.0x1",
    "0X7F.1",
    "0xa9.0xfe.0xa9.0xfe",
    "017700000001",
    "0177.0.0.1",
    "00000177.0.0.1",
    "0251.0376.0251.0376",
    "127.1",
    "127.0.1",
    "127.0.0.01",
    "127.0.0.256",
    "127.0.0.1.0",
    "0",
    "0x",
    "10.1",
    "169.254.43518",
    # digits, letters and dots of other scripts
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "localhost\u00ad",
    "%6c%6f%63alhost",
    "127%2e0%2e0%2e1",
    # IPv6
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::a00:1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[2001:2::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[5f00::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fe80::1%eth0]",
    "[fe80::1%25eth0]",
    "[fec0::1]",
    "[ff02::1]",
    "[::1",
    "[]",
    "[v1.x]",
    "::1",
    # URLs in which user and host are ambiguous
    "user@127.0.0.1",
    "user:password@h.example",
    "h.example@127.0.0.1",
    "h.example%40127.0.0.1",
    "127.0.0.1:80@h.example",
    "h.example\\@127.0.0.1",
    "h.example\\.evil.example",
    "127.0.0.1\t",
    "h.example\n127.0.0.1",
    "h.example\r\nHost:127.0.0.1",
    " 127.0.0.1",
    "h.example#@127.0.0.1",
    # ports of a public address that are not allowed or not valid
    "93.184.215.14:22",
    "93.184.215.14:25",
    "93.184.215.14:6379",
    "93.184.215.14:8080",
    "93.184.215.14:0",
    "93.184.215.14:65616",  # the lower sixteen bits are 80
    "93.184.215.14:-80",
    "93.184.215.14:\uff18\uff10",
    "h.example:11211",
]

URLS = [
    "file:///etc/passwd",
    "ftp://93.184.215.14/",
    "gopher://93.184.215.14:80/_x",
    "dict://93.184.215.14:80/",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "unix:/var/run/docker.sock:http://h.example/",
    "http://unix:/var/run/docker.sock:/info",
    "ws://93.184.215.14/",
    "jar:http://h.example/!/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "//127.0.0.1/",
    "http:127.0.0.1",
    "http:/127.0.0.1/",
    "http:///127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    " http://127.0.0.1/",
    "\x00http://127.0.0.1/",
    "",
]

# Names that a requester controls, and the answers of the requester's name server.
PUBLIC = "93.184.215.14"
NAMES = {
    "loopback.example": ["127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
    "localhost.localdomain": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "metadata.example": ["169.254.169.254"],
    "metadata-v6.example": ["fd00:ec2::254"],
    "private.example": ["10.0.0.7"],
    "carrier.example": ["100.64.0.1"],
    "azure.example": ["168.63.129.16"],
    "zero.example": ["0.0.0.0"],  # noqa: S104
    "broadcast.example": ["255.255.255.255"],
    "multicast.example": ["224.0.0.251"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "nat64.example": ["64:ff9b::a9fe:a9fe"],
    "6to4.example": ["2002:a9fe:a9fe::1"],
    "teredo.example": ["2001:0:4136:e378:8000:63bf:80ff:fffe"],
    "link-local.example": ["fe80::1%lo"],
    "private-last.example": [PUBLIC, "10.0.0.7"],
    "private-first.example": ["192.168.0.1", PUBLIC],
    "private-sixth.example": [PUBLIC] * 5 + ["127.0.0.1"],
    "mixed-families.example": [PUBLIC, "::1"],
    "xn--lclhst-c9a6b.example": ["127.0.0.1"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
}

VECTORS = [
    *(f"http://{host}/latest/meta-data/" for host in HOSTS),
    *URLS,
    *(f"http://{name}/" for name in NAMES),
    *(f"https://{name}./" for name in NAMES),
]


def closed(resolve: Resolve, dial: Dial) -> Egress:
    """Return an egress for which the operator allows no internal address."""
    return Egress(EgressPolicy(), resolve=resolve, dial=dial, ssl_context=NO_TRUST)


def by_request(egress: Egress, url: str) -> None:
    egress.request("POST", url, headers={}, body=b"x", deadline_s=5, max_bytes=10)


def by_open(egress: Egress, url: str) -> None:
    with egress.open("GET", url, headers={}, deadline_s=5):
        pass


def by_send(egress: Egress, url: str) -> None:
    egress.send("PUT", url, headers={}, chunks=[b"x"], size=1, deadline_s=5)


@pytest.mark.parametrize("go", [by_request, by_open, by_send])
@pytest.mark.parametrize("url", VECTORS, ids=ascii)
def test_nothing_inside_is_dialled(url: str, go: Callable[[Egress, str], None]) -> None:
    record = RecordingDialer()
    resolver = FakeResolver({name: [answers] for name, answers in NAMES.items()} | {"h.example": [[PUBLIC]]})
    with closed(resolver, record) as egress, pytest.raises(EgressRefused):
        go(egress, url)
    assert record.dialled == []


def test_a_public_name_is_dialled_by_its_address() -> None:
    """If the egress refused everything, the tests of hostile URLs would prove nothing."""
    with Server(answering(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        record = RecordingDialer(server.port)
        with closed(FakeResolver({"h.example": [[PUBLIC]]}), record) as egress:
            by_request(egress, "http://h.example/")
    assert record.dialled == [(PUBLIC, 80)]


def test_a_name_that_moves_inside_between_two_requests_is_refused() -> None:
    resolver = FakeResolver({"rebind.example": [[PUBLIC], ["169.254.169.254"]]})
    with Server(answering(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")) as server:
        record = RecordingDialer(server.port)
        with closed(resolver, record) as egress:
            by_request(egress, "http://rebind.example/")
            with pytest.raises(EgressRefused):
                by_request(egress, "http://rebind.example/")
    assert record.dialled == [(PUBLIC, 80)]


def test_the_address_that_was_checked_is_what_is_dialled() -> None:
    """Each connection makes only one lookup, because a resolver may answer differently every time."""
    resolver = FakeResolver({"rebind.example": [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]})
    record = RecordingDialer()
    with (
        closed(resolver, record) as egress,
        pytest.raises(Exception, match="cannot connect"),
    ):
        by_request(egress, "http://rebind.example/")
    assert resolver.lookups == ["rebind.example"]
    assert record.dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "http://[::1",
        "http://\xff\xfe:99999/",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status: int, location: str) -> None:
    answer = f"HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
    with Server(answering(answer.encode("latin-1"))) as server:
        record = RecordingDialer(server.port)
        with closed(FakeResolver({"h.example": [[PUBLIC]]}), record) as egress:
            got = egress.request("GET", "http://h.example/", headers={}, deadline_s=5, max_bytes=10)
    assert (got.status, got.headers["location"]) == (status, location)
    assert record.dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_not_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    with Server(answering(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        record = RecordingDialer(server.port)
        with closed(FakeResolver({"h.example": [[PUBLIC]]}), record) as egress:
            by_request(egress, "http://h.example/")
    assert record.dialled == [(PUBLIC, 80)]
