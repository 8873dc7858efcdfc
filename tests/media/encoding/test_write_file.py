"""Tests of writing our own files into the folder of an encode, in which ffmpeg could make links."""

from pathlib import Path

import pytest

from euterpe.media.encoding.output_folder import write_file
from euterpe.media.errors import MediaError


def refusal(folder: Path) -> str:
    with pytest.raises(MediaError) as refused:
        write_file(folder, "list.m3u8", "ours")
    return refused.value.code


def test_a_text_is_written_unchanged(tmp_path: Path) -> None:
    write_file(tmp_path, "list.m3u8", "é\r\none\n")
    assert (tmp_path / "list.m3u8").read_bytes() == "é\r\none\n".encode()


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_that_ffmpeg_made_is_refused_and_not_followed(tmp_path: Path, *, exists: bool) -> None:
    private, folder = tmp_path / "private", tmp_path / "a"
    folder.mkdir()
    if exists:
        private.write_text("untouched")
    (folder / "list.m3u8").symlink_to(private)
    assert refusal(folder) == "output_undecodable"
    assert private.exists() is exists
    assert not exists or private.read_text() == "untouched"


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "a").symlink_to(tmp_path / "private")
    assert refusal(tmp_path / "a") == "output_undecodable"
    assert not [*(tmp_path / "private").iterdir()]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_name_that_is_taken_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "list.m3u8"
    if kind == "file":
        path.write_text("of ffmpeg")
    else:
        path.mkdir()
    assert refusal(tmp_path) == "output_undecodable"
