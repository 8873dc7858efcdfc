"""The parts that all endpoints of the gateway share: Redis, scripts, event hub, limits, authentication."""

import re
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis
from starlette.requests import Request

from euterpe.bridges.stream_scripts import StreamScripts
from euterpe.domain.scopes import Scope
from euterpe.gateway.event_hub import EventHub
from euterpe.gateway.problems import not_found

_JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")  # without the colon, which separates the parts of keys


class Authenticate(Protocol):
    """The check of a request's API key."""

    async def __call__(self, request: Request, scope: Scope) -> str:
        """Return the id of the requester, or an empty text if the gateway requires no keys."""
        ...

    def stop(self) -> None:
        """End the threads of the checks. Call this on the event loop."""
        ...


class NoKeys:
    """The authentication of a gateway on the loopback address: everybody may call it."""

    async def __call__(self, request: Request, scope: Scope) -> str:
        del request, scope
        return ""

    def stop(self) -> None: ...


@dataclass(frozen=True)
class GatewayLimits:
    """The limits of the contract, with its defaults."""

    max_backlog: int = 200  # jobs are refused at this number of pending and waiting messages
    max_streams: int = 5_000  # open event streams
    ttl_s: int = 3600  # the default TTL of jobs
    body_s: float = 30.0  # the longest time for the body of a request to arrive
    # An event stream sends a comment after this time without events, and checks its key after this time.
    comment_every_s: float = 15.0
    check_every_s: float = 15.0  # the pause between two checks for expired event streams

    @staticmethod
    def share_of(most: int) -> int:
        """Return the part of a limit that one requester may use, so that it never refuses all others."""
        return max(1, most // 2)


@dataclass(frozen=True)
class Gateway:
    redis: Redis
    scripts: StreamScripts
    hub: EventHub
    limits: GatewayLimits
    authenticate: Authenticate


def job_in_path(request: Request) -> str:
    """Return the job id in the path. Raise `GatewayRefusal` (404) if no job can have this id."""
    job_id: str = request.path_params["job_id"]
    if not _JOB_ID.fullmatch(job_id):
        raise not_found(job_id[:64])
    return job_id
