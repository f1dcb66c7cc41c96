"""Previews of jobs while simulators run them."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.live.preview import Figures, Preview, preview_of
from jobs.models import Build, Job
from simservice.redis.client import redis
from tests.jobs.shards.sharded_runs import NAMES, during, make_simulator, submit
from tests.jobs.shards.sharded_runs import results_of as sharded_results_of
from tests.jobs.simulators import REPORT, make_stand_in, run_with_action, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# A simulator that repeats some updates until the test has seen them, so that the machine's speed does not matter
PRINT = """
def show(label, phase, done, total, mean, error, end='\\r'):
    time_text = '1.000' if done == total else '1sec'
    text = f'Generating {label} {phase}/4 [=>..] {done}/{total} 85.2 Mean={mean} Error={error:.3f}% {time_text}'
    print(text, end=end, flush=True)

def show_until_seen(sight, *update, end='\\r'):
    deadline = time.monotonic() + 60
    while not os.path.exists(f'{folder}/{sight}') and time.monotonic() < deadline:
        show(*update)
        time.sleep(.2)
    show(*update, end=end)
"""
# A baseline of four updates, and three profilesets, the second of which is the best
ALONE = f"""{PRINT}
for number, error in enumerate([4, 2, 1, .5], start=1):
    mean = 990 + 10 * number / 4
    end = '\\n' if number == 4 else '\\r'
    show_until_seen(f'baseline {{mean}}', 'Baseline:', 1, 100 * number, 400, mean, error, end=end)
for phase, (name, mean) in enumerate([('a', 900), ('b', 1100), ('c', 1050)], start=2):
    show(f'Profileset: {{name}}', phase, 100, 200, 7, 5)
    show_until_seen(f'finished {{phase - 1}}', f'Profileset: {{name}}', phase, 200, 200, mean, .5, end='\\n')
report = {REPORT!r}
sets = [{{'name': name, 'mean': 1, 'mean_stddev': 1, 'stddev': 9, 'min': 0, 'max': 2}} for name in 'abc']
report['sim']['profilesets'] = {{'metric': 'Damage per Second', 'results': sets}}
json.dump(report, open('report.json', 'w'))
"""
THREE_SETS = 'mage="A"\nprofileset.a+=level=1\nprofileset.b+=level=2\nprofileset.c+=level=3\n'
# As a shard: the profilesets of the first one, and the baselines of the others, have one iteration.
IN_SHARDS = f"""{PRINT}
def run(seconds):
    show('Baseline:', 1, 900, 900, 1000 if is_first else 1, .392, end='\\n')
    for phase, name in enumerate(names, start=2):
        time.sleep(0 if is_first else seconds)
        if name == 'set 12' and not is_first:
            show_until_seen('finished 11', 'Baseline:', 1, 900, 900, 1, .2)
        done.append(name)
        show(f'Profileset: {{name}}', phase, 900, 900, 999999 if is_first else entry(name)['mean'], .5, end='\\n')
"""

# As a shard with fixed iterations: no means are printed. The last profileset waits until a finished shard was seen.
WITHOUT_MEANS = """
def run(seconds):
    for phase, name in enumerate(names, start=2):
        deadline = time.monotonic() + 60
        while name == 'set 12' and not is_first and not os.path.exists(f'{folder}/ranked'):
            time.sleep(.1)
            assert time.monotonic() < deadline
        time.sleep(0 if is_first else seconds)
        done.append(name)
        print(f'Generating Profileset: {name} {phase}/4 [=>..] 9/9 85.2 1.000', flush=True)
