"""A breadth-first search of all reachable states, which ends at the first violation."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.jobs.shards.model.checks import STATE_CHECKS, STEP_CHECKS, Following
from tests.jobs.shards.model.process_steps import steps
from tests.jobs.shards.model.rules import Model
from tests.jobs.shards.model.state import UNFINISHED, State, first_state
from tests.jobs.shards.model.steps import Kind, Move, Step
from tests.shard_invariants import Invariant


@dataclass(frozen=True)
class Violation:
    """The violated invariants, the steps that lead there, and the last state."""

    invariants: set[Invariant]
    history: list[Step]
    state: State

    def __str__(self) -> str:
        lines = [
            *sorted(map(str, self.invariants)),
            *(f"  {number}. {step}" for number, step in enumerate(self.history, 1)),
            *(f"  {name}: {value}" for name, value in self.state._asdict().items()),
        ]
        return "\n".join(lines)


@dataclass
class Exploration:
    """The states found so far, in the order of their distance, and how each was reached.

    `ways` lists, for each state, the numbers of the states to which the system's own steps lead.
    """

    model: Model
    states: list[State] = field(default_factory=list)
    numbers: dict[State, int] = field(default_factory=dict)
    origins: list[tuple[int, Step | None]] = field(default_factory=list)
    ways: list[list[int]] = field(default_factory=list)
    steps: int = 0
    moves: set[Move] = field(default_factory=set)

    def run(self) -> Violation | None:
        """Explore all states, and return the first violation or None."""
        self.number_of(first_state(faults=self.model.bounds.faults), origin=(-1, None))
        for number, state in enumerate(self.states):  # the list grows
            following = list(steps(self.model, state))
            self.steps += len(following)
            if broken := broken_by_state(self.model, state, following):
                return self.violation(broken, number)
            for step, after in following:
                if broken := broken_by_step(state, step, after):
                    return self.violation(broken, self.add(after, origin=(number, step)))
            self.follow(number, following)
            if not self.ways[number] and state.job.status in UNFINISHED:
                return self.violation({Invariant.PROGRESS}, number)
        return self.endless()

    def follow(self, number: int, following: Following) -> None:
        """Add the states that follow a state."""
        ways = set()
        for step, after in following:
            self.moves.add(step.move)
            reached = self.number_of(after, origin=(number, step))
            if step.kind == Kind.SYSTEM and reached != number:
                ways.add(reached)
        self.ways.append(list(ways))

    def number_of(self, state: State, *, origin: tuple[int, Step | None]) -> int:
        """Return the number of a state, which may be new."""
        number = self.numbers.get(state)
        return self.add(state, origin=origin) if number is None else number

    def add(self, state: State, *, origin: tuple[int, Step | None]) -> int:
        """Add a state and return its number."""
        number = self.numbers[state] = len(self.states)
        self.states.append(state)
        self.origins.append(origin)
        return number

    def endless(self) -> Violation | None:
        """Return a history after which the system's own steps can go on forever, or None.

        Without a cycle, each history without further faults ends where no step is left: after the end of job A.
        """
        on_cycle = next(self.cyclic(), None)
        return None if on_cycle is None else self.violation({Invariant.PROGRESS}, on_cycle)

    def cyclic(self) -> Iterator[int]:
        """Yield the states on or after a cycle of the system's steps."""
        entries = [0] * len(self.states)
        for ways in self.ways:
            for way in ways:
                entries[way] += 1
        ready = [number for number, count in enumerate(entries) if not count]
        for number in ready:  # the list grows
            for way in self.ways[number]:
                entries[way] -= 1
                if not entries[way]:
                    ready.append(way)
        yield from (number for number, count in enumerate(entries) if count)

    def violation(self, invariants: set[Invariant], number: int) -> Violation:
        """Return a violation with the shortest history of a state."""
        return Violation(invariants, list(self.history(number))[::-1], self.states[number])

    def history(self, number: int) -> Iterator[Step]:
        """Yield the steps that lead to a state, the last one first."""
        number, step = self.origins[number]
        while step:
            yield step
            number, step = self.origins[number]


def broken_by_state(model: Model, state: State, following: Following) -> set[Invariant]:
    """Return the invariants that a state violates."""
    return {name for name, holds in STATE_CHECKS.items() if not holds(model, state, following)}


def broken_by_step(before: State, step: Step, after: State) -> set[Invariant]:
    """Return the invariants that a step violates."""
    return {name for name, holds in STEP_CHECKS.items() if not holds(before, step, after)}
