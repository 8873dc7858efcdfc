"""Tests of the times of outputs: the moment that becomes 0, and the earliest end of a complete output."""

from dataclasses import replace

import pytest

from euterpe.media.errors import MediaError
from euterpe.media.planning.timeline import part_input, timeline, whole_input
from euterpe.media.planning.tree import Input
from euterpe.media.source.media_info import MediaInfo
from tests.media.planning.facts import AUDIO, VIDEO, info


def started(picture: float, sound: float, start: float = 0.0, *, jumps: bool = False) -> MediaInfo:
    return info(
        replace(VIDEO, first_seconds=picture, end_seconds=picture + 10, latest_seconds=picture + 9.96),
        replace(AUDIO, first_seconds=sound, end_seconds=sound + 10),
        start_seconds=start,
        has_discontinuities=jumps,
    )


@pytest.mark.parametrize(
    ("picture", "sound", "start", "shift", "lead"),
    [
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (0.08, 0.0, 0.0, 0.08, 0.0),  # sound that begins a little earlier is cut
        (0.0, 0.5, 0.0, 0.0, 0.0),  # another filter puts silence before late sound
        (2.0, 0.0, 0.0, 0.0, 2.0),  # black pictures are shown before a late picture
        (1.48, 1.4, 1.4, 0.08, 0.0),
        (-0.04, 0.0, -0.04, 0.0, 0.0),
    ],
)
def test_picture_and_sound_begin_together_at_zero(
    picture: float, sound: float, start: float, shift: float, lead: float
) -> None:
    facts = started(picture, sound, start)
    found = timeline(facts, whole_input(), facts.streams, facts.streams)
    assert (found.shift, found.lead) == (shift, lead)


def test_where_times_may_jump_the_earliest_stream_of_the_command_is_zero_for_ffmpeg() -> None:
    facts = started(95_440.08, 95_440.0, 95_440.0, jumps=True)
    picture, sound = facts.streams
    assert timeline(facts, whole_input(), facts.streams, [picture]).shift == 0.08
    assert timeline(facts, whole_input(), [picture], [picture]).shift == 0.0
    assert timeline(facts, whole_input(), facts.streams, [sound]).shift == 0.0


def test_a_stream_without_a_known_start_begins_with_the_container() -> None:
    facts = info(replace(VIDEO, first_seconds=None), replace(AUDIO, first_seconds=None), start_seconds=1.4)
    assert timeline(facts, whole_input(), facts.streams, facts.streams).shift == 0.0


def test_a_part_is_counted_from_the_first_picture() -> None:
    assert part_input(started(1.48, 1.4, 1.4), 2.0, 5.0) == Input(start=2.08, seconds=3.0)
    assert part_input(started(0.0, 0.0), None, 5.0) == Input(start=0.0, seconds=5.0)
    assert part_input(started(-3.0, -3.0), 1.0, None) == Input(start=0.0, seconds=None)


def test_a_part_begins_at_zero() -> None:
    facts = started(1.48, 1.4, 1.4)
    found = timeline(facts, part_input(facts, 2.0, 5.0), facts.streams, facts.streams)
    assert (found.shift, found.lead, found.zero, found.seconds) == (0.0, 0.0, 3.48, 3.0)


def transport_stream(interval: float | None, end: float | None = 3_600.0) -> MediaInfo:
    video = replace(VIDEO, first_seconds=1.48, end_seconds=end, keyframe_interval=interval)
    sound = replace(AUDIO, first_seconds=1.48)
    return info(video, sound, container="mpegts", start_seconds=1.4, has_discontinuities=True)


@pytest.mark.parametrize(
    ("start", "interval", "end", "seek"),
    [
        (100.0, 2.0, 3_600.0, 80.08),
        (100.0, 10.0, 3_600.0, 60.08),  # with rare keyframes, the seek goes back by four intervals
        (10.0, 2.0, 3_600.0, None),  # decoding begins at the start of the film
        (100.0, None, 3_600.0, None),  # the keyframe interval is unknown
        (100.0, 2.0, None, None),  # the times jump
    ],
)
def test_a_part_of_a_transport_stream_is_decoded_from_an_earlier_keyframe_on(
    start: float, interval: float | None, end: float | None, seek: float | None
) -> None:
    facts = transport_stream(interval, end)
    source = part_input(facts, start, start + 5)
    assert (source.start, source.seconds, source.seek) == (round(start + 0.08, 6), 5.0, seek)
    found = timeline(facts, source, [facts.streams[0]], [facts.streams[0]])
    assert (found.zero, found.shift) == (start + 1.48, round(start - max(0.0, (seek or 0.0) - 0.08), 6))


def test_the_least_end_of_an_output_needs_a_source_with_a_known_end() -> None:
    facts = info()
    found = timeline(facts, whole_input(), facts.streams, facts.streams)
    assert found.least_end_of(AUDIO) == 9.75
    assert found.least_end_of(replace(AUDIO, end_seconds=None)) is None


def test_the_last_picture_of_a_slide_show_may_be_shorter_than_in_the_source() -> None:
    slides = replace(VIDEO, fps=0.2, end_seconds=60.0, latest_seconds=50.0)
    found = timeline(info(slides), whole_input(), [slides], [slides])
    # The last picture starts at 50 s. The tolerance is two pictures of 5 s each.
    assert found.least_end_of(slides) == 40.0


def test_the_end_of_a_part_is_its_own() -> None:
    facts = info()
    found = timeline(facts, part_input(facts, 2.0, 5.0), facts.streams, facts.streams)
    assert found.least_end_of(AUDIO) == 2.75
    late = timeline(facts, part_input(facts, 9.0, None), facts.streams, facts.streams)
    assert late.least_end_of(AUDIO) == 0.75


def test_the_tolerance_grows_with_the_length_up_to_two_seconds() -> None:
    hour = replace(AUDIO, end_seconds=3600.0)
    found = timeline(info(hour), whole_input(), [hour], [hour])
    assert found.least_end_of(hour) == 3598.0


def test_a_part_of_a_transport_stream_counts_from_the_streams_that_are_read() -> None:
    sound = replace(AUDIO, first_seconds=0.0)
    picture = replace(VIDEO, first_seconds=1.0)
    facts = info(picture, sound, container="mpegts", has_discontinuities=True)
    source = Input(start=0.0, seconds=5.0)
    assert timeline(facts, source, [picture, sound], [picture]).shift == 0.0
    assert timeline(facts, source, [picture], [picture]).shift == -1.0


def test_a_picture_that_comes_hours_after_the_sound_is_refused() -> None:
    late = replace(VIDEO, first_seconds=3_601.0)
    with pytest.raises(MediaError, match="3601 s after"):
        timeline(info(late, AUDIO), whole_input(), [late, AUDIO], [late, AUDIO])
