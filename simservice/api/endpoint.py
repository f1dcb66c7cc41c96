"""What every endpoint of the API has in common."""

from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from simservice.api.operations import operation_of
from simservice.api.query import single_values


class Endpoint(APIView):
    """An endpoint that accepts only the query parameters of its documented operation."""

    # Otherwise the framework lists OPTIONS in `Allow`, which no endpoint supports.
    http_method_names = [name for name in APIView.http_method_names if name != "options"]
    # The request's query parameters, none of them repeated.
    asked: dict[str, str]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check a request before its method runs. Raises ValidationFailed after the framework's own errors."""
        super().initial(request, *args, **kwargs)
        operation = operation_of(getattr(self, str(request.method).lower(), None))
        # The query of an operation with a body is part of the submission, which is checked after the body's size.
        if operation and not operation.bodies:
            self.asked = single_values(request.query_params, known=operation.query_names)
