"""The program `euterpe` in an installation for remote workers, which has no database driver."""

from collections.abc import Sequence

from euterpe.cli import doctor, serve
from euterpe.cli.output import complain
from euterpe.cli.program import new_app, run
from euterpe.runtime.installation import install_hint

_COMMANDS = ("worker", "doctor")

app = new_app(
    "Run a remote worker of Euterpe: it gets its jobs from a server, and needs no database. "
    "Settings are EUTERPE_* variables, or the same names without prefix in euterpe.toml. "
    f"For the other commands, {install_hint('service')}.",
    example="euterpe worker --server https://euterpe.example",
)
serve.register_worker(app)
doctor.register(app)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    named = next((word for word in arguments if not word.startswith("-")), None)
    if named is None or named in _COMMANDS:
        return run(app, arguments)
    complain(f"{named} is no command of a remote worker; for the other commands, {install_hint('service')}")
    return 2
