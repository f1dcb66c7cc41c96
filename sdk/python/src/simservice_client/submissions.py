"""The bodies of submissions, from arguments in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

Channel = Literal["latest", "nightly", "weekly"]
Priority = Literal["high", "standard", "background"]


class Options(TypedDict, total=False):
    """What a submission can ask for beside its profile. The service has a default for each."""

    channel: Channel
    """Which build of the branch: `latest` unless given."""
    git_branch: str
    build_id: str
    """A certain build, if the plan allows it."""
    priority: Priority
    multi_stage: bool
    """Whether profilesets that are clearly worse are left out after a first, rough stage."""
    max_credits: int
    max_runtime_seconds: int
    max_queue_seconds: int
    metadata: Mapping[str, str]
    """Up to 20 texts of your own, returned with the job; the list of jobs can be filtered by them."""
    webhook: bool
    """Whether the client's webhook is called when the job has ended."""
    html: bool
    """Whether to write an HTML report."""
    csv: bool
    """Whether to write a CSV report."""
    json_version: Literal["2", "3"]
    hide_inputs: bool
    """Whether the share link hides the profile and the logs."""
    bnet_client_id: str
    """Credentials of the game's API, for profiles that import characters."""
    bnet_client_secret: str


def submission(profile: str, **options: Unpack[Options]) -> dict[str, Any]:
    """Return the JSON body of a submission. Options that are not given are left out.

    >>> submission('mage="Frost"', priority="high", metadata={"guild": "7"})["priority"]
    'high'
    """
    metadata = options.get("metadata")
    body: dict[str, Any] = {
        "build": {
            "channel": options.get("channel", "latest"),
            "gitBranch": options.get("git_branch"),
            "id": options.get("build_id"),
        },
        "profile": {"text": profile},
        "runtime": {
            "multiStage": options.get("multi_stage"),
            "maxCredits": options.get("max_credits"),
            "maxRuntimeSeconds": options.get("max_runtime_seconds"),
            "maxQueueSeconds": options.get("max_queue_seconds"),
        },
        "priority": options.get("priority"),
        "metadata": None if metadata is None else dict(metadata),
        "webhook": {"events": ["job.terminal"] if options.get("webhook") else None},
        "artifacts": {
            "html": options.get("html"),
            "csv": options.get("csv"),
            "json": {"version": options.get("json_version")},
            "hideInputs": options.get("hide_inputs"),
        },
        "credentials": {
            "bnetClientId": options.get("bnet_client_id"),
            "bnetClientSecret": options.get("bnet_client_secret"),
        },
    }
    return _without_none(body)


def _without_none(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without members that are None, and without objects that are empty then."""
    kept: dict[str, Any] = {}
    for name, value in body.items():
        inner = _without_none(value) if isinstance(value, Mapping) else value
        if inner is not None and inner != {}:
            kept[name] = inner
    return kept
