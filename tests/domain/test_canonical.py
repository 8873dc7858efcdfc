import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.domain.canonical import (
    callback_queries,
    hide_query,
    hls_keys,
    join_secrets,
    may_have_secrets,
    request_hash,
    split_secrets,
)
from euterpe.domain.errors import InvalidSpec
from euterpe.domain.profiles import built_in_profiles
from euterpe.domain.spec import parse_spec, parse_spec_json
from euterpe.domain.strict_json import canonical_json
from tests.domain.documents import EXAMPLE, MINIMAL, altered
from tests.domain.strategies import requests
from tests.domain.text_strategies import CANARY, Json

SIGNED = {
    "source": {"url": "https://in.example/a.mov?X-Signature=abc&e=1"},
    "output": {"urls": {"a.mp4": "https://out.example/a?sig=1", "b.mp4": "https://out.example/b"}},
    "profile": "h264-720p",
}


def hash_of(document: object) -> str:
    return request_hash(parse_spec(document))


@given(requests())
def test_what_was_split_is_joined_again(document: Json) -> None:
    spec = parse_spec(document)
    public, secret = split_secrets(spec)
    stored, callbacks = json.loads(canonical_json(public)), callback_queries(spec)
    joined = join_secrets(stored, secret, callbacks)
    assert joined == spec
    assert split_secrets(joined) == (public, secret)
    assert callback_queries(joined) == callbacks


@given(requests())
def test_a_spec_that_has_something_to_seal_may_have_secrets(document: Json) -> None:
    spec = parse_spec(document)
    assert may_have_secrets(spec) or (split_secrets(spec)[1], callback_queries(spec)) == (None, None)


@given(requests())
def test_no_secret_is_in_the_public_part(document: Json) -> None:
    spec = parse_spec(document)
    public, secret = split_secrets(spec)
    assert CANARY not in canonical_json(public)
    assert CANARY not in repr(spec)
    assert (secret or callback_queries(spec)) or CANARY not in canonical_json(document)


def test_a_signed_url_is_split_after_its_question_mark() -> None:
    public, secret = split_secrets(parse_spec(SIGNED))
    assert public["source"] == {"url": "https://in.example/a.mov?"}
    assert public["output"]["urls"] == {"a.mp4": "https://out.example/a?", "b.mp4": "https://out.example/b"}
    assert json.loads(secret or b"") == {
        "source_query": "?X-Signature=abc&e=1",
        "output_queries": {"a.mp4": "?sig=1"},
    }


MARKED = {
    **SIGNED,
    "profile": None,
    "outputs": [
        {"name": name, "type": "mp4", "watermark": {"source": {"url": url}}}
        for name, url in (
            ("a", "https://in.example/logo.png?sig=c4n4ry1"),
            ("b", "https://in.example/seal.png?sig=c4n4ry2"),
            ("c", "s3://in/logo.png"),
        )
    ],
}


def test_the_signature_of_a_watermark_is_sealed() -> None:
    spec = parse_spec(MARKED)
    public, secret = split_secrets(spec)
    assert CANARY not in canonical_json(public)
    assert CANARY not in repr(spec)
    assert [one["watermark"]["source"]["url"] for one in public["outputs"]] == [
        "https://in.example/logo.png?",
        "https://in.example/seal.png?",
        "s3://in/logo.png",
    ]
    assert json.loads(secret or b"")["watermark_queries"] == {"a": "?sig=c4n4ry1", "b": "?sig=c4n4ry2"}
    assert join_secrets(json.loads(canonical_json(public)), secret) == spec


def test_a_job_whose_only_secret_is_the_signature_of_a_watermark_may_have_secrets() -> None:
    outputs = [MARKED["outputs"][0]]  # type: ignore[index]
    spec = parse_spec({**MINIMAL, "profile": None, "outputs": outputs, "credentials": None})
    assert may_have_secrets(spec)
    assert split_secrets(spec)[1] is not None


def test_another_signature_of_a_watermark_is_the_same_request() -> None:
    again = json.loads(json.dumps(MARKED).replace("c4n4ry", "fresh"))
    assert hash_of(again) == hash_of(MARKED)
    other = json.loads(json.dumps(MARKED).replace("logo.png", "other.png"))
    assert hash_of(other) != hash_of(MARKED)


def test_what_was_stored_without_the_question_marks_is_joined_too() -> None:
    public, secret = split_secrets(parse_spec(SIGNED))
    stored = json.loads(canonical_json(public).replace('?"', '"'))
    assert stored != public
    assert join_secrets(stored, secret) == parse_spec(SIGNED)


