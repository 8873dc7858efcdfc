import re
import time
from concurrent.futures import ThreadPoolExecutor

from euterpe.queue import ulid

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def test_a_ulid_has_26_characters_and_begins_with_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = ulid()
    assert re.fullmatch(f"[{ALPHABET}]{{26}}", made)
    stamp = 0
    for character in made[:10]:
        stamp = 32 * stamp + ALPHABET.index(character)
    assert before <= stamp <= before + 60_000


def test_ulids_of_a_process_ascend() -> None:
    made = [ulid() for _ in range(2_000)]
    assert made == sorted(set(made))


def test_threads_make_different_ulids() -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: ulid(), range(2_000)))
    assert len(set(made)) == 2_000
