"""Arrays of other libraries, such as JAX, CuPy, MLX and nanobind: some can only be read through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: DLPack's numbers of the devices whose memory the CPU reads (CPU, pinned and managed memory), and names of others.
_READ_BY_CPU = (1, 3, 11, 13)
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}

_OTHER_WAYS = ("__array__", "__array_interface__", "__array_struct__")


def array_of(name: str, values: Any) -> NDArray[Any]:
    """An object of any type as NumPy converts it, or through DLPack if NumPy cannot."""
    if _dlpack_is_only_way(values):
        return _shared(name, values)
    try:
        return np.asarray(values)
    except Exception:
        if not hasattr(values, "__dlpack__"):
            raise
        return _shared(name, values)


def _dlpack_is_only_way(values: Any) -> bool:
    """Whether DLPack is the only way to the numbers of an object: NumPy would make an array of one object of it."""
    kind = type(values)
    if not hasattr(kind, "__dlpack__") or any(hasattr(kind, way) for way in _OTHER_WAYS):
        return False
    try:
        memoryview(values).release()
    except (TypeError, BufferError):
        return True
    return False


def _shared(name: str, values: Any) -> NDArray[Any]:
    """An array that shares the memory of an object of another library."""
    kind = f"{type(values).__module__}.{type(values).__qualname__}"
    device = int(values.__dlpack_device__()[0]) if hasattr(values, "__dlpack_device__") else 1
    if device not in _READ_BY_CPU:
        where = _DEVICES.get(device, "foreign")
        raise ValueError(
            f"{name} must be in the memory of the CPU, got a {kind} on a {where} device: copy it first, in CuPy with "
            f"{name}.get(), in JAX with jax.device_get({name})"
        )
    try:
        return np.from_dlpack(values)
    except Exception as error:  # what the other library raises, or NumPy for types that it does not have
        why = str(error).partition("\n")[0]
        raise TypeError(f"{name} must be numbers that NumPy can read, got a {kind}: {why}") from error
