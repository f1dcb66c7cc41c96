"""Details of a job's result, as readers see them."""

import json
import zlib
from datetime import timedelta
from hashlib import sha512
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job, JobDetails
from jobs.results import details
from jobs.results.details import Buff, Timeline
from tests import factories

pytestmark = pytest.mark.django_db

DOCUMENT: dict[str, Any] = {
    "version": 1,
    "fight": {"style": "Patchwerk", "targets": 1, "length": 300, "targetError": 0.1},
    "actors": [
        {
            "name": "Base",
            "class": "mage",
            "dps": {"mean": 100.5, "error": 1},
            "abilities": [{"name": "Pet", "pet": True, "share": 0.25, "children": [{"name": "Bite", "id": 7}]}],
            "buffs": [{"name": "Haste", "uptime": 30.5, "debuff": False}],
            "damage": {"step": 1, "values": [1, 2.5]},
            "stats": {"attribute": {"stamina": 5}},
            "gear": [{"slot": "head", "name": "Hat"}],
            "talents": "ABC",
        }
    ],
}


def job_with(content: bytes, *, version: int = 1) -> Job:
    job = factories.make_job()
    JobDetails.objects.create(job=job, version=version, document=content)
    return job


def unpacked(content: bytes) -> Any:
    assert len(content) <= details.MAX_BYTES
    return json.loads(zlib.decompress(content))


def outcome(content: bytes | None) -> Outcome:
    return Outcome(
        status=Status.COMPLETED, summary={}, sim_duration_ms=1, credits_consumed=1, percent=100.0, details=content
    )


def test_details_have_the_shape_of_the_document() -> None:
    found = details.details_of(job_with(details.packed(DOCUMENT)))
    assert found is not None
    assert (found.fight.style, found.fight.targets, found.fight.target_error) == ("Patchwerk", 1, 0.1)
    actor = found.actors[0]
    assert (actor.class_name, actor.dps and actor.dps.mean, actor.talents) == ("mage", 100.5, "ABC")
    assert (actor.abilities[0].pet, actor.abilities[0].children[0].id) == (True, 7)
    assert actor.buffs == (Buff(name="Haste", uptime=30.5),)
    assert actor.damage == Timeline(step=1.0, values=(1.0, 2.5))
    assert actor.stats is not None
    assert actor.stats.attribute == {"stamina": 5.0}


def test_a_job_without_details_has_none() -> None:
    assert details.details_of(factories.make_job()) is None


def test_details_of_several_jobs_take_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    good, broken, none = job_with(details.packed(DOCUMENT)), job_with(b"x"), factories.make_job()
    with django_assert_num_queries(1):
        found = details.details_of_jobs([good, broken, none])
    assert found == {good.pk: details.details_of(good)}


def test_details_of_several_jobs_are_unavailable_after_retention() -> None:
    expired, cleared = job_with(details.packed(DOCUMENT)), job_with(details.packed(DOCUMENT))
    expired.created_at = timezone.now() - timedelta(days=30, seconds=1)
    cleared.cleared_at = cleared.created_at
    assert details.details_of_jobs([expired, cleared]) == {}
    assert details.details_of(expired) is details.details_of(cleared) is None


@pytest.mark.parametrize("content", [b"", b"{}", zlib.compress(b"{"), zlib.compress(b"[]"), zlib.compress(b"1")])
def test_an_unreadable_document_counts_as_none(content: bytes) -> None:
    assert details.details_of(job_with(content)) is None


def test_a_document_of_another_version_counts_as_none() -> None:
    assert details.details_of(job_with(details.packed(DOCUMENT), version=2)) is None


def test_parts_of_a_wrong_type_are_left_out() -> None:
    parts = {"name": 1, "level": "x", "dps": [], "abilities": {}, "buffs": [1], "damage": {"values": 1}, "stats": 3}
    found = details.details_of(job_with(details.packed({"actors": [parts, 5], "fight": None})))
    assert found is not None
    assert found.actors == (details.Actor(),)


