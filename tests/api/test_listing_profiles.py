"""GET /transcode/profiles: the profiles and their outputs."""

from euterpe.domain.profiles import PROFILES
from euterpe.domain.spec import parse_spec, resolve_outputs
from tests.api.serving import Requester
from tests.domain.documents import MINIMAL


def test_the_profiles_are_shown_with_all_their_settings(requester: Requester) -> None:
    shown = requester.http.get("/transcode/profiles").json()["profiles"]
    assert [profile["name"] for profile in shown] == list(PROFILES)
    assert all(profile["description"] for profile in shown)


def test_the_outputs_of_a_profile_are_a_valid_request_that_means_the_same(requester: Requester) -> None:
    for profile in requester.http.get("/transcode/profiles").json()["profiles"]:
        named = parse_spec({**MINIMAL, "profile": profile["name"]})
        written_out = parse_spec({**MINIMAL, "profile": None, "outputs": profile["outputs"]})
        assert resolve_outputs(written_out) == resolve_outputs(named)
