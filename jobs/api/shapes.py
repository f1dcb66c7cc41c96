"""The forms of JSON that the API answers with about jobs, builds and usage (contract, sections 3 and 4)."""

from typing import Annotated, Literal, NotRequired, TypedDict

from billing.models import Pool
from jobs.enums import Channel, PublicStatus
from jobs.models import Artifact
from simservice.api.shapes import Count, Date, Id, Percent, Rule, Time, Url, Uuid

PriorityName = Literal["high", "standard", "background"]
ErrorCode = Literal[
    "queue_timeout",
    "user_cancelled",
    "execution_timeout",
    "max_credits_reached",
    "insufficient_credits",
    "simulation_error",
    "execution_failed",
    "input_invalid",
    "build_unavailable",
    "execution_interrupted",
    "internal",
]
FileName = Annotated[
    str, Rule(pattern=r"^(stage-[1-9][0-9]*-)?(report\.(json|html)|result\.csv|input\.simc|std(out|err)\.log)$")
]
StageLabel = Literal["initial", "intermediate", "final"]
Credits = Annotated[int, Rule(minimum=0), "Credits"]
Seconds = Annotated[int, Rule(minimum=0), "Seconds"]
Milliseconds = Annotated[int, Rule(minimum=0), "Milliseconds"]
Metadata = Annotated[dict[str, str], "What the submission carried, unchanged"]
ExitCode = Annotated[str | None, "The simulator's exit status, or the signal that ended it"]


class Links(TypedDict):
    """Public addresses of a job; they need no key and answer 404 after the retention period."""

    share: Annotated[Url, "A page that shows the job as it is"]
    manifest: NotRequired[Annotated[Url, "The result as a document; there once the job has ended"]]


class Ceiling(TypedDict):
    """What a job may use."""

    maxCredits: Annotated[Credits | None, "Null where the deployment caps the runtime instead"]
    runtimeSeconds: Seconds | None
    queueSeconds: Annotated[Seconds | None, "A job that waits longer ends with queue_timeout"]


class SubmittedRuntime(TypedDict):
    """What an accepted job may use, and what its priority costs."""

    ceiling: Ceiling
    priorityFeeCredits: Annotated[
        Credits, "The fee reserved for `high`; 0 if `high` does not start the job earlier than `standard`"
    ]


class Warning(TypedDict):  # noqa: A001 - the contract's name for it
    """A number of the profile that was beyond the platform's limits, and the one that runs instead."""

    kind: Literal["iterations_clamped", "target_error_floored"]
    line: Annotated[Count, "The profile's line, from 1"]
    requested: int | float | str
    applied: int | float
    message: str


class Deprecation(TypedDict):
    """A field of the request that still works, but will not for ever."""

    field: str
    message: str
    docsUrl: Url


class Submitted(TypedDict):
    """An accepted submission."""

    success: Literal[True]
    id: Id
    runtime: SubmittedRuntime
    links: Links
    metadata: Metadata
    warnings: NotRequired[Annotated[list[Warning], "Omitted if there are none"]]
    deprecations: NotRequired[Annotated[list[Deprecation], "Omitted if there are none"]]


class Runtime(TypedDict):
    """What a job used and may use."""

    simDurationMs: Annotated[Milliseconds | None, "Wall time of the simulator; null while unknown"]
    totalDurationMs: Annotated[Milliseconds | None, "From start to end; null while unknown"]
    creditsConsumed: Annotated[Credits | None, "Null until the job has ended"]
    priorityFeeCredits: Annotated[
        Credits, "Until the job ends the reserved fee, then the charged fee; 0 if nothing was billed"
    ]
    creditsPerSecond: Credits
    vcpus: Count
    ceiling: Ceiling


CheckStatus = Literal["pass", "partial", "fail", "unknown"]


class CheckCounts(TypedDict):
    """How many of a build's bundled profiles were checked, and how many of them simulated."""

    total: Count
    passed: Count
    failed: Count


