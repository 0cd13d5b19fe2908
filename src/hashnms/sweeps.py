"""Sweeps: one method with many values of its parameters, such as `hnms:0.7/1` with `alpha=0.5:0.9:0.05`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from decimal import Decimal
from itertools import product

from hashnms import _numbers, _settings
from hashnms.pipeline import Suppression
from hashnms.steps import Hnms, Limit, Nmm, Nms, ScoreThreshold, SoftNms, Step, TopK, Vote, Wbf

#: The parameters that can be swept: the steps that have them, and the name of the field in each.
PARAMETERS: dict[str, dict[type[Step], str]] = {
    "alpha": {Hnms: "alpha"},
    "k": {Hnms: "num_hashes"},
    "iou": dict.fromkeys((Nms, SoftNms, Nmm, Vote, Wbf), "iou_threshold"),
    "sigma": {SoftNms: "sigma"},
    "top": {TopK: "k"},
    "limit": {Limit: "k"},
    "score": {ScoreThreshold: "score_threshold"},
}
_HAVE = {
    "alpha": "hnms",
    "k": "hnms",
    "iou": "nms, softnms:linear, softnms:hard, nmm, vote or wbf",
    "sigma": "softnms:gaussian",
    "top": "top",
    "limit": "limit",
    "score": "score",
}
_WHOLE = ("k", "top", "limit")
_MOST = 1000  # methods, or values of one sweep: more is probably a mistake

Method = Suppression | str


def sweep(methods: Method | Sequence[Method], specs: str | Sequence[str]) -> list[Suppression]:
    """Vary the parameters of each method: method after method, the last sweep varies fastest.

    A method that has none of the parameters stays as it is.

    Args:
        methods: one or more suppressions or their notations.
        specs: `name=start:stop:step`, both ends included, or `name=value,value`. Several sweeps give all combinations.
            The names are alpha and k (of hnms), iou (of nms, nmm, vote, wbf, and softnms where it has one), sigma, top,
            limit and score. For whole numbers, the step may be left out; it is then 1.

    Returns:
        The suppressions, without duplicates.

    Raises:
        ValueError: if a sweep cannot be parsed, no method has its parameter, or a value is out of range.

    >>> [str(method) for method in sweep(["nms:0.5", "hnms:0.7/1+nms:0.5"], ["alpha=0.6:0.8:0.1"])]
    ['nms:0.5', 'hnms:0.6/1+nms:0.5', 'hnms:0.7/1+nms:0.5', 'hnms:0.8/1+nms:0.5']
    """
    several = [methods] if isinstance(methods, (Suppression, str)) else methods
    chains = _settings.methods_list(several, Suppression.of)
    values = _parsed([specs] if isinstance(specs, str) else specs)
    for name in values:
        if not any(name in parameters_of(chain) for chain in chains):
            got = ", ".join(map(str, chains))
            raise ValueError(f"a sweep of {name} needs a method that has it, one with {_HAVE[name]}, got {got}")
    swept = dict.fromkeys(variant for chain in chains for variant in _variants(chain, values))
    if len(swept) > _MOST:
        raise ValueError(f"sweeps must make at most {_MOST:,} methods, got {len(swept):,}")
    return list(swept)


def parameters_of(suppression: Suppression) -> dict[str, float]:
    """The parameters of a method by their names in sweeps; if several steps have one, that of the last.

    >>> parameters_of(Suppression.parse("top:9000+hnms:0.7/2+softnms:linear/0.3"))
    {'alpha': 0.7, 'k': 2, 'iou': 0.3, 'top': 9000}
    """
    return {
        name: getattr(step, field)
        for name in PARAMETERS
        for step in suppression.steps
        if (field := _field(step, name)) is not None
    }


def _field(step: Step, name: str) -> str | None:
    """The field of a step for a parameter, or None if it does not have it."""
    field = PARAMETERS[name].get(type(step))
    first_value = str(getattr(step, fields(step)[0].name))
    return field if field in step._written(first_value) else None  # Soft-NMS has sigma or iou_threshold


def _variants(chain: Suppression, values: dict[str, list[float]]) -> list[Suppression]:
    """The chain with each combination of the values of its parameters."""
    names = [name for name in values if name in parameters_of(chain)]
    total = 1
    for name in names:
        total *= len(values[name])
    if total > _MOST:
        raise ValueError(f"sweeps must make at most {_MOST:,} methods, got {total:,} from {chain}")
    variants = []
    for combination in product(*(values[name] for name in names)):
        steps = list(chain.steps)
        for name, value in zip(names, combination, strict=True):
            steps = [_with(step, name, value) for step in steps]
        variants.append(Suppression(steps))
    return variants


def _with(step: Step, name: str, value: float) -> Step:
    field = _field(step, name)
    if field is None:
        return step
    try:
        return replace(step, **{field: value})
    except ValueError as error:
        raise ValueError(f"a sweep of {name} must have valid values, got {value}: {error}") from None


def _parsed(specs: Sequence[str]) -> dict[str, list[float]]:
    """The values of each sweep."""
    values: dict[str, list[float]] = {}
    for spec in specs:
        name, equals, text = spec.partition("=")
        name = name.strip()
        if not equals or name not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            raise ValueError(f"a sweep must be name=values with a name of {known}, got {spec!r}")
        if name in values:
            raise ValueError(f"sweeps must have different parameters, got {name} twice")
        values[name] = [value for part in text.split(",") for value in _range(name, part, spec)]
    return values


def _range(name: str, text: str, spec: str) -> list[float]:
    """The values of start:stop:step, or of one number."""
    whole = name in _WHOLE
    try:
        numbers = [_decimal(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    valid = all(_is_valid(number, whole) for number in numbers)
    if len(numbers) == 2 and whole:
        numbers.append(Decimal(1))
    if not valid or len(numbers) not in (1, 3):
        form = "start:stop, start:stop:step or whole numbers" if whole else "start:stop:step or numbers"
        raise ValueError(f"a sweep of {name} must be {form} separated by commas, got {spec!r}")
    start, stop, step = numbers if len(numbers) == 3 else (numbers[0], numbers[0], Decimal(1))
    if step <= 0 or stop < start:
        raise ValueError(f"a sweep of {name} must have a step above 0 and a stop not below its start, got {spec!r}")
    if stop - start >= _MOST * step:
        raise ValueError(f"a sweep of {name} must have at most {_MOST:,} values, got {spec!r}")
    values = (start + k * step for k in range(int((stop - start) / step) + 1))
    return [int(value) if whole else float(value) for value in values]


def _decimal(text: str) -> Decimal:
    _numbers.real(text)  # an error for what only Decimal takes
    return Decimal(text.strip())


def _is_valid(number: Decimal, whole: bool) -> bool:
    """Whether a number is finite and has no more digits than any parameter can have."""
    return number.is_finite() and number.adjusted() < 40 and (not whole or number == number.to_integral_value())
