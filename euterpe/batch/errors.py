"""Errors of a manifest or a batch as a whole. For an invalid row see `row_problems.Problem`."""

from euterpe.analytics.errors import AnalyticsError


class ManifestError(AnalyticsError):
    """The manifest cannot be read as it is; the message begins with the file's name."""

    code = "manifest"


class BatchIncomplete(AnalyticsError):
    """Part of the batch was not accepted or has not succeeded; the message names the part."""

    code = "batch_incomplete"


class JobsFileError(AnalyticsError):
    """The jobs file is missing, in use or malformed."""

    code = "jobs_file"
