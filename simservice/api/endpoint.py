"""Base view of all API endpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from simservice.api.fields import single_values
from simservice.api.operations import Header, Parameter, ResponseSpec, operation_of


class Endpoint(APIView):
    """View that accepts only the query parameters of its documented operation."""

    # No endpoint supports OPTIONS, which the framework would list in `Allow`.
    http_method_names = [name for name in APIView.http_method_names if name != "options"]
    # The query parameters of the request.
    query: dict[str, str]
    # What all operations of the endpoint have in addition to their own documentation
    common_parameters: Sequence[Parameter] = ()
    common_headers: Sequence[Header] = ()
    common_responses: Mapping[int, ResponseSpec] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the query parameters, after the framework's checks. Raises ValidationFailed."""
        super().initial(request, *args, **kwargs)
        operation = operation_of(getattr(self, str(request.method).lower(), None))
        # The query of a submission is checked after the size of its body.
        if operation and not operation.bodies:
            self.query = single_values(
                request.query_params, known=operation.query_names, prefixes=operation.query_prefixes
            )