class Checks(TypedDict):
    """Whether the profiles bundled with a build simulate."""

    status: Annotated[CheckStatus, "`partial` if some profiles failed; `unknown` if there are none"]
    checks: CheckCounts
    failures: Annotated[list[str], "The profiles that failed"]
    gatedOn: Annotated[list[str], "Patterns of checks that a build must pass to be available; always empty"]
    retrievedAt: Annotated[Time, "When the profiles were checked"]


class JobChecks(TypedDict):
    """Whether the profiles bundled with a job's build simulate: the short form."""

    status: CheckStatus
    failed: Annotated[Count, "How many profiles failed"]


class JobBuild(TypedDict):
    """The build a job ran on."""

    id: Uuid
    channel: Channel
    commit: str
    ci: Annotated[JobChecks | None, "Null if no bundled profile was checked"]


class Job(TypedDict):
    """Everything about a job but its result."""

    id: Id
    status: PublicStatus
    priority: PriorityName
    createdAt: Time
    startedAt: Time | None
    completedAt: Time | None
    cancelRequestedAt: Time | None
    errorCode: Annotated[ErrorCode | None, "Why it did not complete, for programs"]
    statusReason: Annotated[str | None, "Why it did not complete, in words"]
    simcExitCode: ExitCode
    retentionDays: Count
    metadata: Metadata
    runtime: Runtime
    retried: Annotated[bool, "Whether an attempt was lost and the job started again"]
    build: Annotated[JobBuild | None, "Null until one ran"]
    links: Links


class ListedJob(TypedDict):
    """A job in a list."""

    id: Id
    status: PublicStatus
    createdAt: Time
    completedAt: Time | None
    errorCode: ErrorCode | None
    metadata: Metadata
    buildId: Uuid | None
    links: Links


class Page(TypedDict):
    """Where in a list an answer is."""

    limit: Annotated[int, Rule(minimum=1, maximum=100)]
    hasMore: bool
    nextCursor: Annotated[str | None, "Send it as `cursor` for the next page"]
    since: Annotated[Time, "Jobs from before are no longer kept"]


class JobList(TypedDict):
    """A page of jobs, newest first."""

    jobs: list[ListedJob]
    page: Page


class Queue(TypedDict):
    """How long a job waits. Null once the simulator runs or the job has ended, and never before."""

    queuedAt: Time
    estimatedStartSeconds: Annotated[Seconds | None, "Expected seconds to the start; null when unknown"]
    estimatedStartUpdatedAt: Time | None


class Stage(TypedDict):
    """The stage a job is in."""

    current: Annotated[int, Rule(minimum=1)]
    total: Annotated[int, Rule(minimum=1)]
    label: StageLabel
    percent: Percent


class Progress(TypedDict):
    """How far a job is, in percent."""

    percent: Annotated[
        Percent, "Estimated share of the job's time that has passed; keeps its last value when the job ends"
    ]
    stage: Stage | None


class LogEntry(TypedDict):
    """A line the simulator printed."""

    source: Literal["stdout", "stderr"]
    message: str
    ts: Annotated[int, "Milliseconds since 1970"]


class JobStatus(TypedDict):
    """How a job is doing; cheap, made to be polled."""

    id: Id
    metadata: Metadata
    status: PublicStatus
    errorCode: ErrorCode | None
    statusReason: str | None
    simcExitCode: ExitCode
    queue: Annotated[Queue | None, "Null once the simulator runs or the job has ended"]
    progress: Progress
    logEntries: Annotated[list[LogEntry] | None, Rule(maxItems=200), "Null unless asked for and running"]
    startedAt: Time | None
    updatedAt: Time
    retried: bool


class Profile(TypedDict):
    """A job's profile."""

    text: Annotated[str, "Exactly what was submitted"]


class Figures(TypedDict):
    """One metric over all iterations. The names are the simulator's own."""

    mean: float
    mean_error: Annotated[float, "1.96 times mean_stddev: half of the 95 % interval"]
    mean_stddev: Annotated[float, "The standard error of the mean"]
    stddev: float
    min: float
    max: float


class ActorFigures(Figures):
    """The result of one actor."""

    name: str


class ProfilesetFigures(Figures):
    """The result of one profileset."""

    name: str
    stage: Annotated[int, "The stage its figures are of, its most precise one", Rule(minimum=1)]


