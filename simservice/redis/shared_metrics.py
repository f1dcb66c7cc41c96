"""Counters and histograms that all processes share, in one hash of Redis.

Several machines therefore add up, and every `web` process reports the same values. Each process sends its changes
once a second, so counting costs a job nothing. A process that is killed loses a second, and an outage of Redis
nothing. Changes that Redis applies but confirms too late are counted twice. If Redis loses its data, the values
start again at 0, as after the restart of a process.
"""

import atexit
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, product

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from simservice.redis.client import best_effort, outage, redis

KEY = "metrics"
# Between the parts of a field's name: the metric, its labels, and the bucket of a histogram.
SEPARATOR = "|"
INFINITY, SUM = "+Inf", "sum"
SEND_SECONDS = 1.0

# Fields of the hash, each with the amount by which it grows.
Increments = Mapping[str, float]
Labels = Mapping[str, Sequence[str]]


class SharedCounter:
    """A counter; its name has no suffix.

    `labels` contains the known values of each label. They are reported before anything is counted, because
    Prometheus does not notice the first increment of a new series.
    """

    def __init__(self, name: str, description: str, labels: Labels) -> None:
        self.name, self.description, self.labels = name, description, labels

    def increments(self, *labels: str) -> Increments:
        """Return the change that counts one event."""
        return {_field(self.name, *labels): 1}

    def family(self, stored: Mapping[str, float]) -> CounterMetricFamily:
        """Return the metric with the stored values."""
        family = CounterMetricFamily(f"simservice_{self.name}", self.description, labels=list(self.labels))
        values = dict.fromkeys(product(*self.labels.values()), 0.0) | _values_of(self.name, stored)
        for labels, value in sorted(values.items()):
            family.add_metric(labels, value)
        return family


class SharedHistogram:
    """A histogram of seconds. Each stored bucket counts what no smaller bucket contains."""

    def __init__(self, name: str, description: str, labels: Labels, *, buckets: Sequence[float]) -> None:
        self.name, self.description, self.labels = name, description, labels
        self.buckets = buckets

    def increments(self, seconds: float, *labels: str) -> Increments:
        """Return the change that adds one duration."""
        bucket = next((str(limit) for limit in self.buckets if seconds <= limit), INFINITY)
        return {_field(self.name, *labels, bucket): 1, _field(self.name, *labels, SUM): max(0.0, seconds)}

    def family(self, stored: Mapping[str, float]) -> HistogramMetricFamily:
        """Return the metric with the stored values."""
        family = HistogramMetricFamily(f"simservice_{self.name}", self.description, labels=list(self.labels))
        values = _values_of(self.name, stored)
        limits = [*map(str, self.buckets), INFINITY]
        for labels in sorted({*product(*self.labels.values()), *(labels[:-1] for labels in values)}):
            counts = accumulate(values.get((*labels, limit), 0) for limit in limits)
            family.add_metric(labels, list(zip(limits, counts, strict=True)), values.get((*labels, SUM), 0))
        return family


REDIS_FAILURES = SharedCounter("redis_failures", "Redis commands that failed.", {})


class Flusher:
    """Adds up the changes of this process, and sends them from a thread of its own."""

    def __init__(self) -> None:
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._pending = defaultdict[str, float](float)
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, changes: Iterable[Increments]) -> None:
        """Make changes within about a second."""
        with self._lock:
            for field, amount in chain.from_iterable(change.items() for change in changes):
                self._pending[field] += amount
            self.start()
        self._changed.set()

    def start(self) -> None:
        """Start the thread unless it runs; a fork does not copy it."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            time.sleep(SEND_SECONDS)
            self._changed.clear()
            self.flush()

    def flush(self) -> None:
        """Send all changes now. Those that Redis does not confirm are sent again with the next ones."""
        with self._sending:
            with self._lock:
                changes, self._pending = self._pending, defaultdict(float)
            if changes and not best_effort(lambda: _send(changes), default=False):
                self.add([changes])


flusher = Flusher()
atexit.register(flusher.flush)


def record(*changes: Increments) -> None:
    """Make changes within about a second. Never waits for Redis."""
    flusher.add(changes)


outage.on_failure = lambda: record(REDIS_FAILURES.increments())


def _send(changes: Mapping[str, float]) -> bool:
    with redis().pipeline(transaction=False) as pipe:
        for field, amount in changes.items():
            pipe.hincrbyfloat(KEY, field, amount)
        pipe.execute()
    return True


def read() -> dict[str, float]:
    """Return the stored values. Raises RedisError."""
    return {str(field): float(value) for field, value in redis().hgetall(KEY).items()}


def _field(*parts: str) -> str:
    return SEPARATOR.join(parts)


def _values_of(name: str, stored: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    """Return the value of each stored field of a metric by the values of its labels."""
    fields = ((field.split(SEPARATOR), value) for field, value in stored.items())
    return {tuple(labels): value for (metric, *labels), value in fields if metric == name}
