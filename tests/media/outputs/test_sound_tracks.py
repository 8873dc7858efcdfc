"""Tests of several sound tracks: the languages in requests, and the names of renditions."""

from typing import Any

from tests.media.outputs.product_path import Make
from tests.media.readers.streams import streams
from tests.media.sources.cache import Sources
from tests.media.sources.sounds import two_languages


def with_sound(kind: str, audio: list[dict[str, Any]]) -> dict[str, Any]:
    video = {"ladder": [90]} if kind == "hls" else {}
    return {"name": "film", "type": kind, "video": video, "audio": audio}


def test_a_request_names_a_language_in_two_letters_and_a_file_in_three(make: Make, sources: Sources) -> None:
    """An earlier version added the warning `audio_language_missing`, and made a film without sound."""
    film = make([with_sound("mp4", [{"language": "de"}, {"language": "en"}])], two_languages(sources))
    sounds = [one.language for one in streams(film / "film.mp4") if one.kind == "audio"]
    assert sounds == ["deu", "eng"]


def test_two_renditions_of_one_language_keep_their_segments_apart(make: Make, sources: Sources) -> None:
    """An earlier version counted the segments of `audio_eng_2` as segments of `audio_eng`, and failed."""
    both = [{"language": "en", "bitrate_kbps": 64}, {"language": "en", "bitrate_kbps": 128}]
    folder = make([with_sound("hls", both)], two_languages(sources)) / "film"
    named = {path.name.rpartition("_")[0] for path in folder.glob("*.m4s")}
    assert named == {"90p", "audio_eng", "audio_eng_2"}
