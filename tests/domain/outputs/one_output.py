"""Parse one output of a request, or return the messages with which the request is refused."""

from euterpe.domain.outputs import OutputSpec
from euterpe.domain.spec import parse_spec
from tests.domain.documents import EXAMPLE, Document, Loc, refusals

HLS, MP4, M4A, IMAGE, SPRITE = range(5)  # the outputs of `EXAMPLE`


def with_outputs(*outputs: Document) -> Document:
    return EXAMPLE | {"outputs": list(outputs)}


def parsed(output: Document) -> OutputSpec:
    (one,) = parse_spec(with_outputs({"name": "a", **output})).outputs or ()
    return one


def refused(output: Document) -> dict[Loc, str]:
    """Return the messages by their location in the output."""
    return {loc[2:]: text for loc, text in refusals(with_outputs({"name": "a", **output})).items()}
