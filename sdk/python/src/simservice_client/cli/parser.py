"""The arguments of all commands."""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn, get_args, get_type_hints

from simservice_client import __version__
from simservice_client._sync.jobs import ArtifactKind
from simservice_client.cli import account, arguments, check, compare, completion, jobs, login, logs, mcp, run
from simservice_client.cli.console import Console
from simservice_client.cli.exits import MEANINGS, CommandError, Exit
from simservice_client.cli.text import printable
from simservice_client.models import ListedJob
from simservice_client.submissions import Channel, Priority

STATUSES = get_args(get_type_hints(ListedJob)["status"])
Handler = Callable[[argparse.Namespace, Console], int]


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{printable(message)}. See `{self.prog} --help`.", Exit.USAGE)


def make_parser() -> Parser:
    """Return the parser of `simctl`."""
    parser = Parser(
        prog="simctl",
        description="Submit simulations and read their results.",
        epilog=_epilog(),
        parents=[_common()],
    )
    parser.set_defaults(url=None, json=False)
    parser.add_argument("--version", action="version", version=f"simctl {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True, parser_class=Parser)
    for name, (handler, summary, add) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, parents=[_common()])
        command.set_defaults(handler=handler)
        add(command)
    return parser


def _epilog() -> str:
    """Return the part of the help that follows the commands."""
    statuses = "\n".join(f"  {status.value:<4}{meaning}" for status, meaning in MEANINGS.items())
    return (
        f"exit status:\n{statuses}\n\nThe address and the API key come from SIMSERVICE_URL and SIMSERVICE_API_KEY, "
        "or else\nfrom `simctl login`. Set NO_COLOR for output without colours."
    )


def _common() -> Parser:
    """Return the options that may stand before and after the command."""
    common = Parser(add_help=False)
    common.add_argument(
        "--url", default=argparse.SUPPRESS, help="address of the service, such as https://sims.example"
    )
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")
    return common


def _add_login(parser: Parser) -> None:
    parser.add_argument("--key-stdin", action="store_true", help="read the API key from standard input")


def _add_submission(parser: Parser) -> None:
    """Add the options of a submission. Their destinations are the names in `submissions.Options`."""
    add = parser.add_argument
    add("--priority", choices=get_args(Priority), help="place in the queue; `high` can have a fee")
    add("--channel", choices=get_args(Channel), help="which build of the branch (latest)")
    add("--branch", dest="git_branch", metavar="NAME", help="branch of the simulator")
    add("--build", dest="build_id", metavar="ID", help="a certain build; see `simctl builds`")
    add(
        "--multi-stage",
        action=argparse.BooleanOptionalAction,
        help="leave out profilesets that are clearly worse after a first, rough stage",
    )
    add("--max-credits", type=arguments.positive, metavar="N", help="limit of the credits")
    add("--max-runtime", dest="max_runtime_seconds", type=arguments.positive, metavar="SECONDS", help="time limit")
    add(
        "--max-queue",
        dest="max_queue_seconds",
        type=arguments.positive,
        metavar="SECONDS",
        help="the job fails if it has not started by then",
    )
    add(
        "--metadata",
        type=arguments.pair,
        action="append",
        metavar="KEY=VALUE",
        help="a text of your own, returned with the job; can be repeated",
    )
    add("--webhook", action="store_true", default=None, help="notify the client's webhook when the job has ended")
    add("--html", action="store_true", default=None, help="write an HTML report")
    add("--csv", action="store_true", default=None, help="write a CSV report")
    add("--hide-inputs", action="store_true", default=None, help="hide the profile and logs on the share link")
    add("--json-version", choices=("2", "3"), help="version of the JSON report")


def _add_run(parser: Parser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="profile; - is standard input")
    _add_submission(parser)
    parser.add_argument("--no-wait", action="store_true", help="print the ids of the jobs and end")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="download the files of the jobs; with several jobs, into a folder for each in FOLDER",
    )


def _add_check(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="profile; - is standard input")
    _add_submission(parser)


def _add_list(parser: Parser) -> None:
    parser.add_argument(
        "--status", choices=STATUSES, action="append", help="only jobs with this status; can be repeated"
    )
    parser.add_argument(
        "--since",
        type=arguments.since,
        metavar="TIME",
        help="only jobs created later: 12h or 7d ago, or 2026-01-31",
    )
    parser.add_argument(
        "--limit", type=arguments.positive, default=25, metavar="N", help="number of jobs (%(default)s)"
    )


def _add_job(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="id of the job")


def _add_jobs(parser: Parser) -> None:
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="ids of the jobs")


def _add_compare(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="the job that the others are compared with")
    parser.add_argument("others", nargs="+", metavar="JOB", help="other jobs")


def _add_logs(parser: Parser) -> None:
    _add_job(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines until the job has ended")


def _add_download(parser: Parser) -> None:
    _add_job(parser)
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="where to store the files (the job's id)")
    parser.add_argument(
        "--kind", choices=get_args(ArtifactKind), action="append", help="only these files; can be repeated"
    )


def _add_completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=tuple(completion.SHELLS), help="bash, zsh or fish")


def _add_nothing(_: Parser) -> None:
    pass


def _print_completion(chosen: argparse.Namespace, console: Console) -> int:
    console.script(completion.script(make_parser(), chosen.shell))
    return Exit.COMPLETED


COMMANDS: dict[str, tuple[Handler, str, Callable[[Parser], None]]] = {
    "login": (login.login, "Check and store an address and an API key.", _add_login),
    "run": (run.run, "Submit profiles, wait, and print the rankings.", _add_run),
    "check": (check.check, "Check a profile and what it would cost, without submitting it.", _add_check),
    "list": (jobs.list_jobs, "List jobs, newest first.", _add_list),
    "show": (jobs.show, "Show a job and its result.", _add_job),
    "logs": (logs.logs, "Print the output of the simulator.", _add_logs),
    "cancel": (jobs.cancel, "Cancel jobs.", _add_jobs),
    "pause": (jobs.pause, "Pause jobs.", _add_jobs),
    "resume": (jobs.resume, "Resume paused jobs.", _add_jobs),
    "download": (jobs.download, "Download the files of a job.", _add_download),
    "compare": (compare.compare, "Compare the results of jobs.", _add_compare),
    "credits": (account.show_credits, "Show the credits of the account.", _add_nothing),
    "usage": (account.usage, "Show this month's usage and the limits of the plan.", _add_nothing),
    "builds": (account.builds, "List the current builds of the simulator.", _add_nothing),
    "mcp": (mcp.serve, "Offer the service as tools to an assistant, over standard input and output.", _add_nothing),
    "completion": (_print_completion, "Print a script that completes commands in a shell.", _add_completion),
}
