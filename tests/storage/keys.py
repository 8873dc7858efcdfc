"""Credentials for each kind of store, as a requester sends them."""

import json
from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import TypeAdapter

from euterpe.domain.credentials import StorageCredentials
from tests.net.servers import Server
from tests.storage.conftest import endpoint_of

_CREDENTIALS: TypeAdapter[StorageCredentials] = TypeAdapter(StorageCredentials)

S3 = {"type": "s3", "access_key_id": "AKIAMINE", "secret_access_key": "s3cret", "region": "eu-central-1"}
GS = {"type": "gs", "access_token": "t0ken"}
AZ = {"type": "az", "account_name": "account", "sas_token": "sv=2026&sig=a%2Bb%3D"}
AZ_KEY = {"type": "az", "account_name": "account", "account_key": "a2V5"}


def credentials(document: dict[str, str], server: Server) -> StorageCredentials:
    return _CREDENTIALS.validate_python({**document, "endpoint": endpoint_of(server)})


@cache
def key_file() -> str:
    """Return the text of a service account's key file. Tests share it, because a new key takes 100 ms."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    parts = {"type": "service_account", "private_key": pem, "private_key_id": "k", "client_email": "w@p"}
    return json.dumps(parts)
