"""The paper's printed numbers, for comparison: Tables 1, 2, 4, 5, on a Xeon E5-2620 v4 and a TITAN XP."""

from __future__ import annotations

from typing import NamedTuple


class Times(NamedTuple):
    """Milliseconds of the suppression, their standard deviation if printed, and milliseconds of the whole detector."""

    suppression: float
    deviation: float | None
    total: float


class Printed(NamedTuple):
    """A row of a table: mAP in percent, and times by device."""

    map_50: float
    times: dict[str, Times]


def _row(
    map_50: float, cpu: tuple[float, float | None, float], gpu: tuple[float, float | None, float] | None
) -> Printed:
    times = {"cpu": Times(*cpu)}
    return Printed(map_50, times if gpu is None else {**times, "cuda": Times(*gpu)})


#: Table 1, Faster-RCNN-R50-FPN: dataset -> K (0: NMS) -> row. The time is that of the RPN's NMS.
RPN: dict[str, dict[int, Printed]] = {
    "carpk": {
        0: _row(96.9, (223.3, 36.5, 3935.7), (27.2, 2.0, 149.0)),
        1: _row(97.1, (30.3, 5.4, 3665.6), (6.5, 1.0, 132.8)),
        2: _row(97.1, (49.0, 6.5, 3571.5), (9.3, 1.2, 137.9)),
        3: _row(97.0, (52.3, 7.6, 3790.5), (11.2, 1.5, 136.9)),
        4: _row(96.9, (68.8, 9.6, 3790.6), (13.2, 1.7, 136.2)),
    },
    "sku110k": {
        0: _row(90.5, (478.4, 64.4, 2599.9), (32.2, 3.7, 133.7)),
        1: _row(89.8, (41.4, 5.8, 2191.5), (5.9, 0.6, 101.4)),
        2: _row(90.4, (69.2, 7.4, 2220.2), (8.6, 0.6, 103.8)),
        3: _row(90.5, (79.9, 11.8, 2250.3), (11.4, 1.3, 107.8)),
        4: _row(90.5, (102.6, 11.8, 2239.9), (17.1, 1.9, 101.4)),
    },
    "crowdhuman": {
        0: _row(82.1, (307.9, 48.4, 3643.5), (27.3, 4.3, 148.8)),
        1: _row(81.8, (38.9, 6.6, 3379.8), (6.3, 0.8, 101.8)),
        2: _row(82.0, (53.8, 6.7, 3584.5), (10.4, 1.3, 114.4)),
        3: _row(82.0, (64.1, 9.4, 3530.9), (12.6, 0.8, 110.6)),
        4: _row(82.1, (73.0, 10.9, 3434.4), (15.4, 0.9, 113.7)),
    },
}

#: Table 2 and, for CrowdHuman, Table 4, Retina-R50-FPN. The time is that of HNMS and NMS together.
RETINA: dict[str, dict[int, Printed]] = {
    "carpk": {
        0: _row(94.8, (260.9, None, 2071.1), (134.7, None, 250.9)),
        1: _row(95.3, (23.6 + 194.2, None, 1761.9), (0.9 + 33.1, None, 149.1)),
        2: _row(95.3, (34.0 + 161.7, None, 1762.6), (1.4 + 18.4, None, 121.9)),
        3: _row(95.2, (46.1 + 140.4, None, 1794.6), (2.5 + 19.5, None, 142.1)),
        4: _row(95.2, (51.4 + 122.4, None, 1732.6), (3.0 + 14.6, None, 131.3)),
    },
    "sku110k": {
        0: _row(91.6, (185.2, None, 1640.9), (121.1, None, 217.9)),
        1: _row(91.6, (19.4 + 124.5, None, 1576.3), (0.7 + 18.8, None, 115.8)),
        2: _row(91.6, (33.9 + 104.2, None, 1567.6), (1.4 + 14.0, None, 111.3)),
        3: _row(91.5, (42.7 + 88.2, None, 1571.8), (2.1 + 11.3, None, 109.0)),
        4: _row(91.5, (50.3 + 81.0, None, 1531.5), (2.8 + 10.9, None, 111.4)),
    },
    "crowdhuman": {
        0: _row(77.7, (327.8, None, 1870.9), (143.9, None, 260.5)),
        1: _row(77.8, (25.0 + 268.7, None, 1653.4), (0.9 + 65.1, None, 182.1)),
        2: _row(77.6, (42.2 + 234.5, None, 1837.4), (1.6 + 39.4, None, 151.3)),
        3: _row(77.5, (56.8 + 216.4, None, 1858.9), (2.3 + 29.4, None, 139.1)),
        4: _row(77.4, (66.2 + 193.5, None, 1841.9), (3.2 + 24.3, None, 142.2)),
    },
}

#: Table 5, Retina-R50-FPN with Soft-NMS, on the CPU. The time is that of HNMS and Soft-NMS together, the deviation that
#: of Soft-NMS.
SOFT: dict[str, dict[int, Printed]] = {
    "carpk": {
        0: _row(95.3, (40710.5, 4402.8, 42980.8), None),
        1: _row(95.3, (22.6 + 10160.4, 2582.2, 11878.1), None),
        2: _row(95.4, (31.8 + 7210.5, 1925.8, 8901.7), None),
        3: _row(95.4, (39.5 + 5451.7, 1565.6, 7133.3), None),
        4: _row(95.4, (49.4 + 4701.4, 1372.1, 6415.1), None),
    },
    "sku110k": {
        0: _row(91.9, (37673.2, 2564.3, 39260.5), None),
        1: _row(91.9, (21.8 + 11042.8, 1837.5, 12639.3), None),
        2: _row(92.0, (30.3 + 6902.1, 1144.8, 8434.5), None),
        3: _row(92.0, (38.1 + 5524.2, 943.4, 7038.9), None),
        4: _row(92.0, (45.5 + 4697.9, 899.0, 6258.0), None),
    },
    "crowdhuman": {
        0: _row(78.6, (44272.1, 3350.4, 45821.6), None),
        1: _row(78.6, (26.7 + 17549.4, 2625.1, 19295.2), None),
        2: _row(78.6, (39.0 + 11474.2, 2039.7, 13125.2), None),
        3: _row(78.6, (51.5 + 9234.0, 1838.6, 10937.6), None),
        4: _row(78.6, (65.7 + 7940.9, 1713.3, 9717.2), None),
    },
}

#: The appendix: dataset -> mAP (of COCO at IoU 0.5 to 0.95), the same for P1 = 1,000 to 9,000; times for P1 = 1,000.
VOC_COCO: dict[str, Printed] = {
    "voc": _row(77.2, (5.5, None, 1473.6), (2.3, None, 47.9)),
    "coco": _row(37.4, (6.5, None, 1998.5), (2.7, None, 67.1)),
}
