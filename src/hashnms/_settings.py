"""All checks of settings (numbers and names) and their messages: name, need, got. Limits come from the core."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np

from hashnms import _core

Name = TypeVar("Name", bound=str)
Method = TypeVar("Method")

BoxFormatName = Literal["xyxy", "xywh", "cxcywh"]
BOX_FORMATS: tuple[BoxFormatName, ...] = ("xyxy", "xywh", "cxcywh")

MetricName = Literal["iou", "ios", "diou"]
METRICS: tuple[MetricName, ...] = ("iou", "ios", "diou")

SoftMethodName = Literal["gaussian", "linear", "hard"]
SOFT_METHODS: tuple[SoftMethodName, ...] = ("gaussian", "linear", "hard")

HowName = Literal["union", "vote"]
HOWS: tuple[HowName, ...] = ("union", "vote")

ConfidenceName = Literal["avg", "max", "box_and_model_avg", "absent_model_aware_avg"]
CONFIDENCES: tuple[ConfidenceName, ...] = ("avg", "max", "box_and_model_avg", "absent_model_aware_avg")

_MOST_SHOWN = 200  #: characters of a value that an error shows


def brief(value: Any) -> str:
    """The repr of a value as an error shows it: one line, and not the whole of a large value."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer
        return "an integer of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text):,} characters)"


def ascending_counts(name: str, counts: Any, num: int) -> tuple[int, ...]:
    """`num` integers of at least 1, each greater than the one before."""
    need = f"{name} must be {num} integers, each greater than the one before"
    if isinstance(counts, str) or not isinstance(counts, Iterable):
        raise TypeError(f"{need}, got {brief(counts)}")
    values = tuple(count_value(name, count) for count in counts)
    if len(values) != num or list(values) != sorted(set(values)):
        raise ValueError(f"{need}, got {values}")
    return values


def box_format_value(box_format: Any) -> BoxFormatName:
    """The name of a box format."""
    return choice_value("box_format", box_format, BOX_FORMATS)


def alpha_value(alpha: Any) -> float:
    """Alpha in (0, 1)."""
    return _number("alpha", alpha, "in (0, 1)", lambda value: 0.0 < value < 1.0)


def bound_value(bound: Any) -> float:
    """An IoU bound in (0, 1)."""
    return _number("bound", bound, "in (0, 1)", lambda value: 0.0 < value < 1.0)


def share_value(name: str, share: Any) -> float:
    """A number in [0, 1]."""
    return _number(name, share, "in [0, 1]", lambda value: 0.0 <= value <= 1.0)


def score_threshold_value(score_threshold: Any) -> float | None:
    """A number that scores must be above, or None."""
    return None if score_threshold is None else score_value("score_threshold", score_threshold)


def score_value(name: str, score: Any) -> float:
    """Any number that scores can be compared with."""
    return _number(name, score, "not NaN", lambda value: not np.isnan(value))


def method_value(method: Any) -> SoftMethodName:
    """The name of a decay of Soft-NMS."""
    return choice_value("method", method, SOFT_METHODS)


def metric_value(metric: Any) -> MetricName:
    """The name of the overlap that is compared with the threshold."""
    return choice_value("metric", metric, METRICS)


def bool_value(name: str, value: Any) -> bool:
    """True or False."""
    value = _python_scalar(value)
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {brief(value)}")
    return value


def inclusive_threshold(iou_threshold: float, inclusive: bool) -> None:
    """Raise an error if the threshold is inclusive and 0."""
    if inclusive and iou_threshold == 0:
        raise ValueError(
            f"iou_threshold must be above 0 if it is inclusive, got {iou_threshold}: every box would suppress all "
            "others"
        )


def how_value(how: Any) -> HowName:
    """The name of a way to merge boxes."""
    return choice_value("how", how, HOWS)


def confidence_value(confidence: Any, known: tuple[ConfidenceName, ...] = CONFIDENCES) -> ConfidenceName:
    """The name of the way to compute the score of a fused box."""
    return choice_value("confidence", confidence, known)


def sigma_value(sigma: Any) -> float:
    """The sigma of the gaussian decay."""
    least, greatest = _core.LEAST_SIGMA, _core.GREATEST_SIGMA
    need = f"in [{least:g}, {greatest:g}]".replace("e+", "e")
    return _number("sigma", sigma, need, lambda value: least <= value <= greatest)


def min_score_value(min_score: Any) -> float:
    """A score of at least 0: a decay would raise negative scores."""
    return _number("min_score", min_score, "finite and at least 0", lambda value: 0.0 <= value < np.inf)


