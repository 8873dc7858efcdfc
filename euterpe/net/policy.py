"""Egress policy against SSRF.

It allows public addresses on ports 80 and 443, and the addresses that the operator adds.

`ipaddress.is_global` is not used, because it is true for 64:ff9b::a9fe:a9fe, 2002:a9fe:a9fe::1, ::127.0.0.1,
224.0.0.1 and 168.63.129.16. All of these lead to an internal host or to a cloud's metadata service.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from euterpe.net.errors import EgressRefused

Address = IPv4Address | IPv6Address

_OPEN_PORTS = (80, 443)

_NOT_PUBLIC_V4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # "this network": Linux connects 0.0.0.0 to the local host
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; 100.100.100.200 is Alibaba's metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's wire server
        "169.254.0.0/16",  # link-local, and the metadata service of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; 192.0.0.192 is Oracle's metadata service
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",  # reserved, and the broadcast address
    )
)
# Addresses outside this block are refused: loopback, IPv4-mapped, NAT64, ULA, link-local and multicast.
_GLOBAL_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, with Teredo, whose addresses contain an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, whose addresses contain an IPv4 address
        "3fff::/20",
    )
)
_NAT64_LENGTHS = (32, 40, 48, 56, 64, 96)  # RFC 6052, 2.2
_PAIR = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")


class EgressPolicy:
    """The addresses that may be dialled. `allow` adds CIDRs (with all ports) and `host:port` pairs.

    The host of a pair is a name or an address. For an address with a `nat64` prefix, the policy checks the
    IPv4 address inside it.
    """

    def __init__(self, allow: Sequence[str] = (), nat64: Sequence[str] = ()) -> None:
        self._allow, self._prefixes = tuple(allow), tuple(nat64)
        opened = [_entry(entry) for entry in allow]
        self._networks = [entry for entry in opened if not isinstance(entry, tuple)]
        self._pairs = frozenset(entry for entry in opened if isinstance(entry, tuple))
        self._nat64 = [_nat64_prefix(prefix) for prefix in nat64]

    def with_allowed(self, pairs: Iterable[str]) -> "EgressPolicy":
        """Return a policy that allows these pairs too."""
        return EgressPolicy((*self._allow, *pairs), self._prefixes)

    def check(self, host: str, address: Address, port: int) -> None:
        """Raise `EgressRefused` unless `host`, which resolves to `address`, may be dialled on `port`.

        The error omits the address, because a requester must not learn what an internal name resolves to.
        """
        address = self._behind_nat64(address)
        if (host.lower(), port) in self._pairs or (str(address), port) in self._pairs:
            return
        if _is_in(address, self._networks):
            return
        where = f"{host}:{port}"
        if not _is_public(address):
            raise EgressRefused(where, "not a public address; EUTERPE_EGRESS_ALLOW can open it")
        if port not in _OPEN_PORTS:
            raise EgressRefused(where, "not on port 80 or 443; EUTERPE_EGRESS_ALLOW can open it")

    def _behind_nat64(self, address: Address) -> Address:
        for prefix in self._nat64:
            if address in prefix:
                # The bits 64 to 71 are never part of the IPv4 address (RFC 6052, 2.2).
                start = prefix.prefixlen // 8
                carried = [byte for at, byte in enumerate(address.packed) if at >= start and at != 8]
                return IPv4Address(bytes(carried[:4]))
        return address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not _is_in(address, _NOT_PUBLIC_V4)
    return address in _GLOBAL_V6 and not _is_in(address, _NOT_PUBLIC_V6)


def _is_in(address: Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)


def _entry(entry: str) -> IPv4Network | IPv6Network | tuple[str, int]:
    """Return a host and a port if the entry has a port, else a network."""
    pair = _PAIR.fullmatch(entry)
    if pair and 1 <= int(pair[3]) <= 65535:
        return _normalized_host(pair[1] or pair[2]), int(pair[3])
    try:
        return ip_network(entry)
    except ValueError as error:
        raise ValueError(f"{entry!r} is neither a CIDR nor a host:port ({error})") from None


def _normalized_host(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")


def _nat64_prefix(prefix: str) -> IPv6Network:
    network = IPv6Network(prefix)
    if network.prefixlen not in _NAT64_LENGTHS:
        raise ValueError(f"{prefix!r} is not a NAT64 prefix: its length must be one of {_NAT64_LENGTHS}")
    return network
