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
CLAIM_TYPES |= {"owners": "*i32", "count": "i32", "last_slot": "i32"}


def compiled(kernel, capability, types, **constants):
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=kernels.OPTIONS)
    return {"ptx": result.asm["ptx"], "cubin_bytes": len(result.asm["cubin"])}


results = {}
for capability in (80, 90):
    for box_format, box_type in product(("xyxy", "xywh", "cxcywh"), ("fp32", "fp64")):
        results[f"hash sm_{capability} {box_format} {box_type}"] = compiled(
            kernels.hash_kernel,
            capability,
            HASH_TYPES | {"boxes": f"*{box_type}"},
            BOX_FORMAT=box_format,
            BLOCK=kernels.BLOCK,
        )
    for has_labels in (False, True):
        results[f"claim sm_{capability} {'labels' if has_labels else 'no labels'}"] = compiled(
            kernels.claim_kernel,
            capability,
            CLAIM_TYPES,
            HAS_LABELS=has_labels,
            IDLE_SLOTS=kernels.IDLE_SLOTS,
            BLOCK=kernels.BLOCK,
        )
print(json.dumps(results))
