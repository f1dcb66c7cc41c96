"""A slow and simple implementation of the profile grammar, to compare the real one with."""

from simc.profiles.grammar import BOM, Token


class Undefined(Exception):
    """A template that the simulator rejects."""


def reference_tokens(text: str) -> list[Token]:
    """Return the tokens of a text, read one character at a time."""
    tokens: list[Token] = []
    for number, line in enumerate(text.removeprefix(BOM).split("\n"), start=1):
        while line[:1] in {" ", "\t", "\r"}:
            line = line[1:]
        if line[:1] != "#":
            tokens += [Token(number, word) for word in split_words(line)]
    return tokens


def split_words(line: str) -> list[str]:
    """Return the words of a line, split by a state machine."""
    words, buffer, is_quoted, has_plain_text = [], "", False, False
    for character in line:
        if character == '"':
            is_quoted, has_plain_text = not is_quoted, False
        elif is_quoted or character not in " \t\r":
            buffer += character
            has_plain_text = not is_quoted
        elif has_plain_text:
            words.append(buffer)
            buffer, has_plain_text = "", False
    return [*words, buffer] if buffer else words


def reference_expansion(text: str, variables: dict[str, str], *, depth: int = 1, begin: int = 0) -> str:
    """Return `text` with its templates replaced, from right to left."""
    if depth > 10 and "$(" in text[begin:]:
        raise Undefined
    start = text.find("$(", begin)
    if start < 0:
        return text
    text = reference_expansion(text, variables, depth=depth + 1, begin=start + 2)
    end = text.find(")", start)
    if end < 0 or text[start + 2 : end] not in variables:
        raise Undefined
    return text[:start] + variables[text[start + 2 : end]] + text[end + 1 :]
