"""How far an approximation agrees with the exact method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Agreement:
    """Of two kept sets, how much of each is in the other."""

    precision: float  # the share of the approximation's boxes that the exact method keeps too
    recall: float  # the share of the exact method's boxes that the approximation keeps too


def agreement(keep: ArrayLike, exact_keep: ArrayLike) -> Agreement:
    """Compare the indices that a method keeps with those of the exact method. Of an empty set, all is in the other.

    >>> agreement([0, 1, 2, 5], [1, 2])
    Agreement(precision=0.5, recall=1.0)
    """
    kept, exact = np.unique(keep), np.unique(exact_keep)
    common = len(np.intersect1d(kept, exact, assume_unique=True))
    return Agreement(
        precision=common / len(kept) if len(kept) else 1.0,
        recall=common / len(exact) if len(exact) else 1.0,
    )
