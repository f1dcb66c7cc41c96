"""The check of the Host header."""

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware

from simservice.telemetry.tracing import INTERNAL_PATHS


class HostMiddleware(CommonMiddleware):
    """Rejects requests whose Host is not in `ALLOWED_HOSTS`.

    Orchestrators and Prometheus request internal paths by IP address. Their responses do not depend on the host.
    """

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        """Raise DisallowedHost if the host is wrong."""
        return None if request.path_info in INTERNAL_PATHS else super().process_request(request)
