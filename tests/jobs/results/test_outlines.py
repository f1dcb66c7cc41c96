"""Outlines of profiles, from their beginning."""

import pytest
from pytest_django import DjangoAssertNumQueries

from jobs.models import JobProfile
from jobs.results.outlines import HEAD_CHARACTERS, Outline, outline_of, outlines_of
from tests.factories import make_job


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("", Outline()),
        (
            'mage="Frosty"\nspec=frost\nfight_style=Patchwerk\ndesired_targets=3\nmax_time=300\n',
            Outline(class_name="mage", specialization="frost", fight_style="Patchwerk", targets=3, seconds=300.0),
        ),
        # The first actor, its own specialization, and the last value of an option count.
        (
            "fight_style=A\ndeathknight=x\nspec=blood\nmage=y\nspec=fire\nfight_style=B",
            Outline(class_name="deathknight", specialization="blood", fight_style="B"),
        ),
        ("# mage=x\ndesired_targets=many\nmax_time=long", Outline()),
        (f"fight_style={'x' * 41}\nmage={'y' * 41}", Outline()),
    ],
)
def test_an_outline_is_what_the_profile_says(head: str, expected: Outline) -> None:
    found = outline_of(head)
    assert (found.targets or None, found.seconds or None) == (expected.targets, expected.seconds)
    assert (found.class_name, found.specialization, found.fight_style) == (
        expected.class_name,
        expected.specialization,
        expected.fight_style,
    )


def test_a_line_that_is_cut_does_not_count() -> None:
    head = "mage=x\n" + "#" * (HEAD_CHARACTERS - 27) + "\nfight_style=Patch"
    assert outline_of(head.ljust(HEAD_CHARACTERS, "w")).fight_style == ""


@pytest.mark.django_db
def test_only_stored_profiles_have_outlines(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    jobs = [make_job(text=f"{name}=x\n" + "a" * 20_000) for name in ("mage", "monk")]
    JobProfile.objects.filter(pk=jobs[0].pk).delete()
    with django_assert_num_queries(1):
        found = outlines_of(jobs)
    assert {key: one.class_name for key, one in found.items()} == {jobs[1].pk: "monk"}
    assert outlines_of([]) == {}