"""


def with_folder(folder: Path, body: str) -> str:
    """Return the text of a simulator that finds in `folder` which updates were seen."""
    return f"folder = {str(folder)!r}\n{body}"


def follow(seen: list[Preview], folder: Path) -> Callable[[Job], None]:
    """Return a function that collects the previews of a job, and tells the simulator what was seen."""

    def look(job: Job) -> None:
        while Job.objects.filter(pk=job.pk, status="running").exists():
            preview = preview_of(job)
            if preview is not None and preview not in seen:
                seen.append(preview)
                (folder / f"finished {preview.finished}").touch()
                if preview.best:
                    (folder / "ranked").touch()
                if preview.baseline is not None:
                    (folder / f"baseline {preview.baseline.mean}").touch()
            time.sleep(0.1)

    return look


def baselines_in(seen: list[Preview]) -> set[tuple[float, float]]:
    """Return the different baselines of previews, with their errors rounded."""
    baselines = [preview.baseline for preview in seen if preview.baseline]
    return {(baseline.mean, round(baseline.error, 2)) for baseline in baselines}


def test_a_preview_grows_while_a_job_runs(tmp_path: Path) -> None:
    make_stand_in(tmp_path, with_folder(tmp_path, ALONE))
    seen: list[Preview] = []
    job = run_with_action(follow(seen, tmp_path), text=THREE_SETS)
    errors = [preview.baseline.error for preview in seen if preview.baseline]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == 4
    assert sorted({preview.finished for preview in seen}) == [0, 1, 2, 3]
    assert [preview.finished for preview in seen] == sorted(preview.finished for preview in seen)
    assert [entry.name for entry in seen[-1].best] == ["b", "c", "a"]
    assert json.loads(str(redis().get(f"progress:{job.pk}:{job.attempt}")))["variants"] == 3
    assert job.status == "completed"
    assert {entry.mean for preview in seen for entry in preview.best} == {900, 1100, 1050}
    assert seen[-1].baseline == Figures(mean=1000, error=5)
    left = [preview.seconds_left for preview in seen if preview.seconds_left is not None]
    assert seen[0].seconds_left is None
    assert len(left) >= 2
    assert 0 <= left[-1] < left[0]
    job.status = "completed"
    assert preview_of(job) is None


def test_the_built_in_simulators_preview_is_its_result(minisim: Build, tmp_path: Path) -> None:
    seen: list[Preview] = []
    sets = "".join(f"profileset.{n}+=trinket1=stone,id={n},ilevel={600 + n}\n" for n in range(1, 9))
    job = run_with_action(follow(seen, tmp_path), text=f'mage="A"\nlevel=80\ntarget_error=0.05\n{sets}')
    assert job.summary is not None, job.status_reason
    actor = job.summary["mainActor"]
    means = {entry["name"]: entry["mean"] for entry in actor["profilesets"]["results"]}
    assert seen[-1].best, "the job ended before a profileset was seen"
    for entry in seen[-1].best:
        assert entry.mean == pytest.approx(means[entry.name], abs=1)
        assert entry.error == pytest.approx(entry.mean * 0.0005, rel=0.05)
    assert seen[-1].baseline is not None
    assert seen[-1].baseline.mean == pytest.approx(actor["mean"], abs=1)


def followed(tmp_path: Path, *, helpers: int) -> tuple[Job, list[Preview]]:
    """Run a job with helpers. Return the ended job and the previews that were seen while it ran."""
    seen: list[Preview] = []
    job = submit()

    def look() -> None:
        wait_until(lambda: Job.objects.get(pk=job.pk).status == "running")
        follow(seen, tmp_path)(Job.objects.get(pk=job.pk))

    return during(job, look, helpers=helpers), seen


def test_several_slots_contribute_to_one_preview(tmp_path: Path) -> None:
    make_simulator(tmp_path, with_folder(tmp_path, IN_SHARDS), seconds=0.7)
    ended, seen = followed(tmp_path, helpers=2)
    assert (ended.status, ended.slots_used) == ("completed", 3)
    means, last = sharded_results_of(ended), seen[-1]
    assert baselines_in(seen) == {(1000, 3.92)}
    assert all(entry.mean == means[entry.name] for preview in seen for entry in preview.best)
    assert len({preview.finished for preview in seen}) >= 3
    assert last.count - 1 <= last.finished <= last.count == len(NAMES)
    assert [entry.name for entry in last.best] == NAMES[last.finished - 1 :: -1]


def test_finished_shards_fill_the_preview_of_a_job_with_fixed_iterations(tmp_path: Path) -> None:
    make_simulator(tmp_path, with_folder(tmp_path, WITHOUT_MEANS), seconds=0.3)
    ended, seen = followed(tmp_path, helpers=2)
    means = sharded_results_of(ended)
    first = next(preview for preview in seen if preview.best)
    assert 0 < len(first.best) <= first.finished < len(NAMES)
    assert all(entry.mean == means[entry.name] for preview in seen for entry in preview.best)
    assert all(entry.error == pytest.approx(entry.mean / 100) for entry in first.best)
    assert baselines_in(seen) == {(1000, 3.92)}


def test_emptying_redis_changes_only_the_preview(tmp_path: Path) -> None:
    make_simulator(tmp_path, with_folder(tmp_path, IN_SHARDS), seconds=0.3)
    (tmp_path / "finished 11").touch()
    job = submit()

    def empty() -> None:
        wait_until(lambda: bool(redis().keys(f"shards:{job.pk}*")))
        redis().flushdb()

    ended = during(job, empty, helpers=2)
    assert (ended.status, len(sharded_results_of(ended))) == ("completed", len(NAMES))
