"""Encryption of HLS: AES-128 of whole segments, with a key that comes with the request and is a secret."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, WithJsonSchema

from euterpe.domain.locations import KeyUrl
from euterpe.domain.model import StrictModel
from euterpe.domain.text import TextRule, matching

_KEY = r"[0-9A-Fa-f]{32}"
_HEX_KEY = matching(_KEY, "a key of 16 bytes as 32 hex digits")
_KEY_SCHEMA = {"type": "string", "format": "password", "writeOnly": True, "pattern": f"^(?:{_KEY})$"}
_IV = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{32})")


def _check_key(secret: SecretStr) -> SecretStr:
    return SecretStr(_HEX_KEY(secret.get_secret_value()).lower())


def _plain_iv(text: str) -> str:
    if (found := _IV.fullmatch(text)) is None:
        raise ValueError("must be 16 bytes as 32 hex digits")
    return found[1].lower()


SegmentKey = Annotated[SecretStr, AfterValidator(_check_key)]
Iv = Annotated[str, TextRule(_plain_iv, {"pattern": f"^(?:{_IV.pattern})$"})]


class Encryption(StrictModel):
    """AES-128 of whole segments. Only requests contain the key.

    The key is stored apart from the rest of the job.
    """

    # A request must contain the key (`spec.py`), and a stored job must not.
    model_config = ConfigDict(json_schema_extra={"required": ["key_url", "key"]})

    method: Literal["aes-128"] = "aes-128"
    """The method of the encryption."""
    key_url: KeyUrl
    """The `https://` URL from which players get the key. It is written into the playlists."""
    # `exclude` keeps the key out of every dump of a spec: stored jobs, hashes, events and exports.
    key: Annotated[SegmentKey | None, WithJsonSchema(_KEY_SCHEMA)] = Field(
        default=None, repr=False, exclude=True
    )
    """The key: 16 bytes as 32 hex digits. It is encrypted at rest, and no answer contains it."""
    iv: Iv | None = None
    """The initialization vector of each segment, as 32 hex digits. Null means the number of the segment."""
