"""Run `euterpe` as an older release, whose specs lack the field that the first argument names."""

import sys

from euterpe.cli import main
from euterpe.domain.spec import JobSpec


def forget(field: str) -> None:
    """Make this process refuse specs with this field, like a release that does not know the field yet."""
    del JobSpec.__pydantic_fields__[field]
    JobSpec.model_rebuild(force=True)


if __name__ == "__main__":
    forget(sys.argv.pop(1))
    sys.exit(main())
