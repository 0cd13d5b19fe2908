"""Compile the Triton kernels for GPUs that need not be here, as launches would; print their PTX as JSON."""

import json
from itertools import product

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hashnms.torch import kernels

AXIS = ("{}_edges", "{}_inverse_deltas", "{}_parameters")
HASH_TYPES = {name.format(size): "*fp64" for size in ("width", "height") for name in AXIS}
HASH_TYPES |= {"last_width": "i32", "last_height": "i32", "count": "i32"}
HASH_TYPES |= {"sizes": "*i64", "places": "*i64", "fits": "*i32"}
CLAIM_TYPES = dict.fromkeys(("sizes", "places", "labels", "claims", "best", "slots"), "*i64")
CLAIM_TYPES |= {"owners": "*i32", "count": "i32", "last_slot": "i32", "seed": "i64"}


NVIDIA = {f"sm_{capability}": GPUTarget("cuda", capability, 32) for capability in (80, 90)}
AMD = {architecture: GPUTarget("hip", architecture, 64) for architecture in ("gfx90a", "gfx942")}


def compiled(kernel, target, types, **constants):
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    return triton.compile(source, target=target, options=kernels.OPTIONS).asm


def hash_kernel(target, box_format, box_type):
    types = HASH_TYPES | {"boxes": f"*{box_type}"}
    return compiled(kernels.hash_kernel, target, types, BOX_FORMAT=box_format, BLOCK=kernels.BLOCK)


def claim_kernel(target, has_labels):
    constants = {"HAS_LABELS": has_labels, "IDLE_SLOTS": kernels.IDLE_SLOTS, "BLOCK": kernels.BLOCK}
    return compiled(kernels.claim_kernel, target, CLAIM_TYPES, **constants)


def nvidia_result(code):
    return {"ptx": code["ptx"], "cubin_bytes": len(code["cubin"])}


results = {}
for name, target in NVIDIA.items():
    for box_format, box_type in product(("xyxy", "xywh", "cxcywh"), ("fp32", "fp64")):
        results[f"hash {name} {box_format} {box_type}"] = nvidia_result(hash_kernel(target, box_format, box_type))
    for has_labels in (False, True):
        labels = "labels" if has_labels else "no labels"
        results[f"claim {name} {labels}"] = nvidia_result(claim_kernel(target, has_labels))
for name, target in AMD.items():
    results[f"hash {name}"] = {"hsaco_bytes": len(hash_kernel(target, "xyxy", "fp32")["hsaco"])}
    results[f"claim {name}"] = {"hsaco_bytes": len(claim_kernel(target, True)["hsaco"])}
print(json.dumps(results))
