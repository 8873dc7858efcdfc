"""What goes wrong around Spark, as a sentence: Java and the workers tell of it in pages."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from euterpe.analytics.errors import AnalyticsError, LakeError

_CAUSE = re.compile(
    r"^(?:Caused by: |\s*E?\s*)?([\w.$]+(?:Error|Exception|Missing|Unavailable|Mismatch)): (.+)$", re.M
)
_FULL = "No space left on device"


@contextmanager
def said_plainly() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _of_the_disk(error) from error
    except (PySparkException, Py4JError) as error:
        raise _of_spark(str(error)) from error


def _of_the_disk(error: OSError) -> AnalyticsError:
    place = error.filename or "a file"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LakeError(f"the disk of {place} is full: make room and run it again")
    return AnalyticsError(f"{place}: {error.strerror or type(error).__name__}")


def _of_spark(said: str) -> AnalyticsError:
    if _FULL in said:
        return LakeError(
            "a disk is full, of the lake or of Spark's scratch space (spark.local.dir): make room"
        )
    if "No module named 'euterpe" in said:
        return AnalyticsError(
            "Spark's workers have no euterpe: install the same version there, or run with --master local[*]"
        )
    found = _CAUSE.findall(said)
    # The last cause is the first thing that went wrong.
    name, reason = found[-1] if found else ("Spark", said.strip().partition("\n")[0])
    return AnalyticsError(f"Spark could not do it: {name.rpartition('.')[2]}: {reason}")
