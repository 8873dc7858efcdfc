"""`euterpe/bridges/redis_connection.py`: the error for a malformed address contains no password."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from euterpe.bridges.adapter import BridgeError
from euterpe.bridges.redis_connection import connect, connect_blocking


@pytest.mark.parametrize("opened", [connect, connect_blocking])
@pytest.mark.parametrize("password", ["s3cret#x", "s3cret/x", "s3cret?x", "[s3cret", "s3cret\u2100"])
def test_no_part_of_a_password_is_in_the_traceback(opened: Callable[..., Any], password: str) -> None:
    with pytest.raises(BridgeError) as caught:
        opened(f"redis://user:{password}@redis.internal:6379/0", connections=1)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
