"""Tests of the corpus itself: its size, and that a name always gives the same file."""

import pytest

from tests.media.hostile import corpus
from tests.media.hostile.damage import WAYS, damaged
from tests.media.hostile.originals import RECIPES, Originals
from tests.media.sources.cache import Sources

HERE = (b"/a/file", b"http://127.0.0.1:1/a.mp4")


def test_the_suite_has_120_files_and_the_soak_500() -> None:
    assert len(corpus.IN_SUITE) >= 120
    assert len(corpus.FILES) >= 500
    assert {*corpus.IN_SUITE} | {*corpus.IN_SOAK_ONLY} == {*corpus.FILES}


def test_every_kind_of_file_and_every_way_of_damage_is_in_the_suite() -> None:
    assert {name.partition("/")[0] for name in corpus.IN_SUITE} == {
        name.partition("/")[0] for name in corpus.FILES
    }
    seeds = [int(name[-2:]) for name in corpus.IN_SUITE if name.startswith("damaged/")]
    assert {seed % len(WAYS) for seed in seeds} == {*range(len(WAYS))}


def test_a_name_gives_the_same_file_in_every_run(sources: Sources) -> None:
    for name in corpus.IN_SUITE:
        build = corpus.FILES[name]
        assert build(Originals(sources, *HERE)) == build(Originals(sources, *HERE)), name


@pytest.mark.parametrize("original", RECIPES)
def test_damage_changes_the_file(sources: Sources, original: str) -> None:
    data = Originals(sources, *HERE)(original)
    assert all(damaged(data, original, number) != data for number in range(len(WAYS)))
