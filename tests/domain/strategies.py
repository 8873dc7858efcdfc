"""Hypothesis strategies for valid requests with marked secrets, damaged requests and arbitrary JSON."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from euterpe.domain.events import WebhookFormat
from euterpe.domain.profiles import built_in_profiles
from euterpe.domain.spec import WebhookEvent
from euterpe.domain.strict_json import MIN_NUMBER
from tests.domain.output_strategies import outputs
from tests.domain.text_strategies import CANARY, Json, matching, printable, queue_names

secrets = matching(r"[!-~]{0,40}").map(lambda text: CANARY + text)
queries = matching(r"[a-zA-Z0-9=&~._-]{0,20}").map(f"?sig={CANARY}{{}}".format)
instants = st.datetimes(
    datetime(2000, 1, 2),  # noqa: DTZ001  a separate strategy adds the time zone
    datetime(2200, 12, 30),  # noqa: DTZ001
    timezones=st.just(UTC) | st.integers(-839, 839).map(lambda m: timezone(timedelta(minutes=m))),
).map(lambda instant: instant.isoformat())

segments = matching(r"[A-Za-z0-9_ÄéЖ日-][A-Za-z0-9._ÄéЖ日-]{0,12}(%20|%C3%A9)?")
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)
hosts = matching(r"[a-z0-9][a-z0-9-]{0,10}(\.[a-z]{2,5})?(:[1-9][0-9]{0,3})?") | st.just("[::1]:8080")
signed_urls = st.builds("https://{}/{}{}".format, hosts, paths, queries | st.sampled_from(["", "?"]))
callback_urls = st.builds(
    "http{}://{}/{}{}".format, st.sampled_from(["", "s"]), hosts, paths, queries | st.sampled_from(["", "?"])
)
file_names = matching(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,20}){0,3}")

output_lists = st.lists(outputs, min_size=1, max_size=5, unique_by=lambda output: output["name"])

_any_store = {
    "endpoint": st.none() | st.builds("https://{}".format, hosts),
    "expires_at": st.none() | instants,
}
service_accounts = st.fixed_dictionaries(
    {
        "type": st.just("service_account"),
        "client_email": st.emails(),
        "private_key": secrets.map("-----BEGIN PRIVATE KEY-----\n{}\n".format),
        "private_key_id": secrets,
    },
    optional={"token_uri": st.just("https://oauth2.googleapis.com/token")},
).map(json.dumps)


def _credentials(kind: str, *forms: Json, **optional: SearchStrategy[Any]) -> SearchStrategy[Json]:
    return st.one_of(
        *(
            st.fixed_dictionaries({"type": st.just(kind), **form}, optional={**_any_store, **optional})
            for form in forms
        )
    )


credentials_for = {
    "s3": _credentials(
        "s3",
        {"access_key_id": secrets, "secret_access_key": secrets},
        session_token=st.none() | secrets,
        region=st.none() | matching(r"[a-z0-9-]{1,20}"),
    ),
    "gs": _credentials("gs", {"service_account_json": service_accounts}, {"access_token": secrets}),
    "az": _credentials(
        "az",
        {"account_name": matching(r"[a-z0-9]{3,24}"), "sas_token": secrets},
        {"account_name": matching(r"[a-z0-9]{3,24}"), "account_key": secrets},
    ),
}

numbers = st.integers(-(2**53), 2**53) | st.floats(-(2**53), 2**53).filter(
    lambda number: number == 0 or abs(number) >= MIN_NUMBER
)
plain_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
metadata = st.dictionaries(
    plain_text,
    st.recursive(
        st.none() | st.booleans() | numbers | plain_text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
        max_leaves=6,
    ),
    max_size=4,
)
groups = printable | st.fixed_dictionaries({"id": printable}, optional={"limit": st.integers(1, 1000)})


def _urls(schemes: list[str]) -> SearchStrategy[tuple[str, str]]:
    """Generate pairs of a scheme and a URL with this scheme and without a trailing slash."""
    buckets = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}")
    urls = {
        "https": signed_urls,
        "file": paths.map("file:///{}".format),
    } | {scheme: st.builds(f"{scheme}://{{}}/{{}}".format, buckets, paths) for scheme in credentials_for}
    return st.sampled_from(schemes).flatmap(lambda scheme: st.tuples(st.just(scheme), urls[scheme]))


@st.composite
def requests(draw: st.DrawFn) -> Json:
    """Generate valid requests of every kind, as JSON documents."""
    source_scheme, source = draw(_urls(["s3", "gs", "az", "https", "file"]))
    output_scheme, prefix = draw(_urls(["s3", "gs", "az", "https", "file"]))
    if output_scheme == "https":
        output: Json = {"urls": draw(st.dictionaries(file_names, signed_urls, min_size=1, max_size=4))}
    else:
        output = {"url": f"{prefix}/"}
    work = draw(
        st.fixed_dictionaries({"profile": st.sampled_from(sorted(built_in_profiles()))})
        | st.fixed_dictionaries({"outputs": output_lists})
    )
    return {
        "source": {"url": source},
        "output": output,
        **work,
        **draw(_credentials_between(source_scheme, output_scheme)),
        **draw(settings),
    }


def _credentials_between(source: str, output: str) -> SearchStrategy[Json]:
    sides = {
        side: credentials_for[scheme]
        for side, scheme in (("source", source), ("output", output))
        if scheme in credentials_for
    }
    forms: list[SearchStrategy[Any]] = [st.none()]
    if sides:
        forms.append(st.fixed_dictionaries({}, optional=sides).filter(bool))
    if len({source, output} & set(credentials_for)) == 1:
        forms.append(next(iter(sides.values())))
    return st.fixed_dictionaries({}, optional={"credentials": st.one_of(forms)})


settings = st.fixed_dictionaries(
    {},
    optional={
        "refresh_url": st.none() | callback_urls,
        "status_webhook_url": st.none() | callback_urls,
        "webhook_events": st.none() | st.lists(st.sampled_from(get_args(WebhookEvent)), unique=True),
        "webhook_format": st.sampled_from(get_args(WebhookFormat)),
        "queue": queue_names,
        "priority": st.integers(0, 100),
        "group": st.none() | groups,
        "not_before": st.none() | instants,
        "max_attempts": st.none() | st.integers(1, 100),
        "timeout_seconds": st.integers(1, 604_800),
        "max_source_bytes": st.none() | st.integers(1, 2**53),
        "external_id": st.none() | printable,
        "metadata": metadata,
    },
)

arbitrary_text = st.text(st.characters(), max_size=20) | st.text("\ud800\udfff\0\x1b a", max_size=5)
arbitrary_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | arbitrary_text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(arbitrary_text, inner, max_size=5),
    max_leaves=20,
)
"""Any value that a JSON parser can return, and some that it cannot."""


@st.composite
def damaged_requests(draw: st.DrawFn) -> Json:
    """Generate valid requests in which one value is replaced by an arbitrary value."""
    document = draw(requests())
    parent: Any = document
    while True:
        steps = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        step = draw(st.sampled_from(steps))
        if not isinstance(parent[step], dict | list) or not parent[step] or draw(st.booleans()):
            parent[step] = draw(arbitrary_json)
            return document
        parent = parent[step]
