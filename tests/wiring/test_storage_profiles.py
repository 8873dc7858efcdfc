"""The tables `[storage.NAME]`: they are read at the start, and one message names all errors."""

import json
import os
import re
from base64 import b64encode
from pathlib import Path

import pytest

from euterpe.crypto.envelope import storage_profile_context
from euterpe.crypto.local_key_ring import LocalKeyRing, load_value
from euterpe.crypto.sealed_text import seal_text
from euterpe.settings import SettingsError, load
from euterpe.wiring.storage_profiles import kek_ids_of_sealed_fields, load_storage_profiles

ENVIRON = {"MAIN_KEY": "AKIA", "MAIN_SECRET": "s3cret", "EMPTY": ""}
MAIN = """
storage_endpoints = ["https://minio.internal:9000"]
[storage.main]
type = "s3"
endpoint = "https://minio.internal:9000"
access_key_id_env = "MAIN_KEY"
secret_access_key_env = "MAIN_SECRET"
requesters = ["newsroom"]
prefixes = ["s3://media-in/", "s3://media-out/"]
"""


def problems(text: str) -> list[str]:
    Path("euterpe.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_storage_profiles(load(), ENVIRON)
    assert "s3cret" not in str(refused.value)
    return [line.removeprefix("euterpe.toml: ") for line in str(refused.value).splitlines()]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_table_becomes_a_profile_with_secrets_of_the_environment() -> None:
    Path("euterpe.toml").write_text(MAIN)
    main = load_storage_profiles(load(), ENVIRON)["main"]
    assert main.requesters == {"newsroom"}
    assert main.prefixes == ("s3://media-in/", "s3://media-out/")
    assert main.credentials.type == "s3"
    assert main.credentials.secret_access_key.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(main)


def test_every_error_of_every_table_is_named() -> None:
    wrong = """
[storage.Main]
type = "s3"
access_key_id_env = "MISSING"
secret_access_key_env = "EMPTY"
requesters = []
prefixes = ["s3://media", "https://media/"]
[storage.other]
type = "gs"
requesters = ["newsroom"]
secret = "s3cret"
"""
    assert problems(wrong) == [
        "storage.Main: the name must be 1 to 64 characters of a-z, 0-9, '.', '_' and '-', the first a letter "
        "or a digit",
        "storage.Main: requesters must be a list of texts with at least one",
        "storage.Main: prefixes must be URLs of object storage that end with /, like s3://media/in/",
        "storage.Main: access_key_id_env must name an environment variable that is set: MISSING is not",
        "storage.Main: secret_access_key_env must name an environment variable that is set: EMPTY is not",
        "storage.other: give either service_account_json or access_token, and not both",
        "storage.other: secret is not a known field",
    ]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('access_key_id = "AKIA"', "access_key_id and access_key_id_env"),
        ("access_key_id_sealed = 7", "access_key_id_env and access_key_id_sealed"),
    ],
)
def test_a_field_is_given_once(line: str, names: str) -> None:
    assert f"storage.main: give only one of {names}" in problems(f"{MAIN}{line}\n")


@pytest.mark.parametrize(
    "value", ["s3cret", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYs3cretKEY", "redis://:s3cret@host"]
)
def test_a_secret_in_place_of_a_variable_is_not_quoted(value: str) -> None:
    wrong = problems(MAIN.replace("MAIN_SECRET", value))
    assert wrong == ["storage.main: secret_access_key_env must name an environment variable that is set"]


def test_an_endpoint_that_workers_would_refuse_is_an_error_at_start() -> None:
    assert problems(MAIN.replace("storage_endpoints", "worker_queues")[1:].split("\n", 1)[1]) == [
        "storage.main: endpoint must be one of EUTERPE_STORAGE_ENDPOINTS, on the workers, too"
    ]


def test_the_environment_has_no_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_STORAGE", '{"main": {}}')
    with pytest.raises(SettingsError, match=r"EUTERPE_STORAGE must be a table in euterpe\.toml"):
        load()


# -- sealed fields


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> LocalKeyRing:
    return ring_of(monkeypatch, "k1")


def ring_of(monkeypatch: pytest.MonkeyPatch, kek_id: str) -> LocalKeyRing:
    """Use a new key ring in the settings."""
    text = json.dumps({"active": kek_id, "keys": {kek_id: b64encode(os.urandom(32)).decode()}})
    monkeypatch.setenv("EUTERPE_KEKS", text)
    return load_value(text)


def sealed(ring: LocalKeyRing, profile: str = "main", field: str = "secret_access_key") -> str:
    text = seal_text("s3cret", storage_profile_context(profile, field), ring)
    return MAIN.replace('secret_access_key_env = "MAIN_SECRET"', f'secret_access_key_sealed = "{text}"')


def test_a_sealed_field_is_opened_with_the_key_ring(ring: LocalKeyRing) -> None:
    Path("euterpe.toml").write_text(sealed(ring))
    assert "s3cret" not in Path("euterpe.toml").read_text()
    main = load_storage_profiles(load(), ENVIRON)["main"]
    assert main.credentials.type == "s3"
    assert main.credentials.secret_access_key.get_secret_value() == "s3cret"
    assert kek_ids_of_sealed_fields(load()) == {"k1"}


@pytest.mark.parametrize("place", [("other", "secret_access_key"), ("main", "access_key_id")])
def test_a_sealed_text_is_valid_in_its_own_field_only(ring: LocalKeyRing, place: tuple[str, str]) -> None:
    assert problems(sealed(ring, *place)) == [
        "storage.main: secret_access_key_sealed must be a text that `euterpe keys seal` printed for this "
        "field"
    ]


@pytest.mark.parametrize("text", ["s3cret", "eus1.k1", "eus1.k1.?.?", "eus1.k1..", "eus2.k1.AAAA.AAAA"])
def test_a_malformed_sealed_text_is_refused_and_not_shown(ring: LocalKeyRing, text: str) -> None:
    line = re.sub(r'_sealed = ".*"', f'_sealed = "{text}"', sealed(ring))
    assert problems(line) == [
        "storage.main: secret_access_key_sealed must be a text that `euterpe keys seal` printed for this "
        "field"
    ]
    assert kek_ids_of_sealed_fields(load()) <= {"k1"}


def test_the_missing_key_of_a_sealed_field_is_named(
    ring: LocalKeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sealed(ring)
    ring_of(monkeypatch, "k2")
    assert problems(text) == [
        "storage.main: secret_access_key_sealed was sealed with the KEK 'k1', which is not in the key ring"
    ]
