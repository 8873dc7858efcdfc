"""Python client for the HTTP API, and verification of signed webhooks, for developers who call Euterpe.

The client needs only httpx and the standard library. `euterpe.client.sql_dedupe` is not imported here,
because it needs SQLAlchemy.
"""

from euterpe.client.async_client import AsyncClient
from euterpe.client.client import Client
from euterpe.client.documents import Event, Job, Progress, Refresh
from euterpe.client.errors import (
    Busy,
    ClientError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    JobFailed,
    NotFound,
    ServerError,
    StillRunning,
    TooLarge,
    Unauthorized,
    UnexpectedAnswer,
    Unreachable,
)
from euterpe.client.receiver import Dedupe, MalformedBody, MemoryDedupe, verify, verify_refresh
from euterpe.client.retries import RetryPolicy
from euterpe.crypto.errors import MalformedApiKey, SignatureError
from euterpe.crypto.nonces import MemoryNonces, NonceCache

__all__ = [
    "AsyncClient",
    "Busy",
    "Client",
    "ClientError",
    "Conflict",
    "Dedupe",
    "Event",
    "Forbidden",
    "Gone",
    "Invalid",
    "Job",
    "JobFailed",
    "MalformedApiKey",
    "MalformedBody",
    "MemoryDedupe",
    "MemoryNonces",
    "NonceCache",
    "NotFound",
    "Progress",
    "Refresh",
    "RetryPolicy",
    "ServerError",
    "SignatureError",
    "StillRunning",
    "TooLarge",
    "Unauthorized",
    "UnexpectedAnswer",
    "Unreachable",
    "verify",
    "verify_refresh",
]
