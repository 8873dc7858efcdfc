"""GET /transcode/profiles: the built-in profiles and the operator's profiles, with their outputs."""

import json

from euterpe.domain.canonical import join_secrets
from euterpe.domain.profiles import built_in_profiles, with_operator_profiles
from euterpe.domain.scopes import Scope
from euterpe.domain.spec import parse_spec, resolve_outputs
from euterpe.store.store import Store
from tests.api.serving import Requester, Served, assert_problem, field_errors, serving
from tests.domain.documents import MINIMAL
from tests.domain.test_profiles import OWN


def test_the_profiles_are_shown_with_all_their_settings(requester: Requester) -> None:
    shown = requester.http.get("/transcode/profiles").json()["profiles"]
    assert [profile["name"] for profile in shown] == list(built_in_profiles())
    assert all(profile["description"] and profile["reason"] and profile["built_in"] for profile in shown)
    (film,) = next(profile for profile in shown if profile["name"] == "h264-720p")["outputs"]
    assert film["video"] == {
        "codec": "h264",
        "height": 720,
        "crf": None,
        "bitrate_kbps": None,
        "fps": None,
        "hdr": "sdr",
        "copy": "never",
        "target": None,
    }
    assert (film["measure"], film["vmaf_min"]) == ([], None)


def test_the_outputs_of_a_profile_are_a_valid_request_that_means_the_same(requester: Requester) -> None:
    for profile in requester.http.get("/transcode/profiles").json()["profiles"]:
        named = parse_spec({**MINIMAL, "profile": profile["name"]})
        written_out = parse_spec({**MINIMAL, "profile": None, "outputs": profile["outputs"]})
        assert resolve_outputs(written_out) == resolve_outputs(named)


def test_the_profiles_are_for_those_who_may_read(served: Served) -> None:
    writer = served.requester("writer", Scope.WRITE)
    assert_problem(writer.http.get("/transcode/profiles"), 403, "forbidden")
    assert served.anonymous.get("/transcode/profiles").status_code == 401


def test_a_job_may_name_a_profile_of_the_operator(sqlite_store: Store) -> None:
    profiles = with_operator_profiles({"our-own.toml": OWN})
    with serving(sqlite_store, profiles=profiles) as served:
        requester = served.requester()
        shown = requester.http.get("/transcode/profiles").json()["profiles"]
        assert [profile["name"] for profile in shown if not profile["built_in"]] == ["our-own"]
        job_id = requester.submit(profile="our-own")
    # The job contains the outputs, so a worker or an API without this profile can read them.
    stored = sqlite_store.jobs.get(job_id).spec
    assert stored["profile"] == "our-own"
    assert join_secrets(json.loads(json.dumps(stored)), None).outputs == profiles["our-own"].outputs


def test_a_profile_of_another_installation_is_unknown(requester: Requester) -> None:
    assert field_errors(requester.post({**MINIMAL, "profile": "our-own"})).keys() == {("profile",)}


def test_a_key_used_before_gets_the_first_answer_though_the_profile_changed(sqlite_store: Store) -> None:
    answers: list[tuple[str, str]] = []
    for name, text in (("one", OWN), ("two", OWN.replace(b"720", b"480"))):
        profiles = with_operator_profiles({"our-own.toml": text})
        with serving(sqlite_store, profiles=profiles) as served:
            requester = served.requester(name)
            if answers:
                requester.http.headers["authorization"] = f"Bearer {answers[0][1]}"
            answer = requester.post({**MINIMAL, "profile": "our-own"}, idempotency_key="a")
            answers.append((answer.json()["job_id"], requester.key))
    assert answers[0][0] == answers[1][0]
