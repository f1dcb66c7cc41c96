"""View that returns the OpenAPI document."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from simservice.api.errors import ValidationFailed, error_response
from simservice.api.fields import single_values
from simservice.api.methods import read_only
from simservice.api.operations import Operation, ResponseSpec, documented
from simservice.shapes import FreeObject

OPENAPI = Operation(
    id="getOpenApi",
    tag="Public",
    summary="Get the OpenAPI document",
    returns=ResponseSpec(description="This document.", shape=FreeObject, example={"openapi": "3.1.0"}),
)


@read_only
def openapi_address(request: HttpRequest) -> HttpResponse:  # noqa: ARG001
    """Redirect from the address where many tools look for the document."""
    return redirect("openapi")


@documented(OPENAPI)
@read_only
def openapi_document(request: HttpRequest) -> HttpResponse:
    """Respond with the OpenAPI document of this deployment."""
    try:
        single_values(request.GET, known=OPENAPI.query_names)
    except ValidationFailed as error:
        return error_response(error, request)
    from simservice.api.openapi import document_text  # imported late: it loads the generator (3 MB)

    headers = {"Cache-Control": "public, max-age=300"}
    return HttpResponse(document_text(), content_type="application/json", headers=headers)
