"""The steps of a `Suppression`, each a method or a limit, and how they are written: `nms:0.5`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields
from functools import cache
from typing import Any, ClassVar, Literal, get_type_hints

from hashnms import _settings
from hashnms._candidates import Candidates
from hashnms._numbers import real, whole
from hashnms._settings import MetricName, SoftMethodName

#: The fields of a class of steps, and their types: looked up once, because a lookup takes longer than reading a step.
_fields_of: Callable[[type], tuple[Field[Any], ...]] = cache(fields)
_types_of: Callable[[type], dict[str, Any]] = cache(get_type_hints)


@dataclass(frozen=True)
class Step:
    """One step of a `Suppression`: a frozen dataclass of numbers and names, checked when it is made.

    The short notation of a step is its name and its values, `name:value/value`. Values at the end may be left out. When
    it is written, default values at the end are left out beyond the first `_shown`. True is written as the name of the
    field, and False is not written.
    """

    _shown: ClassVar[int] = 1
    removes_overlaps: ClassVar[bool] = True  #: False for steps that only count boxes or compare scores
    changes_scores: ClassVar[bool] = False
    changes_boxes: ClassVar[bool] = False

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        """Apply the step: the boxes that pass and their scores. Only the first `most` are needed.

        If the step changes boxes, the new boxes come third.
        """
        raise NotImplementedError

    @classmethod
    def _written(cls, first_value: str | None) -> list[str]:  # noqa: ARG003
        """The fields that the short notation contains, in its order."""
        return [field.name for field in _fields_of(cls)]

    def _set(self, **values: Any) -> None:
        """Set fields of the frozen dataclass while it is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        first_value = str(getattr(self, _fields_of(type(self))[0].name))
        names = [name for name in self._written(first_value) if getattr(self, name) is not False]
        while len(names) > self._shown and getattr(self, names[-1]) == getattr(type(self), names[-1]):
            names.pop()
        return f"{_NAMES[type(self)]}:{'/'.join(_text_of(name, getattr(self, name)) for name in names)}"


@dataclass(frozen=True)
class Hnms(Step):
    """`hnms`: keep the best box of each cell, `num_hashes` times. Notation: `hnms:0.73/1`."""

    alpha: float = 0.7
    num_hashes: int = 1
    _shown: ClassVar[int] = 2

    def __post_init__(self) -> None:
        self._set(alpha=_settings.alpha_value(self.alpha))
        self._set(num_hashes=_settings.num_hashes_value(self.num_hashes))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.hnms(self.alpha, self.num_hashes, most)


@dataclass(frozen=True)
class Nms(Step):
    """`nms`: exact greedy NMS. Notation: `nms:0.5`; with another metric `nms:0.5/ios`; `nms:0.5/iou/inclusive`."""

    iou_threshold: float = 0.5
    metric: MetricName = "iou"
    inclusive: bool = False

    def __post_init__(self) -> None:
        self._set(iou_threshold=_settings.share_value("iou_threshold", self.iou_threshold))
        self._set(metric=_settings.metric_value(self.metric))
        self._set(inclusive=_settings.bool_value("inclusive", self.inclusive))
        _settings.inclusive_threshold(self.iou_threshold, self.inclusive)

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        return candidates.nms(self.iou_threshold, self.metric, self.inclusive, most)


@dataclass(frozen=True)
class SoftNms(Step):
    """`soft_nms`. Notation: `softnms:gaussian/0.5`: the method, its sigma or IoU threshold, and min_score if not 0.001.

    If the method does not use `sigma` or `iou_threshold`, that field is set to its default.
    """

    method: SoftMethodName = "gaussian"
    sigma: float = 0.5
    iou_threshold: float = 0.3
    min_score: float = 1e-3
    _shown: ClassVar[int] = 2
    changes_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _settings.method_value(self.method)
        self._set(method=str(self.method))
        self._set(sigma=_settings.sigma_value(self.sigma))
        self._set(iou_threshold=_settings.share_value("iou_threshold", self.iou_threshold))
        self._set(min_score=_settings.min_score_value(self.min_score))
        unused = "iou_threshold" if self.method == "gaussian" else "sigma"
        self._set(**{unused: getattr(SoftNms, unused)})

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.soft_nms(self.method, self.sigma, self.iou_threshold, self.min_score, most)

    @classmethod
    def _written(cls, first_value: str | None) -> list[str]:
        return ["method", "sigma" if first_value in (None, "gaussian") else "iou_threshold", "min_score"]


@dataclass(frozen=True)
class Nmm(Nms):
    """`nmm`: exact NMS, then each kept box grows around the boxes it suppressed. Notation: `nmm:0.5/ios`.

    `nmm:0.5/ios/transitive` also merges boxes that overlap merged boxes.
    """

    transitive: bool = False
    changes_boxes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(transitive=_settings.bool_value("transitive", self.transitive))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        rule = (self.iou_threshold, self.metric, self.inclusive)
        return candidates.merge("union", *rule, most, transitive=self.transitive)


@dataclass(frozen=True)
class Vote(Nms):
    """`vote`: exact NMS, then each kept box becomes the score-weighted mean of its group. Notation: `vote:0.5`."""

    changes_boxes: ClassVar[bool] = True

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        return candidates.merge("vote", self.iou_threshold, self.metric, self.inclusive, most)


