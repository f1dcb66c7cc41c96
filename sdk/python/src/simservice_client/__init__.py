"""Client of the simulation service: submit profiles, wait, and read the results.

    from simservice_client import Client

    client = Client("https://sims.example", "your API key")
    result = client.jobs.run(open("mage.simc").read())
    for profileset in result.ranking:
        print(profileset.name, round(profileset.mean))

`AsyncClient` is the same for asyncio. Objects are in `simservice_client.models`, errors by code in
`simservice_client.error_codes`.
"""

from simservice_client._async.client import AsyncClient
from simservice_client._results import Cancellation
from simservice_client._sync.client import Client
from simservice_client._version import __version__
from simservice_client.errors import (
    ApiError,
    DownloadFailed,
    InvalidSignature,
    JobNotCompleted,
    NoFigures,
    NotConfigured,
    ServiceUnreachable,
    SimserviceError,
    UnexpectedResponse,
    UnknownEvent,
    WaitTimedOut,
)
from simservice_client.submissions import Options, submission
from simservice_client.webhooks import event_id_of, verify_event, verify_webhook

__all__ = [
    "ApiError",
    "AsyncClient",
    "Cancellation",
    "Client",
    "DownloadFailed",
    "InvalidSignature",
    "JobNotCompleted",
    "NoFigures",
    "NotConfigured",
    "Options",
    "ServiceUnreachable",
    "SimserviceError",
    "UnexpectedResponse",
    "UnknownEvent",
    "WaitTimedOut",
    "__version__",
    "event_id_of",
    "submission",
    "verify_event",
    "verify_webhook",
]
