"""Tables of the page, as lines of Markdown, from the results of `python -m benchmarks`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.compare import TOO_LONG, TOO_MUCH, fitted_exponent

#: The growth of time is fitted from this many boxes on.
GROWTH_FROM = 10_000
#: Our aim for the exponent of our time.
GREATEST_EXPONENT = 1.1

Results = list[dict[str, Any]]


class Family:
    """The results of one family, by workload and peer."""

    def __init__(self, results: Results) -> None:
        self.ours, *self.others = dict.fromkeys(result["peer"] for result in results)
        self.of_hashnms = [self.ours, *(name for name in self.others if name.startswith("hashnms"))]
        self.peers = [name for name in self.others if name not in self.of_hashnms]
        self.works = list(dict.fromkeys((result["workload"], result["boxes"]) for result in results))
        self._found = {(result["workload"], result["boxes"], result["peer"]): result for result in results}

    def answer(self, work: tuple[str, int], peer: str) -> str:
        return str(self._found.get((*work, peer), {}).get("answer", ""))

    def seconds(self, work: tuple[str, int], peer: str) -> float | None:
        seconds: float | None = self._found.get((*work, peer), {}).get("best")
        return seconds

    def ratio(self, work: tuple[str, int], peer: str) -> float | None:
        """How many times as long as ours a peer takes."""
        theirs, ours = self.seconds(work, peer), self.seconds(work, self.ours)
        return theirs / ours if theirs and ours else None

    def exponent(self, peer: str) -> float | None:
        """How time grows with the size, if a workload has several sizes."""
        points = [
            (work[1], seconds)
            for work in self.works
            if work[1] >= GROWTH_FROM and (seconds := self.seconds(work, peer))
        ]
        of_one_kind = len({name for name, _ in self.works}) == 1
        return fitted_exponent(points) if of_one_kind and len({size for size, _ in points}) > 1 else None


def rows(header: list[str], body: Iterable[list[str]], left: int = 1) -> Iterator[str]:
    """A table whose first columns are text."""
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * left + "---:|" * (len(header) - left)
    for cells in body:
        yield "| " + " | ".join(cells) + " |"
    yield ""


def ratio_table(results: Results) -> Iterator[str]:
    """How many times as long as ours each peer takes; then what differs, and how times grow."""
    family = Family(results)
    several = len({name for name, _ in family.works}) > 1

    def body() -> Iterator[list[str]]:
        for work in family.works:
            ours = family.seconds(work, family.ours) or 0.0
            cells = [ratio_cell(family, work, peer) for peer in family.others]
            yield [*([work[0]] if several else []), f"{work[1]:,}", f"{1e9 * ours / work[1]:,.0f}", *cells]

    header = [*(["workload"] if several else []), "boxes", f"{family.ours}, ns per box", *family.others]
    yield from rows(header, body(), left=1 if several else 0)
    yield from differences(family)
    exponents = {peer: family.exponent(peer) for peer in [family.ours, *family.others]}
    known = [f"{peer} {exponent:.2f}" for peer, exponent in exponents.items() if exponent is not None]
    if known:
        missed = [peer for peer in family.of_hashnms if (exponents[peer] or 0.0) > GREATEST_EXPONENT]
        verdict = f" Our aim, at most {GREATEST_EXPONENT}, is missed by {', '.join(missed)}." if missed else ""
        yield f"Exponent of time over boxes, fitted from {GROWTH_FROM:,} boxes on: {', '.join(known)}.{verdict}\n"


def ratio_cell(family: Family, work: tuple[str, int], peer: str) -> str:
    """The ratio, marked if other boxes are kept; or why there is none; empty if it was not measured."""
    ratio, answer = family.ratio(work, peer), family.answer(work, peer)
    if ratio is None:
        return {TOO_LONG: "> 1 min", TOO_MUCH: "> 4 GB", "": ""}.get(answer, "fails")
    return f"{shown(ratio)}x{'' if answer.startswith(('same', 'recall')) else ' *'}"


def time_cell(family: Family, work: tuple[str, int], peer: str) -> str:
    """The time of a call in milliseconds; why there is none."""
    seconds, answer = family.seconds(work, peer), family.answer(work, peer)
    if seconds is None:
        return {TOO_LONG: "> 1 min", TOO_MUCH: "> 4 GB", "": "not measured"}.get(answer, "fails")
    digits = 3 if seconds < 1e-4 else 2 if seconds < 1e-3 else 1 if seconds < 1e-2 else 0
    return f"{1e3 * seconds:,.{digits}f} ms"


def shown(ratio: float) -> str:
    """Two significant digits, or all digits before the point."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 0.995 else f"{ratio:.2f}"


