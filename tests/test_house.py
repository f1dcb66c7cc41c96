"""The shape of the code, as `tests/house.py` measures it. Lower a limit when the code gets simpler."""

import pytest

from tests.house import House
from tests.journeys import Code, Journey, Walk

# The most rooms and floors
PACKAGES = {"jobs": (22, 9)}
# The most files and returns
JOURNEYS = {"submission from the URL": (54, 72), "run": (29, 34), "webhook": (8, 1)}


@pytest.fixture(scope="module")
def house() -> House:
    return House()


def test_rooms_form_no_circles(house: House) -> None:
    assert not [name for name, shape in house.packages.items() if shape.circles]


def test_contracts_cover_all_modules(house: House) -> None:
    assert not house.uncovered


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_have_few_rooms_and_floors(house: House, package: str) -> None:
    shape, (rooms, floors) = house.packages[package], PACKAGES[package]
    assert shape.rooms <= rooms
    assert shape.floors <= floors


@pytest.mark.parametrize("journey", JOURNEYS)
def test_journeys_enter_few_files_and_return_rarely(house: House, journey: str) -> None:
    walk, (files, returns) = house.walk(journey), JOURNEYS[journey]
    assert walk.rooms <= files
    assert walk.returns <= returns


def test_a_walk_follows_a_value_and_its_holders() -> None:
    code = Code(
        {
            "a.py": """
from b import Job, Lease, log

def run(job: Job) -> None:
    log(job.id)
    log_nothing()
    lease = Lease(job)
    lease.renew()

def log_nothing() -> None: ...
""",
            "b.py": """
from c import write

class Job:
    id: int

class Lease:
    def __init__(self, job: Job) -> None:
        self.job = job

    def renew(self) -> None:
        finish(self.job)

def finish(job: Job) -> None: ...

def log(job_id: int) -> None:
    write(job_id)
    write_nothing()
""",
            "c.py": "def write(text): ...",
        }
    )
    walk = Walk(code, Journey(("a.run",), ("b.Job",)))
    assert [line.strip() for line in walk.lines] == [
        "a.run", "b.log", "c.write", "b.Lease.__init__", "b.Lease.renew", "b.finish",
    ]  # fmt: skip
    assert (walk.rooms, walk.stays, walk.returns) == (3, 4, 1)
