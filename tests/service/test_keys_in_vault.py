"""A whole installation whose keys are in Vault: a job from its request to its webhook, and an outage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.client import Client, ClientError
from euterpe.client.retries import RetryPolicy
from tests.service.installation import Installation
from tests.vault_server import VaultServer

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[VaultServer]:
    (folder := tmp_path / "vault").mkdir()
    with VaultServer(folder) as server:
        yield server


@pytest.fixture
def in_vault(installation: Installation, vault: VaultServer) -> Installation:
    """Return an installation that has moved its secrets from a key ring to Vault and deleted the ring."""
    installation.environ.update(vault.settings())
    assert "1 secrets were rewrapped under vault:transit/euterpe:v1" in installation.run("keys", "rewrap")
    del installation.environ["EUTERPE_KEK_FILE"]
    (installation.folder / "keks.json").unlink()
    return installation


def test_a_job_is_done_with_the_keys_in_vault(in_vault: Installation, vault: VaultServer) -> None:
    with in_vault.served() as client:
        job = client.submit(in_vault.request("clip.mp4"))
        vault.rotate()
        done = client.wait(job.job_id, timeout=60)
        assert (done.status, done.error) == ("succeeded", None)
        event = in_vault.receiver.await_event(job.job_id, "job.succeeded")
    assert event.outputs
    types = [each.type.removeprefix("job.") for each in in_vault.receiver.events(job.job_id)]
    assert types == ["claimed", "fetching", "processing", "uploading", "succeeded"]
    assert any("/encrypt/" in call for call in vault.calls)
    assert any("/decrypt/" in call for call in vault.calls)


def test_an_outage_of_vault_loses_nothing(in_vault: Installation, vault: VaultServer) -> None:
    program = in_vault.start("api", "--port", "0")
    with Client(program.address(), in_vault.api_key, retry=RetryPolicy(attempts=1)) as client:
        accepted = client.submit(in_vault.request("clip.mp4"))
        vault.is_sealed = True
        with pytest.raises(ClientError) as refused:
            client.submit(in_vault.request("clip.mp4"))
        assert refused.value.code == "key_provider_unavailable"
        assert client.status(accepted.job_id).status == "queued"
        worker = in_vault.start("serve", "--port", "0")
        worker.await_log("Vault is sealed")
        assert worker.wait() == 1, "a program that can open no secret does not start"
        vault.is_sealed = False
        with in_vault.served() as serving:
            assert serving.wait(accepted.job_id, timeout=60).status == "succeeded"
            in_vault.receiver.await_event(accepted.job_id, "job.succeeded")
    assert program.stop() == 0
