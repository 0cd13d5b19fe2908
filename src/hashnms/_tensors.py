"""Distinguishes torch tensors from arrays. Nothing here imports torch: a caller that has a tensor has imported it."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar

from numpy.typing import ArrayLike, NDArray

Tensor = TypeVar("Tensor")
Tensor_co = TypeVar("Tensor_co", covariant=True)


class AnyTensor(Protocol[Tensor_co]):
    """A `torch.Tensor` for type checkers, even without torch installed. The type of `detach()` is the result's type."""

    def detach(self) -> Tensor_co: ...

    @property
    def is_cuda(self) -> bool: ...


#: The types of scores and labels.
Values = AnyTensor[Any] | ArrayLike


def __getattr__(name: str) -> Any:
    """`ops`: the module `hashnms.torch.ops`, imported on first use and kept here."""
    if name != "ops":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hashnms.torch import ops  # noqa: PLC0415

    globals()[name] = ops
    return ops


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_proxy(value: Any) -> bool:
    """Whether the value is a placeholder for a tensor under `torch.fx.symbolic_trace`."""
    fx = sys.modules.get("torch.fx")
    return fx is not None and isinstance(value, fx.Proxy)


def array_of(name: str, tensor: Any) -> NDArray[Any]:
    """A CPU tensor as an array, which shares its memory where possible."""
    if not tensor.is_cpu:
        need = "the device of boxes, cpu" if name in ("scores", "labels", "images", "idxs") else "cpu"
        raise ValueError(f"{name} must be on {need}, got {tensor.device}")
    plain = tensor.detach().resolve_neg()
    try:
        try:
            return plain.numpy()  # type: ignore[no-any-return]
        except TypeError:  # NumPy has no bfloat16
            if str(tensor.dtype) != "torch.bfloat16":
                raise
            return plain.float().numpy()  # type: ignore[no-any-return]
    except (RuntimeError, TypeError):
        raise not_dense(name, tensor) from None


def not_dense(name: str, tensor: Any) -> TypeError:
    """The error for a tensor of another kind of numbers or layout."""
    return TypeError(f"{name} must be a dense tensor of real numbers, got {tensor.dtype}, {tensor.layout}")