def test_a_spec_without_secrets_has_no_secret_part() -> None:
    public, secret = split_secrets(parse_spec(MINIMAL))
    assert secret is None
    assert "credentials" not in public
    assert join_secrets(public, None) == parse_spec(MINIMAL)


def test_joining_changes_nothing_that_is_stored() -> None:
    public, secret = split_secrets(parse_spec(SIGNED))
    before = canonical_json(public)
    join_secrets(public, secret)
    assert canonical_json(public) == before


def test_the_stored_spec_spells_the_defaults_out() -> None:
    public, _ = split_secrets(parse_spec(MINIMAL))
    assert public["timeout_seconds"] == 7200
    assert public["priority"] == 50


def test_a_worker_of_the_release_before_knows_every_field_of_a_plain_job() -> None:
    public, secret = split_secrets(parse_spec(MINIMAL))
    assert "webhook_format" not in public
    assert join_secrets(public, secret) == parse_spec(MINIMAL)
    public, _ = split_secrets(parse_spec({**MINIMAL, "webhook_format": "standard"}))
    assert public["webhook_format"] == "standard"


def test_a_worker_of_the_release_before_knows_every_field_of_plain_outputs() -> None:
    public, _ = split_secrets(parse_spec(EXAMPLE))
    aac = {"codec": "aac", "bitrate_kbps": 128}
    assert public["outputs"] == [
        {
            "name": "hls",
            "type": "hls",
            "segment_seconds": 4,
            "video": {"codec": "h264", "ladder": [1080, 720, 480]},
            "audio": aac,
        },
        {
            "name": "mp4",
            "type": "mp4",
            "video": {"codec": "h264", "height": 720, "crf": 22},
            "audio": {"codec": "aac"},  # no bit rate: the older worker has the same default, 128 kbit/s
        },
        {"name": "sound", "type": "m4a", "audio": aac},
        {"name": "poster", "type": "image", "at": ["50%"]},
        {"name": "scrub", "type": "sprite", "interval_seconds": 10, "columns": 10, "vtt": True},
    ]


def test_a_newer_setting_is_stored_where_it_is_given() -> None:
    part = {"name": "a", "type": "mp4", "start": 5, "audio": [{"language": "de"}, {"channels": "keep"}]}
    public, _ = split_secrets(parse_spec({**EXAMPLE, "outputs": [part]}))
    assert public["outputs"] == [
        {
            "name": "a",
            "type": "mp4",
            "start": 5.0,
            "video": {"codec": "h264", "height": None, "crf": None},
            "audio": [{"codec": "aac", "language": "de"}, {"codec": "aac", "channels": "keep"}],
        }
    ]


def test_an_output_of_a_newer_type_is_stored_with_all_its_settings() -> None:
    public, _ = split_secrets(parse_spec({**EXAMPLE, "outputs": [{"name": "a", "type": "opus"}]}))
    assert public["outputs"] == [
        {
            "name": "a",
            "type": "opus",
            "start": None,
            "end": None,
            "optional": False,
            "metadata": "strip",
            "audio": {
                "codec": "opus",
                "bitrate_kbps": None,
                "channels": "stereo",
                "language": None,
                "loudness": None,
                "copy": "never",
            },
        }
    ]


def test_a_job_stores_the_outputs_of_its_profile_unless_every_release_knows_them() -> None:
    for name in built_in_profiles():
        spec = parse_spec({**MINIMAL, "profile": name})
        public, secret = split_secrets(spec)
        assert public["profile"] == name
        assert (public["outputs"] is None) == (name in ("h264-720p", "audio-aac"))
        assert join_secrets(json.loads(canonical_json(public)), secret) == spec


def test_a_job_of_a_profile_that_is_gone_is_still_complete() -> None:
    public, secret = split_secrets(parse_spec({**MINIMAL, "profile": "podcast"}))
    joined = join_secrets({**public, "profile": "of-another-installation"}, secret)
    assert joined.outputs == built_in_profiles()["podcast"].outputs
    with pytest.raises(InvalidSpec, match="this release has no such profile"):
        join_secrets({**public, "profile": "of-another-installation", "outputs": None}, secret)


def test_the_hash_of_a_profile_is_that_of_its_name() -> None:
    podcast = parse_spec({**MINIMAL, "profile": "podcast"})
    changed = podcast.model_copy(update={"outputs": built_in_profiles()["poster"].outputs})
    assert request_hash(changed) == request_hash(podcast)
    assert request_hash(podcast) != hash_of({**MINIMAL, "profile": "poster"})


