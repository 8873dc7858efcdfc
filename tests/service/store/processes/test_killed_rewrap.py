"""If a rewrap of the stored secrets is killed by SIGKILL, the next rewrap completes it."""

from itertools import count

from euterpe.crypto.keyfile import KeySet
from euterpe.crypto.local_key_ring import LocalKeyRing
from euterpe.domain.canonical import join_secrets
from euterpe.store.secrets.rewrap import Rewrap
from euterpe.store.store import Store
from tests.service.store.processes.child_process import ParentChannel
from tests.service.store.processes.process_pool import ProcessPool
from tests.store.secrets.test_credentials import SEALED, submit

OLD, NEW = b"1" * 32, b"2" * 32
BATCH = 10


def rewrap_in_batches(parent: ParentChannel) -> None:
    """Rewrap batch by batch. After each batch, wait for a message of the test."""
    ring = LocalKeyRing(KeySet(where="the tests", active="k2", keys={"k1": OLD, "k2": NEW}))
    for progress in Rewrap(parent.store.database, ring).run(batch=BATCH):
        parent.report(progress.moved)
        parent.wait_for_message()


def test_a_rewrap_that_is_killed_again_and_again_ends_with_every_secret_moved(
    process_pool: ProcessPool, store: Store, url: str
) -> None:
    jobs = 6 * BATCH
    for _ in range(jobs):
        submit(store)
    kills = count()
    while left := store.rewrap.in_use().get("k1", 0):
        worker = process_pool.launch(f"rewrap {next(kills)}")
        worker.start(rewrap_in_batches)
        assert worker.receive() == min(BATCH, left)
        worker.send("go on")  # the kill happens at a random point of the next batch
        worker.kill()
        assert left - 2 * BATCH <= store.rewrap.in_use().get("k1", 0) <= left - min(BATCH, left)
    assert next(kills) >= 3
    assert store.rewrap.in_use() == {"k2": jobs}
    with Store(url, LocalKeyRing(KeySet(where="the tests", active="k2", keys={"k2": NEW}))) as later:
        claimed = later.inbox.claim("w1", jobs)
        assert len(claimed) == jobs
        for job in claimed:
            secret, version = later.credentials.open(job)
            assert (join_secrets(dict(job.spec), secret), version) == (SEALED, 1)
