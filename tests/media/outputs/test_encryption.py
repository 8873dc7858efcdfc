"""Tests of encrypted HLS: with the playlist and the key, a reader gets the bytes of unencrypted HLS."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from tests.media.outputs.product_path import HLS_KEY, Make
from tests.media.packaging.player import Play, Player, play
from tests.media.readers.pictures import numbers
from tests.media.sources.cache import Sources
from tests.media.sources.flashes import flash_film
from tests.media.sources.numbered import constant
from tests.media.sources.sounds import subtitled

LOCK: dict[str, Any] = {"key_url": "https://keys.example/1?film=7&token=%22"}
HLS: dict[str, Any] = {
    "name": "hls",
    "type": "hls",
    "segment_seconds": 1,
    "video": {"ladder": [90, 64]},
    "subtitles": "all",
    "trick_play": True,
}
IV = "0f" * 16
_KEY_TAG = re.compile(
    r'#EXT-X-KEY:METHOD=AES-128,URI="([^"]*)"(?:,IV=0x([0-9a-f]{32}))?,KEYFORMAT="identity"'
)
_RANGE = re.compile(r"#EXT-X-BYTERANGE:(\d+)@(\d+)")


def entries(playlist: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the tags before each URI of a playlist, and the URI."""
    tags = list[str]()
    for line in playlist.read_text().splitlines():
        if line.startswith("#"):
            tags.append(line)
        else:
            yield tags, line
            tags = []


def lock_of(playlist: Path) -> tuple[str, bytes | None]:
    """Return the URL of the key, and the initialization vector if the playlist has one."""
    (found,) = _KEY_TAG.findall(playlist.read_text())
    return found[0], bytes.fromhex(found[1]) if found[1] else None


def decrypted(data: bytes, iv: bytes) -> bytes:
    opened, padding = Cipher(AES(HLS_KEY), CBC(iv)).decryptor(), PKCS7(128).unpadder()
    return padding.update(opened.update(data) + opened.finalize()) + padding.finalize()


def media_playlists(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.m3u8")) if path.name != "master.m3u8"]


@pytest.mark.parametrize(
    ("generate", "iv"), [(lambda sources: subtitled(sources, "srt"), None), (flash_film, IV)]
)
def test_each_segment_decrypts_to_that_of_the_clear_run(
    make: Make, sources: Sources, generate: Callable[[Sources], Path], iv: str | None
) -> None:
    source = generate(sources)
    clear = make([HLS], source) / "hls"
    locked = make([HLS | {"encryption": {**LOCK, "iv": iv}}], source) / "hls"
    assert sorted(path.name for path in clear.iterdir()) == sorted(path.name for path in locked.iterdir())
    checked = 0
    for playlist in media_playlists(locked):
        if playlist.name.startswith("subs"):
            assert playlist.read_text() == (clear / playlist.name).read_text()
            continue
        url, explicit = lock_of(playlist)
        assert (url, explicit) == (LOCK["key_url"], bytes.fromhex(IV) if iv else None)
        text = playlist.read_text()
        assert text.index("#EXT-X-MAP:") < text.index("#EXT-X-KEY:"), "the init segment is clear"
        if playlist.stem.endswith("_iframes"):
            continue
        for number, (_, name) in enumerate(entries(playlist)):
            found, whole = (locked / name).read_bytes(), (clear / name).read_bytes()
            assert found != whole
            assert decrypted(found, explicit or number.to_bytes(16, "big")) == whole
            checked += 1
    assert checked == len([*clear.glob("*.m4s")])
    for path in (*clear.glob("*.mp4"), *clear.glob("*.vtt")):
        assert path.read_bytes() == (locked / path.name).read_bytes()


def test_a_keyframe_is_decrypted_from_its_range(make: Make, sources: Sources) -> None:
    """Widen the range to whole blocks (RFC 8216, §6.3.6).

    The block before the range is the initialization vector.
    """
    folder = make([HLS | {"encryption": LOCK}], constant(sources, 75)) / "hls"
    shown = list[int]()
    for tags, name in entries(folder / "90p_iframes.m3u8"):
        length, start = map(int, _RANGE.fullmatch(tags[-1]).groups())  # type: ignore[union-attr]
        assert start >= 16
        first, last = start // 16 * 16 - 16, -(-(start + length) // 16) * 16
        data = (folder / name).read_bytes()[first:last]
        opened = Cipher(AES(HLS_KEY), CBC(data[:16])).decryptor()
        plain = opened.update(data[16:])[start % 16 :][:length]
        shown += numbers((folder / "90p_init.mp4").read_bytes() + plain)
    assert shown == [0, 25, 50]


def test_neither_the_key_nor_a_clear_segment_is_among_the_files(make: Make, sources: Sources) -> None:
    folder = make([HLS | {"encryption": LOCK}], constant(sources, 75)) / "hls"
    for path in folder.iterdir():
        data = path.read_bytes()
        assert HLS_KEY not in data
        assert HLS_KEY.hex().encode() not in data.lower()
        assert path.suffix != ".m4s" or (b"moof" not in data and len(data) % 16 == 0)


def test_the_same_job_makes_the_same_bytes(make: Make, sources: Sources) -> None:
    runs = [make([HLS | {"encryption": LOCK}], constant(sources, 75)) / "hls" for _ in range(2)]
    files = [{path.name: path.read_bytes() for path in run.iterdir()} for run in runs]
    assert files[0] == files[1]


def test_the_bandwidth_is_that_of_the_encrypted_files(make: Make, sources: Sources) -> None:
    """Encryption pads each segment to whole blocks."""
    source = constant(sources, 75)
    peaks = []
    for output in (HLS, HLS | {"encryption": LOCK}):
        text = (make([output], source) / "hls" / "master.m3u8").read_text()
        peaks.append([int(found) for found in re.findall(r"STREAM-INF:BANDWIDTH=(\d+)", text)])
    clear, locked = peaks
    assert all(0 <= more - less <= 2 * 16 * 8 * 2 for less, more in zip(clear[:2], locked[:2], strict=True))
    assert clear[:2] != locked[:2]


def test_players_play_it_to_the_end_with_the_key(make: Make, sources: Sources) -> None:
    folder = make([HLS | {"encryption": LOCK}], flash_film(sources)) / "hls"
    clear = make([HLS], flash_film(sources)) / "hls"
    players: tuple[Player, ...] = ("hls.js", "shaka")
    plays = [Play(player, "master.m3u8", switches=True, tour=True) for player in players]
    (plain,) = play(clear, plays[0])
    for report in play(folder, *plays, keys={LOCK["key_url"]: HLS_KEY}):
        assert report.errors == []
        assert report.ended == 2
        assert report.pictures == plain.pictures > 0
        assert len(report.buffered) == 1
        assert report.buffered[0] == pytest.approx(plain.buffered[0], abs=0.001)


def test_a_player_without_the_right_key_shows_nothing(make: Make, sources: Sources) -> None:
    folder = make([HLS | {"encryption": LOCK}], constant(sources, 75)) / "hls"
    with pytest.raises(AssertionError, match=r"fragDecryptError|fragParsingError"):
        play(folder, Play("hls.js", "master.m3u8"), keys={LOCK["key_url"]: bytes(16)}, timeout_s=15)
