"""Models of the short-lived credentials for a requester's object storage (S3, GCS, Azure)."""

import json
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, SecretStr, Tag, model_validator

from euterpe.domain.locations import OBJECT_STORES, EndpointUrl
from euterpe.domain.model import Instant, StrictModel, Typed, exactly_one_schema, exactly_one_with
from euterpe.domain.strict_json import canonical_json
from euterpe.domain.text import SECRET, matching

_SERVICE_ACCOUNT_FIELDS = ("client_email", "private_key", "private_key_id", "type")


def _check_secret(secret: SecretStr) -> SecretStr:
    return SecretStr(SECRET(secret.get_secret_value()))


def _check_service_account(secret: SecretStr) -> SecretStr:
    """Return the key file with only the fields for signing, because other fields can contain URLs to call."""
    text = secret.get_secret_value()
    try:
        given = json.loads(text) if len(text) <= 16_384 else None
    except (ValueError, RecursionError):
        given = None
    kept = {name: given.get(name) for name in _SERVICE_ACCOUNT_FIELDS} if isinstance(given, dict) else {}
    if kept.get("type") != "service_account" or not all(isinstance(value, str) for value in kept.values()):
        raise ValueError("must be the text of a service account's JSON key file, at most 16384 characters")
    return SecretStr(canonical_json(kept))


Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
ServiceAccountJson = Annotated[SecretStr, AfterValidator(_check_service_account)]
Region = Annotated[str, matching(r"[a-z0-9-]{1,64}", "1 to 64 characters of a-z, 0-9 and '-'")]
AccountName = Annotated[str, matching(r"[a-z0-9]{3,24}", "3 to 24 characters of a-z and 0-9")]


class _Credentials(StrictModel):
    endpoint: EndpointUrl | None = None
    """The address of another store than the cloud's own. The operator must allow the address."""
    expires_at: Instant | None = None
    """When the credentials expire. They are refreshed before this time."""


class S3Credentials(_Credentials):
    """Access to S3, or to a store with the protocol of S3."""

    type: Literal["s3"]
    """S3, and stores with the protocol of S3."""
    access_key_id: Secret
    """The id of the access key."""
    secret_access_key: Secret
    """The secret of the access key."""
    session_token: Secret | None = None
    """The token of temporary credentials."""
    region: Region | None = None
    """The region of the bucket; null means `us-east-1`."""


class GsCredentials(_Credentials):
    """Access to Google Cloud Storage."""

    model_config = ConfigDict(json_schema_extra=exactly_one_schema("service_account_json", "access_token"))

    type: Literal["gs"]
    """Google Cloud Storage."""
    service_account_json: ServiceAccountJson | None = None
    """The text of a service account's JSON key file. Give either this field or `access_token`."""
    access_token: Annotated[
        Secret | None, exactly_one_with("service_account_json"), Field(validate_default=True)
    ] = None
    """An OAuth 2.0 access token. Give either this field or `service_account_json`."""


class AzCredentials(_Credentials):
    """Access to Azure Blob Storage."""

    model_config = ConfigDict(json_schema_extra=exactly_one_schema("sas_token", "account_key"))

    type: Literal["az"]
    """Azure Blob Storage."""
    account_name: AccountName
    """The name of the storage account."""
    sas_token: Secret | None = None
    """A shared access signature. Give either this field or `account_key`."""
    account_key: Annotated[Secret | None, exactly_one_with("sas_token"), Field(validate_default=True)] = None
    """The key of the account. Give either this field or `sas_token`."""


StorageCredentials = Annotated[S3Credentials | GsCredentials | AzCredentials, *Typed]
CREDENTIAL_FIELDS = frozenset(
    name for model in (S3Credentials, GsCredentials, AzCredentials) for name in model.model_fields
)


class CredentialPair(StrictModel):
    """Separate credentials for the source and the output. Leave out a side that needs no credentials."""

    source: StorageCredentials | None = None
    """Credentials to read the source."""
    output: StorageCredentials | None = None
    """Credentials to write the outputs."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.source is None and self.output is None:
            raise ValueError("must have a type, or a source, an output or both")
        return self


Side = Literal["source", "output"]


def _form_of(value: object) -> str | None:
    if isinstance(value, dict):
        form = value.get("type", "pair")
        return form if isinstance(form, str) else None
    return getattr(value, "type", "pair") if isinstance(value, StrictModel) else None


Credentials = Annotated[
    Annotated[S3Credentials, Tag("s3")]
    | Annotated[GsCredentials, Tag("gs")]
    | Annotated[AzCredentials, Tag("az")]
    | Annotated[CredentialPair, Tag("pair")],
    Discriminator(
        _form_of,
        custom_error_type="credentials_form",
        custom_error_message="must have a type of s3, gs or az, or such credentials as source and output",
    ),
]
"""The same credentials for both sides, or a pair of credentials."""


def credentials_mismatch(credentials: Credentials, schemes: Mapping[Side, str]) -> str | None:
    """Return why `credentials` do not fit a job with these schemes (`{"source": "s3", "output": "file"}`).

    Return None if the credentials fit. A side whose URL is invalid is missing from `schemes` and is not
    checked.
    """
    if isinstance(credentials, CredentialPair):
        used: dict[Side, StorageCredentials | None] = {
            "source": credentials.source,
            "output": credentials.output,
        }
    else:
        used = {side: credentials for side, scheme in schemes.items() if scheme in OBJECT_STORES}
        if not used and len(schemes) == 2:
            return "must be left out: neither the source nor the output is object storage"
    wrong = [
        f"type {given.type} does not fit the {side}, which is {schemes[side]}://"
        for side, given in used.items()
        if given and side in schemes and given.type != schemes[side]
    ]
    return "; ".join(wrong) or None


def credentials_for(credentials: Credentials | None, side: Side) -> StorageCredentials | None:
    if isinstance(credentials, CredentialPair):
        return credentials.source if side == "source" else credentials.output
    return credentials
