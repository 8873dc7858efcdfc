from pathlib import Path

import pytest

from euterpe.worker.remote.server_settings import ServerSettings, ServerSettingsError, new_client


@pytest.mark.parametrize(
    "url",
    [
        "https://e.example",
        "https://e.example/api",
        "http://127.0.0.1:8000",
        "http://[::1]:8000",
        "http://localhost:80",
    ],
)
def test_https_and_loopback_are_accepted(url: str, api_key: str) -> None:
    assert ServerSettings(url, api_key).client_options(3)["base_url"] == url


@pytest.mark.parametrize("url", ["http://e.example", "http://10.0.0.1:8000", "http://localhost.example"])
def test_plain_http_to_another_host_needs_a_setting(url: str, api_key: str) -> None:
    with pytest.raises(ServerSettingsError, match="EUTERPE_SERVER_INSECURE=1"):
        ServerSettings(url, api_key).client_options(3)
    assert ServerSettings(url, api_key, is_insecure=True).client_options(3)


@pytest.mark.parametrize(
    "url", ["", "e.example", "ftp://e.example", "https://u:p@e.example", "https://e.example?x=1"]
)
def test_another_address_is_refused(url: str, api_key: str) -> None:
    with pytest.raises(ServerSettingsError, match="EUTERPE_SERVER"):
        ServerSettings(url, api_key).client_options(3)


def test_a_key_with_a_typo_is_refused() -> None:
    with pytest.raises(ServerSettingsError, match="EUTERPE_API_KEY"):
        ServerSettings("https://e.example", "eut_typo").client_options(3)


def test_a_missing_file_is_named(api_key: str) -> None:
    missing = Path("/nowhere/ca.pem")
    with pytest.raises(ServerSettingsError, match="EUTERPE_SERVER_CA"):
        ServerSettings("https://e.example", api_key, ca_file=missing).client_options(3)
    with pytest.raises(ServerSettingsError, match="EUTERPE_CLIENT_CERT"):
        ServerSettings("https://e.example", api_key, client_cert=missing).client_options(3)


def test_no_proxy_of_the_environment_sees_plain_http(api_key: str) -> None:
    assert not ServerSettings("http://127.0.0.1", api_key).client_options(3)["trust_env"]
    assert ServerSettings("https://e.example", api_key).client_options(3)["trust_env"]


def test_no_text_form_shows_the_key(api_key: str) -> None:
    assert api_key not in repr(ServerSettings("https://e.example", api_key))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "socks5://user:s3cret@127.0.0.1:1"),
        ("HTTPS_PROXY", "ftp://x"),
        ("SSL_CERT_FILE", "/nope"),
    ],
)
def test_a_setting_of_the_environment_that_is_not_usable_is_named(
    monkeypatch: pytest.MonkeyPatch, api_key: str, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ServerSettingsError, match=name) as refused:
        new_client(ServerSettings("https://e.example", api_key), 1)
    assert "s3cret" not in str(refused.value)
