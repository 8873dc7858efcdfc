"""POST /transcode refuses callback URLs at addresses that the egress policy does not allow."""

import pytest

from euterpe.net.policy import EgressPolicy
from euterpe.store.store import Store
from tests.api.serving import CREDENTIALS, Requester, assert_problem, field_errors, serving
from tests.domain.documents import MINIMAL

FIELDS = ("refresh_url", "status_webhook_url")
CLOSED = (
    "http://169.254.169.254/latest/meta-data",
    "http://10.0.0.1/",
    "https://127.0.0.1:9000/hook",
    "http://[::1]/",
    "http://[::ffff:169.254.169.254]/",
)


@pytest.mark.parametrize("url", CLOSED)
def test_an_address_that_is_not_public_is_refused_by_its_field(requester: Requester, url: str) -> None:
    answer = requester.post({**MINIMAL, **dict.fromkeys(FIELDS, url)})
    rule = "not a public address; EUTERPE_EGRESS_ALLOW can open it"
    assert field_errors(answer) == {(field,): rule for field in FIELDS}


def test_a_port_that_is_not_open_is_refused(requester: Requester) -> None:
    errors = field_errors(requester.post({**MINIMAL, "status_webhook_url": "https://93.184.215.14:8080/"}))
    assert "not on port 80 or 443" in errors[("status_webhook_url",)]


@pytest.mark.parametrize("url", ["http://2130706433/", "http://127.1/", "http://0x7f.0.0.1/"])
def test_an_address_that_can_be_read_in_two_ways_is_refused(requester: Requester, url: str) -> None:
    errors = field_errors(requester.post({**MINIMAL, "status_webhook_url": url}))
    assert errors == {("status_webhook_url",): "must spell an IPv4 address as four decimal numbers"}


@pytest.mark.parametrize(
    "url", ["https://93.184.215.14/hook", "http://localhost/", "https://inside.example:8080/"]
)
def test_public_addresses_are_accepted_and_names_are_checked_only_at_the_connection(
    requester: Requester, url: str
) -> None:
    requester.submit(**dict.fromkeys(FIELDS, url))


def test_what_the_operator_opened_is_taken(sqlite_store: Store) -> None:
    with serving(sqlite_store, egress=EgressPolicy(("10.0.0.0/8", "127.0.0.1:9000"))) as served:
        requester = served.requester()
        requester.submit(status_webhook_url="http://10.0.0.1:8080/", refresh_url="http://127.0.0.1:9000/")
        errors = field_errors(requester.post({**MINIMAL, "refresh_url": "http://127.0.0.1:9001/"}))
        assert set(errors) == {("refresh_url",)}


def test_a_job_of_before_the_operator_closed_an_address_still_takes_credentials(sqlite_store: Store) -> None:
    with serving(sqlite_store, egress=EgressPolicy(("10.0.0.1:80",))) as served:
        requester = served.requester()
        job_id = requester.submit(status_webhook_url="http://10.0.0.1/", credentials=CREDENTIALS)
    with serving(sqlite_store) as served:
        call = f"{served.url}/transcode/{job_id}/credentials"
        headers = {"x-api-key": requester.key}
        answer = served.anonymous.put(call, json={"credentials": CREDENTIALS}, headers=headers)
        assert answer.json() == {"credential_version": 2}


@pytest.mark.parametrize("wrong", ["Standard", "svix", "", None, 1, ["standard"]])
def test_an_unknown_webhook_format_is_refused_by_its_field(requester: Requester, wrong: object) -> None:
    errors = field_errors(requester.post({**MINIMAL, "webhook_format": wrong}))
    assert errors == {("webhook_format",): "must be 'euterpe' or 'standard'"}


def test_the_webhook_format_is_part_of_the_meaning_of_a_request(requester: Requester) -> None:
    standard = {**MINIMAL, "webhook_format": "standard"}
    first = requester.post(standard, idempotency_key="k")
    again = requester.post(standard, idempotency_key="k")
    assert (again.status_code, again.json()["job_id"]) == (202, first.json()["job_id"])
    assert_problem(requester.post(MINIMAL, idempotency_key="k"), 409, "idempotency_conflict")
    requester.post(MINIMAL, idempotency_key="default")
    named = requester.post({**MINIMAL, "webhook_format": "euterpe"}, idempotency_key="default")
    assert named.headers["idempotent-replayed"] == "true", (
        "the default is the same with and without the field"
    )
