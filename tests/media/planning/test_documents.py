"""Tests of plans as JSON documents: round trips, refused documents, and the hash."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.outputs import OutputSpecs
from euterpe.media.errors import MediaError
from euterpe.media.planning.documents import plan_document, plan_hash, read_plan
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Plan
from euterpe.media.source.media_info import MediaInfo
from tests.domain.strategies import arbitrary_json
from tests.media.planning.facts import media_infos, planned, spec_lists, watermarks_of

FILM = {"name": "film", "type": "mp4"}
ALL = (
    FILM,
    {"name": "both", "type": "adaptive", "video": {"ladder": "auto"}, "trick_play": True},
    {"name": "poster", "type": "image", "at": ["50%", "best"]},
    {"name": "scrub", "type": "sprite"},
    {"name": "teaser", "type": "preview"},
)


@given(spec_lists, media_infos(), st.integers(1, 64))
def test_a_plan_survives_json(outputs: OutputSpecs, facts: MediaInfo, threads: int) -> None:
    try:
        made = plan(outputs, facts, threads=threads, watermarks=watermarks_of(outputs))
    except MediaError:
        return
    document = plan_document(made)
    again = read_plan(json.loads(json.dumps(document, allow_nan=False)))
    assert again == made
    assert plan_document(again) == document
    assert plan_hash(again) == plan_hash(made)


@given(spec_lists, media_infos(), st.integers(1, 64))
def test_the_hash_does_not_depend_on_the_worker(outputs: OutputSpecs, facts: MediaInfo, threads: int) -> None:
    try:
        made = plan(outputs, facts, threads=threads, watermarks=watermarks_of(outputs))
    except MediaError:
        return
    assert plan_hash(made) == plan_hash(
        plan(outputs, facts, threads=threads + 1, watermarks=watermarks_of(outputs))
    )


def test_plans_of_other_outputs_or_sources_have_other_hashes() -> None:
    plans = [
        planned(*ALL),
        planned(FILM),
        planned({**FILM, "video": {"crf": 22}}),
        planned({**FILM, "start": 1}),
        replace(planned(FILM), container="matroska"),
    ]
    assert len({plan_hash(made) for made in plans}) == len(plans)


def test_a_number_without_a_fraction_does_not_change_the_hash() -> None:
    made = planned(FILM)
    (command,) = made.commands
    assert plan_hash(replace(made, commands=(replace(command, seconds=10),))) == plan_hash(made)


def _with(made: Plan, *loc: str | int, to: object) -> dict[str, Any]:
    document: Any = plan_document(made)
    place = document
    for step in loc[:-1]:
        place = place[step]
    place[loc[-1]] = to
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("loc", "value"),
    [
        (("colour",), 1),
        (("commands", 0, "colour"), 1),
        (("commands", 0, "inputs", 0, "path"), "/etc/passwd"),
        (("commands", 0, "products", 0, "muxer"), "tee"),
        (("commands", 0, "products", 0, "kind"), "pipe"),
        (("commands", 0, "videos", 0, "codec"), "rawvideo"),
        (("commands", 0, "videos", 0, "crf"), "23"),
        (("commands", 0, "videos", 0, "crf"), 23.5),
        (("commands", 0, "videos", 0, "is_ten_bit"), 1),
        (("commands", 0, "pictures", 0, "deinterlacing"), "none,movie=/etc/passwd"),
        (("commands", 0, "pictures", 0, "shift"), float("nan")),
        (("commands", 0, "pictures", 0, "shift"), float("inf")),
        (("commands", 0, "sounds", 0, "layout"), "stereo[a0];amovie=/etc/passwd"),
        (("decoder_threads",), True),
    ],
)
def test_a_document_that_is_no_plan_is_refused(loc: tuple[str | int, ...], value: object) -> None:
    with pytest.raises(ValueError, match=str(loc[-1])):
        read_plan(_with(planned(FILM), *loc, to=value))


@given(st.dictionaries(st.sampled_from(["container", "commands", "decoder_threads"]), arbitrary_json))
def test_an_arbitrary_document_is_a_plan_or_a_value_error(document: dict[str, Any]) -> None:
    with suppress(ValueError):
        assert isinstance(read_plan(document), Plan)
