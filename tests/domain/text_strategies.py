"""Hypothesis strategies for names and texts of requests."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

CANARY = "c4n4ry"
"""Part of every secret in a generated request: text that contains it leaks a secret."""

Json = dict[str, Any]


def matching(pattern: str) -> SearchStrategy[str]:
    return st.from_regex(pattern, fullmatch=True)


names = matching(r"[a-z0-9][a-z0-9._-]{0,63}")
queue_names = matching(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
printable = st.text(
    st.characters(categories=["L", "M", "N", "P", "S"], include_characters=" "), min_size=1, max_size=60
).filter(lambda text: text.isprintable() and text == text.strip())
