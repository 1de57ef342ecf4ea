"""Failures of commands: one line on stderr, and the exit codes that other tools use."""

import re
import sys
from typing import Final, TextIO

import click

from .output.printable import printable

# Nobody puts secrets into errors on purpose; but click repeats arguments that it does not expect. Where a secret ends
# cannot be known, as it may contain any character, so nothing after it in its line is shown.
_SECRET: Final = re.compile(
    r"((?:password|passphrase|secret|credential|user\.info|jaas\.config|key\.pem|keystore\.key|private\.key)[^\s=]*=).+",
    re.I,
)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END[^\n]*|\Z)", re.DOTALL)


def line_of(error: BaseException) -> str:
    """Formats an exception as the one line that a failed command prints on stderr, safe for a terminal, with secrets
    masked."""
    hint = ""
    match error:
        case click.UsageError():
            text = error.format_message().removesuffix(".")
            if error.ctx is not None:
                hint = f"; see {error.ctx.command_path} --help"
        case click.ClickException():
            text = error.format_message()
        case OSError() if error.strerror and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        case RuntimeError() | OSError() | ValueError():
            text = str(error) or type(error).__name__
        case _:
            text = f"an error in kcoord itself: {type(error).__name__}: {error}"
            hint = "; --debug shows where"
    return printable(_masked(re.sub(r"\s*\n\s*", " ", text.strip())) + hint)


def traceback_of(error: BaseException) -> str:
    """Formats the traceback of an exception for --debug, without the values of variables, since a password may be among
    them."""
    import traceback

    text = _masked("".join(traceback.format_exception(error)))
    return "\n".join(printable(line) for line in text.splitlines())


def _masked(text: str) -> str:
    from kcoord.client.secret import HIDDEN  # imported here, since most commands succeed

    return _SECRET.sub(rf"\1{HIDDEN}", _PRIVATE_KEY.sub(HIDDEN, text))


def is_reader_gone(*streams: TextIO) -> bool:
    """Returns whether one of the output streams is a pipe whose reader is gone. A BrokenPipeError may also come from a
    connection to a broker."""
    import select

    poll = select.poll()
    for stream in streams:
        poll.register(stream.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def end_by_broken_pipe() -> int:
    """Ends the process by SIGPIPE, quietly, as cat and git do when their reader is gone (`… | head -1`). Shells report
    exit code 141.

    Python ignores SIGPIPE so that a broken connection raises an exception; the default handler is restored first.
    """
    import os
    import signal

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    return 128 + signal.SIGPIPE  # not reached, unless the signal is blocked


def exit_code_of_interrupt(interrupt: KeyboardInterrupt) -> int:
    """Returns the exit code of an interrupted command: 130, which shells report for Ctrl-C.

    On a terminal the line with ^C is ended. An interrupt that has its own exit code was reported already.
    """
    exit_code = getattr(interrupt, "exit_code", None)
    if isinstance(exit_code, int):
        return exit_code
    if sys.stderr.isatty():
        click.echo(err=True)
    return 130
