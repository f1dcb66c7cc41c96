"""The locale of HTML reports, which most machines lack."""

import shutil
import subprocess
from pathlib import Path

import pytest

from sandbox import locales
from tests.sandbox.bench import Bench

needs_source = pytest.mark.skipif(locales.source() is None, reason="this system has no C.UTF-8 of glibc")
COMPILER = shutil.which("c++") or ""
# What builds of 2025 do before they write the HTML report; without the locale, this ends with SIGABRT.
PROGRAM = """
#include <iostream>
#include <locale>
int main() {
    std::locale::global(std::locale("en_US.UTF-8"));
    std::cout << "uses " << std::locale().name() << " " << 1234567 << std::endl;
}
"""


@needs_source
@pytest.mark.parametrize("name", ["en_US.UTF-8", "en_US.utf8", "en_US.UTF8", "C.UTF-8"])
def test_the_sandbox_has_the_locale_of_html_reports(bench: Bench, name: str) -> None:
    assert bench.run("use_locale", name).exit_status == 0
    assert bench.printed() == [f"uses {name}"]


@needs_source
@pytest.mark.skipif(not COMPILER, reason="there is no C++ compiler")
def test_a_cpp_program_finds_the_locale(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(PROGRAM)
    bench.executable = bench.build / "program"
    subprocess.run([COMPILER, tmp_path / "program.cpp", "-o", bench.executable], check=True)
    assert bench.run().exit_status == 0
    assert bench.printed() == ["uses en_US.UTF-8 1234567"]


def test_without_a_locale_to_link_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LOCPATH` would only hide the locales that the machine has."""
    monkeypatch.setattr(locales, "source", lambda: None)
    locales.link_into(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert locales.environment(tmp_path) == {}
