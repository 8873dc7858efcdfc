"""What can be in the way of analytics: each a sentence that ends with the way out."""

from euterpe.domain.errors import EuterpeError


class AnalyticsError(EuterpeError):
    code = "analytics"


class JavaMissing(AnalyticsError):
    """Spark runs on Java 17 or newer."""

    code = "java_missing"


class LakeError(AnalyticsError):
    """The lake cannot be read or written as it is."""

    code = "lake"


class SparkMissing(AnalyticsError):
    """No session could be had."""

    code = "spark_missing"
