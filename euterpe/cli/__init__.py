"""The command line. `main` is the entry point of `euterpe` and of `python -m euterpe`."""

import sys
from collections.abc import Sequence

from euterpe.runtime.installation import install_hint


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. See `euterpe.cli.app.main`.

    The SDK alone (`euterpe-transcode[client]`) also installs this command, but not the packages that the
    command needs.
    """
    try:
        from euterpe.cli.app import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "euterpe":
            raise
        hint = install_hint("service")
        sys.stderr.write(f"error: the command euterpe needs the package {error.name}; {hint}\n")
        return 2
    return run(argv)


__all__ = ["main"]
