"""A program that runs `euterpe` of an older release. Its specs lack the field in its first argument."""

import sys

from euterpe.cli import main
from euterpe.domain.spec import JobSpec


def forget(field: str) -> None:
    """Let this process refuse specs with this field, as a release from before the field does."""
    del JobSpec.__pydantic_fields__[field]
    JobSpec.model_rebuild(force=True)


if __name__ == "__main__":
    forget(sys.argv.pop(1))
    sys.exit(main())
