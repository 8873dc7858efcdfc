"""Translation of Spark's errors and `OSError` into messages that say what to do."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from euterpe.analytics.errors import AnalyticsError

# Failures of a worker: a pattern in Spark's message, and a message with the reason and the remedy.
_WORKER_FAILURES = {
    r"No module named '([\w.]+)'": (
        "its Python lacks the package {0}; install it there, or set PYSPARK_PYTHON to a Python that has it"
    ),
    r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]+)": (
        "its Python is {0}, and that of this program {1}; set PYSPARK_PYTHON to one of the same version"
    ),
    r'Cannot run program "([^"]+)"': "it has no {0}; set PYSPARK_PYTHON to the path of a Python that it has",
    r"(?:FILE_NOT_EXIST|PATH_NOT_FOUND)\][^\n]*? file:/*(/\S+?)\.? ": (
        "it does not see {0}; the lake must be one folder, under the same path on all machines"
    ),
    r"Mkdirs failed to create file:(/\S+)": (
        "it must not write {0}; let the user that the workers run as write to the lake"
    ),
    r"FAILED_READ_FILE\.NO_HINT\][^\n]*? file:/*(/\S+\.parquet)": (
        "{0} is damaged or cannot be read: put it back from a backup, or begin a new lake"
    ),
    r"(No space left on device)": "{0}; make room for the lake, and for Spark's own files (spark.local.dir)",
    # An error that Euterpe itself raised on the worker.
    r"(?m)^euterpe\.[\w.]+: (.+)$": "{0}",
}


@contextmanager
def failures_in_words(master: str) -> Iterator[None]:
    """Raise `AnalyticsError` for known failures of tasks, whose tracebacks are in two languages."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        message = str(error)
        for pattern, way_out in _WORKER_FAILURES.items():
            if found := re.search(pattern, message):
                reason = way_out.format(*found.groups())
                raise AnalyticsError(f"a worker of {master} cannot go on: {reason}") from error
        raise


@contextmanager
def files_in_words() -> Iterator[None]:
    """Raise `AnalyticsError` for an `OSError` of a lake or a report that cannot be read or written."""
    try:
        yield
    except OSError as error:
        place = error.filename or "a file"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise AnalyticsError(f"the disk of {place} is full: make room and run it again") from error
        raise AnalyticsError(f"{place}: {error.strerror or type(error).__name__}") from error
