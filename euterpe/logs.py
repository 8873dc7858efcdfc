"""JSON logging with structlog, one line per event, and redaction of secrets.

Our own code must not log secrets. The redaction is for log lines of libraries and for texts of exceptions.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from contextlib import nullcontext
from typing import Any, TextIO

import structlog

from euterpe.log_budget import LogBudget

_SECRET_NAME = re.compile(
    r"(?i)secret|password|passwd|token|authorization|api_?key|credentials$|signature|cookie"
)
_SECRET_TEXT = re.compile(r"\b(?:eut_[0-9A-Za-z]+_|whsec_)[0-9A-Za-z_+/=-]+")
# In a URL, the query may contain a signature, and the part before the @ may contain a password.
_URL = re.compile(r"\b([a-z][a-z0-9+.-]*://)(?:[^\s/?#@\"']*@)?([^\s?#\"']*)(?:[?#][^\s\"']*)?")
_HIDDEN = "…"


def configure(level: str, stream: TextIO = sys.stderr) -> None:
    """Set up logging for the whole process, including the standard library's `logging`."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redact,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # This wrapper drops events below the level with almost no work. The work must be small, because each
        # delivery logs a line at level debug.
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = _Handler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=_as_text),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # httpx logs each request at level info. Drop these lines, because a remote worker sends several requests
    # a minute, and further requests for each job.
    logging.getLogger("httpx").setLevel(logging.WARNING)


class _Handler(logging.StreamHandler[TextIO]):
    """A stream handler with a rate limit. `close` logs the counts of suppressed lines."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._budget = LogBudget(self._emit_summary)
        self.addFilter(self._budget)

    def _emit_summary(self, summary: logging.LogRecord) -> None:
        """Write a summary without counting it against the rate limit."""
        with self.lock or nullcontext():
            self.emit(summary)

    def close(self) -> None:
        self._budget.flush()
        super().close()


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace the secrets in an event. This function is a structlog processor.

    A text counts as a secret because of its field name, its token prefix, or its place in a URL.
    """
    event.pop("color_message", None)  # uvicorn adds this second copy of the message
    for name, value in event.items():
        if not name.startswith("_"):
            event[name] = _HIDDEN if _SECRET_NAME.search(name) else _clean(value)
    return event


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET_TEXT.sub(_HIDDEN, _URL.sub(r"\1\2", value))
    if isinstance(value, dict):
        return {
            key: _HIDDEN if _SECRET_NAME.search(str(key)) else _clean(item) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _as_text(value: Any) -> str:
    return str(_clean(str(value)))
