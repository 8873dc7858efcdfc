"""AWS Signature Version 4 for S3, in the `Authorization` header.

Every header of the request and the SHA-256 of its body are signed, so that the store refuses a body that was
corrupted in transit.
"""

import hmac
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from euterpe.storage.objects.request import ObjectRequest

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class S3Signer:
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    region: str

    def sign(self, request: ObjectRequest, host: str, now: datetime) -> ObjectRequest:
        token = {"x_amz_security_token": self.session_token} if self.session_token else {}
        dated = request.with_headers(
            x_amz_date=now.strftime("%Y%m%dT%H%M%SZ"),
            x_amz_content_sha256=sha256(request.body).hexdigest(),
            **token,
        )
        return dated.with_headers(authorization=self._authorization(dated, host))

    def _authorization(self, request: ObjectRequest, host: str) -> str:
        headers = {**request.headers, "host": host}
        names = ";".join(sorted(headers))
        time = request.headers["x-amz-date"]
        scope = f"{time[:8]}/{self.region}/s3/aws4_request"
        canonical = "\n".join(
            (
                request.method,
                request.path,
                request.query,
                *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
                "",
                names,
                request.headers["x-amz-content-sha256"],
            )
        )
        text = "\n".join((_ALGORITHM, time, scope, sha256(canonical.encode()).hexdigest()))
        signature = _hmac(self._key(time[:8]), text).hex()
        credential = f"{self.access_key_id}/{scope}"
        return f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"

    def _key(self, day: str) -> bytes:
        key = f"AWS4{self.secret_access_key}".encode()
        for part in (day, self.region, "s3", "aws4_request"):
            key = _hmac(key, part)
        return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
