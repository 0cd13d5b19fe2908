"""hashnms: fast and simple non-maximum suppression for crowded scenes, by hashing boxes."""

__version__ = "0.1.0"

try:
    from hashnms import _core as _core
except ImportError as error:
    raise ImportError(
        "hashnms's compiled core is missing: was the package built? From a checkout, run `pip install .` "
        "and leave its src folder off sys.path."
    ) from error

from hashnms import boxes, evaluate, reference, synthetic
from hashnms._threads import get_num_threads, set_num_threads
from hashnms.hashing import IoUHash, alpha_for_bound, hash_family, iou_hash, iou_lower_bound
from hashnms.pipeline import Hnms, Limit, Nms, ScoreThreshold, SoftNms, Suppressed, Suppression, TopK
from hashnms.suppression import batched_nms, hnms, nms, soft_nms

__all__ = [
    "Hnms",
    "IoUHash",
    "Limit",
    "Nms",
    "ScoreThreshold",
    "SoftNms",
    "Suppressed",
    "Suppression",
    "TopK",
    "alpha_for_bound",
    "batched_nms",
    "boxes",
    "evaluate",
    "get_num_threads",
    "hash_family",
    "hnms",
    "iou_hash",
    "iou_lower_bound",
    "nms",
    "reference",
    "set_num_threads",
    "soft_nms",
    "synthetic",
]