@dataclass(frozen=True)
class Wbf(Step):
    """`weighted_boxes_fusion` with all boxes from one model. Notation: `wbf:0.55`, `wbf:0.55/max`.

    The row of a fused box is the row of the best box in its cluster. Its score is the mean score of the cluster, or
    with "max" the highest.
    """

    iou_threshold: float = 0.55
    confidence: Literal["avg", "max"] = "avg"
    changes_scores: ClassVar[bool] = True
    changes_boxes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set(iou_threshold=_settings.share_value("iou_threshold", self.iou_threshold))
        self._set(confidence=_settings.confidence_value(self.confidence, ("avg", "max")))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, ...]:
        return candidates.fuse(self.iou_threshold, self.confidence, most)


@dataclass(frozen=True)
class TopK(Step):
    """The best `k` boxes of each label of an image: the paper's P1 and P2. Notation: `top:9000`."""

    k: int
    removes_overlaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set(k=_settings.count_value("k", self.k, least=0, most=2**63 - 1))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.top(of_label=self.k, in_all=most)


@dataclass(frozen=True)
class Limit(Step):
    """The best `k` boxes of an image: the paper's P3. Notation: `limit:1000`."""

    k: int
    removes_overlaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set(k=_settings.count_value("k", self.k, least=0, most=2**63 - 1))

    def apply(self, candidates: Candidates, most: int | None) -> tuple[Any, Any]:
        return candidates.top(in_all=self.k if most is None else min(self.k, most))


@dataclass(frozen=True)
class ScoreThreshold(Step):
    """The boxes with a score above `score_threshold`, strictly. Notation: `score:0.05`."""

    score_threshold: float
    removes_overlaps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._set(score_threshold=_settings.score_value("score_threshold", self.score_threshold))

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

_NAMES = {kind: name for name, kind in STEPS.items()}
_NEEDS = {int: "an integer", float: "a number", bool: "left out or that word"}
_READ: dict[Any, Callable[[str], Any]] = {int: whole, float: real, bool: bool}

#: An error shows so many characters of a notation before and after its mark, and of the mark.
_AROUND, _MOST_MARKED = 60, 100


def _text_of(name: str, value: Any) -> str:
    """The shortest text that parses to the same value, without a plus sign."""
    return name if value is True else str(value).removesuffix(".0").replace("e+", "e")


def _value_of(name: str, text: str, kind: Any) -> Any:
    """Parse text written by `_text_of`."""
    if kind is bool and text.strip() != name:
        raise ValueError
    return _READ[kind](text) if kind in _READ else text.strip()


def parse_step(text: str, start: int, end: int) -> Step:
    """Parse the step at text[start:end]."""
    step_text = text[start:end].strip()
    start = text.index(step_text, start)
    name_text, colon, values_text = step_text.partition(":")
    name = name_text.rstrip()
    if name not in STEPS:
        raise _unreadable(text, start, name, f"a step must be one of {', '.join(STEPS)}, got {_settings.brief(name)}")
    kind = STEPS[name]
    values = values_text.split("/") if colon else []
    names = kind._written(values[0].strip() if values else None)
    types = _types_of(kind)
    place = start + len(name_text) + 1
    arguments: dict[str, Any] = {}
    step = None
    for field_name, value in zip(_given_fields(names, values, types), values, strict=False):
        try:
            arguments[field_name] = _value_of(field_name, value, types[field_name])
            step = kind(**arguments)
        except (ValueError, TypeError) as error:
            need, got = _NEEDS.get(types[field_name]), _settings.brief(value)
            message = str(error) if field_name in arguments else f"{field_name} must be {need}, got {got}"
            raise _unreadable(text, place, value, message) from None
        place += len(value) + 1
    form = f"{name}:{'/'.join(names)}"
    if len(values) > len(arguments):
        raise _unreadable(text, place, values[len(arguments)], f"{name} must be {form}, got {len(values)} values")
    if any(field.default is MISSING and field.name not in arguments for field in _fields_of(kind)):
        raise _unreadable(text, start, step_text, f"{name} must be {form}, got {_settings.brief(step_text)}")
    return kind() if step is None else step


def _given_fields(names: list[str], values: list[str], types: dict[str, Any]) -> list[str]:
    """The field of each value: in order, skipping bools that are left out because they are False."""
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
    end = start + min(max(len(part), 1), _MOST_MARKED)
    shown = slice(max(start - _AROUND, 0), end + _AROUND)
    before, after = ("..." if cut else "" for cut in (shown.start > 0, shown.stop < len(text)))
    mark = " " * (len(before) + start - shown.start) + "^" * (end - start)
    line = re.sub(r"\s", " ", text[shown])
    return ValueError(f"{message}\n    {before}{line}{after}\n    {mark}")


def step_to_dict(step: Step) -> dict[str, Any]:
    """A step as a dict of its name and its values."""
    return {"step": _NAMES[type(step)], **asdict(step)}


def step_from_dict(entry: Any) -> Step:
    """Build a step from the result of `step_to_dict`."""
    names = ", ".join(STEPS)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("step"), str) or entry["step"] not in STEPS:
        raise ValueError(f"a step must be a dict whose 'step' is one of {names}, got {_settings.brief(entry)}")
    kind = STEPS[entry["step"]]
    known = [field.name for field in _fields_of(kind)]
    required = {field.name for field in _fields_of(kind) if field.default is MISSING}
    arguments = {name: value for name, value in entry.items() if name != "step"}
    if not required <= set(arguments) <= set(known):
        raise ValueError(f"a step {entry['step']} must be a dict with {', '.join(known)}, got {_settings.brief(entry)}")
    return kind(**arguments)
