"""Scopes: the permissions of an API key."""

from enum import StrEnum


class Scope(StrEnum):
    WRITE = "transcode:write"
    READ = "transcode:read"
    ADMIN = "admin"
    WORKER = "worker"


DEFAULT_SCOPES = (Scope.WRITE, Scope.READ)
