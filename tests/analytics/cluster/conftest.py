from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analytics.cluster.spark_cluster import ClusterFolder


@pytest.fixture
def cluster_folder(tmp_path: Path) -> Iterator[ClusterFolder]:
    made = ClusterFolder(tmp_path)
    yield made
    made.close()
