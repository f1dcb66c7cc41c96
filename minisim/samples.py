"""Samples of one quantity over many fights."""

import math

import numpy as np
from numpy.typing import NDArray


class Samples:
    """Values collected batch by batch, with their current mean and standard deviation."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0  # sum of squared distances from the mean
        self._batches: list[NDArray[np.float64]] = []

    def add(self, batch: NDArray[np.float64]) -> None:
        """Add a batch of at least one value and update the mean and the standard deviation."""
        mean = float(batch.mean())
        count = self.count + batch.size
        shift = mean - self.mean
        self._squares += float(((batch - mean) ** 2).sum()) + shift**2 * self.count * batch.size / count
        self.mean += shift * batch.size / count
        self.count = count
        self._batches.append(batch)

    @property
    def std_dev(self) -> float:
        """Return the standard deviation of one fight."""
        return math.sqrt(self._squares / self.count) if self.count else 0.0

    @property
    def mean_std_dev(self) -> float:
        """Return the standard error of the mean."""
        return self.std_dev / math.sqrt(self.count) if self.count else 0.0

    def values(self) -> NDArray[np.float64]:
        """Return all values in the order they were added."""
        return np.concatenate(self._batches) if self._batches else np.zeros(0)

    def quartiles(self) -> tuple[float, float, float]:
        """Return the first quartile, the median and the third quartile."""
        first, median, third = np.percentile(self.values(), (25, 50, 75))
        return float(first), float(median), float(third)

    def range(self) -> tuple[float, float]:
        """Return the lowest and the highest value."""
        values = self.values()
        return float(values.min()), float(values.max())