class Profilesets(TypedDict):
    """The profilesets' results, best first."""

    count: Annotated[Count, "How many there are; the list may be shorter"]
    results: Annotated[list[ProfilesetFigures], Rule(maxItems=200)]


class Item(TypedDict):
    """A piece of gear."""

    slot: str
    name: str
    id: NotRequired[int]
    ilevel: NotRequired[int]
    bonusIds: NotRequired[list[int]]
    gemIds: NotRequired[list[int]]
    enchantId: NotRequired[int]


class MainActor(Figures):
    """The result of the actor that the profile is about."""

    name: str
    profilesets: NotRequired[Profilesets]
    talents: NotRequired[str]
    gear: NotRequired[list[Item]]


class Actors(TypedDict):
    """The results of several actors."""

    count: Annotated[Count, "How many there are; the list may be shorter"]
    results: Annotated[list[ActorFigures], Rule(maxItems=200)]


class StageSummary(TypedDict):
    """A stage that ran, how many profilesets it simulated, and how many of those it left out of the next one."""

    stage: Annotated[int, Rule(minimum=1)]
    label: StageLabel
    profilesets: Count
    culled: Count


StageReason = Literal[
    "eligible_profileset_only",
    "disabled_by_option",
    "no_variants_in_input",
    "no_profileset_candidates",
    "below_min_candidates",
    "unsupported_copy_set_only",
    "unsupported_mixed_profileset_copy_set",
    "unsupported_multi_actor",
    "unsupported_stage_sensitive_directive",
]


class MultiStage(TypedDict):
    """Whether the job ran in stages, why or why not, and its stages; empty for a single pass."""

    enabled: bool
    reason: StageReason
    stages: list[StageSummary]


class NotReached(TypedDict):
    """How many actors and profilesets have no result because the run was stopped early."""

    actors: Count
    profilesets: Count


class Summary(TypedDict):
    """What the simulator found."""

    metric: Literal["dps", "raid_dps"]
    mainActor: Annotated[MainActor | None, "Null for several actors of which none is the headline"]
    multiStage: MultiStage
    actors: NotRequired[Annotated[Actors, "There when the profile has more than one actor"]]
    iterations: NotRequired[Annotated[Count, "Iterations done; there for a single pass only"]]
    partial: NotRequired[Annotated[Literal[True], "There when the run was stopped early"]]
    warnings: NotRequired[Annotated[list[str], Rule(maxItems=20), "The simulator's warnings, without duplicates"]]
    not_reached: NotRequired[Annotated[NotReached, "Present if the run was stopped early and some are missing"]]


class ArtifactFile(TypedDict):
    """A file that a job produced."""

    kind: Artifact.Kind
    name: Annotated[FileName, "The file name of the download. It begins with the stage if there are several"]
    stage: Annotated[int | None, Rule(minimum=1)]
    url: Annotated[Url, "A download address that needs no key"]
    mimeType: Annotated[str, Rule(pattern="^[a-z]+/[a-z]+$"), "Without parameters"]
    bytes: Count


class ResultArtifact(ArtifactFile):
    """A file that a job produced, as its owner sees it."""

    id: Id


class MissingArtifact(TypedDict):
    """A file that the job should have produced but that could not be stored."""

    kind: Artifact.Kind
    name: str
    stage: Annotated[int | None, Rule(minimum=1)]
    reason: Annotated[str, "Why it is missing, in words"]


class Result(TypedDict):
    """What a job found and produced."""

    summary: Annotated[Summary | None, "Null when the simulator left no report"]
    artifacts: list[ResultArtifact]
    missingArtifacts: NotRequired[Annotated[list[MissingArtifact], "Omitted if there are none"]]


class JobResult(Job):
    """An ended job and its result."""

    result: Result


class Cancelled(TypedDict):
    """The job had not started and is cancelled."""

    success: Literal[True]
    id: Id
    status: Literal["cancelled"]
    metadata: Metadata


class CancelRequested(TypedDict):
    """The job runs and is being stopped."""

    success: Literal[True]
    id: Id
    status: Literal["cancel_requested"]
    cancelRequestedAt: Time
    metadata: Metadata


