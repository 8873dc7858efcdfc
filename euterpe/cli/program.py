"""Build the program `euterpe`, run it, and turn its errors into messages and exit codes."""

import io
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer
from typer.main import get_command

import euterpe
from euterpe.cli.commands import group
from euterpe.cli.output import complain, out
from euterpe.domain.errors import EuterpeError, InvalidSpec
from euterpe.domain.text import text_problem
from euterpe.settings import SettingsError


def new_app(help_text: str, *, example: str) -> typer.Typer:
    """Return a program that has the option --version, and no commands yet."""
    app = group(help_text, example=example)
    app.callback()(_root)
    return app


def _print_version(requested: bool) -> None:
    if requested:
        out(euterpe.__version__)
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 success, 1 failure, 2 wrong usage or settings."""
    _escape_unencodable()
    try:
        _refuse_garbled(arguments)
        code = get_command(app).main(arguments, prog_name="euterpe", standalone_mode=False)
    except typer.TyperException as error:
        return _usage(error)
    except (SettingsError, InvalidSpec) as error:
        complain(*str(error).splitlines())
        return 2
    except (EuterpeError, OSError) as error:
        complain(_describe_os_error(error) if isinstance(error, OSError) else str(error))
        _close_broken_stdout()
        return 1
    except (typer.Abort, KeyboardInterrupt):
        complain("interrupted")
        return 1
    except Exception as error:  # noqa: BLE001  otherwise the interpreter prints a traceback
        complain(_describe_bug(error))
        return 1
    return int(code or 0)


def _refuse_garbled(arguments: Sequence[str]) -> None:
    for argument in arguments:
        if flaw := text_problem(argument):
            raise typer.BadParameter(f"an argument {flaw}")


def _usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "euterpe"
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    # The message is empty if a group was called without a command. In this case the help is already printed.
    if message:
        complain(f"{message} (see `{command} --help`)")
    return error.exit_code


def _describe_os_error(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    return what if error.filename is None else f"{error.filename}: {what}"


def _close_broken_stdout() -> None:
    """Close stdout if a flush fails.

    Otherwise the interpreter would flush again at exit and print an error.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            sys.stdout.close()


def _describe_bug(error: Exception) -> str:
    """Return a message that names the error and the place where it was raised.

    The text of the error is left out, because the text of a library's error may contain a secret.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"unexpected {type(error).__name__} at {frame.filename}:{frame.lineno}; this is a bug in Euterpe "
        f"{euterpe.__version__}, please report it"
    )


def _escape_unencodable() -> None:
    """Make stdout and stderr write an escape for each character that the terminal cannot encode.

    By default, printing such a character fails.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
