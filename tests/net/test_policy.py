from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.net.errors import EgressRefused
from euterpe.net.policy import EgressPolicy

PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00::1"]


def allows(policy: EgressPolicy, address: str, port: int = 443, host: str = "h.example") -> bool:
    try:
        policy.check(host, ip_address(address), port)
    except EgressRefused:
        return False
    return True


@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("port", [80, 443])
def test_public_addresses_are_open_on_the_ports_of_the_web(address: str, port: int) -> None:
    assert allows(EgressPolicy(), address, port)


@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("port", [1, 22, 25, 6379, 8080, 8443, 65535])
def test_other_ports_are_closed(address: str, port: int) -> None:
    assert not allows(EgressPolicy(), address, port)


# `ipaddress` follows the IANA registries of special addresses. The policy refuses all these addresses, and
# further addresses.
@given(st.ip_addresses())
def test_no_address_is_open_that_python_calls_special(address: IPv4Address | IPv6Address) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert not allows(EgressPolicy(), str(address))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_within_an_ipv6_address_is_never_open(address: IPv4Address) -> None:
    inside = int(address)
    for network, shift in (
        ("::", 0),
        ("::ffff:0:0", 0),
        ("64:ff9b::", 0),
        ("64:ff9b:1::", 0),
        ("2001::", 0),
        ("2002::", 80),
    ):
        assert not allows(EgressPolicy(), str(IPv6Address(int(IPv6Address(network)) | inside << shift)))


@pytest.mark.parametrize("address", ["168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"])
def test_the_metadata_of_the_clouds_is_closed(address: str) -> None:
    assert not allows(EgressPolicy(), address, 80)


def test_a_cidr_opens_its_addresses_on_any_port() -> None:
    policy = EgressPolicy(["10.1.0.0/16", "fd00:1::/32"])
    assert allows(policy, "10.1.2.3", 9000)
    assert allows(policy, "fd00:1::7", 1)
    assert not allows(policy, "10.2.0.1", 80)
    assert not allows(policy, "fd00:2::1", 80)


def test_an_address_alone_opens_itself_on_any_port() -> None:
    policy = EgressPolicy(["10.1.2.3"])
    assert allows(policy, "10.1.2.3", 9000)
    assert not allows(policy, "10.1.2.4", 80)


def test_an_address_with_a_port_opens_that_pair() -> None:
    policy = EgressPolicy(["127.0.0.1:9000", "[::1]:9000"])
    assert allows(policy, "127.0.0.1", 9000)
    assert allows(policy, "::1", 9000, host="localhost")
    assert not allows(policy, "127.0.0.1", 9001)
    assert not allows(policy, "127.0.0.2", 9000)


def test_a_name_with_a_port_opens_it_wherever_it_is() -> None:
    policy = EgressPolicy(["MinIO.internal:9000"])
    assert allows(policy, "10.0.0.9", 9000, host="minio.internal")
    assert allows(policy, "10.0.0.8", 9000, host="minio.internal")
    assert not allows(policy, "10.0.0.9", 9000, host="other.internal")
    assert not allows(policy, "10.0.0.9", 80, host="minio.internal")


def test_opening_ipv4_does_not_open_its_mapped_form() -> None:
    assert not allows(EgressPolicy(["10.0.0.0/8"]), "::ffff:10.0.0.1")


@pytest.mark.parametrize(
    "prefix",
    ["64:ff9b::/96", "2a00:64::/32", "2a00:64::/40", "2a00:64::/48", "2a00:64::/56", "2a00:64::/64"],
)
def test_behind_nat64_the_ipv4_address_is_checked(prefix: str) -> None:
    policy = EgressPolicy(nat64=[prefix])
    assert allows(policy, embed(prefix, "8.8.8.8"))
    for inside in ("169.254.169.254", "10.0.0.1", "127.0.0.1"):
        assert not allows(policy, embed(prefix, inside))


def embed(prefix: str, address: str) -> str:
    """Return the IPv4 address embedded in a NAT64 prefix, by RFC 6052, section 2.2. Byte 8 stays zero."""
    network = IPv6Network(prefix)
    packed = bytearray(network.network_address.packed)
    positions = [at for at in range(network.prefixlen // 8, 16) if at != 8][:4]
    for at, byte in zip(positions, IPv4Address(address).packed, strict=True):
        packed[at] = byte
    return str(IPv6Address(bytes(packed)))


def test_the_example_of_the_rfc() -> None:
    """The addresses are from RFC 6052, 2.4."""
    assert embed("2001:db8:122::/48", "192.0.2.33") == "2001:db8:122:c000:2:2100::"
    assert embed("2001:db8:122:344::/64", "192.0.2.33") == "2001:db8:122:344:c0:2:2100:0"


@pytest.mark.parametrize(
    "entry", ["", "10.0.0.1/8", "10.0.0.0/33", "h.example", "h.example:0", "h.example:70000", "*:80", "::1:x"]
)
def test_an_entry_that_cannot_be_read_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a CIDR nor a host:port"):
        EgressPolicy([entry])


def test_a_nat64_prefix_has_one_of_six_lengths() -> None:
    with pytest.raises(ValueError, match="not a NAT64 prefix"):
        EgressPolicy(nat64=["64:ff9b::/90"])


def test_a_refusal_names_the_host_and_not_its_address() -> None:
    with pytest.raises(EgressRefused, match=r"db\.internal:443") as refused:
        EgressPolicy().check("db.internal", IPv4Address("10.9.8.7"), 443)
    assert "10.9" not in str(refused.value)
    assert (refused.value.code, refused.value.retryable) == ("egress_refused", False)
