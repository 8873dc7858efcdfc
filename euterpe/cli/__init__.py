"""The command line. `main` is the entry point of `euterpe` and of `python -m euterpe`."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from euterpe.runtime.installation import install_hint


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    An installation for remote workers has no database driver and only some of the commands. The SDK alone
    (`euterpe-transcode[client]`) also installs the command, but not the packages that the command needs.
    """
    try:
        if find_spec("sqlalchemy") is None:
            from euterpe.cli.worker_app import main as run
        else:
            from euterpe.cli.app import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "euterpe":
            raise
        hint = install_hint("service")
        sys.stderr.write(f"error: the command euterpe needs the package {error.name}; {hint}\n")
        return 2
    return run(sys.argv[1:] if argv is None else argv)


__all__ = ["main"]
