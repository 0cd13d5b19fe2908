"""`Suppression`: a chain of suppression steps as one value, for arrays, detectors, files and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashnms import _settings, _tensors, _validate
from hashnms._candidates import Candidates
from hashnms._settings import BoxFormatName
from hashnms._tensors import AnyTensor, Tensor, Values
from hashnms.steps import STEPS, Limit, Step, parse_step, step_from_dict, step_to_dict

Result = TypeVar("Result")

#: A plus sign between steps, not one within a number such as 1e+3.
_PLUS = re.compile(r"(?<![\d.][eE])\+")


class _Pair(NamedTuple, Generic[Result]):
    keep: Result
    scores: Result


class Suppressed(_Pair[Result]):
    """What a `Suppression` returns: int64 indices into its input, by decreasing score, and the final scores.

    It is a pair: `keep, scores = suppression(...)`. The attribute `boxes` holds the final boxes in the input's format,
    (K, 4), if a step changes boxes; it is None if none does. Copies of any kind hold the boxes, too. Two results are
    equal if all they hold is equal.
    """

    boxes: Result | None = None

    @classmethod
    def of(cls, keep: Result, scores: Result, boxes: Result | None = None) -> Self:
        """A result with these values."""
        result = cls(keep, scores)  # without a __new__ of its own, which torch.compile cannot call before torch 2.9
        if boxes is not None:
            result.boxes = boxes
        return result

    @classmethod
    def _make(cls, values: Iterable[Result]) -> Self:  # type: ignore[override]
        """A result with the values of another one, or of any two or three values."""
        return cls.of(*values, *([values.boxes] if isinstance(values, Suppressed) else []))

    def _asdict(self) -> dict[str, Any]:
        return {"keep": self.keep, "scores": self.scores, "boxes": self.boxes}

    def _replace(self, **values: Any) -> Suppressed[Result]:
        return self.of(**{**self._asdict(), **values})

    __replace__ = _replace

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Suppressed):
            return NotImplemented
        return all(map(_are_equal, self._asdict().values(), other._asdict().values()))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items() if value is not None)
        return f"Suppressed({shown})"


def _are_equal(one: Any, other: Any) -> bool:
    if _tensors.is_tensor(one) or _tensors.is_tensor(other):
        return type(one) is type(other) and one.device == other.device and bool(one.equal(other))
    return (one is None) == (other is None) and np.array_equal(one, other)


@dataclass(frozen=True, init=False, repr=False)
class Suppression:
    """A chain of steps as one immutable value: take the best 9,000, HNMS, NMS at 0.5, return at most 1,000.

    Each step gets the boxes that the step before it kept. A `Limit` lets the step before it stop early. Suppressions
    can be compared, hashed and pickled. They can be written in a short notation (`str` and `parse`) and as plain dicts
    (`to_dict` and `from_dict`).

    Args:
        steps: one or more of `TopK`, `Hnms`, `Nms`, `SoftNms`, `Nmm`, `Vote`, `Wbf`, `Limit`, `ScoreThreshold`.

    >>> from hashnms import Hnms, Limit, Nms, TopK
    >>> suppression = Suppression([TopK(9000), Hnms(alpha=0.73, num_hashes=1), Nms(0.5), Limit(1000)])
    >>> str(suppression)
    'top:9000+hnms:0.73/1+nms:0.5+limit:1000'
    >>> Suppression.parse("top:9000+hnms:0.73/1+nms:0.5+limit:1000") == suppression
    True
    >>> suppression([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.875, 0.5])
    Suppressed(keep=array([1, 2]), scores=array([0.875, 0.5  ]))
    """

    steps: tuple[Step, ...]
    _notation: str = field(init=False, repr=False, compare=False)  # made here because compiled graphs cannot

    def __init__(self, steps: Iterable[Step]) -> None:
        object.__setattr__(self, "steps", _settings.steps_tuple(steps, list(STEPS.values())))
        object.__setattr__(self, "_notation", "+".join(map(str, self.steps)))

    @overload
    def __call__(
        self,
        boxes: AnyTensor[Tensor],
        scores: Values,
        labels: Values | None = ...,
        images: Values | None = ...,
        *,
        box_format: BoxFormatName = ...,
    ) -> Suppressed[Tensor]: ...
    @overload
    def __call__(
        self,
        boxes: ArrayLike,
        scores: Values,
        labels: Values | None = ...,
        images: Values | None = ...,
        *,
        box_format: BoxFormatName = ...,
    ) -> Suppressed[NDArray[Any]]: ...
    def __call__(
        self,
        boxes: Values,
        scores: Values,
        labels: Values | None = None,
        images: Values | None = None,
        *,
        box_format: BoxFormatName = "xyxy",
    ) -> Suppressed[Any]:
        """Suppress boxes.

        Args:
            boxes: (N, 4), see `hnms` for the types.
            scores: (N,), any real numbers.
            labels: (N,) whole numbers or None. Boxes with different labels are never compared, except by `Limit` and
                `ScoreThreshold`, which ignore labels.
            images: (N,) whole numbers or None. Boxes of different images are never compared. `Limit` counts within each
                image, `TopK` within each label of each image.
            box_format: "xyxy", "xywh" or "cxcywh".

        Returns:
            `Suppressed(keep, scores)`: int64 indices into the input, by decreasing final score, ties to the lower
            index, and these scores, in float32 or float64. Scores differ from the given ones only if a step is
            `SoftNms` or `Wbf`. `.boxes` holds the boxes of these rows, in the format of the input, if a step changes
            boxes (`Nmm`, `Vote`, `Wbf`); otherwise it is None. The cost is the sum of the steps' costs.

        Raises:
            ValueError, TypeError: as `hnms`.
        """
        if _tensors.is_tensor(boxes):
            op = _tensors.ops.suppress_and_merge if self.changes_boxes else _tensors.ops.suppress
            return Suppressed.of(*op(boxes, scores, labels, images, self, box_format))
        return Suppressed.of(*self.on_host(boxes, scores, labels, images, box_format))

    @property
    def changes_scores(self) -> bool:
        """Whether a step changes scores."""
        return any(step.changes_scores for step in self.steps)

    @property
    def changes_boxes(self) -> bool:
        """Whether a step changes boxes."""
        return any(step.changes_boxes for step in self.steps)

    def on_host(self, boxes: Any, scores: Any, labels: Any, images: Any, box_format: Any) -> tuple[Any, ...]:
        """Run the steps in the core, on arrays, lists or CPU tensors."""
        box_format = _settings.box_format_value(box_format)
        return self.run(Candidates(*_validate.plain_arrays(boxes, scores, labels, images), box_format))

    def run(self, candidates: Candidates) -> tuple[Any, ...]:
        """Run the steps on the candidates, which are the whole input: the kept rows and their scores.

        If a step changes boxes, the boxes come third.
        """
        for step, following in pairwise(self.steps):
            most = following.k if isinstance(following, Limit) else None
            candidates = candidates.take(*step.apply(candidates, most))
        places, scores, *boxes = self.steps[-1].apply(candidates, None)
        if self.changes_boxes and not boxes:
            boxes = [candidates.boxes[places]]
        return candidates.input_rows(places), scores, *boxes

    @classmethod
    def of(cls, value: Suppression | str) -> Suppression:
        """Return a suppression unchanged, or parse its short notation: for functions that accept both.

        >>> Suppression.of("nms:0.5") == Suppression.of(Suppression.parse("nms:0.5"))
        True
        """
        if isinstance(value, Suppression):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        need = "a suppression must be a Suppression or its notation, such as 'hnms:0.7/1+nms:0.5'"
        raise TypeError(f"{need}, got {_settings.brief(value)}")

    @classmethod
    def parse(cls, text: str) -> Suppression:
        """Parse a short notation: steps joined by +, each `name:value/value`.

        >>> Suppression.parse("hnms:0.7/2").steps
        (Hnms(alpha=0.7, num_hashes=2),)
        >>> Suppression.parse("softnms:linear/0.3+limit:100").steps[1]
        Limit(k=100)
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string such as 'hnms:0.7/1+nms:0.5', got {_settings.brief(text)}")
        starts = [0, *(plus.end() for plus in _PLUS.finditer(text))]
        ends = [*(start - 1 for start in starts[1:]), len(text)]
        return cls(parse_step(text, start, end) for start, end in zip(starts, ends, strict=True))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Suppression:
        """Build a suppression from the result of `to_dict`."""
        need = "data must be a dict with a list of steps, {'steps': [...]}"
        if not isinstance(data, Mapping):
            raise TypeError(f"{need}, got {_settings.brief(data)}")
        if set(data) != {"steps"} or not isinstance(data["steps"], (list, tuple)):
            raise ValueError(f"{need}, got {_settings.brief(data)}")
        return cls(step_from_dict(entry) for entry in data["steps"])

    def to_dict(self) -> dict[str, Any]:
        """The suppression as plain dicts, lists, numbers and strings, for example for JSON.

        >>> Suppression.parse("hnms:0.7/1+limit:9").to_dict()
        {'steps': [{'step': 'hnms', 'alpha': 0.7, 'num_hashes': 1}, {'step': 'limit', 'k': 9}]}
        """
        return {"steps": [step_to_dict(step) for step in self.steps]}

    def __str__(self) -> str:
        return self._notation

    def __repr__(self) -> str:
        return f"Suppression.parse({str(self)!r})"
