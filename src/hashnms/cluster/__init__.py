"""Detections on several machines, with Ray Data (`pip install "hashnms[ray]"`).

`suppress` takes tables of many images, in any order; `scene` takes one scene that no machine can hold; `suppress_files`
reads and writes Parquet. Where there is no cluster, Ray starts one on this machine. docs/howto/scale.md explains it.
"""

from hashnms.cluster.files import read_parquet, suppress_files
from hashnms.cluster.images import suppress
from hashnms.cluster.rows import RowError
from hashnms.cluster.scenes import scene

__all__ = ["RowError", "read_parquet", "scene", "suppress", "suppress_files"]
