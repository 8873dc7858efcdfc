"""A failed test leaves no Spark process or file behind. The fixture `cluster_folder` checks this."""

import socket

import pytest

from tests.analytics.cluster.spark_cluster import HOME, ClusterFolder, Daemon, cluster


def test_a_failed_test_ends_its_cluster(cluster_folder: ClusterFolder) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_on_a_cluster(cluster_folder)


def fail_on_a_cluster(cluster_folder: ClusterFolder) -> None:
    where = ("127.0.0.1", 0)
    try:
        with cluster(cluster_folder) as master:
            where = ("127.0.0.1", int(master.rpartition(":")[2]))
            socket.create_connection(where).close()
            1 / 0  # noqa: B018
    finally:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where)


def test_a_process_that_does_not_come_up_says_why(cluster_folder: ClusterFolder) -> None:
    command = [f"{HOME}/bin/spark-class", "org.apache.spark.deploy.master.NoSuchMaster"]
    with pytest.raises(RuntimeError, match="NoSuchMaster"):
        Daemon(cluster_folder, command, cluster_folder.environ, ready="never said")
