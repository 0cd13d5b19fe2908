"""Where arrays and torch tensors part. Nothing here imports torch: who has a tensor has imported it."""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


#: `hashnms.torch.ops`, once it is imported, which sets it: an import in each call would take as long as the rest.
known_ops: Any = None


def tensor_ops() -> Any:
    """The functions of tensors: for each of arrays, one of the same name."""
    if known_ops is None:
        import hashnms.torch.ops  # noqa: PLC0415, F401
    return known_ops


def array_of(name: str, tensor: Any) -> NDArray[Any]:
    """The numbers of a CPU tensor as an array, which shares its memory where it can."""
    if not tensor.is_cpu:
        need = "the device of boxes, cpu" if name in ("scores", "labels") else "cpu"
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
