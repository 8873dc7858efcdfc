"""Split a spec into a public part and a secret part to seal, and compute the hash of the request.

The secret part contains the credentials and the queries of signed URLs (of the source, the watermarks and the
outputs), because such a query contains the signature. The hash of the request does not cover the secret part,
which only gives access to storage. The hash covers the public part, including the queries of callback URLs.
The queries of callback URLs are sealed separately (`store/secrets/callbacks.py`), because they are kept
longer than the secret part. The keys of HLS outputs are sealed separately too (`store/secrets/hls_keys.py`),
because they stay when the credentials are replaced. The field `key` of `Encryption` is left out of every dump
of a model.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import SecretStr

from euterpe.domain.codecs import codecs_for
from euterpe.domain.locations import split_query, without_query
from euterpe.domain.outputs import encryptions
from euterpe.domain.spec import JobSpec, parse_stored_spec, resolve_outputs
from euterpe.domain.strict_json import canonical_text
from euterpe.domain.watermark_urls import (
    watermark_queries,
    watermark_urls,
    with_watermark_queries,
    without_watermark_queries,
)

CallbackField = Literal["refresh_url", "status_webhook_url"]
CALLBACK_FIELDS: tuple[CallbackField, CallbackField] = ("refresh_url", "status_webhook_url")
# Shorter values are not masked, because they can occur in any text by chance.
_SHORTEST_TOKEN = 6
# The previous release knows these profiles and these types of output, but none of the fields in
# `_NEWER_FIELDS` and `_NEWER_OUTPUT_FIELDS`.
_OLDER_PROFILES = ("h264-720p", "audio-aac")
_OLDER_OUTPUTS = ("hls", "mp4", "m4a", "image", "sprite")
_NEWER_FIELDS = ("webhook_format", "allow_truncated", "storage")
_NEWER_OUTPUT_FIELDS = frozenset(
    {
        *("start", "end", "optional", "crop", "pad", "metadata", "subtitles", "trick_play", "fragmented"),
        *("bitrate_kbps", "fps", "hdr", "channels", "language", "format", "width", "copy", "rotate"),
        *("loudness", "watermark", "measure", "vmaf_min", "target", "encryption"),
    }
)
_HIDDEN = "…"


def may_have_secrets(spec: JobSpec) -> bool:
    """Return False if the spec has nothing to seal: no credentials or key, and no query in any URL."""
    callbacks = (spec.refresh_url, spec.status_webhook_url)
    media = (spec.source.url, *(spec.output.urls or {}).values(), *watermark_urls(spec).values())
    urls = (*media, *callbacks)
    has_query = any("?" in url for url in urls if url is not None)
    return spec.credentials is not None or has_query or hls_keys(spec) is not None


def callback_queries(spec: JobSpec) -> bytes | None:
    """Return the queries of the callback URLs as bytes to seal, or None if there are none."""
    urls = zip(CALLBACK_FIELDS, (spec.refresh_url, spec.status_webhook_url), strict=True)
    queries = {name: split_query(url)[1] for name, url in urls if url is not None and "?" in url}
    return canonical_text(queries).encode() if queries else None


def hls_keys(spec: JobSpec) -> bytes | None:
    """Return the encryption keys of the HLS outputs, as bytes to seal, or None if the spec contains no keys.

    The bytes are a JSON object that maps the name of an output to its key in hex digits:
    `{"hls": "00112233445566778899aabbccddeeff"}`.
    """
    keys = {
        name: encryption.key.get_secret_value()
        for _, name, encryption in encryptions(resolve_outputs(spec))
        if encryption.key is not None
    }
    return canonical_text(keys).encode() if keys else None


def without_callback_queries(public: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with each callback URL cut off after its question mark."""
    urls: dict[str, str] = {name: public[name] for name in CALLBACK_FIELDS if "?" in (public.get(name) or "")}
    return {**public, **{name: without_query(url) + "?" for name, url in urls.items()}} if urls else public


def with_callback_queries(public: Mapping[str, Any], queries: bytes | None) -> dict[str, Any]:
    """Return the spec with its complete callback URLs."""
    if queries is None:
        return dict(public)
    whole: dict[str, str] = {
        name: with_query(public[name], queries, name) for name in CALLBACK_FIELDS if public.get(name)
    }
    return {**public, **whole}


def with_query(url: str, queries: bytes, name: CallbackField) -> str:
    """Return `url` with the query that `queries` contains for the field `name`."""
    query = json.loads(queries).get(name)
    return url if query is None else without_query(url) + str(query)


def is_hidden(url: str | None) -> bool:
    """Return whether the query of the URL was removed."""
    return url is not None and url.endswith("?")


def hide_query(text: str, url: str) -> str:
    """Return the text with all parts of the URL's query masked.

    The text may be a server's response, and some servers quote the URL that they refuse.
    """
    query = split_query(url)[1].removeprefix("?")
    pairs = query.split("&")
    values = (pair.partition("=")[2] for pair in pairs)
    tokens = {query, *pairs, *values, *(value for _, value in parse_qsl(query))}
    for token in sorted(tokens, key=len, reverse=True):
        if len(token) >= _SHORTEST_TOKEN:
            text = text.replace(token, _HIDDEN)
    return text


