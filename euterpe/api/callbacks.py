"""What a job has us call: an address that no dial would be allowed to is refused when the job is submitted.

Names are judged at the dial: what they lead to now says little of what they will lead to then.
"""

from collections.abc import Iterator
from ipaddress import ip_address

from euterpe.domain.errors import FieldError
from euterpe.domain.spec import JobSpec
from euterpe.net.errors import EgressRefused
from euterpe.net.policy import EgressPolicy
from euterpe.net.target import Target


def callback_problems(spec: JobSpec, egress: EgressPolicy) -> Iterator[FieldError]:
    for field in ("refresh_url", "status_webhook_url"):
        url: str | None = getattr(spec, field)
        if url is None:
            continue
        try:
            _check(url, egress)
        except EgressRefused as refused:
            yield FieldError((field,), str(refused).removeprefix(f"{refused.where}: "))


def _check(url: str, egress: EgressPolicy) -> None:
    target = Target.parse(url)
    try:
        address = ip_address(target.host)
    except ValueError:
        return
    egress.check(target.host, address, target.port)
