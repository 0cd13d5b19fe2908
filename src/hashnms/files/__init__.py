"""Suppress detections in files of any supported format and any size (the extra `files`).

>>> from hashnms import files
>>> sorted(files.FORMATS)
['coco', 'csv', 'feather', 'jsonl', 'mot', 'npz', 'parquet', 'tsv', 'visdrone', 'yolo']
"""

from hashnms.files.formats import FORMATS
from hashnms.files.rows import FileError
from hashnms.files.suppressing import Summary, suppress

__all__ = ["FORMATS", "FileError", "Summary", "suppress"]