Json = dict[str, Any]


def split_secrets(spec: JobSpec) -> tuple[Json, bytes | None]:
    """Return the public part as JSON with its defaults, and the secret part (None if there are no secrets).

    The public part contains the name of a profile and also its outputs, so that a worker does not need the
    profile's file. During a rolling upgrade, a worker of the previous release can read the public part. Such
    a worker refuses fields that its release does not know. It also refuses a spec with both the name and the
    outputs of a profile that its release knows. So leave out newer fields with default values, and the
    outputs of the profiles that the previous release knows.

    When a query is removed, the URL keeps the question mark, so that a reader without the secret part sees
    that the query is missing.
    """
    public, secret = _split(spec, exclude_defaults=False)
    public["outputs"] = _stored_outputs(spec)
    if "watermark_queries" in secret:
        public["outputs"] = without_watermark_queries(public["outputs"], mark="?")
    if "source_query" in secret:
        public["source"]["url"] += "?"
    for name in secret.get("output_queries", ()):
        public["output"]["urls"][name] += "?"
    for name in _NEWER_FIELDS:
        if public[name] == JobSpec.model_fields[name].default:
            del public[name]
    return without_callback_queries(public), canonical_text(secret).encode() if secret else None


def join_secrets(public: Json, secret: bytes | None, callbacks: bytes | None = None) -> JobSpec:
    """Return the complete spec, but without the keys of HLS outputs.

    This function reverses `split_secrets` and `callback_queries`.
    """
    public = with_callback_queries(public, callbacks)
    sealed = json.loads(secret) if secret else {}
    source, output = dict(public["source"]), dict(public["output"])
    source["url"] = without_query(source["url"]) + sealed.get("source_query", "")
    outputs = public.get("outputs")
    if outputs is not None:
        outputs = with_watermark_queries(outputs, sealed.get("watermark_queries", {}))
    if output["urls"] is not None:
        queries = sealed.get("output_queries", {})
        output["urls"] = {
            name: without_query(url) + queries.get(name, "") for name, url in output["urls"].items()
        }
    whole = {**public, "source": source, "output": output, "outputs": outputs}
    return parse_stored_spec({**whole, "credentials": sealed.get("credentials")})


def request_hash(spec: JobSpec) -> str:
    """Return a SHA-256 that is equal for a retried request and different for any other request.

    Credentials and signatures are left out, because a client that retries may send new credentials for the
    same job. Defaults are left out too, so that a new field in a later version does not change old hashes.
    Only the name of a profile counts, so that a change of the profile does not turn a retry into a conflict.
    """
    public, _ = _split(spec, exclude_defaults=True)
    if spec.profile is None:
        outputs = without_watermark_queries(_dumped(spec, exclude_defaults=True))
        public["outputs"] = [_without_default_sound(output) for output in outputs]
    return sha256(canonical_text(public).encode()).hexdigest()


def _split(spec: JobSpec, *, exclude_defaults: bool) -> tuple[Json, Json]:
    hidden = {"credentials", "outputs"}
    public = spec.model_dump(mode="json", exclude=hidden, exclude_defaults=exclude_defaults)
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
    if queries := watermark_queries(spec):
        secret["watermark_queries"] = queries
    return public, secret


def _dumped(spec: JobSpec, *, exclude_defaults: bool = False) -> list[Json]:
    only = spec.model_dump(mode="json", include={"outputs"}, exclude_defaults=exclude_defaults)
    outputs: list[Json] = only["outputs"]
    return outputs


def _stored_outputs(spec: JobSpec) -> list[Json] | None:
    if spec.profile in _OLDER_PROFILES:
        return None
    pairs = zip(_dumped(spec), _dumped(spec, exclude_defaults=True), strict=True)
    older = _OLDER_OUTPUTS
    return [_without_newer(whole, given) if whole["type"] in older else whole for whole, given in pairs]


def _without_newer(whole: Any, given: Any) -> Any:
    """Return the settings without the fields of `_NEWER_OUTPUT_FIELDS` whose values are the defaults.

    `whole` has all settings. `given` has only the settings whose values differ from the defaults.
    """
    if isinstance(whole, list) and isinstance(given, list):
        return [_without_newer(*pair) for pair in zip(whole, given, strict=True)]
    if not isinstance(whole, dict):
        return whole
    known = given if isinstance(given, dict) else {}
    return {
        name: _without_newer(value, known.get(name))
        for name, value in whole.items()
        if name in known or name not in _NEWER_OUTPUT_FIELDS
    }


def _without_default_sound(output: Json) -> Json:
    """Return the output without sound settings that are equal to the defaults.

    In the first releases, the model itself had these defaults, so the hash did not cover them. A new hash
    must not cover them either, because it is compared with hashes from that time.
    """
    audio = output.get("audio")
    if not isinstance(audio, dict):
        return output
    default = codecs_for("audio", output["type"])[0]
    if audio.get("codec") == default.name:
        audio = {name: value for name, value in audio.items() if name != "codec"}
        if audio == {"bitrate_kbps": default.default_bit_rate()}:
            audio = {}
    return {**output, "audio": audio} if audio else {k: v for k, v in output.items() if k != "audio"}


def _revealed(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {key: _revealed(item) for key, item in value.items()}
    return value
