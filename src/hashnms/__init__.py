"""hashnms: fast, exact non-maximum suppression for crowded scenes."""

__version__ = "0.2.0"

try:
    from hashnms import _core as _core
except ImportError as error:
    raise ImportError(
        "hashnms's compiled core is missing: was the package built? In a checkout, run `pip install .` "
        "and keep its src folder off sys.path."
    ) from error

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

from hashnms import boxes, evaluate, reference, synthetic
from hashnms._extras import missing as _missing
from hashnms._threads import get_num_threads, set_num_threads
from hashnms.hashing import IoUHash, alpha_for_bound, hash_family, iou_hash, iou_lower_bound
from hashnms.merging import Fused, Merged, merge, nmm, vote, weighted_boxes_fusion
from hashnms.partial import Status, partial_nms, regions
from hashnms.pipeline import Suppressed, Suppression
from hashnms.steps import Hnms, Limit, Nmm, Nms, ScoreThreshold, SoftNms, TopK, Vote, Wbf
from hashnms.suppression import batched_nms, hnms, nms, soft_nms

__all__ = [
    "Fused",
    "Hnms",
    "IoUHash",
    "Limit",
    "Merged",
    "Nmm",
    "Nms",
    "ScoreThreshold",
    "SoftNms",
    "Status",
    "Suppressed",
    "Suppression",
    "TopK",
    "Vote",
    "Wbf",
    "alpha_for_bound",
    "batched_nms",
    "boxes",
    "evaluate",
    "get_num_threads",
    "hash_family",
    "hnms",
    "iou_hash",
    "iou_lower_bound",
    "merge",
    "nmm",
    "nms",
    "partial_nms",
    "reference",
    "regions",
    "set_num_threads",
    "soft_nms",
    "synthetic",
    "vote",
    "weighted_boxes_fusion",
]

#: Modules that are imported on first use, and the packages that each needs.
_PARTS = {
    "cluster": ("ray", "pandas", "pyarrow", "msgspec"),
    "compare": ("rich",),
    "detectors": ("torchvision",),
    "files": ("pyarrow", "msgspec"),
    "plot": ("matplotlib",),
    "report": (),
    "scenes": ("pyarrow", "msgspec"),
    "sweeps": (),
    "tables": ("pyarrow",),
    "torch": ("torch",),
}
#: Where the extra has another name than the module, or there is none: rich is installed with hashnms.
_EXTRAS = {"cluster": "ray", "compare": None}

if TYPE_CHECKING:
    from hashnms import cluster as cluster
    from hashnms import compare as compare
    from hashnms import detections as detections
    from hashnms import detectors as detectors
    from hashnms import files as files
    from hashnms import plot as plot
    from hashnms import report as report
    from hashnms import scenes as scenes
    from hashnms import sweeps as sweeps
    from hashnms import tables as tables
    from hashnms import torch as torch
else:  # type checkers would accept any name as an attribute

    def __getattr__(name: str) -> object:
        if name not in _PARTS:
            raise AttributeError(f"module 'hashnms' has no attribute {name!r}")
        try:
            return _import_module(f"hashnms.{name}")
        except ModuleNotFoundError as error:
            # Not an AttributeError: with one, hasattr would return False instead of saying which package is missing.
            if (error.name or "").partition(".")[0] not in _PARTS[name]:
                raise
            raise _missing(f"hashnms.{name}", error.name, _EXTRAS.get(name, name)) from error


def __dir__() -> list[str]:
    # Modules that cannot be imported are left out: help() and inspect.getmembers() read every name listed here.
    return sorted([*globals(), *(part for part, needed in _PARTS.items() if all(map(_find_spec, needed)))])