def max_output_value(max_output: Any) -> int | None:
    """A number of boxes, or None for all."""
    return None if max_output is None else min(count_value("max_output", max_output, least=0), _core.MOST_BOXES)


def origin_value(name: str, origin: Any) -> float:
    """The centre W_0 or H_0 of cell 0."""
    return _number(name, origin, "finite and above 0", lambda value: 0.0 < value < np.inf)


def shift_value(name: str, shift: Any) -> float:
    """The shift b_x or b_y, in cells."""
    need = f"below 2**{math.log2(_core.SHIFT_LIMIT):.0f} in size"
    return _number(name, shift, need, lambda value: abs(value) < _core.SHIFT_LIMIT)


def count_value(name: str, count: Any, least: int = 1, most: int | None = None) -> int:
    """An integer of at least `least` and at most `most`."""
    count = count if type(count) is int else _python_scalar(count)
    try:
        value = operator.index(count)
    except TypeError:
        value = None
    if value is None or isinstance(count, bool):
        raise TypeError(f"{name} must be an integer, got {brief(count)}{_one_hint(name, count)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {_shown(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {_shown(value)}")
    return value


def num_hashes_value(num_hashes: Any) -> int:
    """The number of hash functions, K in the paper."""
    return count_value("num_hashes", num_hashes, most=_core.MOST_HASHES)


def steps_tuple(steps: Any, kinds: list[type]) -> tuple[Any, ...]:
    """The steps of a chain, one or more."""
    need = f"steps must be a list of one or more of {', '.join(kind.__name__ for kind in kinds)}"
    if isinstance(steps, str) or not isinstance(steps, Iterable):
        hint = " (Suppression.parse reads strings)" if isinstance(steps, str) else ""
        raise TypeError(f"{need}, got {brief(steps)}{hint}")
    chain = tuple(steps)
    if not chain:
        raise ValueError(f"{need}, got none")
    for step in chain:
        if type(step) not in kinds:
            raise TypeError(f"{need}, got {brief(step)}")
    return chain


def methods_list(suppressions: Any, of: Callable[[Any], Method]) -> list[Method]:
    """One or more suppressions; `of` converts each."""
    need = "suppressions must be a list of one or more suppressions or notations"
    if isinstance(suppressions, str) or not isinstance(suppressions, Iterable):
        raise TypeError(f"{need}, got {brief(suppressions)}")
    methods = [of(one) for one in suppressions]
    if not methods:
        raise ValueError(f"{need}, got none")
    return methods


def no_iou_threshold(iou_threshold: Any, alpha_for_bound: Callable[[float], float]) -> NoReturn:
    """Raise the error that says what `hnms` has instead of an IoU threshold."""
    message = f"hnms has no iou_threshold, got {brief(iou_threshold)}: it takes alpha"
    try:
        alpha = alpha_for_bound(iou_threshold)
    except (TypeError, ValueError):
        raise TypeError(f"{message}; see alpha_for_bound") from None
    raise TypeError(
        f"{message}; alpha_for_bound({iou_threshold}) = {alpha:.4f} is the alpha that guarantees IoU {iou_threshold}"
    )


def choice_value(name: str, value: Any, known: tuple[Name, ...]) -> Name:
    """One of the known names."""
    if isinstance(value, str):
        for one in known:
            if one == value:
                return one
    raise ValueError(f"{name} must be one of {', '.join(known)}, got {brief(value)}")


def _number(name: str, value: Any, need: str, fits: Callable[[float], bool]) -> float:
    if type(value) is not float:
        value = _python_scalar(value)
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{name} must be a number, {need}, got {brief(value)}{_one_hint(name, value)}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not fits(number):
        raise ValueError(f"{name} must be {need}, got {_shown(value)}")
    return number


def _one_hint(name: str, value: Any) -> str:
    """Where to read on if several values are given where a call takes one, perhaps for several classes."""
    if name not in ("iou_threshold", "score_threshold", "min_score", "sigma", "alpha", "max_output", "k"):
        return ""
    is_several = isinstance(value, (Sequence, Mapping)) or getattr(value, "ndim", 0) > 0
    hint = ": a call takes one number; docs/howto/by_class.md shows how each class gets its own"
    return hint if is_several and not isinstance(value, (str, bytes)) else ""


def _python_scalar(value: Any) -> Any:
    """The number in a 0-dimensional array or tensor or a NumPy scalar; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _shown(number: Any) -> str:
    """A number as an error shows it: Python refuses to print integers of several thousand digits."""
    try:
        return str(number)
    except ValueError:
        return "an integer of thousands of digits"
