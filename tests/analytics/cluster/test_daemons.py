"""A test that fails leaves nothing of Spark's behind either; `workshop` looks for what is left."""

import socket

import pytest

from tests.analytics.cluster.daemons import HOME, Daemon, Workshop, cluster


def test_a_failed_test_ends_its_cluster(workshop: Workshop) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_on_a_cluster(workshop)


def fail_on_a_cluster(workshop: Workshop) -> None:
    where = ("127.0.0.1", 0)
    try:
        with cluster(workshop) as master:
            where = ("127.0.0.1", int(master.rpartition(":")[2]))
            socket.create_connection(where).close()
            1 / 0  # noqa: B018
    finally:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where)


def test_a_process_that_does_not_come_up_says_why(workshop: Workshop) -> None:
    command = [f"{HOME}/bin/spark-class", "org.apache.spark.deploy.master.NoSuchMaster"]
    with pytest.raises(RuntimeError, match="NoSuchMaster"):
        Daemon(workshop, command, workshop.environ, ready="never said")