@given(requests(), st.randoms(use_true_random=False))
def test_the_hash_does_not_depend_on_spelling(document: Json, random: Random) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            items = [(key, shuffled(item)) for key, item in value.items()]
            random.shuffle(items)
            return dict(items)
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    spaced = json.dumps(shuffled(document), indent=3).encode()
    assert request_hash(parse_spec_json(spaced)) == hash_of(document)


@given(requests())
def test_defaults_filled_in_hash_like_defaults_left_out(document: Json) -> None:
    spec = parse_spec(document)
    public, secret = split_secrets(spec)
    whole = join_secrets(public, secret, callback_queries(spec))
    assert request_hash(whole) == request_hash(spec)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"group": "a"}, {"group": {"id": "a", "limit": 1}}),
        ({"group": "cafe\u0301"}, {"group": "caf\u00e9"}),
        ({"webhook_events": ["failed", "queued"]}, {"webhook_events": ["queued", "failed"]}),
        ({"not_before": "2030-01-31T12:00:00Z"}, {"not_before": "2030-01-31T13:00:00.000+01:00"}),
        ({"credentials": None, "metadata": {}, "queue": "default"}, {}),
    ],
)
def test_requests_that_mean_the_same_hash_alike(one: Json, other: Json) -> None:
    assert hash_of(MINIMAL | one) == hash_of(MINIMAL | other)


def test_new_credentials_and_signatures_do_not_make_another_request() -> None:
    rotated = altered(EXAMPLE, "credentials", "session_token", to="the-next-one")
    assert hash_of(rotated) == hash_of(EXAMPLE)
    signed_again = altered(SIGNED, "source", "url", to="https://in.example/a.mov?X-Signature=xyz&e=2")
    signed_again = altered(signed_again, "output", "urls", "a.mp4", to="https://out.example/a?sig=2")
    assert hash_of(signed_again) == hash_of(SIGNED)


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"url": "s3://in/b.mov"}},
        {"output": {"url": "s3://out/b/"}},
        {"profile": "audio-aac"},
        {"refresh_url": "https://requester.example/creds"},
        {"status_webhook_url": "https://requester.example/hook"},
        {"webhook_events": []},
        {"webhook_format": "standard"},
        {"queue": "other"},
        {"priority": 51},
        {"group": "a"},
        {"not_before": "2030-01-31T12:00:00Z"},
        {"max_attempts": 3},
        {"timeout_seconds": 7201},
        {"max_source_bytes": 1},
        {"external_id": "a"},
        {"metadata": {"a": None}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_other_difference_makes_another_request(change: Json) -> None:
    assert hash_of(MINIMAL | change) != hash_of(MINIMAL)


def test_a_request_without_audio_differs_from_one_with_the_default_audio() -> None:
    default = {**EXAMPLE, "outputs": [{"name": "a", "type": "mp4"}]}
    assert hash_of(altered(default, "outputs", 0, "audio", to=None)) != hash_of(default)
    assert hash_of(altered(default, "outputs", 0, "audio", to={"codec": "aac"})) == hash_of(default)


@pytest.mark.parametrize("kind", ["mp4", "m4a", "hls"])
def test_sound_that_spells_out_a_default_hashes_as_before(kind: str) -> None:
    """The hash leaves out these values, because they were the defaults of the first release."""

    def hashed(**audio: Any) -> str:
        video = {"video": {"ladder": [720]}} if kind == "hls" else {}
        return hash_of(
            {**MINIMAL, "profile": None, "outputs": [{"name": "a", "type": kind, **video, **audio}]}
        )

    spelled_out = [{}, {"codec": "aac"}, {"bitrate_kbps": 128}, {"codec": "aac", "bitrate_kbps": 128}]
    assert {hashed(audio=audio) for audio in spelled_out} == {hashed()}
    rate = hashed(audio={"bitrate_kbps": 96})
    assert rate == hashed(audio={"codec": "aac", "bitrate_kbps": 96}) != hashed()
    assert hashed(audio={"bitrate_kbps": 128, "channels": "keep"}) != hashed(audio={"channels": "keep"})


def test_hashes_stay_the_same_from_release_to_release() -> None:
    """Idempotency keys are kept for days. If the hash changed between releases, a retry would conflict."""
    assert hash_of(MINIMAL) == "8a84748cc727b3076e71a4be6a5b575b7c8c2073b01ecc61e0d09b2ac25ecddc"
    assert hash_of(EXAMPLE) == "a2347e7c4b0d0230a5281f4f4d90c63ab06481f3187914086bf40a775c5c5c61"
    assert hash_of(SIGNED) == "724481a57148871eb41b0cc820c3d3fd02b1457024331b19a93a5207bf7f9961"


WITH_CALLBACKS = {
    **MINIMAL,
    "status_webhook_url": "https://requester.example/hook?token=canary",
    "refresh_url": "https://requester.example/creds",
}


def test_a_callback_url_is_split_after_its_question_mark() -> None:
    spec = parse_spec(WITH_CALLBACKS)
    public, secret = split_secrets(spec)
    assert public["status_webhook_url"] == "https://requester.example/hook?"
    assert public["refresh_url"] == "https://requester.example/creds"
    assert secret is None
    assert callback_queries(spec) == b'{"status_webhook_url":"?token=canary"}'


def test_a_callback_url_that_was_stored_whole_stays_as_it_is() -> None:
    """Earlier releases stored callback URLs in full, without a sealed query."""
    public, _ = split_secrets(parse_spec(MINIMAL))
    old = {**public, "status_webhook_url": WITH_CALLBACKS["status_webhook_url"]}
    assert join_secrets(old, None, None).status_webhook_url == WITH_CALLBACKS["status_webhook_url"]


def test_the_query_of_a_callback_url_counts_for_the_hash() -> None:
    """Earlier releases, which did not seal queries, computed this hash.

    If this release computed another hash, a retry would conflict.
    """
    assert hash_of(WITH_CALLBACKS) == "9f3dcba855fd19cd99bf73911408a1a8b8c238c3cb718929ca2c1aa84b5f5e3d"
    other = {**WITH_CALLBACKS, "status_webhook_url": "https://requester.example/hook?token=other"}
    assert hash_of(other) != hash_of(WITH_CALLBACKS)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("Cannot POST /hook?token=canary-1", "Cannot POST /hook?…"),
        ("no token=canary-1 here", "no … here"),
        ("a&amp;token=canary-1", "a&amp;…"),
        ("canary-1 and canary 1", "… and …"),
        ("nothing of it, a=1", "nothing of it, a=1"),
    ],
)
def test_an_answer_that_quotes_the_query_is_kept_without_it(answer: str, shown: str) -> None:
    assert hide_query(answer, "https://requester.example/hook?a=1&token=canary-1&b=canary%201") == shown


