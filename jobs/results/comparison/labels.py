"""Wording of comparisons."""

from jobs.results.comparison.differences import Option
from jobs.results.comparison.selection import MAX_JOBS, Problem
from jobs.results.comparison.sides import Missing

PROBLEMS: dict[str, str] = {
    Problem.TOO_MANY: f"At most {MAX_JOBS} jobs can be compared. Choose fewer.",
    Problem.REPEATED: "The same job is chosen twice. Choose different jobs.",
    Problem.NOT_A_LINK: (
        "This is not a share link of this service. Enter the address of a share page, or its last part."
    ),
}
EXPIRED_TITLE = "Expired result"
MISSING: dict[str, str] = {
    Missing.EXPIRED: "This job has expired. Its result is no longer available.",
    Missing.UNFINISHED: "This job has not ended yet. Reload the page when it has.",
    Missing.NO_RESULT: "This job has no results.",
}
OPTIONS: dict[str, str] = {
    Option.ACTOR: "Actor",
    Option.FIGHT_STYLE: "Fight style",
    Option.TARGETS: "Targets",
    Option.LENGTH: "Fight length",
    Option.VARIATION: "Length variation",
    Option.ITERATIONS: "Iterations",
    Option.TARGET_ERROR: "Target error",
    Option.PROFILESETS: "Variants",
    Option.STAGES: "Stages",
    Option.BUILD: "Build",
    Option.GAME_VERSION: "Game data",
}
