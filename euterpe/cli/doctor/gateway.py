"""The check of the Redis of `euterpe gateway`, if the variable GATEWAY_REDIS contains its address."""

import asyncio
from collections.abc import Iterator
from functools import partial

from euterpe.bridges.adapter import ForeignUnavailable
from euterpe.cli.commands import importing
from euterpe.cli.doctor.findings import CheckResult, DoctorFinding, check


def examine_gateway(redis_url: str) -> Iterator[CheckResult]:
    yield check("gateway: redis", partial(_redis, redis_url))


def _redis(redis_url: str) -> str:
    with importing("gateway"):
        from euterpe.wiring.gateway import check_redis
    try:
        return f"{asyncio.run(check_redis(redis_url))} answers"
    except ForeignUnavailable as error:
        raise DoctorFinding(f"{error}; start it, or correct the address in GATEWAY_REDIS") from None
