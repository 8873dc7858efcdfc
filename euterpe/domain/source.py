"""The place of a file that a job reads: its source, or the picture of a watermark."""

from typing import Annotated

from pydantic import Field

from euterpe.domain.locations import SourceUrl, scheme_of
from euterpe.domain.model import StrictModel


class Source(StrictModel):
    """The object, file or signed URL to read."""

    url: Annotated[SourceUrl, Field(repr=False)]
    """The file to read: `s3://`, `gs://`, `az://`, a signed `https://` URL, or an allowed `file://` URL."""

    @property
    def scheme(self) -> str:
        return scheme_of(self.url)
