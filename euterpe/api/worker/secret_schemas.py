"""JSON Schemas of three calls of a remote worker about its job: `credentials`, `refresh` and `rival`."""

from euterpe.api.openapi_examples import JOB_ID
from euterpe.api.schemas import about, object_of
from euterpe.api.worker.schema_parts import (
    MOST,
    Properties,
    flag,
    lease_fields,
    maybe,
    maybe_of,
    maybe_text,
    text_of,
    worker_fields,
)
from euterpe.api.worker.secrets import LONGEST_KEY, LONGEST_REFRESH_ID, MAX_WAIT_MS, REASONS
from euterpe.domain.json_schema import Schema

_KEY = "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo"


def secret_schemas() -> dict[str, Schema]:
    version: dict[str, object] = {"minimum": 0, "maximum": MOST}
    attempt: Properties = {"attempt_id": maybe_of(lease_fields()["attempt_id"])}
    sealed = {"suite": "hpke-x25519-hkdf-sha256-aes-128-gcm", "ciphertext": "3q2+7w=="}
    return {
        "WorkerCredentialsCall": object_of(
            "The question for the credentials of a job.",
            optional=("attempt_id", "public_key", "have_version", "wait_ms"),
            **worker_fields(),
            **lease_fields(has_attempt=False),
            **attempt,
            public_key=maybe_text("The X25519 key of the worker: 32 bytes as base64url.", _KEY, LONGEST_KEY),
            have_version=maybe("The version that the worker has.", 1, "integer", **version),
            wait_ms=maybe(
                "The longest wait for a version other than `have_version`.",
                0,
                "integer",
                minimum=0,
                maximum=MAX_WAIT_MS,
            ),
        ),
        "WorkerCredentials": object_of(
            "The credentials, in one form. See docs/contract-workers.md for their content.",
            optional=("sealed", "inline"),
            credential_version=about("Their version.", 1, type="integer"),
            sealed=maybe("Sealed to the public key; null if `have_version` is the newest.", sealed, "object"),
            inline=about("In plain text, if the operator allows this.", {"storage": None}, type="object"),
        ),
        "WorkerRefreshCall": object_of(
            "The wish for newer credentials.",
            optional=("attempt_id", "credential_version", "refresh_id"),
            **worker_fields(),
            **lease_fields(has_attempt=False),
            **attempt,
            credential_version=maybe("The version that the worker has.", 1, "integer", **version),
            refresh_id=maybe_text(
                "Your id of this call. A copy with the same id gets the same answer for a minute.",
                "7b0e2c1a",
                LONGEST_REFRESH_ID,
            ),
            reason=about("Why newer ones are needed.", "forbidden", type="string", enum=list(REASONS)),
        ),
        "WorkerRefreshed": object_of(
            "The result of the call to the requester.",
            credential_version=about("The newest version.", 2, type="integer"),
            advanced=flag("Whether newer credentials are stored."),
            promised=flag("Whether the requester will send them.", example=False),
            calls_left=about("0 if no further call can help.", 2, type="integer", minimum=0),
        ),
        "WorkerRivalCall": object_of(
            "The question whether another job writes to the same place.",
            **worker_fields(),
            **lease_fields(),
            other_job_id=text_of("The id of the other job.", JOB_ID),
        ),
        "WorkerRival": object_of(
            "The answer; null if there is no such job.",
            rival=maybe("Whether it is unfinished, or succeeded after this attempt began.", False, "boolean"),
        ),
    }
