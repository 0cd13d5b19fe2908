"""The figures that the paper prints, to stand beside ours: Tables 1, 2, 4, 5, on a Xeon E5-2620 v4 and a TITAN XP."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """A row of a table: mAP in percent, milliseconds of the suppression and of all, on the CPU and on the GPU."""

    map_50: float
    cpu_ms: float
    cpu_total_ms: float
    gpu_ms: float | None = None
    gpu_total_ms: float | None = None


#: Table 1, Faster-RCNN-R50-FPN: dataset -> K (0: NMS) -> row. The time is that of the NMS of the RPN.
RPN: dict[str, dict[int, Printed]] = {
    "carpk": {
        0: Printed(96.9, 223.3, 3935.7, 27.2, 149.0),
        1: Printed(97.1, 30.3, 3665.6, 6.5, 132.8),
        2: Printed(97.1, 49.0, 3571.5, 9.3, 137.9),
        3: Printed(97.0, 52.3, 3790.5, 11.2, 136.9),
        4: Printed(96.9, 68.8, 3790.6, 13.2, 136.2),
    },
    "sku110k": {
        0: Printed(90.5, 478.4, 2599.9, 32.2, 133.7),
        1: Printed(89.8, 41.4, 2191.5, 5.9, 101.4),
        2: Printed(90.4, 69.2, 2220.2, 8.6, 103.8),
        3: Printed(90.5, 79.9, 2250.3, 11.4, 107.8),
        4: Printed(90.5, 102.6, 2239.9, 17.1, 101.4),
    },
    "crowdhuman": {
        0: Printed(82.1, 307.9, 3643.5, 27.3, 148.8),
        1: Printed(81.8, 38.9, 3379.8, 6.3, 101.8),
        2: Printed(82.0, 53.8, 3584.5, 10.4, 114.4),
        3: Printed(82.0, 64.1, 3530.9, 12.6, 110.6),
        4: Printed(82.1, 73.0, 3434.4, 15.4, 113.7),
    },
}

#: Table 2 and, for CrowdHuman, Table 4, Retina-R50-FPN. The time is that of HNMS and NMS together.
RETINA: dict[str, dict[int, Printed]] = {
    "carpk": {
        0: Printed(94.8, 260.9, 2071.1, 134.7, 250.9),
        1: Printed(95.3, 23.6 + 194.2, 1761.9, 0.9 + 33.1, 149.1),
        2: Printed(95.3, 34.0 + 161.7, 1762.6, 1.4 + 18.4, 121.9),
        3: Printed(95.2, 46.1 + 140.4, 1794.6, 2.5 + 19.5, 142.1),
        4: Printed(95.2, 51.4 + 122.4, 1732.6, 3.0 + 14.6, 131.3),
    },
    "sku110k": {
        0: Printed(91.6, 185.2, 1640.9, 121.1, 217.9),
        1: Printed(91.6, 19.4 + 124.5, 1576.3, 0.7 + 18.8, 115.8),
        2: Printed(91.6, 33.9 + 104.2, 1567.6, 1.4 + 14.0, 111.3),
        3: Printed(91.5, 42.7 + 88.2, 1571.8, 2.1 + 11.3, 109.0),
        4: Printed(91.5, 50.3 + 81.0, 1531.5, 2.8 + 10.9, 111.4),
    },
    "crowdhuman": {
        0: Printed(77.7, 327.8, 1870.9, 143.9, 260.5),
        1: Printed(77.8, 25.0 + 268.7, 1653.4, 0.9 + 65.1, 182.1),
        2: Printed(77.6, 42.2 + 234.5, 1837.4, 1.6 + 39.4, 151.3),
        3: Printed(77.5, 56.8 + 216.4, 1858.9, 2.3 + 29.4, 139.1),
        4: Printed(77.4, 66.2 + 193.5, 1841.9, 3.2 + 24.3, 142.2),
    },
}

#: Table 5, Retina-R50-FPN with Soft-NMS, on the CPU. The time is that of HNMS and Soft-NMS together.
SOFT: dict[str, dict[int, Printed]] = {
    "carpk": {
        0: Printed(95.3, 40710.5, 42980.8),
        1: Printed(95.3, 22.6 + 10160.4, 11878.1),
        2: Printed(95.4, 31.8 + 7210.5, 8901.7),
        3: Printed(95.4, 39.5 + 5451.7, 7133.3),
        4: Printed(95.4, 49.4 + 4701.4, 6415.1),
    },
    "sku110k": {
        0: Printed(91.9, 37673.2, 39260.5),
        1: Printed(91.9, 21.8 + 11042.8, 12639.3),
        2: Printed(92.0, 30.3 + 6902.1, 8434.5),
        3: Printed(92.0, 38.1 + 5524.2, 7038.9),
        4: Printed(92.0, 45.5 + 4697.9, 6258.0),
    },
    "crowdhuman": {
        0: Printed(78.6, 44272.1, 45821.6),
        1: Printed(78.6, 26.7 + 17549.4, 19295.2),
        2: Printed(78.6, 39.0 + 11474.2, 13125.2),
        3: Printed(78.6, 51.5 + 9234.0, 10937.6),
        4: Printed(78.6, 65.7 + 7940.9, 9717.2),
    },
}

#: The appendix: dataset -> mAP, the same for P1 = 1,000 to 9,000 (of COCO at IoU 0.5 to 0.95), and for P1 = 1,000 the
#: milliseconds of the NMS and of all.
VOC_COCO: dict[str, Printed] = {
    "voc": Printed(77.2, 5.5, 1473.6, 2.3, 47.9),
    "coco": Printed(37.4, 6.5, 1998.5, 2.7, 67.1),
}
