"""A simulated device: tensors in CPU memory that claim to be on it, to count what is copied and which calls wait."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from hashnms.torch.registration import implementations

DEVICE = torch.device("lazy:0")  # a type of device that torch knows and does not look for


class ElsewhereTensor(torch.Tensor):
    """A tensor on that device."""

    @staticmethod
    def __new__(cls, inner):
        layout = {"strides": inner.stride(), "dtype": inner.dtype, "device": DEVICE}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **layout)

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        raise AssertionError(f"{operation} of tensors elsewhere must be called within `Elsewhere`")


class Elsewhere(TorchDispatchMode):
    """The device exists inside its `with` block. `numbers_moved` counts what goes between it and the host."""

    def __init__(self):
        super().__init__()
        self.numbers_moved = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if operation.namespace == "hashnms":
            with self:
                return implementations[operation._schema.name.removeprefix("hashnms::")](*args, **kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        was_there = any(isinstance(tensor, ElsewhereTensor) for tensor in tensors)
        assert all(isinstance(tensor, ElsewhereTensor) or tensor.ndim == 0 for tensor in tensors) or not was_there
        is_there = was_there if kwargs.get("device") is None else kwargs.pop("device") == DEVICE
        if tensors and is_there != was_there:
            self.numbers_moved += sum(tensor.numel() for tensor in tensors)
        by_mask = operation.overloadpacket is torch.ops.aten.index and any(t.dtype == torch.bool for t in args[1])
        self.numbers_moved += was_there and (by_mask or operation.overloadpacket in _ASK)
        result = operation(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        return tree_map(_wrapped, result) if is_there else result


#: The operations that ask for a number, or how many there are.
_ASK = (
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.is_nonzero,
    torch.ops.aten.item,
    torch.ops.aten.nonzero,
)


def _inner(value):
    return value.inner if isinstance(value, ElsewhereTensor) else value


def _wrapped(value):
    return ElsewhereTensor(value.clone()) if isinstance(value, torch.Tensor) else value
