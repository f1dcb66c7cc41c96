"""The tokenizer splits exactly where the simulator splits."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simc.profiles import grammar
from simc.profiles.grammar import (
    BOM,
    Option,
    TemplateError,
    Templates,
    Token,
    decode,
    expand_templates,
    profileset_name,
    token_pairs,
    tokens,
)
from tests.simc.profiles.reference import Undefined, reference_expansion, reference_tokens


def texts(text: str) -> list[str]:
    return [token.text for token in tokens(text)]


def expanded(text: str) -> list[tuple[str | None, str]]:
    return [(option.name, option.value) for option in expand_templates(tokens(text), {})]


# Pieces that the parser treats specially, so that a few of them already form a difficult case.
PIECES = [
    "a",
    "b=",
    "=",
    '"',
    " ",
    "\t",
    "\r",
    "\n",
    "#",
    "+",
    ".",
    "-",
    "$",
    "$(",
    "$(x)",
    ")",
    "x",
    "profileset.",
    "input=",
]
# Separators for Python, but not for the simulator.
ASCII_PIECES = ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f"]
STRANGE_PIECES = [BOM, "é", "\0", "\v", "\f", "\x85", "\xa0", "\u2028", "😀"]
generated = st.lists(st.sampled_from(PIECES + STRANGE_PIECES), max_size=40).map("".join)
thoroughly = settings(max_examples=100_000 if os.environ.get("SIMSERVICE_LONG") else 300, deadline=None)


@pytest.mark.timeout(1800)
@thoroughly
@given(generated)
def test_any_text_is_read_like_the_reference(text: str) -> None:
    assert list(tokens(text)) == reference_tokens(text)


@pytest.mark.timeout(1800)
@thoroughly
@given(st.lists(st.sampled_from([*PIECES, *ASCII_PIECES]), max_size=40).map("".join))
def test_any_ascii_text_is_read_like_the_reference(text: str) -> None:
    assert list(token_pairs(text)) == reference_tokens(text)


@pytest.mark.timeout(1800)
@thoroughly
@given(
    st.lists(st.sampled_from(["a", "$", "$(", "$(a)", "$(b)", "$(ab)", "(", ")", "=", " "]), max_size=25).map(
        "".join
    )
)
def test_any_value_is_expanded_like_the_reference(value: str) -> None:
    variables = {"a": "b", "b": "$(a)", "ab": ""}
    try:
        expected = reference_expansion(value, variables)
    except Undefined:
        with pytest.raises(TemplateError):
            Templates(variables).expand(Token(1, f"x={value}"))
    else:
        assert Templates(variables).expand(Token(1, f"x={value}")) == Option(1, "x", expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a=1 b=2\tc=3\rd=4", ["a=1", "b=2", "c=3", "d=4"]),
        ("a=1\x0bb=2\x0cc=3\xa0d=4\u2028e=5", ["a=1\x0bb=2\x0cc=3\xa0d=4\u2028e=5"]),
        ('name="A B"', ["name=A B"]),
        ('h"tm"l=/x', ["html=/x"]),
        ("it's=1 2", ["it's=1", "2"]),
        ('a="x y" b=1', ["a=x yb=1"]),
        ('name="" b=2', ["name=b=2"]),
        ('a="x"   \t b c', ["a=xb", "c"]),
        ('"a b"c d', ["a bc", "d"]),
        ('a="x y', ["a=x y"]),
        ('""', []),
    ],
)
def test_separators_and_quotes(line: str, expected: list[str]) -> None:
    assert texts(line) == expected


def test_an_unclosed_quote_ends_with_its_line() -> None:
    assert texts('a="x\nb=2') == ["a=x", "b=2"]


def test_only_a_line_feed_ends_a_line() -> None:
    assert [token.line for token in tokens("a\r\nb\x85c\u2029d\n\n \t\ne\rf")] == [1, 2, 5, 5]


def test_a_comment_starts_at_the_beginning_of_a_line() -> None:
    assert texts("# a=1\n \t\r# b=2\nc=3 # d") == ["c=3", "#", "d"]


def test_a_quote_hides_a_comment_sign() -> None:
    assert texts('"#" a=1') == ["#a=1"]


def test_one_byte_order_mark_is_skipped() -> None:
    assert texts("\ufeff# note\na=1") == ["a=1"]
    assert texts("\ufeff\ufeffa=1") == ["\ufeffa=1"]
    assert texts("a=1\n\ufeffb=2") == ["a=1", "\ufeffb=2"]


def test_name_and_value_are_split_at_the_first_equals_sign() -> None:
    token = Token(1, "actions+=/strike,if=a=b")
    assert (token.name, token.value) == ("actions+", "/strike,if=a=b")


def test_a_bare_token_has_neither_name_nor_value() -> None:
    token = Token(1, "frost_mage.simc")
    assert (token.name, token.value) == (None, None)


def test_an_empty_name_is_a_name() -> None:
    assert (Token(1, "=x").name, Token(1, "x=").value) == ("", "")


def test_decode_falls_back_to_latin_1_line_by_line() -> None:
    assert decode(b"a=\xc3\xa9\nb=\xe9\nc=\xc3\xa9") == "a=é\nb=é\nc=é"


def test_decode_keeps_the_mark_before_an_invalid_first_line() -> None:
    assert texts(decode(b"\xef\xbb\xbfa=\xe9")) == ["a=é"]


@given(st.binary())
def test_decode_accepts_any_bytes_and_keeps_lines(data: bytes) -> None:
    assert decode(data).count("\n") == data.count(b"\n")


def test_tokens_are_read_line_by_line() -> None:
    stream = tokens("a=1\nb=2")
    assert next(stream) == Token(1, "a=1")


def test_templates_work_in_names_values_and_bare_tokens() -> None:
    text = "$(who)=mage $(line)=level=80\n$(who)=$(who)s x$(who)=1 $(line) $(who).simc y=$(who)$(who)"
    assert expanded(text) == [("xmages", "1"), ("level", "80"), (None, "mages.simc"), ("y", "magesmages")]


def test_a_template_name_may_be_built_from_templates() -> None:
    assert expanded("$(n)=2 $(v2)=two a=$(v$(n)) $(v$(n)x)=3 b=$(v2x)") == [("a", "two"), ("b", "3")]


def test_a_name_keeps_an_equals_sign_from_its_template() -> None:
    option = Option(1, "a=b", "1")
    assert list(expand_templates(tokens("$(x)=a=b\n"), {})) == []
    assert list(expand_templates([Token(1, "a$(x)=1")], {"x": "=b"})) == [option]


def test_variables_are_shared_between_texts() -> None:
    variables: dict[str, str] = {}
    assert list(expand_templates(tokens("$(x)=1"), variables)) == []
    assert list(expand_templates(tokens("a=$(x)"), variables)) == [Option(1, "a", "1")]


@pytest.mark.parametrize("text", ["a=$(x)", "a=$(x", "$(x=1", "$=1", "$()=1\na=$(y)"])
def test_an_invalid_template_raises_an_error(text: str) -> None:
    with pytest.raises(TemplateError):
        expanded(text)


def test_a_token_contains_at_most_ten_templates() -> None:
    assert expanded("$(x)=y\na=" + "$(x)" * 10) == [("a", "y" * 10)]
    with pytest.raises(TemplateError, match="Nesting depth") as caught:
        expanded("$(x)=y\na=" + "$(x)" * 11)
    assert caught.value.line == 2


def test_templates_that_multiply_are_stopped() -> None:
    doubling = "".join(f"$(v{level + 1})={f'$(v{level})' * 10}\n" for level in range(12))
    with pytest.raises(TemplateError, match=str(grammar.MAX_EXPANSION)):
        expanded("$(v0)=x\n" + doubling)


def test_templates_that_fail_count_against_the_limit() -> None:
    templates = Templates({"big": "x" * (grammar.MAX_EXPANSION - 1)})
    for message in ("Missing template variable", str(grammar.MAX_EXPANSION)):
        with pytest.raises(TemplateError, match=message):
            templates.expand(Token(1, "a=$(missing)$(big)"))


def test_a_message_shortens_a_long_name() -> None:
    for text in (f"a=$({'x' * 1000})", f"${'x' * 1000}=1"):
        with pytest.raises(TemplateError) as caught:
            expanded(text)
        assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("profileset.A B", ("A B", False)),
        ("profileset.A+", ("A", True)),
        ("profileset.", ("", False)),
        ("profileset.a.b", None),
        ("profileset", None),
        ("profilesets.a", None),
        ("Profileset.a", None),
    ],
)
def test_profileset_names(name: str, expected: tuple[str, bool] | None) -> None:
    assert profileset_name(name) == expected
