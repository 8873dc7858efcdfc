"""The operator's folder of profiles: it is read at the start, and one message names all errors."""

from pathlib import Path

import pytest

from euterpe.domain.profiles import built_in_profiles
from euterpe.settings import Settings, SettingsError, load
from euterpe.wiring.profiles import MOST_BYTES, MOST_FILES, load_profiles
from euterpe.wiring.services import running
from tests.domain.test_profiles import OWN


def settings(folder: Path) -> Settings:
    return load(profiles=folder)


def problems(folder: Path) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load_profiles(settings(folder))
    lines = str(refused.value).splitlines()
    assert all(line.startswith("EUTERPE_PROFILES: ") for line in lines)
    return [line.removeprefix("EUTERPE_PROFILES: ") for line in lines]


def test_without_a_folder_there_are_the_built_in_profiles() -> None:
    assert load_profiles(load()) == built_in_profiles()


def test_the_profiles_of_the_folder_are_added(tmp_path: Path) -> None:
    (tmp_path / "news.toml").write_bytes(OWN)
    (tmp_path / "README.md").write_text("Our profiles.")
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "linked.toml").write_bytes(OWN)
    (tmp_path / "linked.toml").symlink_to("..data/linked.toml")  # a ConfigMap of Kubernetes has such links
    found = load_profiles(settings(tmp_path))
    assert found.keys() - built_in_profiles().keys() == {"news", "linked"}


def test_every_error_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(OWN.replace(b"720", b"721"))
    (tmp_path / "b.toml").write_bytes(b"=")
    (tmp_path / "c.toml").mkdir()
    (tmp_path / "d.toml").write_bytes(b"#" * (MOST_BYTES + 1))
    (tmp_path / "e.toml").write_bytes(OWN)
    (tmp_path / "podcast.toml").write_bytes(OWN)
    by_file = {line.partition(": ")[0]: line.partition(": ")[2] for line in problems(tmp_path)}
    assert set(by_file) == {"a.toml", "b.toml", "c.toml", "d.toml", "podcast.toml"}
    assert by_file["a.toml"] == "outputs.0.video.height: must be a multiple of 2"
    assert by_file["c.toml"] == "cannot be read: Is a directory"
    assert by_file["d.toml"] == f"has more than {MOST_BYTES} bytes"
    assert by_file["podcast.toml"] == "a built-in profile has this name"


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert problems(tmp_path / "file") == [f"{tmp_path / 'file'} is not a folder"]
    assert problems(tmp_path / "gone") == [f"{tmp_path / 'gone'} is not a folder"]


def test_a_folder_with_too_many_profiles_is_an_error(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number}.toml").touch()
    assert problems(tmp_path) == [
        f"{tmp_path} has {MOST_FILES + 1} profiles; at most {MOST_FILES} are allowed"
    ]


def test_the_api_does_not_start_with_a_wrong_profile(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"")
    with (
        running(settings(tmp_path)) as services,
        pytest.raises(SettingsError, match=r"a\.toml: outputs: is required"),
    ):
        services.open_api("127.0.0.1", 0)
