"""Previews of jobs while simulators run them."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.models import Build, Job
from jobs.preview import Figures, Preview, preview_of
from simservice.redis.client import redis
from tests.jobs.shards.sharded_runs import NAMES, during, make_simulator, submit
from tests.jobs.shards.sharded_runs import results_of as sharded_results_of
from tests.jobs.simulators import REPORT, make_stand_in, run_with_action, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PRINT = """
def show(label, phase, done, total, mean, error, end='\\r'):
    text = f'Generating {label} {phase}/4 [=>..] {done}/{total} 85.2 Mean={mean} Error={error:.3f}% 1sec'
    print(text, end=end, flush=True)
"""
# A baseline of four updates, and three profilesets, the second of which is the best
ALONE = f"""{PRINT}
for number, error in enumerate([4, 2, 1, .5], start=1):
    show('Baseline:', 1, number, 4, 990 + 10 * number / 4, error, end='\\n' if number == 4 else '\\r')
    time.sleep(1.2)
for phase, (name, mean) in enumerate([('a', 900), ('b', 1100), ('c', 1050)], start=2):
    show(f'Profileset: {{name}}', phase, 1, 2, 7, 5)
    show(f'Profileset: {{name}}', phase, 2, 2, mean, .5, end='\\n')
    time.sleep(1.2)
report = {REPORT!r}
sets = [{{'name': name, 'mean': 1, 'mean_stddev': 1, 'stddev': 9, 'min': 0, 'max': 2}} for name in 'abc']
report['sim']['profilesets'] = {{'metric': 'Damage per Second', 'results': sets}}
json.dump(report, open('report.json', 'w'))
"""
THREE_SETS = 'mage="A"\nprofileset.a+=level=1\nprofileset.b+=level=2\nprofileset.c+=level=3\n'
# As a shard: the profilesets of the first one, and the baselines of the others, have one iteration.
IN_SHARDS = f"""{PRINT}
def run(seconds):
    show('Baseline:', 1, 9, 9, 1000 if is_first else 1, .2, end='\\n')
    for phase, name in enumerate(names, start=2):
        time.sleep(0 if is_first else 2.5 if name == 'set 12' else seconds)
        done.append(name)
        show(f'Profileset: {{name}}', phase, 9, 9, 999999 if is_first else entry(name)['mean'], .5, end='\\n')
"""


def follow(seen: list[Preview]) -> Callable[[Job], None]:
    """Return a function that collects the previews of a job until it ends."""

    def look(job: Job) -> None:
        while Job.objects.filter(pk=job.pk, status="running").exists():
            preview = preview_of(job)
            if preview is not None and preview not in seen:
                seen.append(preview)
            time.sleep(0.1)

    return look


def test_a_preview_grows_while_a_job_runs(tmp_path: Path) -> None:
    make_stand_in(tmp_path, ALONE)
    seen: list[Preview] = []
    job = run_with_action(follow(seen), text=THREE_SETS)
    errors = [preview.baseline.error for preview in seen if preview.baseline]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) >= 3
    assert [preview.finished for preview in seen] == sorted(preview.finished for preview in seen)
    assert [entry.name for entry in seen[-1].best][:2] == ["b", "c"]
    assert job.status == "completed"
    assert {entry.mean for preview in seen for entry in preview.best} <= {900, 1100, 1050}
    assert seen[-1].baseline == Figures(mean=1000, error=5)
    job.status = "completed"
    assert preview_of(job) is None


def test_the_time_left_shrinks(tmp_path: Path) -> None:
    make_stand_in(tmp_path, ALONE)
    seen: list[Preview] = []
    run_with_action(follow(seen), text=THREE_SETS)
    left = [preview.seconds_left for preview in seen if preview.seconds_left is not None]
    assert seen[0].seconds_left is None
    assert len(left) >= 2
    assert 0 <= left[-1] < left[0] <= 20


def test_the_built_in_simulators_preview_is_its_result(minisim: Build) -> None:
    seen: list[Preview] = []
    sets = "".join(f"profileset.{n}+=trinket1=stone,id={n},ilevel={600 + n}\n" for n in range(1, 9))
    job = run_with_action(follow(seen), text=f'mage="A"\nlevel=80\ntarget_error=0.05\n{sets}')
    assert job.summary is not None, job.status_reason
    actor = job.summary["mainActor"]
    means = {entry["name"]: entry["mean"] for entry in actor["profilesets"]["results"]}
    assert seen[-1].best, "the job ended before a profileset was seen"
    for entry in seen[-1].best:
        assert entry.mean == pytest.approx(means[entry.name], abs=1)
        assert entry.error == pytest.approx(entry.mean * 0.0005, rel=0.05)
    assert seen[-1].baseline is not None
    assert seen[-1].baseline.mean == pytest.approx(actor["mean"], abs=1)


def test_several_slots_contribute_to_one_preview(tmp_path: Path) -> None:
    make_simulator(tmp_path, IN_SHARDS, seconds=0.7)
    seen: list[Preview] = []
    job = submit()

    def look() -> None:
        wait_until(lambda: Job.objects.get(pk=job.pk).status == "running")
        follow(seen)(Job.objects.get(pk=job.pk))

    ended = during(job, look, helpers=2)
    assert (ended.status, ended.slots_used) == ("completed", 3)
    means, last = sharded_results_of(ended), seen[-1]
    assert all(preview.baseline in (None, Figures(mean=1000, error=2)) for preview in seen)
    assert all(entry.mean == means[entry.name] for preview in seen for entry in preview.best)
    assert len({preview.finished for preview in seen}) >= 3
    assert last.count - 1 <= last.finished <= last.count == len(NAMES)
    assert [entry.name for entry in last.best] == NAMES[last.finished - 1 :: -1]


def test_emptying_redis_changes_only_the_preview(tmp_path: Path) -> None:
    make_simulator(tmp_path, IN_SHARDS, seconds=0.3)
    job = submit()

    def empty() -> None:
        wait_until(lambda: bool(redis().keys(f"shards:{job.pk}*")))
        redis().flushdb()

    ended = during(job, empty, helpers=2)
    assert (ended.status, len(sharded_results_of(ended))) == ("completed", len(NAMES))
