"""Settings of a local stack, and their messages."""

from pathlib import Path

import pytest

from localstack import stack
from localstack.folder import DataFolder


@pytest.mark.parametrize(("chosen", "lines"), [(None, 1), ("true", 0)], ids=["by default", "unless asked for"])
def test_the_admin_needs_no_second_factor_and_a_message_says_so(
    chosen: str | None,
    lines: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("ADMIN_REQUIRES_MFA", raising=False)
    if chosen:
        monkeypatch.setenv("ADMIN_REQUIRES_MFA", chosen)
    settings = stack._settings(DataFolder(tmp_path), port=1, secret_key="any")
    stack._report_relaxed_settings(settings)
    assert settings["ADMIN_REQUIRES_MFA"] == (chosen or "false")
    assert capsys.readouterr().err.count("ADMIN_REQUIRES_MFA=false") == lines