Cancellation = Cancelled | CancelRequested


class ArtifactUrl(TypedDict):
    """Where an artifact can be downloaded without a key."""

    url: Url


class GameVersion(TypedDict):
    """A version of the game's data."""

    version: str
    hotfixDate: Date


class GameData(TypedDict):
    """The game data a build holds."""

    live: GameVersion
    ptr: GameVersion | None


class BundledProfiles(TypedDict):
    """The paths of the files that come with a build. A job can include them by path or by file name."""

    manifest: Annotated[list[str], "Profiles that simulate alone"]
    includable: Annotated[list[str], "All files that can be included, such as action lists and gear sets"]


class Build(TypedDict):
    """A build of the simulator."""

    gitBranch: str
    repo: Annotated[str, "Empty if unknown"]
    commit: str
    simcVersion: str
    gameData: Annotated[GameData | None, "Null unless both version and hotfix date are known"]
    id: Uuid
    createdAt: Time
    ci: Annotated[Checks | None, "Null if no bundled profile was checked"]
    profiles: BundledProfiles | None


class ChannelBuild(Build):
    """What a channel means now."""

    channel: Channel


class BuildList(TypedDict):
    """What each channel means now, on each branch."""

    generatedAt: Time
    builds: list[ChannelBuild]


class Period(TypedDict):
    """What the account has used, and when the counters start again."""

    start: Time
    end: Time
    simsRun: Count
    avgRuntimeSeconds: Annotated[float | None, Rule(minimum=0), "Null when no job has run"]
    readsUsed: Annotated[Count | None, "Null while the counter cannot be read"]
    readsLimit: Count
    readsCapResetAt: Time | None


class Snapshot(TypedDict):
    """The account's unfinished jobs at this moment."""

    activeJobs: Count
    queuedJobs: Count
    runningJobs: Count


class PriorityFees(TypedDict):
    """What a priority costs above the standard rate."""

    high: Credits


class PlanLimits(TypedDict):
    """What the account's plan allows."""

    maxActiveJobs: Count
    maxCreditsPerJob: Credits
    defaultCreditsPerJob: Annotated[Credits | None, "Null: a job without a cap may use the maximum"]
    maxRuntimeSeconds: Seconds
    defaultRuntimeSeconds: Seconds | None
    maxQueueSeconds: Seconds
    defaultQueueSeconds: Seconds
    creditsPerSecond: Credits
    vcpuPerJob: Count
    maxSimcVariants: Count
    pool: Annotated[Pool, "The workers that run the plan's jobs"]
    priorityFeeCredits: PriorityFees


class Usage(TypedDict):
    """What the account has used and may use."""

    period: Period
    snapshot: Snapshot
    plan: PlanLimits
    limits: Annotated[PlanLimits, "The same as `plan`"]


class ManifestJob(TypedDict):
    """A job as strangers may see it."""

    id: Id
    status: PublicStatus
    createdAt: Time
    startedAt: Time | None
    completedAt: Time | None


class ManifestResult(TypedDict):
    """The result of a job, as anyone with its link can see it."""

    summary: Summary | None


class ManifestArtifact(ArtifactFile):
    """A file that a job produced, with what its content can be checked against."""

    sha256: Annotated[str, Rule(pattern="^[0-9a-f]{64}$")]


class Manifest(TypedDict):
    """An ended job's public document."""

    version: Literal["v1"]
    job: ManifestJob
    build: JobBuild | None
    result: ManifestResult
    artifacts: list[ManifestArtifact]


class TerminalPayload(TypedDict):
    """A job that has ended, as a webhook tells it."""

    id: Id
    status: Literal["completed", "failed", "cancelled", "timed_out"]
    statusReason: Annotated[str | None, "Why it did not complete, in words"]
    errorCode: NotRequired[Annotated[ErrorCode | None, "Why it did not complete; not in variant R"]]


class TerminalEvent(TypedDict):
    """What a webhook brings when a job has ended."""

    kind: Literal["job.terminal"]
    version: Literal["v1"]
    timestamp: Annotated[Time, "When the event was created"]
    payload: TerminalPayload
