"""A spec in two parts: what may lie in the open, and what must be sealed.

Credentials are secret, and so is the query of a signed URL, which carries the signature. The open part
alone is what the request means; the secret part is only how to get at it. The queries of callback URLs are
sealed apart (`callbacks.py`), for they live longer; they belong to what the request means.
"""

import json
from hashlib import sha256
from typing import Any

from pydantic import SecretStr

from euterpe.domain.callbacks import with_callback_queries, without_callback_queries
from euterpe.domain.locations import split_query, without_query
from euterpe.domain.spec import JobSpec, parse_spec
from euterpe.domain.strict_json import canonical_text

Json = dict[str, Any]


def split_secrets(spec: JobSpec) -> tuple[Json, bytes | None]:
    """The open part as JSON, every default written out, and the secret part, if there is one.

    A URL keeps the question mark of the query that it lost: whoever may not see the secret part can tell
    from it what belongs there.
    """
    public, secret = _split(spec, exclude_defaults=False)
    if "source_query" in secret:
        public["source"]["url"] += "?"
    for name in secret.get("output_queries", ()):
        public["output"]["urls"][name] += "?"
    return without_callback_queries(public), canonical_text(secret).encode() if secret else None


def join_secrets(public: Json, secret: bytes | None, callbacks: bytes | None = None) -> JobSpec:
    """The spec that `split_secrets` and `callback_queries` took apart."""
    public = with_callback_queries(public, callbacks)
    sealed = json.loads(secret) if secret else {}
    source, output = dict(public["source"]), dict(public["output"])
    source["url"] = without_query(source["url"]) + sealed.get("source_query", "")
    if output["urls"] is not None:
        queries = sealed.get("output_queries", {})
        output["urls"] = {
            name: without_query(url) + queries.get(name, "") for name, url in output["urls"].items()
        }
    return parse_spec(
        {**public, "source": source, "output": output, "credentials": sealed.get("credentials")}
    )


def request_hash(spec: JobSpec) -> str:
    """SHA-256 of what the request means, for telling a retried request from another one.

    Credentials and signatures are left out: a client that retries mints new ones and still means the
    same job. Defaults are left out too, so a field that a later version adds changes no hash.
    """
    public, _ = _split(spec, exclude_defaults=True)
    return sha256(canonical_text(public).encode()).hexdigest()


def _split(spec: JobSpec, *, exclude_defaults: bool) -> tuple[Json, Json]:
    public = spec.model_dump(mode="json", exclude={"credentials"}, exclude_defaults=exclude_defaults)
    secret: Json = {}
    if spec.credentials is not None:
        secret["credentials"] = _revealed(spec.credentials.model_dump(exclude_none=True))
    public["source"]["url"], query = split_query(spec.source.url)
    if query:
        secret["source_query"] = query
    if spec.output.urls:
        halves = {name: split_query(url) for name, url in spec.output.urls.items()}
        public["output"]["urls"] = {name: url for name, (url, _) in halves.items()}
        if queries := {name: query for name, (_, query) in halves.items() if query}:
            secret["output_queries"] = queries
    return public, secret


def _revealed(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {key: _revealed(item) for key, item in value.items()}
    return value
