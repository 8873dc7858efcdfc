import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.net.errors import EgressRefused
from euterpe.net.target import Target


def test_a_url_is_read_into_its_parts() -> None:
    target = Target.parse("https://Hooks.Example:8443/a/b?token=x&y=%20")
    assert target == Target("https", "hooks.example", 8443, "/a/b?token=x&y=%20")
    assert target.origin == "https://hooks.example:8443"
    assert target.host_header == "hooks.example:8443"


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_the_default_port_is_not_in_the_host_header(scheme: str, port: int) -> None:
    for url in (f"{scheme}://h.example", f"{scheme}://h.example:{port}/"):
        assert Target.parse(url) == Target(scheme, "h.example", port, "/")
        assert Target.parse(url).host_header == "h.example"


def test_an_ipv6_address_stands_in_brackets() -> None:
    target = Target.parse("http://[2606:4700:0:0::1111]:80/")
    assert (target.host, target.origin) == ("2606:4700::1111", "http://[2606:4700::1111]:80")


def test_a_query_without_a_path_asks_for_the_root() -> None:
    assert Target.parse("https://h.example?a=b").path == "/?a=b"


def test_a_trailing_dot_is_the_same_host() -> None:
    assert Target.parse("https://h.example./").host == "h.example"


def test_what_is_not_ascii_in_a_path_goes_out_as_utf8_escapes() -> None:
    assert Target.parse("https://h.example/é%20?q=ü").path == "/%C3%A9%20?q=%C3%BC"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h.example",
        "//h.example/",
        "http:h.example",
        "http:///path",
        "http://:80/",
        "http://h.example:/",
        "http://h.example:0/",
        "http://h.example:65536/",
        "http://h.example:80:80/",
        "http://h.example:\uff18\uff10/",
        "http://h..example/",
        "http://.example/",
        "http://h.example../",
        f"http://{'a' * 64}.example/",
        f"http://{'a.' * 127}a/",
        "http://[::1/",
        "http://[]/",
        "http://[1.2.3.4]/",
        "http://h.example/a b",
        "http://h.example/\r\nx: y",
        "http://h.example/\x00",
        "http://h.example/#fragment",
        "http://h.exa%6dple/",
        "HTTP://h.example/",
        "https://h.example\u3002/",
    ],
)
def test_a_url_that_can_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(EgressRefused):
        Target.parse(url)


def test_a_user_name_is_refused_and_the_refusal_does_not_repeat_it() -> None:
    with pytest.raises(EgressRefused, match="must not have a user name") as refused:
        Target.parse("https://me:canary@h.example/?canary=1")
    assert "canary" not in str(refused.value)


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://h.example/{text}"):
        try:
            target = Target.parse(url)
        except EgressRefused:
            continue
        assert f"{target.host}{target.path}".isascii()
        assert target.path.startswith("/")
