from pathlib import Path

import pytest

from tests.stylesheets import FOLDER, problems, split


def found(folder: Path, **files: str) -> list[str]:
    """Return the problems of stylesheets; `__` in a name is a folder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.css"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return list(problems(folder))


def test_the_stylesheets_follow_the_rules() -> None:
    assert list(problems(FOLDER)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (".up { height: 13rem; }", ".up { opacity: 1; }"),
        (".up { height: 13rem; }", ".live .up { opacity: 1; }"),
        ("@media (max-width: 40rem) { a, b > .up { height: 13rem; } }", "td.up { opacity: 1; }"),
        (":is(.up, .down) { height: 13rem; }", ".live > .up { opacity: 1; }"),
    ],
)
def test_two_pages_cannot_style_a_class(tmp_path: Path, one: str, other: str) -> None:
    assert len(found(tmp_path, pages__chart=one, pages__live=other + ".live { margin: 0; }")) == 1


@pytest.mark.parametrize(
    "adapted",
    [
        ".hero { margin: 0; } .hero .card { padding: 0; }",
        ".hero { margin: 0; } .hero:has(.card) { padding: 0; }",
        ".hero { margin: 0; } .card .hero { padding: 0; }",
        "#hero .card { padding: 0; }",
    ],
)
def test_a_page_adapts_components_only_inside_its_own_parts(tmp_path: Path, adapted: str) -> None:
    assert found(tmp_path, components__card=".card { padding: 1rem; }", pages__home=adapted) == []
    outside = found(tmp_path, components__note=".note { margin: 0; }", pages__jobs=".note .card { padding: 0; }")
    assert outside == ["pages/jobs.css: `.note .card` changes components/card.css outside its own parts"]


def test_print_styles_hide_the_parts_of_others(tmp_path: Path) -> None:
    hidden = "@media print { .who, .log { display: none; } .who { margin: 0; } }"
    assert found(tmp_path, pages__results=".who { margin: 0; }", pages__job=hidden) == []


def test_the_admin_has_classes_of_its_own(tmp_path: Path) -> None:
    button = ".button { margin: 0; }"
    assert found(tmp_path, admin=button, components__button=button) == []


def test_a_comparison_is_made_of_the_parts_of_results(tmp_path: Path) -> None:
    parts = {
        "pages__results": ".who { margin: 0; }",
        "pages__compare": ".both { margin: 0; } .both .who { margin: 1px; }",
    }
    assert found(tmp_path, **parts) == []


@pytest.mark.parametrize("value", ["#fff", "#3b4cc080", "rgb(0 0 0 / 6%)", "hsl(0 0% 0%)", "1px solid white"])
def test_a_colour_outside_the_tokens_is_found(tmp_path: Path, value: str) -> None:
    assert found(tmp_path, tokens=f":root {{ --ink: {value}; }}") == []
    assert len(found(tmp_path, base=f"a {{ border: {value}; }}")) == 1


@pytest.mark.parametrize("value", ["var(--accent)", "currentcolor", "var(--bad-tint)", "no-red"])
def test_other_values_are_no_colours(tmp_path: Path, value: str) -> None:
    assert found(tmp_path, base=f"a {{ color: {value}; }}") == []


def test_there_are_three_breakpoints(tmp_path: Path) -> None:
    text = "@media (max-width: 40rem) { a { margin: 0; } } @media (min-width: 56.01rem) { a { margin: 0; } }"
    assert found(tmp_path, base=text) == []
    assert len(found(tmp_path, base="@media (max-width: 44rem) { a { margin: 0; } }")) == 1


def test_commas_in_parentheses_do_not_separate_selectors() -> None:
    assert split(":is(th, td) a, b") == [":is(th, td) a", "b"]
