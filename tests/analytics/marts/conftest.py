"""Use one shuffle partition: with few rows, each further task takes longer than the work on the rows."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

_PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(name="spark", scope="package")
def _spark(spark: SparkSession) -> Iterator[SparkSession]:
    usual = str(spark.conf.get(_PARTITIONS))
    spark.conf.set(_PARTITIONS, 1)
    yield spark
    spark.conf.set(_PARTITIONS, usual)
