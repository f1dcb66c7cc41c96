"""Which form a body has: what its type says. And an answer: always JSON, whatever a caller's `Accept` says."""

from collections.abc import Iterable

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from simservice.api.parsers import without_parameters


class JsonOnly(BaseContentNegotiation):
    """Choose the parser by the body's exact type, and the one renderer there is."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        named = without_parameters(request.content_type)
        return next((parser for parser in parsers if parser.media_type == named), None)

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)
