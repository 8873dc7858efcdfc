"""Errors of the analytics pipeline. A message names the problem and, if a remedy is known, the remedy."""

from euterpe.domain.errors import EuterpeError


class AnalyticsError(EuterpeError):
    code = "analytics"


class JavaMissing(AnalyticsError):
    """Java was not found, does not start, or is older than version 17, which Spark needs."""

    code = "java_missing"


class LakeError(AnalyticsError):
    """The lake cannot be read or written in its present state."""

    code = "lake"


class SparkMissing(AnalyticsError):
    """No Spark session could be started."""

    code = "spark_missing"
