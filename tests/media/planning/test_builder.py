"""Tests of the construction of commands: shared nodes, the cascade of scales, and expected work."""

from itertools import permutations

from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.picture import Size
from euterpe.media.planning.tree import Input, Picture, PictureColour, Scale, Still, VideoTrack

BT709 = PictureColour(1, 1, 1)
SIZES = (Size(1920, 1080), Size(1280, 720), Size(640, 360))


def picture(builder: CommandBuilder, place: int = 0) -> int:
    return builder.picture(Picture(place, 0, BT709, BT709))


def track(scale: int, codec: str = "h264") -> VideoTrack:
    return VideoTrack(scale, codec, BT709, threads=2, keyframe_pictures=100)


def test_equal_nodes_are_shared() -> None:
    builder = CommandBuilder()
    assert builder.input(Input()) == builder.input(Input()) == 0
    assert builder.input(Input(start=1.0)) == 1
    assert picture(builder) == picture(builder) == 0
    assert builder.scale(0, SIZES[0]) == builder.scale(0, SIZES[0]) == 0
    assert builder.video(track(0)) == 0
    assert builder.video(track(0)) == 1


def test_each_scale_is_made_from_the_next_larger_one_in_any_order_of_requests() -> None:
    for order in permutations(SIZES):
        builder = CommandBuilder()
        source = picture(builder)
        for size in order:
            builder.video(track(builder.scale(source, size)))
        command = builder.build()
        assert [(scale.width, scale.parent) for scale in command.scales] == [
            (1920, None),
            (1280, 0),
            (640, 1),
        ]
        assert [command.scales[one.scale].width for one in command.videos] == [size.width for size in order]


def test_a_picture_that_does_not_fit_into_another_is_made_from_the_source() -> None:
    builder = CommandBuilder()
    source, other = picture(builder), picture(builder, 1)
    for place, size in ((source, Size(1920, 400)), (source, Size(400, 1080)), (other, Size(100, 100))):
        builder.scale(place, size)
    assert [scale.parent for scale in builder.build().scales] == [None, None, None]


def test_bars_are_added_after_the_cascade() -> None:
    builder = CommandBuilder()
    source = picture(builder)
    builder.scale(source, SIZES[2], Size(640, 640))
    builder.scale(source, SIZES[0])
    large, small = builder.build().scales
    assert small == Scale(0, 640, 360, 0, 640, 640)
    assert (small.shown_width, small.shown_height) == (640, 640)
    assert (large.shown_width, large.shown_height) == (1920, 1080)


def test_a_still_follows_its_scale() -> None:
    builder = CommandBuilder()
    source = picture(builder)
    small, large = builder.scale(source, SIZES[2]), builder.scale(source, SIZES[0])
    builder.products += [Still("still", "a.jpg", small, "jpeg"), Still("still", "b.jpg", large, "jpeg")]
    command = builder.build()
    widths = [command.scales[one.scale].width for one in command.products if isinstance(one, Still)]
    assert widths == [640, 1920]


def test_the_expected_work_follows_from_length_size_and_codec() -> None:
    def weight(seconds: float | None, size: Size, codec: str = "h264") -> float:
        builder = CommandBuilder(seconds=seconds)
        builder.video(track(builder.scale(picture(builder), size), codec))
        return builder.build().weight

    assert weight(10.0, SIZES[0]) == 10.0
    assert weight(20.0, SIZES[0]) == 20.0
    assert weight(10.0, SIZES[2]) < weight(10.0, SIZES[1]) < 10.0
    assert weight(10.0, SIZES[0], "hevc") > 10.0
    assert weight(None, SIZES[0]) == 1.0


def test_a_command_names_each_output_once() -> None:
    builder = CommandBuilder(seconds=1e-9, outputs=["a", "b", "a"])
    command = builder.build(is_optional=True)
    assert (command.outputs, command.is_optional, command.seconds) == (("a", "b"), True, 0.0)
