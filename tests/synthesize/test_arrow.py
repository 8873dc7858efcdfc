"""Synthetic ids: UUIDs of version 7 for given instants."""

from uuid import RFC_4122, UUID

import numpy as np

from euterpe.synthesize.arrow import ids


def made(seed: int) -> list[str]:
    instants = np.repeat([1_700_000_000_000, 1_700_000_000_001], 500)
    found: list[str] = ids(instants, np.arange(1_000), np.random.default_rng(seed)).to_pylist()
    return found


def test_ids_are_uuids_of_version_7() -> None:
    found = [UUID(text) for text in made(1)]
    assert {(uuid.version, uuid.variant) for uuid in found} == {(7, RFC_4122)}
    assert [str(uuid) for uuid in found] == made(1)


def test_ids_sort_by_their_instant_and_then_by_their_counter() -> None:
    assert made(1) == sorted(made(1))


def test_another_seed_makes_other_ids() -> None:
    assert not set(made(1)) & set(made(2))
