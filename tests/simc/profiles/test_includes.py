"""A profile and its included files, assembled into one text from which the simulator reads the same options."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from minisim.configuration import read_arguments, read_tokens
from minisim.values import SimulatorError
from simc.profiles.bundle import Bundle
from simc.profiles.grammar import Token, profileset_name, token_pairs
from simc.profiles.includes import BadInclude, flatten, has_includes
from simc.profiles.policy import Refusal, Rules
from tests.jobs.bundles import write

Read = list[tuple[str | None, str]]

LINES = [
    "mage=A level=80",
    'name="two words"',
    "# a remark",
    "\tactions=a  actions+=/b\r",
    "$(x)=1",
    "level=$(x)",
    "$(x)=2 spec=$(current_base_name)",
    "input=one.simc",
    "two.simc",
    'level=1 "input=sub/three.simc" race=orc',
    "input=$(x).simc",
    "profileset.a+=one.simc",
    'profileset."b c"=input=sub/three.simc',
    "profileset.a+=level=$(x)",
    "profileset.a=talents=x",
    "",
]
PATHS = ["one.simc", "two.simc", "sub/three.simc", "1.simc"]
texts = st.lists(st.sampled_from(LINES), max_size=6).map("\n".join)


def read_by_simulator(folder: Path) -> Read:
    """Return the options that the built-in simulator, which resolves includes itself, reads from `main.simc`."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return resolved([(option.name, option.value) for option in read_arguments(["main.simc"])])
    finally:
        os.chdir(before)


def resolved(options: Read) -> Read:
    """Replace the includes of profilesets by the files' options, as the simulator does when it builds them."""
    entries: Read = []
    for name, value in options:
        key = profileset_name(name or "")
        if key is None:
            entries.append((name, value))
            continue
        if not key[1]:
            entries.append((f"profileset.{key[0]}=", ""))
        for option in read_tokens([Token(0, value)]) if value else []:
            entries.append((f"profileset.{key[0]}", f"{option.name}={option.value}"))
    return entries


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(main=texts, files=st.lists(texts, min_size=4, max_size=4))
@example(
    main="input=one.simc\nlevel=$(current_base_name)\n",
    files=["input=two.simc\nspec=$(current_base_name)\n", "race=$(current_base_name)\n", "", ""],
)
@example(main="$(x)=9\nprofileset.a+=one.simc\nlevel=$(x)\n", files=["$(x)=1\nlevel=$(x)\n", "", "", ""])
@example(main='profileset."b c"=input=sub/three.simc\n', files=["", "", "level=1\ntwo.simc\n", ""])
def test_the_simulator_reads_the_same_options(tmp_path: Path, main: str, files: list[str]) -> None:
    folder = write(tmp_path / "run", {"main.simc": main})
    write(folder / "profiles", dict(zip(PATHS, files, strict=True)))
    try:
        flat = flatten(main, bundle=Bundle(folder / "profiles", PATHS))
    except BadInclude:
        return
    if any(isinstance(refusal, Refusal) for refusal in Rules().check(token_pairs(flat.text))):
        return
    try:
        expected = read_by_simulator(folder)
    except SimulatorError:
        # A variable that only the outer text defines: the assembled text can use it, the included file cannot.
        return
    write(folder, {"main.simc": flat.text})
    assert read_by_simulator(folder) == expected


def test_each_line_has_its_source(tmp_path: Path) -> None:
    write(tmp_path, {"a.simc": "x=1\n\nb.simc\n", "b.simc": "y=1 z=1\n"})
    flat = flatten("mage=A\na.simc\nlevel=80\n", bundle=Bundle(tmp_path, ["a.simc", "b.simc"]))
    lines = flat.text.splitlines()
    assert [(lines[n - 1], str(flat.source(n))) for n in range(2, len(lines) + 1)] == [
        ("mage=A", "Line 1"),
        ("x=1", "a.simc, line 1"),
        ("y=1", "b.simc, line 1"),
        ("z=1", "b.simc, line 1"),
        ("level=80", "Line 3"),
    ]
    assert flat.files == {"a.simc", "b.simc"}


@pytest.mark.parametrize("text", ["", "mage=A\n", 'profileset."a b"+=level=1\n$(x)=1\nlevel=$(x)\n'])
def test_a_profile_without_includes_needs_no_bundle(text: str) -> None:
    assert not has_includes(text)
    assert flatten(text, bundle=Bundle(Path("/nowhere"), [])).files == frozenset()


@pytest.mark.parametrize(
    "text", ["a.simc", "x=1 input=a.simc", '"profileset.a b+=a.simc"', "profileset.a=input=a.simc", "-", "$(x)"]
)
def test_every_form_of_include_is_detected(text: str) -> None:
    assert has_includes(text)


def test_exponential_includes_are_rejected(tmp_path: Path) -> None:
    paths = [f"{number}.simc" for number in range(19)]
    write(tmp_path, {path: f"{number + 1}.simc\n" * 50 for number, path in enumerate(paths[:-1])} | {paths[-1]: ""})
    with pytest.raises(BadInclude, match="more than 2,000 files"):
        flatten("0.simc\n", bundle=Bundle(tmp_path, paths))
