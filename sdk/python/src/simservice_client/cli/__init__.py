"""The command line: `simctl`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from simservice_client.cli.console import Console
from simservice_client.cli.exits import CommandError, Exit, message_of, status_of
from simservice_client.cli.parser import make_parser
from simservice_client.errors import SimserviceError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. `argv` is without the name of the program."""
    _prepare_streams()
    try:
        status = _carry_out(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return Exit.OUTPUT_CLOSED
    except OSError as error:
        _drop_output()
        return _complain(f"The output cannot be written: {error.strerror}", Exit.LOCAL)
    return status


def _carry_out(argv: Sequence[str]) -> int:
    """Run a command. Raises OSError if its output cannot be written."""
    try:
        arguments = make_parser().parse_args(argv)
        return int(arguments.handler(arguments, Console(as_json=arguments.json)))
    except (CommandError, SimserviceError) as error:
        return _complain(message_of(error), status_of(error))
    except KeyboardInterrupt:
        return _complain("interrupted", Exit.INTERRUPTED)
    except SystemExit as end:  # after --help and --version
        return int(end.code or 0)
    except OSError:
        raise
    except Exception as error:  # a response with values that the API does not have
        return _complain(f"Unexpected response: {type(error).__name__}: {error}", Exit.UNREACHABLE)


def _complain(text: str, status: Exit) -> Exit:
    """Print an error and return the exit status."""
    Console().complain(text)
    return status


def _prepare_streams() -> None:
    """Make every text printable, whatever the encoding of the terminal, and allow for closed streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let the interpreter end without another error about standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
