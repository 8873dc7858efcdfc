from typing import Any, get_args

import pytest
import typer
from pydantic import TypeAdapter

from euterpe.cli.output_option import parse_output
from euterpe.domain.outputs import OutputSpec

HEVC = {"codec": "hevc", "height": 720, "crf": 24}


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("mp4", {"name": "mp4", "type": "mp4"}),
        ("mp4,name=a,codec=hevc,height=720,crf=24", {"name": "a", "type": "mp4", "video": HEVC}),
        (
            "type=mp4,video.codec=av1,audio=none",
            {"name": "mp4", "type": "mp4", "video": {"codec": "av1"}, "audio": None},
        ),
        (
            "hls,ladder=1080,720,480,segment_seconds=6,bitrate_kbps=96",
            {
                "name": "hls",
                "type": "hls",
                "video": {"ladder": [1080, 720, 480]},
                "segment_seconds": 6,
                "audio": {"bitrate_kbps": 96},
            },
        ),
        ("hls,ladder=[720, 480]", {"name": "hls", "type": "hls", "video": {"ladder": [720, 480]}}),
        ("m4a,audio.bitrate_kbps=64", {"name": "m4a", "type": "m4a", "audio": {"bitrate_kbps": 64}}),
        ("image,name=720,at=10%,12.5s", {"name": "720", "type": "image", "at": ["10%", "12.5s"]}),
        ("image,at=best", {"name": "image", "type": "image", "at": "best"}),
        (
            "webm,codec=av1,fps=29.97,channels=keep,start=5,aspect=16:9,title=News",
            {
                "name": "webm",
                "type": "webm",
                "video": {"codec": "av1", "fps": 29.97},
                "audio": {"channels": "keep"},
                "start": 5.0,
                "pad": {"aspect": "16:9"},
                "metadata": {"title": "News"},
            },
        ),
        (
            "adaptive,ladder=auto,audio=all,subtitles=en,de",
            {
                "name": "adaptive",
                "type": "adaptive",
                "video": {"ladder": "auto"},
                "audio": "all",
                "subtitles": ["en", "de"],
            },
        ),
        (
            'hls,ladder=[1080, {"height": 720, "crf": 24}],subtitles=all',
            {
                "name": "hls",
                "type": "hls",
                "video": {"ladder": [1080, {"height": 720, "crf": 24}]},
                "subtitles": "all",
            },
        ),
        ("sprite,vtt=false,columns=5", {"name": "sprite", "type": "sprite", "vtt": False, "columns": 5}),
        (
            "mp4,target.vmaf=93,loudness.target=-16,audio.loudness.true_peak=-2",
            {
                "name": "mp4",
                "type": "mp4",
                "video": {"target": {"vmaf": 93.0}},
                "audio": {"loudness": {"target": -16.0, "true_peak": -2.0}},
            },
        ),
        (
            "sprite,source.url=s3://in/logo.png,position=center,watermark.opacity=0.5",
            {
                "name": "sprite",
                "type": "sprite",
                "watermark": {"source": {"url": "s3://in/logo.png"}, "position": "center", "opacity": 0.5},
            },
        ),
        (' {"name": "x", "type": "mp4"}', {"name": "x", "type": "mp4"}),
    ],
)
def test_an_output_is_its_type_and_its_fields(text: str, output: dict[str, Any]) -> None:
    assert parse_output(text) == output
    TypeAdapter(OutputSpec).validate_json(TypeAdapter(Any).dump_json(output))


def test_every_field_of_every_output_can_be_given() -> None:
    for model in get_args(get_args(OutputSpec)[0]):
        kind = get_args(model.model_fields["type"].annotation)[0]
        for field in set(model.model_fields) - {"type"}:
            assert field in parse_output(f"{kind},{field}={{}}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "",
            "must begin with its type, one of adaptive, dash, flac, hls, image, m4a, mov, mp3, mp4, opus, "
            "preview, sprite, webm, like mp4,height=720",
        ),
        ("avi", "must begin with its type"),
        ("name=a", "must begin with its type"),
        ("mp4,type=hls", "must begin with its type"),
        ("mp4,heigth=720", "mp4 has no field 'heigth' (did you mean 'height'?)"),
        ("m4a,loudness=-16", "loudness has fields: give loudness.target or loudness.true_peak"),
        ("mp4,video.target=93", "video.target has fields: give video.target.vmaf"),
        ("mp4,true_peak=-2", "mp4 has no field 'true_peak' (did you mean 'loudness.true_peak'?)"),
        ("mp4,loudness.targe=3", "mp4 has no field 'loudness.targe' (did you mean 'loudness.target'?)"),
        ("mp4,video.at=1", "mp4 has no field 'video.at'"),
        ("mp4,height=720,height=480", "height is given more than once"),
        ("m4a,audio=none,bitrate_kbps=96", "audio is given more than once, in part and as a whole"),
        ("m4a,bitrate_kbps=96,audio=none", "audio is given more than once, in part and as a whole"),
        (
            "mp4,bitrate_kbps=96",
            "bitrate_kbps is ambiguous: give video.bitrate_kbps or audio.bitrate_kbps, or both",
        ),
        ("{", "is not JSON at line 1"),
        ('{"name": "a", "name": "b"}', "name: is given more than once"),
    ],
)
def test_what_is_no_output_is_wrong_usage_and_says_why(text: str, problem: str) -> None:
    with pytest.raises(typer.BadParameter) as raised:
        parse_output(text)
    assert raised.value.message.startswith(problem)
    assert raised.value.param_hint == "--output"


def test_a_value_of_the_wrong_type_is_left_for_the_service_to_judge() -> None:
    assert parse_output("mp4,height=tall,crf=-1")["video"] == {"height": "tall", "crf": -1}
    assert parse_output("hls,ladder=720,auto")["video"] == {"ladder": [720, "auto"]}
