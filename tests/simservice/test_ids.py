"""Ids of jobs and other objects, and tokens."""

import pytest

from simservice.ids import new_token, next_id, parse_id


@pytest.mark.django_db
def test_ids_have_eighteen_digits_and_grow() -> None:
    ids = [next_id() for _ in range(200)]
    assert ids == sorted(set(ids))
    assert {len(str(number)) for number in ids} == {18}


@pytest.mark.parametrize("text", ["", "1", "1" * 17, "1" * 19, "-" + "1" * 17, "1" * 17 + "a", "\u0661" * 18])
def test_other_texts_are_not_ids(text: str) -> None:
    assert parse_id(text) is None


def test_tokens_fit_their_column_and_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {22}
