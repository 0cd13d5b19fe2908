"""`Suppression`: a whole chain of suppression steps as one value, said once and used by detectors, files and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_type_hints, overload

from numpy.typing import ArrayLike, NDArray

from hashnms import _tensors, _validate
from hashnms._candidates import Candidates
from hashnms._tensors import AnyTensor, Tensor, Values
from hashnms._validate import BoxFormatName, MetricName, SoftMethodName

Result = TypeVar("Result")


class Suppressed(NamedTuple, Generic[Result]):
    """What a `Suppression` returns: int64 indices into its input, by decreasing score, and the final scores."""

    keep: Result
    scores: Result

    @property
    def boxes(self) -> Result | None:
        """The final boxes in the input's format, (K, 4), if a step changes boxes; None if none does."""
        return None


class SuppressedBoxes(Suppressed[Result]):
    """The same where a step changes boxes. It is still a pair: `keep, scores = suppression(...)`."""

    _boxes: Result

    @classmethod
    def of(cls, keep: Result, scores: Result, boxes: Result) -> SuppressedBoxes[Result]:
        """That of these values."""
        result = cls(keep, scores)
        result._boxes = boxes
        return result

    @property
    def boxes(self) -> Result:
        return self._boxes

    def __repr__(self) -> str:
        return f"Suppressed(keep={self.keep!r}, scores={self.scores!r}, boxes={self._boxes!r})"


@dataclass(frozen=True)
class Step:
    """One step of a `Suppression`: a frozen dataclass of numbers and names, checked when it is made.

    In the short notation it is its name and its values, `name:value/value`. Values at the end may be left out, and are
    left out beyond the first `_shown` where they are the defaults. What is true is written as its name, and what
    is false is not written.
    """

    _shown: ClassVar[int] = 1
    removes_overlaps: ClassVar[bool] = True  #: False for those that only count boxes or compare scores
    changes_scores: ClassVar[bool] = False
    changes_boxes: ClassVar[bool] = False

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        """What a verb of the candidates returns: the boxes that pass and their scores; the first `most` will do.

        If it changes boxes, the new ones come third.
        """
        raise NotImplementedError

    @classmethod
    def _written(cls, first_value: str | None) -> list[str]:  # noqa: ARG003
        """The fields whose values the short notation gives, in its order."""
        return [field.name for field in fields(cls)]

    def _set(self, **values: Any) -> None:
        """While it is being made: it is frozen."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        names = [n for n in self._written(str(getattr(self, fields(self)[0].name))) if getattr(self, n) is not False]
        while len(names) > self._shown and getattr(self, names[-1]) == getattr(type(self), names[-1]):
            names.pop()
        return f"{_NAMES[type(self)]}:{'/'.join(_text_of(name, getattr(self, name)) for name in names)}"


@dataclass(frozen=True)
class Hnms(Step):
    """`hnms`: the best box of each cell, `num_hashes` times. `hnms:0.73/1`."""

    alpha: float = 0.7
    num_hashes: int = 1
    _shown: ClassVar[int] = 2

    def __post_init__(self) -> None:
        self._set(alpha=_validate.alpha_value(self.alpha))
        self._set(num_hashes=_validate.num_hashes_value(self.num_hashes))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.hnms(self.alpha, self.num_hashes, most)


@dataclass(frozen=True)
class Nms(Step):
    """`nms`: exact greedy NMS. `nms:0.5`; with a metric that is not IoU, `nms:0.5/ios`; `nms:0.5/iou/inclusive`."""

    iou_threshold: float = 0.5
    metric: MetricName = "iou"
    inclusive: bool = False

    def __post_init__(self) -> None:
        self._set(iou_threshold=_validate.share_value("iou_threshold", self.iou_threshold))
        self._set(metric=_validate.metric_value(self.metric))
        self._set(inclusive=_validate.bool_value("inclusive", self.inclusive))
        _validate.inclusive_threshold(self.iou_threshold, self.inclusive)

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        return candidates.nms(self.iou_threshold, self.metric, self.inclusive, most)


@dataclass(frozen=True)
class SoftNms(Step):
    """`soft_nms`. `softnms:gaussian/0.5`: the method, its sigma or IoU threshold, and a min_score if it is not 0.001.

    The one of `sigma` and `iou_threshold` that the method does not use is set to its default.
    """

    method: SoftMethodName = "gaussian"
    sigma: float = 0.5
    iou_threshold: float = 0.3
    min_score: float = 1e-3
    _shown: ClassVar[int] = 2
    changes_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _validate.method_value(self.method)
        self._set(method=str(self.method))
        self._set(sigma=_validate.sigma_value(self.sigma))
        self._set(iou_threshold=_validate.share_value("iou_threshold", self.iou_threshold))
        self._set(min_score=_validate.min_score_value(self.min_score))
        unused = "iou_threshold" if self.method == "gaussian" else "sigma"
        self._set(**{unused: getattr(SoftNms, unused)})

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.soft_nms(self.method, self.sigma, self.iou_threshold, self.min_score, most)

    @classmethod
    def _written(cls, first_value: str | None) -> list[str]:
        return ["method", "sigma" if first_value in (None, "gaussian") else "iou_threshold", "min_score"]


@dataclass(frozen=True)
class Nmm(Nms):
    """`nmm`: exact NMS, then a kept box becomes the smallest around it and what it suppressed. `nmm:0.5/ios`.

    With groups that also have what overlaps their members, `nmm:0.5/ios/transitive`.
    """

    transitive: bool = False
    changes_boxes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(transitive=_validate.bool_value("transitive", self.transitive))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        rule = (self.iou_threshold, self.metric, self.inclusive)
        return candidates.merge("union", *rule, most, transitive=self.transitive)


@dataclass(frozen=True)
class Vote(Nms):
    """`vote`: exact NMS, then a kept box becomes the mean of it and what it suppressed, by scores. `vote:0.5`."""

    changes_boxes: ClassVar[bool] = True

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        return candidates.merge("vote", self.iou_threshold, self.metric, self.inclusive, most)


@dataclass(frozen=True)
class Wbf(Step):
    """`weighted_boxes_fusion`, where all boxes are of one model. `wbf:0.55`, `wbf:0.55/max`.

    The row of a fused box is that of the best box of its cluster. Its score is the mean of those of the cluster, or
    with "max" the highest.
    """

    iou_threshold: float = 0.55
    confidence: Literal["avg", "max"] = "avg"
    changes_scores: ClassVar[bool] = True
    changes_boxes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set(iou_threshold=_validate.share_value("iou_threshold", self.iou_threshold))
        self._set(confidence=_validate.confidence_value(self.confidence, ("avg", "max")))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        return candidates.fuse(self.iou_threshold, self.confidence, most)


@dataclass(frozen=True)
class TopK(Step):
    """The best `k` boxes of each label of an image: the paper's P1 and P2. `top:9000`."""

    k: int
    removes_overlaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set(k=_validate.count_value("k", self.k, least=0, most=2**63 - 1))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.top(of_label=self.k, in_all=most)


