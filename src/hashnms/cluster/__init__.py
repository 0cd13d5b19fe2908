"""Suppress detections on several machines with Ray Data (the extra `ray`).

`suppress` takes tables of many images, in any order. `scene` takes one scene that is too large for a machine.
`suppress_files` reads and writes Parquet. Without a cluster, Ray starts one on this machine. docs/howto/scale.md
explains it.
"""

from hashnms.cluster.files import read_parquet, suppress_files
from hashnms.cluster.images import suppress
from hashnms.cluster.rows import RowError
from hashnms.cluster.scenes import scene

__all__ = ["RowError", "read_parquet", "scene", "suppress", "suppress_files"]
