"""The API's own description, served."""

from django.http import HttpRequest, HttpResponse

from simservice.api.errors import ValidationFailed, error_response
from simservice.api.methods import read_only
from simservice.api.openapi import document_text
from simservice.api.operations import Answer, Operation, documented
from simservice.api.query import single_values
from simservice.api.shapes import FreeObject

OPENAPI = Operation(
    id="getOpenApi",
    tag="Public",
    summary="Read this document",
    answers={200: Answer(description="The document", shape=FreeObject, example={"openapi": "3.1.0"})},
)


@documented(OPENAPI)
@read_only
def openapi_document(request: HttpRequest) -> HttpResponse:
    """Answer with the OpenAPI document of this deployment."""
    try:
        single_values(request.GET, known=OPENAPI.query_names)
    except ValidationFailed as error:
        return error_response(error, request)
    headers = {"Cache-Control": "public, max-age=300"}
    return HttpResponse(document_text(), content_type="application/json", headers=headers)