@dataclass(frozen=True)
class Limit(Step):
    """The best `k` boxes of an image: the paper's P3. `limit:1000`."""

    k: int
    removes_overlaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set(k=_validate.count_value("k", self.k, least=0, most=2**63 - 1))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.top(in_all=self.k if most is None else min(self.k, most))


@dataclass(frozen=True)
class ScoreThreshold(Step):
    """The boxes with a score above it, strictly. `score:0.05`."""

    score_threshold: float
    removes_overlaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set(score_threshold=_validate.score_value("score_threshold", self.score_threshold))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.top(score_threshold=self.score_threshold, in_all=most)


#: Every step by its name in the short notation and in dicts. A new method is a new entry.
STEPS: dict[str, type[Step]] = {
    "top": TopK,
    "hnms": Hnms,
    "nms": Nms,
    "softnms": SoftNms,
    "nmm": Nmm,
    "vote": Vote,
    "wbf": Wbf,
    "limit": Limit,
    "score": ScoreThreshold,
}


@dataclass(frozen=True, init=False, repr=False)
class Suppression:
    """A chain of steps as one immutable value, e.g. "the best 9,000, HNMS, then NMS at 0.5, at most 1,000 out".

    Each step gets what the one before it left; a `Limit` lets the step before it stop early. Values can be compared,
    hashed and pickled, written in a short notation (`str` and `parse`) and as plain dicts (`to_dict` and `from_dict`).

    Args:
        steps: one or more of `TopK`, `Hnms`, `Nms`, `SoftNms`, `Nmm`, `Vote`, `Wbf`, `Limit`, `ScoreThreshold`.

    >>> suppression = Suppression([TopK(9000), Hnms(alpha=0.73, num_hashes=1), Nms(0.5), Limit(1000)])
    >>> str(suppression)
    'top:9000+hnms:0.73/1+nms:0.5+limit:1000'
    >>> Suppression.parse("top:9000+hnms:0.73/1+nms:0.5+limit:1000") == suppression
    True
    >>> suppression([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], [0.75, 0.875, 0.5])
    Suppressed(keep=array([1, 2]), scores=array([0.875, 0.5  ]))
    """

    steps: tuple[Step, ...]
    _notation: str = field(init=False, repr=False, compare=False)  # made at once: compiled graphs cannot make it

    def __init__(self, steps: Iterable[Step]) -> None:
        object.__setattr__(self, "steps", _validate.steps_tuple(steps, list(STEPS.values())))
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
            labels: (N,) whole numbers or None. Boxes of different labels never meet, except in `Limit` and
                `ScoreThreshold`, which take all alike.
            images: (N,) whole numbers or None. Boxes of different images never meet. `Limit` is of each image, `TopK`
                of each label of each image.
            box_format: "xyxy", "xywh" or "cxcywh".

        Returns:
            `Suppressed(keep, scores)`: int64 indices into the input, by decreasing final score, ties to the lower
            index, and these scores: float32 or float64, other than the given ones where a step is `SoftNms` or `Wbf`.
            `.boxes` are the boxes of these rows, in the format of the input, where a step changes boxes (`Nmm`, `Vote`,
            `Wbf`), else None. The cost is the sum of that of the steps.

        Raises:
            ValueError, TypeError: as `hnms`.
        """
        made: Any = SuppressedBoxes.of if self.changes_boxes else Suppressed
        if _tensors.is_tensor(boxes):
            op = _tensors.ops.suppress_and_merge if self.changes_boxes else _tensors.ops.suppress
            return made(*op(boxes, scores, labels, images, self, box_format))  # type: ignore[no-any-return]
        return made(*self.on_host(boxes, scores, labels, images, box_format))  # type: ignore[no-any-return]

    @property
    def changes_scores(self) -> bool:
        """Whether what comes out may have other scores than what went in."""
        return any(step.changes_scores for step in self.steps)

    @property
    def changes_boxes(self) -> bool:
        """Whether what comes out may have other boxes than what went in."""
        return any(step.changes_boxes for step in self.steps)

    def on_host(self, boxes: Any, scores: Any, labels: Any, images: Any, box_format: Any) -> tuple[Any, ...]:
        """By the core, of arrays, lists or CPU tensors."""
        box_format = _validate.box_format_value(box_format)
        return self.run(Candidates(*_validate.plain_arrays(boxes, scores, labels, images), box_format))

    def run(self, candidates: Candidates) -> tuple[Any, ...]:
        """What the steps leave of the candidates, which are the whole input: its rows, and their scores.

        Third come their boxes, if a step changes boxes.
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
        """A suppression as it is, or that of a short notation: for functions that take both.

        >>> Suppression.of("nms:0.5") == Suppression.of(Suppression([Nms(0.5)]))
        True
        """
        if isinstance(value, Suppression):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        raise TypeError(
            f"a suppression must be a Suppression or its notation, such as 'hnms:0.7/1+nms:0.5', got {value!r}"
        )

    @classmethod
    def parse(cls, text: str) -> Suppression:
        """The value of a short notation: steps joined by +, each `name:value/value`.

        >>> Suppression.parse("hnms:0.7/2").steps
        (Hnms(alpha=0.7, num_hashes=2),)
        >>> Suppression.parse("softnms:linear/0.3+limit:100").steps[1]
        Limit(k=100)
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string such as 'hnms:0.7/1+nms:0.5', got {text!r}")
        starts = [0, *(plus.end() for plus in _PLUS.finditer(text))]
        ends = [*(start - 1 for start in starts[1:]), len(text)]
        return cls(_parse_step(text, start, end) for start, end in zip(starts, ends, strict=True))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Suppression:
        """The value of what `to_dict` gives."""
        need = "data must be a dict with a list of steps, {'steps': [...]}"
        if not isinstance(data, Mapping):
            raise TypeError(f"{need}, got {data!r}")
        if set(data) != {"steps"} or not isinstance(data["steps"], (list, tuple)):
            raise ValueError(f"{need}, got {data!r}")
        return cls(_step_from_dict(entry) for entry in data["steps"])

    def to_dict(self) -> dict[str, Any]:
        """As plain dicts, lists, numbers and strings, for JSON and the like.

        >>> Suppression.parse("hnms:0.7/1+limit:9").to_dict()
        {'steps': [{'step': 'hnms', 'alpha': 0.7, 'num_hashes': 1}, {'step': 'limit', 'k': 9}]}
        """
        return {"steps": [{"step": _NAMES[type(step)], **asdict(step)} for step in self.steps]}

    def __str__(self) -> str:
        return self._notation

    def __repr__(self) -> str:
        return f"Suppression.parse({str(self)!r})"


_NAMES = {kind: name for name, kind in STEPS.items()}
#: A plus sign between steps, not one within a number such as 1e+3.
_PLUS = re.compile(r"(?<![\d.][eE])\+")
_NEEDS = {int: "an integer", float: "a number", bool: "left out or that word"}


def _text_of(name: str, value: Any) -> str:
    """As short as reads back the same, without a plus sign."""
    return name if value is True else str(value).removesuffix(".0").replace("e+", "e")


def _value_of(name: str, text: str, kind: Any) -> Any:
    """What `_text_of` has written."""
    if kind is bool and text != name:
        raise ValueError
    return kind(text) if kind in _NEEDS else text


def _parse_step(text: str, start: int, end: int) -> Step:
    """The step that stands at text[start:end]."""
    step_text = text[start:end].strip()
    start = text.index(step_text, start)
    name_text, colon, values_text = step_text.partition(":")
    name = name_text.rstrip()
    if name not in STEPS:
        raise _unreadable(text, start, name, f"a step must be one of {', '.join(STEPS)}, got {name!r}")
    kind = STEPS[name]
    values = values_text.split("/") if colon else []
    names = kind._written(values[0].strip() if values else None)
    types = get_type_hints(kind)
    place = start + len(name_text) + 1
    arguments = {}
    for field_name, value in zip(_given_fields(names, values, types), values, strict=False):
        try:
            arguments[field_name] = _value_of(field_name, value.strip(), types[field_name])
            kind(**arguments)
        except (ValueError, TypeError) as error:
            need = _NEEDS.get(types[field_name])
            message = str(error) if field_name in arguments else f"{field_name} must be {need}, got {value!r}"
            raise _unreadable(text, place, value, message) from None
        place += len(value) + 1
    form = f"{name}:{'/'.join(names)}"
    if len(values) > len(arguments):
        raise _unreadable(text, place, values[len(arguments)], f"{name} must be {form}, got {len(values)} values")
    if any(field.default is MISSING and field.name not in arguments for field in fields(kind)):
        raise _unreadable(text, start, step_text, f"{name} must be {form}, got {step_text!r}")
    return kind(**arguments)


def _given_fields(names: list[str], values: list[str], types: dict[str, Any]) -> list[str]:
    """The fields that the values are of: one after another, but what is false is not written."""
    left = list(names)
    given = []
    for value in values:
        word = value.strip()
        if left and types[left[0]] is bool and word in left:
            left = left[left.index(word) :]
        given += left[:1]
        left = left[1:]
    return given


def _unreadable(text: str, start: int, part: str, message: str) -> ValueError:
    mark = " " * start + "^" * max(len(part), 1)
    return ValueError(f"{message}\n    {text}\n    {mark}")


def _step_from_dict(entry: Any) -> Step:
    names = ", ".join(STEPS)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("step"), str) or entry["step"] not in STEPS:
        raise ValueError(f"a step must be a dict whose 'step' is one of {names}, got {entry!r}")
    kind = STEPS[entry["step"]]
    known = [field.name for field in fields(kind)]
    required = {field.name for field in fields(kind) if field.default is MISSING}
    arguments = {name: value for name, value in entry.items() if name != "step"}
    if not required <= set(arguments) <= set(known):
        raise ValueError(f"a step {entry['step']} must be a dict with {', '.join(known)}, got {entry!r}")
    return kind(**arguments)