KEY = "00112233445566778899aabbccddeeff"
ENCRYPTED = {
    **MINIMAL,
    "profile": None,
    "outputs": [
        {
            "name": name,
            "type": "hls",
            "video": {"ladder": "auto"},
            "encryption": {"key_url": "https://keys.example/1", "key": key},
        }
        for name, key in (("one", KEY.upper()), ("two", "f" * 32))
    ]
    + [{"name": "clear", "type": "hls", "video": {"ladder": "auto"}}],
}


def test_the_keys_of_hls_are_sealed_apart() -> None:
    spec = parse_spec(ENCRYPTED)
    public, secret = split_secrets(spec)
    assert secret is None
    assert json.loads(hls_keys(spec) or b"") == {"one": KEY, "two": "f" * 32}
    shown = canonical_json(public) + repr(spec) + spec.model_dump_json()
    assert not [key for key in (KEY, "f" * 32) if key in shown.lower()]
    assert may_have_secrets(spec)
    stored = {"method": "aes-128", "key_url": "https://keys.example/1", "iv": None}
    assert [output.get("encryption") for output in public["outputs"]] == [stored, stored, None]


def test_a_job_without_encryption_has_no_keys() -> None:
    spec = parse_spec(MINIMAL)
    assert hls_keys(spec) is None
    assert not may_have_secrets(spec)


def test_a_stored_job_is_complete_without_its_keys() -> None:
    keys = {"type": "s3", "access_key_id": "AKIA", "secret_access_key": "s3cret"}
    public, secret = split_secrets(parse_spec({**ENCRYPTED, "credentials": keys}))
    assert secret is not None
    assert KEY not in secret.decode()
    joined = join_secrets(json.loads(canonical_json(public)), secret)
    assert joined.credentials is not None
    assert hls_keys(joined) is None
    assert split_secrets(joined) == (public, secret)


def test_another_key_is_no_other_request() -> None:
    """The stored hash does not cover the key.

    Otherwise, a reader of the hash could test guesses of the key.
    """
    other = altered(ENCRYPTED, "outputs", 0, "encryption", "key", to="e" * 32)
    assert hash_of(ENCRYPTED) == hash_of(other)
    elsewhere = altered(ENCRYPTED, "outputs", 0, "encryption", "key_url", to="https://keys.example/2")
    assert hash_of(ENCRYPTED) != hash_of(elsewhere)
    assert hash_of(ENCRYPTED) != hash_of(altered(ENCRYPTED, "outputs", 0, "encryption", to=None))
