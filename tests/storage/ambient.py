"""A program that stats `in/a.mov` with given credentials.

The environment of this program has the credentials of an operator.
"""

import json
import sys

from pydantic import TypeAdapter

from euterpe.domain.credentials import StorageCredentials
from euterpe.net.egress import Egress
from euterpe.net.policy import EgressPolicy
from euterpe.storage.policy import StoragePolicy
from euterpe.storage.storage import Storage
from tests.storage.storage_calls import source

_CREDENTIALS: TypeAdapter[StorageCredentials] = TypeAdapter(StorageCredentials)


def main(endpoint: str, documents: list[dict[str, str]]) -> None:
    with Egress(EgressPolicy()) as egress:
        storage = Storage(StoragePolicy(endpoints=(endpoint,)), egress)
        for document in documents:
            keys = _CREDENTIALS.validate_python({**document, "endpoint": endpoint})
            print(source(storage, f"{document['type']}://in/a.mov", keys).stat().size)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
