"""Download a manifest from S3, with the AWS credentials of the environment, like any AWS tool."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import unquote

import obstore
from obstore.exceptions import (
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from euterpe.batch.files import File, ManifestError, check_text, is_pattern, kind_of, manifest_names

if TYPE_CHECKING:
    from obstore.store import RetryConfig

MAX_BYTES = 1024**3
_RETRIES: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


@contextmanager
def fetched(manifest: str, max_bytes: int = MAX_BYTES) -> Iterator[Sequence[File]]:
    """Download the files, at most `max_bytes` in total. They are deleted at the end of the `with` block."""
    bucket, _, key = manifest.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise ManifestError(f"{manifest}: must be s3://BUCKET/KEY; a folder ends with /")
    with ExitStack() as kept:
        with _explained(manifest):
            store = S3Store(bucket, retry_config=_RETRIES)
            files = []
            for name in _keys(store, unquote(key), manifest):
                file, size = _fetch(store, f"s3://{bucket}/{name}", name, max_bytes, kept)
                max_bytes -= size
                files.append(file)
        yield files


def _keys(store: S3Store, key: str, manifest: str) -> list[str]:
    if not (key.endswith("/") or is_pattern(key)):
        return [key]
    folder = key[: key.rfind("/") + 1]
    listed = obstore.list_with_delimiter(store, folder or None)["objects"]
    names = [entry["path"] for entry in listed]
    return manifest_names([name for name in names if key.endswith("/") or fnmatchcase(name, key)], manifest)


def _fetch(store: S3Store, url: str, key: str, max_bytes: int, kept: ExitStack) -> tuple[File, int]:
    kind = kind_of(url)
    # A manifest can contain credentials, so it is written to a file without a name. The kernel deletes such a
    # file even if this process is killed. Spark runs as the same user and opens the file as /proc/PID/fd/N.
    stream = kept.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  the ExitStack closes it
    size = 0
    for chunk in obstore.get(store, key).stream():
        size += len(chunk)
        if size > max_bytes:
            raise ManifestError(f"{url}: is too large, more than {MAX_BYTES >> 20} MiB: split it")
        stream.write(chunk)
    stream.flush()
    file = File(url, f"/proc/{os.getpid()}/fd/{stream.fileno()}", kind)
    check_text(file)
    return file, size


@contextmanager
def _explained(manifest: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:  # obstore raises Python's built-in error, not its own NotFoundError
        problem = "there is no such object or bucket"
    except (PermissionDeniedError, UnauthenticatedError):
        problem = "the credentials of your environment may not read it"
    except (BaseError, OSError) as error:
        problem = f"cannot be fetched ({type(error).__name__}): check AWS_REGION and AWS_ENDPOINT_URL"
    else:
        return
    raise ManifestError(f"{manifest}: {problem}")
