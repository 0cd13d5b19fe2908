"""Messages of the library in the words of the command line: options instead of Python's arguments."""

from __future__ import annotations

import re

#: A part of a message -> what the command line says instead. All that fit apply once, in this order.
_WORDS = {
    # columns and formats of files
    r"(image|score) must be the name of a column, because none is named (.+?) or similar, got columns (.+?)"
    r"(?:; image=None (if all rows belong to one image))?(; if its first line is not a header, give .+)?$": (
        r"no column is named \2 or similar, only \3: name the column of the \1 with --columns \1=NAME\5"
    ),
    r"(--columns image=NAME)(?=$|; if its)": r"\1, or --columns image= if all rows belong to one image",
    r"boxes must name a column of lists or four columns, because none are named (.+?) or similar, got columns (.+?)"
    r"(; if its first line is not a header, give .+)?$": (
        r"no columns are named \1 or similar, only \2: name them with --columns boxes=NAME or boxes=A/B/C/D\3"
    ),
    r"; if its first line is not a header, give the column names$": (
        "; if its first line is not a header, name the columns with --header"
    ),
    r"(^|: )(image|label|score) must be (the name of a column, )?one of ": r"\1--columns \2= must be one of ",
    r"\bboxes must be one column of lists or four columns,": "--columns boxes= must be one column, or A/B/C/D,",
    r"\bcolumns of such a folder are fixed and must not be given,": "--columns must not be given for such a folder,",
    r"; otherwise give the format$": "; for other names, give the format with -f",
    r"^format must be one of ": "--format must be one of ",
    r"^to must be one of ": "--to must be one of ",
    r"\bbox_format (of such a folder )?must be ": r"--box-format \1must be ",
    r"^(true|false|yes|no): must be a file,": r"\1: options such as --class-agnostic take no value; it must be a file,",
    # options that Python calls otherwise
    r"; use files\.suppress if the scene fits into memory$": "; leave out --scene if its boxes fit into memory",
    r"^(output|memory|folder|preset) must ": r"--\1 must ",
    r"^alpha must be in \(0, 1\), got (\S+)$": r"--alpha must be in (0, 1), got \1",
    r"^bound must be ": "--iou must be ",
    r"^max_detections must be 3 integers, (.*), got \((.*?),?\)$": r"--max-dets must be three numbers, \1, got \2",
    r"^max_detections must ": "--max-dets must ",
    r"^a sweep of (\w+) ": r"--sweep \1= ",
    r"^(a sweep|sweeps) must ": "--sweep must ",
    # ground truth
    r"\bbecause the detections have no classes,": "because --class-agnostic is given or no column has classes,",
    r"\bclass_offset=(-?[0-9]+)": r"--class-offset \1",
    r"\bclass_order=True": "--class-order",
    r"\btruth_images_only=True": "--truth-images-only",
    r"^class_offset must be 0 with class_order, got \S+": "--class-offset must not be given with --class-order",
}


def in_options(message: str) -> str:
    """Replace the arguments of Python in a message by the options of the command line.

    >>> print(in_options("a.csv: box_format must be one of xyxy, xywh, cxcywh, got 'yxyx'"))
    a.csv: --box-format must be one of xyxy, xywh, cxcywh, got 'yxyx'
    """
    for words, options in _WORDS.items():
        message = re.sub(words, options, message, count=1)
    return message
