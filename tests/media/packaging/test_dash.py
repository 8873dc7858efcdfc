"""Tests that independent readers find the same segments in the DASH manifest."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from lxml import etree
from mpegdash.parser import MPEGDASHParser

from euterpe.media.packaging.dash import MANIFEST, dash_manifest
from euterpe.media.packaging.rendition import PackagedRendition, Segment, SubtitleRendition
from tests.media.packaging.presentations import SECONDS, SEGMENTS, Presentation
from tests.media.packaging.renditions import AUDIO, VIDEO, audio, video

SUBTITLES = SubtitleRendition(name="subs_en", segments=(Segment(0, 4000, 9),), language="eng")
NAMESPACE = "{urn:mpeg:dash:schema:mpd:2011}"


def tree(*renditions: PackagedRendition) -> Any:
    return etree.fromstring(dash_manifest(renditions).text.encode())


def found(manifest: Any, path: str) -> list[Any]:
    return list(manifest.findall(".//" + "/".join(NAMESPACE + part for part in path.split("/"))))


def test_a_manifest_is_written_whole() -> None:
    assert dash_manifest([VIDEO]).text == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-live:2011" '
        'type="static" mediaPresentationDuration="PT13S" maxSegmentDuration="PT5S" minBufferTime="PT5S">\n'
        '  <Period id="0" start="PT0S">\n'
        '    <AdaptationSet contentType="video" mimeType="video/mp4" par="16:9" segmentAlignment="true" '
        'startWithSAP="1">\n'
        '      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="main" />\n'
        '      <SegmentTemplate timescale="1000" initialization="$RepresentationID$_init.mp4" '
        'media="$RepresentationID$_$Number%05d$.m4s" startNumber="1">\n'
        "        <SegmentTimeline>\n"
        '          <S t="0" d="4000" r="1" />\n'
        '          <S d="5000" />\n'
        "        </SegmentTimeline>\n"
        "      </SegmentTemplate>\n"
        '      <Representation id="720p" codecs="avc1.64001f" bandwidth="1200000" width="1280" height="720" '
        'frameRate="30000/1001" sar="1:1" />\n'
        "    </AdaptationSet>\n"
        "  </Period>\n"
        "</MPD>\n"
    )


def test_rungs_with_the_same_times_share_a_timeline() -> None:
    manifest = tree(VIDEO, video("480p"))
    assert len(found(manifest, "AdaptationSet/SegmentTemplate")) == 1
    assert found(manifest, "Representation/SegmentTemplate") == []
    other = video("480p", segments=(Segment(0, 13000, 9),))
    manifest = tree(VIDEO, other)
    assert found(manifest, "AdaptationSet/SegmentTemplate") == []
    assert len(found(manifest, "Representation/SegmentTemplate")) == 2


def test_pictures_of_other_codecs_or_ranges_are_not_mixed() -> None:
    hdr = video("hdr", codec="hvc1.2.4.L93.B0", video_range="PQ")
    manifest = tree(VIDEO, video("480p", codec="avc1.4d401e"), hdr, video("sdr", codec="hvc1.1.6.L93.B0"))
    sets = found(manifest, "AdaptationSet")
    assert [[one.get("id") for one in some.findall(NAMESPACE + "Representation")] for some in sets] == [
        ["720p", "480p"],
        ["hdr"],
        ["sdr"],
    ]
    assert [
        (one.get("schemeIdUri"), one.get("value")) for one in found(manifest, "SupplementalProperty")
    ] == [("urn:mpeg:mpegB:cicp:TransferCharacteristics", "16")]


def test_each_language_is_a_set_with_a_role() -> None:
    sounds = [
        audio("en", language="eng"),
        audio("de", language="ger", channels=6, is_default=True),
        audio("opus", codec="Opus", language="eng"),
    ]
    manifest = tree(VIDEO, *sounds, SUBTITLES, replace(SUBTITLES, name="forced", is_forced=True))
    sets = found(manifest, "AdaptationSet")[1:]
    assert [(one.get("contentType"), one.get("lang")) for one in sets] == [
        ("audio", "en"), ("audio", "de"), ("audio", "en"), ("text", "en"), ("text", "en"),
    ]  # fmt: skip
    roles = [one.find(NAMESPACE + "Role").get("value") for one in sets]
    assert roles == ["alternate", "main", "main", "subtitle", "forced-subtitle"]
    channels = found(manifest, "AudioChannelConfiguration")
    assert [one.get("value") for one in channels] == ["2", "6", "2"]
    assert [one.text for one in found(manifest, "BaseURL")] == ["subs_en.vtt", "forced.vtt"]
    assert [one.text for one in found(manifest, "Label")][:2] == ["English", "German"]


def test_the_shapes_of_picture_and_pixel_are_ratios() -> None:
    manifest = tree(video(width=720, height=576, pixel_aspect=Fraction(64, 45)))
    assert found(manifest, "AdaptationSet")[0].get("par") == "16:9"
    assert found(manifest, "Representation")[0].get("sar") == "64:45"


def test_a_late_start_is_in_the_timeline() -> None:
    manifest = tree(video(segments=(Segment(500, 4000, 9), Segment(4500, 4000, 9))))
    assert [dict(one.attrib) for one in found(manifest, "S")] == [{"t": "500", "d": "4000", "r": "1"}]
    assert manifest.get("mediaPresentationDuration") == "PT8.5S"


@pytest.mark.parametrize("title", ["<b>&amp;\"'", "]]><x/>", "\0\x08\ufffe\ud800x", "日本語", "a\nb"])
def test_a_hostile_title_is_text(title: str) -> None:
    manifest = tree(audio(title=title, language='en"><x'))
    assert len(found(manifest, "Label")) == 1
    assert found(manifest, "AdaptationSet")[0].get("lang") is None


def test_no_offset_is_written_beside_an_edit_list(film: Presentation) -> None:
    assert "presentationTimeOffset" not in film.text(MANIFEST)
    assert film.sounds[0].priming == 1024


def test_the_same_renditions_give_the_same_bytes(film: Presentation) -> None:
    assert dash_manifest(film.renditions).text == film.text(MANIFEST)


def test_every_segment_that_the_manifest_names_exists(film: Presentation) -> None:
    manifest = MPEGDASHParser.parse(film.text(MANIFEST))
    assert manifest.media_presentation_duration == f"PT{SECONDS}S"
    named = set()
    for some in manifest.periods[0].adaptation_sets:
        for one in some.representations:
            if some.content_type == "text":
                named.add(one.base_urls[0].base_url_value)
                continue
            template = (some.segment_templates or one.segment_templates)[0]
            timeline = template.segment_timelines[0].Ss
            count = sum(1 + (entry.r or 0) for entry in timeline)
            ticks = sum(entry.d * (1 + (entry.r or 0)) for entry in timeline)
            assert count == SEGMENTS
            assert timeline[0].t == 0
            assert ticks / template.timescale == pytest.approx(SECONDS, abs=0.001)
            named.add(template.initialization.replace("$RepresentationID$", one.id))
            media = template.media.replace("$RepresentationID$", one.id)
            named |= {media.replace("$Number%05d$", f"{number:05d}") for number in range(1, count + 1)}
    made = {path.name for path in film.folder.iterdir() if path.suffix in (".mp4", ".m4s")} | {"subs_en.vtt"}
    assert named == made


def test_ffmpeg_and_the_manifest_name_the_same_codecs(film: Presentation) -> None:
    """ffmpeg's dash muxer also writes its own manifest next to each rendition."""
    for one in found(etree.fromstring(film.text(MANIFEST).encode()), "Representation"):
        if one.get("codecs"):
            theirs = etree.parse(str(film.folder / f"{one.get('id')}.mpd"))
            codecs = theirs.find(f".//{NAMESPACE}Representation").get("codecs")
            assert one.get("codecs").lower() == codecs.lower()


def test_sound_alone_has_a_manifest() -> None:
    manifest = tree(AUDIO)
    assert manifest.get("mediaPresentationDuration") == "PT13S"
    assert found(manifest, "Representation")[0].get("audioSamplingRate") == "48000"
