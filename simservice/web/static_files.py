"""Static files: one stylesheet, and addresses that change with the content."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponseRedirect
from whitenoise.storage import CompressedManifestStaticFilesStorage

from simservice.api.methods import read_only

# The name of a copy: `css/site.0123456789ab.css`
HASHED = re.compile(r"(.+)\.[0-9a-f]{12}(\.\w+)")
STYLESHEETS = ("css/site.css", "css/admin.css")
IMPORT = re.compile(r'@import url\("([\w/.]+)"\)(?: layer\((\w+)\))?;')


def joined(stylesheet: Path) -> str:
    """Return a stylesheet with the files that it imports in place of the imports, each in its layer."""

    def content(found: re.Match[str]) -> str:
        text = (stylesheet.parent / found[1]).read_text()
        return f"@layer {found[2]} {{\n{text}}}" if found[2] else text

    return IMPORT.sub(content, stylesheet.read_text())


class CollectedFiles(CompressedManifestStaticFilesStorage):
    """What `collectstatic` writes: copies with a hash in their names, which browsers keep, and compressed ones."""

    def post_process(self, paths: dict[str, Any], **options: Any) -> Iterator[tuple[str, str, bool]]:
        """Join the stylesheets before their hashes are computed."""
        for stylesheet in () if options["dry_run"] else STYLESHEETS:
            storage, name = paths[stylesheet]
            Path(self.path(stylesheet)).write_text(joined(Path(storage.path(name))))
            paths = {**paths, stylesheet: (self, stylesheet)}
        yield from super().post_process(paths, **options)


@read_only
def another_version(request: HttpRequest, name: str) -> HttpResponseRedirect:  # noqa: ARG001
    """Redirect from the address of another version's file to the address that the file has in every version.

    During an upgrade, a page and its files can come from different versions.
    """
    found = HASHED.fullmatch(name)
    if not found:
        raise Http404
    return HttpResponseRedirect(f"{settings.STATIC_URL}{found[1]}{found[2]}")
