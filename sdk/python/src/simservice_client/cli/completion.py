"""`simctl completion`: scripts for shells, made from the parser so that they know all commands and options."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

FILES = frozenset({"FILE", "FOLDER"})


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    names: Sequence[str]
    help: str
    takes_value: bool
    choices: Sequence[str]
    takes_files: bool

    @property
    def is_free(self) -> bool:
        """Whether the value is neither a file nor one of several choices."""
        return self.takes_value and not self.choices and not self.takes_files


@dataclass(frozen=True)
class Command:
    """A command with its options, the choices of its argument, and whether that is a file."""

    name: str
    help: str
    options: Sequence[Option]
    choices: Sequence[str]
    takes_files: bool


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell."""
    return "\n".join(SHELLS[shell](commands_of(parser))) + "\n"


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """Return the commands of a parser."""
    (commands,) = [each for each in _actions(parser) if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001
    summaries: Mapping[str, str] = {each.dest: each.help or "" for each in commands._get_subactions()}  # noqa: SLF001
    return [_command(name, summaries[name], each) for name, each in commands.choices.items()]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of a parser, which argparse has no public access to."""
    return parser._actions  # noqa: SLF001


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> Command:
    positional = [each for each in _actions(parser) if not each.option_strings]
    return Command(
        name=name,
        help=summary,
        options=[_option(each) for each in _actions(parser) if each.option_strings],
        choices=[str(choice) for each in positional for choice in each.choices or ()],
        takes_files=any(each.metavar in FILES for each in positional),
    )


def _option(action: argparse.Action) -> Option:
    return Option(
        names=action.option_strings,
        help=(action.help or "") % {"default": action.default},
        takes_value=action.nargs != 0,
        choices=[str(choice) for choice in action.choices or ()],
        takes_files=action.metavar in FILES,
    )


def _bash(commands: Sequence[Command]) -> Iterator[str]:
    """Yield a script for bash."""
    yield "_simctl() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '    local name="" words="" files="" each'
    yield '    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield f'        case "$each" in {"|".join(each.name for each in commands)}) name="$each"; break ;; esac'
    yield "    done"
    yield '    case "$name $before" in'
    for command in commands:
        yield from _bash_values(command)
    yield '        *) case "$name" in'
    for command in commands:
        words = " ".join([*command.choices, *(name for option in command.options for name in option.names)])
        yield f'            {command.name}) words="{words}"{"; files=1" if command.takes_files else ""} ;;'
    yield f'            *) words="{" ".join(each.name for each in commands)} --help --json --url --version" ;;'
    yield "        esac ;;"
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "    [[ -n $files && $word != -* ]] && compopt -o default 2>/dev/null && COMPREPLY=()"
    yield "    return 0"
    yield "}"
    yield "complete -F _simctl simctl"


def _bash_values(command: Command) -> Iterator[str]:
    """Yield what may follow each option that takes a value."""
    for option in command.options:
        if option.takes_value:
            places = "|".join(f'"{command.name} {name}"' for name in option.names)
            found = "files=1" if option.takes_files else f'words="{" ".join(option.choices)}"'
            yield f"        {places}) {found} ;;"


def _zsh(commands: Sequence[Command]) -> Iterator[str]:
    """Yield a script for zsh."""
    yield "#compdef simctl"
    yield "_simctl() {"
    yield "    local -a commands=("
    for command in commands:
        yield f"        {quote(f'{command.name}:{command.help}')}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield '    case "${words[2]}" in'
    for command in commands:
        yield f"        {command.name}) _arguments -S \\"
        for option in command.options:
            yield from (f"            {_zsh_option(name, option)} \\" for name in option.names)
        yield f"            {_zsh_arguments(command)} ;;"
    yield "    esac"
    yield "}"
    # Sourced, or found in a folder of functions
    yield 'if [ "$funcstack[1]" = "_simctl" ]; then _simctl "$@"; else compdef _simctl simctl; fi'


def _zsh_option(name: str, option: Option) -> str:
    """Return an option for `_arguments`, which may be repeated."""
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = ""
    if option.takes_value:
        value = ":value:" + (f"({' '.join(option.choices)})" if option.choices else "")
        value = ":file:_files" if option.takes_files else value
    return quote(f"*{name}[{text}]{value}")


def _zsh_arguments(command: Command) -> str:
    if command.choices:
        return quote(f"*:value:({' '.join(command.choices)})")
    return quote("*:file:_files" if command.takes_files else "*:value:")


def _fish(commands: Sequence[Command]) -> Iterator[str]:
    """Yield a script for fish."""
    names = " ".join(each.name for each in commands)
    start = f"not __fish_seen_subcommand_from {names}"
    yield "complete -c simctl -f"
    for command in commands:
        yield f"complete -c simctl -n '{start}' -a {command.name} -d {quote(command.help)}"
        place = f"complete -c simctl -n '__fish_seen_subcommand_from {command.name}'"
        if command.takes_files:
            yield f"{place} -F"
        if command.choices:
            yield f"{place} -a '{' '.join(command.choices)}'"
        for option in command.options:
            yield f"{place} {_fish_option(option)}"


def _fish_option(option: Option) -> str:
    parts = [f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in option.names]
    if option.takes_value:
        parts.append("-r -F" if option.takes_files else "-x")
    if option.choices:
        parts.append(f"-a '{' '.join(option.choices)}'")
    return " ".join([*parts, f"-d {quote(option.help)}"])


SHELLS: Mapping[str, Callable[[Sequence[Command]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
