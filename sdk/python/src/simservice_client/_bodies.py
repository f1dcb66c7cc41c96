"""The bodies of requests, from arguments in Python."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

Channel: TypeAlias = Literal["latest", "nightly", "weekly"]
Priority: TypeAlias = Literal["high", "standard", "background"]


def submission(
    profile: str,
    *,
    channel: Channel = "latest",
    git_branch: str | None = None,
    build_id: str | None = None,
    priority: Priority | None = None,
    multi_stage: bool | None = None,
    max_credits: int | None = None,
    max_runtime_seconds: int | None = None,
    max_queue_seconds: int | None = None,
    metadata: Mapping[str, str] | None = None,
    webhook: bool = False,
    html: bool | None = None,
    csv: bool | None = None,
    json_version: Literal["2", "3"] | None = None,
    bnet_client_id: str | None = None,
    bnet_client_secret: str | None = None,
) -> dict[str, Any]:
    """Return the body of a submission. Arguments that are None are left out, so the service's defaults apply."""
    body: dict[str, Any] = {
        "build": {"channel": channel, "gitBranch": git_branch, "id": build_id},
        "profile": {"text": profile},
        "runtime": {
            "multiStage": multi_stage,
            "maxCredits": max_credits,
            "maxRuntimeSeconds": max_runtime_seconds,
            "maxQueueSeconds": max_queue_seconds,
        },
        "priority": priority,
        "metadata": None if metadata is None else dict(metadata),
        "webhook": {"events": ["job.terminal"] if webhook else None},
        "artifacts": {"html": html, "csv": csv, "json": {"version": json_version}},
        "credentials": {"bnetClientId": bnet_client_id, "bnetClientSecret": bnet_client_secret},
    }
    return without_none(body) | ({"metadata": dict(metadata)} if metadata is not None else {})


def without_none(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without members that are None, and without objects that are empty then."""
    kept: dict[str, Any] = {}
    for name, value in body.items():
        inner = without_none(value) if isinstance(value, Mapping) else value
        if inner is not None and inner != {}:
            kept[name] = inner
    return kept