def test_an_endless_document_is_not_unpacked() -> None:
    bomb = zlib.compress(b'{"version":1,"actors":["' + b" " * (64 << 20) + b'"]}')
    assert details.document_of(job_with(bomb)) is None


class TestEnd:
    def test_the_end_of_a_job_stores_its_details(self) -> None:
        job = factories.make_running_job()
        assert job_moves.finish(job, outcome(details.packed(DOCUMENT)))
        assert details.document_of(job) == DOCUMENT

    def test_an_end_without_details_stores_none(self) -> None:
        assert job_moves.finish(factories.make_running_job(), outcome(None))
        assert not JobDetails.objects.exists()

    def test_a_replaced_attempt_stores_none(self) -> None:
        stale = factories.make_running_job()
        fresh = Job.objects.get(pk=stale.pk)
        assert job_moves.requeue(fresh, reason="lost")
        assert factories.start_attempt(fresh, worker="w2")
        assert not job_moves.finish(stale, outcome(details.packed(DOCUMENT)))
        assert not JobDetails.objects.exists()

    def test_a_second_end_changes_nothing(self) -> None:
        job = factories.make_running_job()
        assert job_moves.finish(job, outcome(details.packed(DOCUMENT)))
        assert not job_moves.finish(job, outcome(details.packed({"version": 1})))
        assert details.document_of(job) == DOCUMENT

    def test_an_undone_end_leaves_none(self) -> None:
        job = factories.make_running_job()
        with transaction.atomic():
            assert job_moves.finish(job, outcome(details.packed(DOCUMENT)))
            transaction.set_rollback(True)
        assert not JobDetails.objects.exists()


def noise(number: float) -> str:
    """Return a text that cannot be compressed well."""
    return sha512(str(number).encode()).hexdigest()


class TestSize:
    @pytest.mark.slow
    def test_a_large_document_loses_its_smallest_abilities(self) -> None:
        abilities = [{"name": noise(number), "share": 0.5} for number in range(200)]
        parents = [{**ability, "children": [{"name": noise(-n)} for n in range(200)]} for ability in abilities]
        actors = [{"name": noise(n), "abilities": parents, "resources": [{"name": "mana"}]} for n in range(10)]
        kept = unpacked(details.packed({"version": 1, "actors": actors}))["actors"][0]
        assert 0 < len(kept["abilities"][0]["children"]) < 200
        assert kept["abilities"][0]["name"] == noise(0)
        assert kept["resources"] == [{"name": "mana"}]

    def test_plots_are_dropped_before_weights(self) -> None:
        rest = {"name": "a", "gear": [{"name": "Hat"}], "weights": {"pawn": "x"}}
        actors = [{**rest, "plots": [{"stat": noise(n + m / 99)} for m in range(90)]} for n in range(50)]
        assert unpacked(details.packed({"version": 1, "actors": actors}))["actors"] == [rest] * 50

    @pytest.mark.parametrize("part", ["resources", "gear", "weights"])
    def test_then_it_loses_other_parts(self, part: str) -> None:
        actors = [{"name": "a", part: [{"name": noise(n + 1 / m)} for m in range(1, 100)]} for n in range(50)]
        assert unpacked(details.packed({"version": 1, "actors": actors}))["actors"] == [{"name": "a"}] * 50


def test_secrets_are_removed() -> None:
    content = details.packed(DOCUMENT, scrub=lambda text: text.replace("Haste", "[removed]"))
    assert unpacked(content)["actors"][0]["buffs"][0]["name"] == "[removed]"


def test_only_shown_actors_have_lists() -> None:
    document = {"actors": [{"name": name, "abilities": [{"name": "Bolt"}]} for name in "abcd"]}
    actors = details.details_in(document, shown=[1, 99]).actors
    assert [(actor.name, len(actor.abilities)) for actor in actors] == [("a", 0), ("b", 1), ("c", 0), ("d", 1)]
