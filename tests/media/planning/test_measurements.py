"""Tests of `settled`, which replaces the goals of a plan by measured numbers and changes nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given

from euterpe.domain.outputs import OutputSpecs
from euterpe.media.errors import MediaError
from euterpe.media.planning.documents import plan_document, plan_hash, read_plan
from euterpe.media.planning.measurements import settled
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import LoudnessGoal
from euterpe.media.source.media_info import MediaInfo
from tests.media.planning.facts import measured, media_infos, planned, spec_lists, watermarks_of

FILM = {"name": "film", "type": "mp4"}
LOUD = {**FILM, "audio": {"loudness": {}}}


@given(spec_lists, media_infos())
def test_a_settled_plan_has_numbers_only(outputs: OutputSpecs, facts: MediaInfo) -> None:
    try:
        made = plan(outputs, facts, threads=1, watermarks=watermarks_of(outputs))
    except MediaError:
        return
    done = measured(made)
    assert done.measurements == ()
    assert settled(done, ()) == done
    sounds = [sound for command in done.commands for sound in command.sounds]
    assert not any(isinstance(sound.gain, LoudnessGoal) for sound in sounds)
    assert all(video.goal is None for command in done.commands for video in command.videos)
    assert read_plan(plan_document(done)) == done
    assert replace(done, commands=(), warnings=()) == replace(made, commands=(), warnings=(), measurements=())


def test_the_hash_covers_the_measurements() -> None:
    made = planned(LOUD)
    assert plan_hash(made) != plan_hash(replace(made, measurements=()))
    assert plan_hash(made) != plan_hash(planned({**FILM, "audio": {"loudness": {"target": -23}}}))


def test_an_output_whose_measurement_failed_stays_in_the_plan() -> None:
    """The encode omits the output, and adds a warning that names the reason."""
    made = settled(planned({**LOUD, "optional": True}), [None])
    assert made.outputs == ("film",)
    assert made.warnings == ()


def test_each_measurement_needs_a_result() -> None:
    with pytest.raises(ValueError, match="zip"):
        settled(planned(LOUD), [])
