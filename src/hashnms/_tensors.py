"""Where arrays and torch tensors part. Nothing here imports torch: who has a tensor has imported it."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar

from numpy.typing import ArrayLike, NDArray

Tensor = TypeVar("Tensor")
Tensor_co = TypeVar("Tensor_co", covariant=True)


class AnyTensor(Protocol[Tensor_co]):
    """A `torch.Tensor` for type checkers, also where torch is not installed: what it detaches to is what comes out."""

    def detach(self) -> Tensor_co: ...

    @property
    def is_cuda(self) -> bool: ...


#: What scores and labels may be.
Values = AnyTensor[Any] | ArrayLike


def __getattr__(name: str) -> Any:
    """`ops`: the module `hashnms.torch.ops`, imported when it is first asked for and kept here."""
    if name != "ops":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hashnms.torch import ops  # noqa: PLC0415

    globals()[name] = ops
    return ops


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_proxy(value: Any) -> bool:
    """Whether it stands for a tensor while `torch.fx.symbolic_trace` looks at the code."""
    fx = sys.modules.get("torch.fx")
    return fx is not None and isinstance(value, fx.Proxy)


def array_of(name: str, tensor: Any) -> NDArray[Any]:
    """The numbers of a CPU tensor as an array, which shares its memory where it can."""
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
        got = f"{tensor.dtype}, {tensor.layout}"
        raise TypeError(f"{name} must be a dense tensor of real numbers, got {got}") from None
