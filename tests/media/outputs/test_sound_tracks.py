"""Tests of several sound tracks: languages as requests name them, and names of renditions."""

from typing import Any

from tests.media.outputs.product_path import Make
from tests.media.readers.streams import streams
from tests.media.sources.cache import Sources
from tests.media.sources.sounds import two_languages


def with_sound(kind: str, audio: list[dict[str, Any]]) -> dict[str, Any]:
    video = {"ladder": [90]} if kind == "hls" else {}
    return {"name": "film", "type": kind, "video": video, "audio": audio}


def test_a_request_names_a_language_in_two_letters_and_a_file_in_three(make: Make, sources: Sources) -> None:
    """Every such request was answered by `audio_language_missing`, and the film had no sound."""
    film = make([with_sound("mp4", [{"language": "de"}, {"language": "en"}])], two_languages(sources))
    sounds = [one.language for one in streams(film / "film.mp4") if one.kind == "audio"]
    assert sounds == ["deu", "eng"]


def test_two_renditions_of_one_language_keep_their_segments_apart(make: Make, sources: Sources) -> None:
    """The segments of `audio_eng_2` were taken for segments of `audio_eng`, and the job failed."""
    both = [{"language": "en", "bitrate_kbps": 64}, {"language": "en", "bitrate_kbps": 128}]
    folder = make([with_sound("hls", both)], two_languages(sources)) / "film"
    named = {path.name.rpartition("_")[0] for path in folder.glob("*.m4s")}
    assert named == {"90p", "audio_eng", "audio_eng_2"}
