"""`kcoord completion`: the scripts by which shells complete commands, options and names."""

import os
import sys
from typing import Final, NoReturn

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

COMPLETE: Final = "_KCOORD_COMPLETE"  # the environment variable by which a script asks for completions

# click's own script passes the words as bash has cut them, and bash cuts at colons: `-b broker:9092` would arrive as
# `-b broker : 9092`, and no broker would be asked for names. This one passes the line.
_BASH: Final = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class WholeLineBash(BashComplete):
    """A click completion class for bash that gets the whole command line; bash then replaces only what follows a colon
    or an equals sign."""

    source_template = _BASH
    _prefix = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words of the command line, and the incomplete word at its end."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1].isspace() else ""
        before_colon, colon, _ = incomplete.rpartition("=")[2].rpartition(":")
        self._prefix = before_colon + colon
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Formats a completion without the part before a colon or an equals sign, which bash does not replace."""
        return f"{item.type},{item.value.removeprefix(self._prefix)}"


add_completion_class(WholeLineBash)


def answer_the_shell(cli: click.Command) -> NoReturn:
    """Prints the completions that a shell has requested through environment variables, and exits. Stderr leads to
    /dev/null, also for librdkafka, since a prompt is on that screen."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    sys.exit(shell_complete(cli, {}, "kcoord", COMPLETE, os.environ[COMPLETE]))


@click.command(short_help="The script by which a shell completes commands and names.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands, options, and the names of groups, topics and contexts.

    \b
    bash  echo 'eval "$(kcoord completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$(kcoord completion zsh)"' >> ~/.zshrc     after compinit
    fish  kcoord completion fish > ~/.config/fish/completions/kcoord.fish

    Names come from the cluster that the line names (-b, --context and the like), or from the current context. A cluster
    that does not answer within a second completes nothing; KCOORD_COMPLETION_TIMEOUT gives it more. bash must be 4.4
    or later.
    """
    click.echo(_script(shell), nl=False)


def _script(shell: str) -> str:
    from ..main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    maker: ShellComplete = kind(cli, {}, "kcoord", COMPLETE)
    return maker.source_template % maker.source_vars()  # source() would start bash to learn its version