def differences(family: Family) -> Iterator[str]:
    """Where the answers of peers differ from ours."""
    for peer in family.others:
        found: dict[str, list[str]] = {}
        for work in family.works:
            answer = family.answer(work, peer)
            if answer and answer not in ("same", TOO_LONG, TOO_MUCH) and not answer.startswith("recall"):
                found.setdefault(answer, []).append(f"{work[0]}, {work[1]:,}")
        for answer, works in found.items():
            where = "" if len(works) == len(family.works) else f" ({'; '.join(works)})"
            yield f"- {peer}: {answer}{where}."
    yield ""


def kept_table(results: Results) -> Iterator[str]:
    """For peers that approximate: recall and precision of their boxes against those of the exact method."""
    family = Family(results)
    approximate = [
        peer for peer in family.others if any(family.answer(work, peer).startswith("recall") for work in family.works)
    ]
    if not approximate:
        return
    body = (
        [
            work[0],
            f"{work[1]:,}",
            *(family.answer(work, peer).replace("recall ", "").replace("precision ", "") for peer in approximate),
        ]
        for work in family.works
    )
    yield from rows(["workload", "boxes", *(f"{peer}: recall, precision" for peer in approximate)], body)


def memory_table(memory: dict[str, Any]) -> Iterator[str]:
    yield f"Peak memory of a call on top of its input, with {memory['boxes']:,} boxes, in bytes per box:\n"
    body = (
        [kind, peer, taken if isinstance(taken, str) else f"{taken / memory['boxes']:,.0f}"]
        for kind, peers in memory["bytes"].items()
        for peer, taken in peers.items()
    )
    yield from rows(["", "peer", "bytes per box"], body, left=2)


def hashes_tables(measured: Results) -> Iterator[str]:
    """Average precision over alpha and K, a table for each method with HNMS."""
    plain = {one["method"]: one for one in measured if one["alpha"] is None}
    alphas = sorted({one["alpha"] for one in measured if one["alpha"]})
    for method in dict.fromkeys(one["method"] for one in measured if one["alpha"]):
        found = {(one["num_hashes"], one["alpha"]): one for one in measured if one["method"] == method}
        yield f"{method} (NMS: {percent(plain['NMS'])}, Soft-NMS: {percent(plain['Soft-NMS'])}):\n"
        counts = sorted({num_hashes for num_hashes, _ in found})
        body = ([f"K = {count}", *(percent(found[count, alpha]) for alpha in alphas)] for count in counts)
        yield from rows(["", *(f"alpha {alpha:g}" for alpha in alphas)], body)


def most_in_table(measured: Results) -> Iterator[str]:
    """Average precision and time over the number of candidates."""
    names = list(dict.fromkeys(one["method"] for one in measured))
    found = {(one["most_in"], one["method"]): one for one in measured}
    counts = sorted({most_in for most_in, _ in found})
    unit = found[counts[-1], "NMS"]["seconds"]
    body = (
        [
            f"{count:,}",
            *(f"{percent(found[count, name])} ({found[count, name]['seconds'] / unit:.2f})" for name in names),
        ]
        for count in counts
    )
    yield from rows(["P1", *names], body)


def later_table(measured: Results) -> Iterator[str]:
    """All methods with their best settings, and their agreement with NMS."""
    unit = next(one["seconds"] for one in measured if one["method"] == "NMS")
    keys = ["recall_of_nms", "precision_of_nms", "matched_recall_of_nms", "matched_precision_of_nms"]
    header = [
        "method",
        "mAP@0.5",
        "mAP@[.5:.95]",
        "recall@0.5",
        "time",
        "recall",
        "precision",
        "matched recall",
        "matched precision",
    ]
    body = (
        [
            one["method"] + (f" {one['alpha']:g}/{one['num_hashes']}" if one["alpha"] else ""),
            percent(one),
            percent(one, "map"),
            percent(one, "recall_50"),
            f"{shown(one['seconds'] / unit)}x",
            *(percent(one, key) for key in keys),
        ]
        for one in measured
    )
    yield from rows(header, body)


def percent(measured: dict[str, Any], key: str = "map_50") -> str:
    return f"{100 * measured[key]:.1f}"
