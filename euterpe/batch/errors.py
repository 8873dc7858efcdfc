"""What can be wrong with a manifest as a whole. What is wrong with a row is a `Problem`."""

from euterpe.analytics.errors import AnalyticsError


class ManifestError(AnalyticsError):
    """It cannot be read as it is; the message begins with which file."""

    code = "manifest"


class BatchIncomplete(AnalyticsError):
    """Something of it was not accepted, or has not succeeded; the message says what."""

    code = "batch_incomplete"


class JobsFileError(AnalyticsError):
    """It is not there, or is none."""

    code = "jobs_file"
