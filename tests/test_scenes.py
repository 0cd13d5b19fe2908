"""One scene larger than memory: the output is what the suppression of all boxes at once keeps."""

import itertools
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")

import pyarrow.dataset as ds  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from hashnms import Suppression, scenes  # noqa: E402
from hashnms._temporary import discard  # noqa: E402
from hashnms.files import FileError  # noqa: E402
from hashnms.scenes.records import boxes_at_once  # noqa: E402
from hashnms.synthetic import WORST_CASES, make_scene  # noqa: E402
from tests.support.boxes import BOX_KINDS  # noqa: E402

ROW = 250  # bytes of memory that a box takes


def table_of(boxes, scores, labels=None):
    columns = {name: boxes[:, k] for k, name in enumerate(("x1", "y1", "x2", "y2"))}
    label = {} if labels is None else {"label": labels}
    return pa.table({**columns, "score": scores, **label, "id": np.arange(len(boxes))})


def kept_ids(path):
    return pq.read_table(path)["id"].to_numpy()


def check(folder, suppression, boxes, scores, labels=None, *, at_once=200, row_groups=700, files=1):
    """Check that a scene gives the result of all boxes at once, if only this many boxes fit into memory."""
    table = table_of(boxes, scores, labels)
    for k in range(files):
        begin, end = k * len(table) // files, (k + 1) * len(table) // files
        pq.write_table(table.slice(begin, end - begin), folder / f"in-{k}.parquet", row_group_size=row_groups)
    out, seen = folder / "out.parquet", []
    inputs = [folder / f"in-{k}.parquet" for k in range(files)]
    summary = scenes.suppress(
        inputs, out, suppression, memory=at_once * ROW, progress=lambda _, text: seen.append(text)
    )
    expected = np.sort(Suppression.of(suppression)(boxes, scores, labels).keep)
    assert np.array_equal(kept_ids(out), expected)
    assert pq.read_table(out).equals(table.take(expected))
    assert (summary.boxes_in, summary.boxes_out) == (len(boxes), len(expected))
    assert {path.name for path in folder.iterdir()} == {"out.parquet", *(path.name for path in inputs)}
    return list(dict.fromkeys(seen))


def staircase(count):
    """Each box overlaps the next one by more than a half, and scores fall: every second one is kept, one by one."""
    place = 3.0 * np.arange(count, dtype=np.float32)
    return np.stack([place, place / 2, place + 16, place / 2 + 16], axis=1), -np.arange(count, dtype=np.float32)


CHAINS = [
    "nms:0.5",
    "nms:0.3/ios",
    "nms:0.7/diou/inclusive",
    "nms:0",
    "hnms:0.7/1",
    "hnms:0.6/3",
    "hnms:0.7/2+nms:0.5",
    "score:0.3+nms:0.6",
    "nms:0.8+score:0.1+hnms:0.5/1+nms:0.3",
]


@pytest.mark.parametrize("suppression", CHAINS)
@pytest.mark.parametrize("preset", ["aerial", "crowd"])
def test_a_scene_in_parts_is_the_scene(suppression, preset, tmp_path):
    scene = make_scene(preset, 6000)
    for at_once, labels, files in ((3000, scene.labels, 1), (300, None, 3)):
        check(tmp_path, suppression, scene.boxes, scene.scores, labels, at_once=at_once, files=files)


def test_several_rounds_are_needed_and_done(tmp_path):
    scene = make_scene("aerial", 20_000)
    seen = check(tmp_path, "nms:0.5", scene.boxes, scene.scores, at_once=1000)
    assert seen == ["reading", "dividing", "round 1", "round 2", "writing"]


def test_what_fits_is_decided_at_once(tmp_path):
    scene = make_scene("aerial", 2000)
    assert check(tmp_path, "nms:0.5", scene.boxes, scene.scores, at_once=2000) == ["reading", "writing"]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(60, 400),
    st.sampled_from(["nms:0", "nms:0.2", "nms:0.5/ios", "nms:0.5/diou", "nms:0.7/iou/inclusive", "hnms:0.7/2+nms:0.4"]),
    st.sampled_from([np.float32, np.float64]),
)
def test_any_boxes_and_any_memory(tmp_path_factory, seed, at_once, suppression, dtype):
    rng = np.random.default_rng(seed)
    boxes = BOX_KINDS[rng.choice(list(BOX_KINDS))](rng, 900).astype(dtype)
    boxes[:, [0, 2]] *= rng.choice([1, 1, 10])
    scores = rng.integers(0, 60, 900).astype(rng.choice([np.float32, np.float64]))
    labels = rng.integers(-1, 2, 900) if rng.random() < 0.5 else None
    small = np.prod((boxes[:, 2:] - boxes[:, :2]).astype(float), axis=1)
    if (small[small > 0] < 1e-30).any():
        return
    folder = tmp_path_factory.mktemp("scene")
    check(folder, suppression, boxes, scores, labels, at_once=at_once, row_groups=int(rng.integers(20, 900)))


@pytest.mark.parametrize("case", WORST_CASES)
def test_worst_cases(case, tmp_path):
    boxes, rng = WORST_CASES[case](3000).astype(np.float32), np.random.default_rng(74)
    for scores in (rng.random(3000), np.arange(3000.0), np.zeros(3000)):
        check(tmp_path, "nms:0.5", boxes, scores, at_once=250)


def test_a_staircase_across_all_tiles_is_decided_by_rank(tmp_path):
    boxes, scores = staircase(4000)
    assert "by rank" in check(tmp_path, "nms:0.5", boxes, scores, at_once=200)


def test_boxes_at_one_place_are_decided_by_rank(tmp_path):
    boxes = np.tile(np.float32([0, 0, 10, 10]), (3000, 1))
    scores = np.zeros(3000, np.float32)
    assert "by rank" in check(tmp_path, "nms:0.5", boxes, scores)
    check(tmp_path, "hnms:0.7/2", boxes, scores)


@pytest.mark.parametrize("suppression", ["nms:0.5", "nms:0.5/ios", "nms:0"])
@pytest.mark.parametrize("giants", [3, 1500])
def test_giants_over_tiny_boxes(suppression, giants, tmp_path):
    rng = np.random.default_rng(73)
    corner = rng.uniform(0, 1000, (3000, 2)).astype(np.float32)
    size = rng.uniform(5, 10, (3000, 2)).astype(np.float32)
    size[:giants] = 900
    check(tmp_path, suppression, np.concatenate([corner, corner + size], axis=1), rng.random(3000), at_once=300)


@pytest.mark.parametrize("largest", [1000, 2**24 + 2000])
def test_integers_are_computed_in_the_type_of_the_whole_scene(largest, tmp_path):
    """In float32 while it holds all of them: also where the only large number is in the last part."""
    rng = np.random.default_rng(5)
    corner = rng.integers(0, 500, (3000, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, 60, (3000, 2))], axis=1)
    boxes[-1] = [0, 0, largest, 3]
    check(tmp_path, "nms:0.5", boxes, rng.integers(0, 100, 3000))


def test_labels_of_any_type_and_formats_of_boxes(tmp_path):
    scene = make_scene("aerial", 5000)
    center, size = (scene.boxes[:, :2] + scene.boxes[:, 2:]) / 2, scene.boxes[:, 2:] - scene.boxes[:, :2]
    boxes = np.concatenate([center, size], axis=1)
    names = np.array([f"class {label}" for label in scene.labels])
    columns = {name: boxes[:, k] for k, name in enumerate(("cx", "cy", "w", "h"))}
    table = pa.table({**columns, "conf": scene.scores, "kind": names, "id": np.arange(5000)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=600)
    out = tmp_path / "out.parquet"
    scenes.suppress(tmp_path / "in.parquet", out, "nms:0.5", columns={"label": "kind"}, memory=400 * ROW)
    expected = Suppression.of("nms:0.5")(boxes, scene.scores, scene.labels, box_format="cxcywh").keep
    assert np.array_equal(kept_ids(out), np.sort(expected))


def test_streams_datasets_and_tables(tmp_path):
    scene = make_scene("aerial", 4000)
    table = table_of(scene.boxes, scene.scores)
    expected = np.sort(Suppression.of("nms:0.5")(scene.boxes, scene.scores).keep)
    (tmp_path / "in").mkdir()
    for k in range(4):
        pq.write_table(table.slice(1000 * k, 1000), tmp_path / "in" / f"{k}.parquet")
    inputs = [
        table,
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(300)),
        ds.dataset(tmp_path / "in"),
        tmp_path / "in",
        str(tmp_path / "in" / "*.parquet"),
    ]
    for some in inputs:
        out = tmp_path / "out.parquet"
        scenes.suppress(some, out, "nms:0.5", memory=500 * ROW)
        assert np.array_equal(kept_ids(out), expected)
        assert {path.name for path in tmp_path.iterdir()} == {"in", "out.parquet"}


@pytest.mark.parametrize("count", [0, 1])
def test_empty_and_tiny_scenes(count, tmp_path):
    check(tmp_path, "hnms:0.7/1+nms:0.5", np.ones((count, 4), np.float32), np.ones(count, np.float32))


# What is refused.


@pytest.mark.parametrize("step", ["softnms:gaussian/0.5", "nmm:0.5", "vote:0.5", "wbf:0.5", "top:100", "limit:100"])
def test_steps_that_need_the_whole_scene_are_refused(step, tmp_path):
    with pytest.raises(ValueError, match="must have only the steps score, hnms and nms, got " + step.split(":")[0]):
        scenes.suppress(tmp_path / "in.parquet", tmp_path / "out.parquet", f"nms:0.5+{step}")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("x1", np.nan, "in-1.parquet, row 501: column x1, y1, x2, y2 must be finite"),
        ("x2", -1.0, "in-1.parquet, row 501: column x1, y1, x2, y2 must be a box with x2 >= x1"),
        ("score", np.inf, "in-1.parquet, row 501: column score must be a finite number"),
        ("score", None, "in-1.parquet, row 501: column score must be not null"),
    ],
)
def test_a_bad_row_is_one_clear_error_and_leaves_all_as_it_was(column, value, message, tmp_path):
    scene = make_scene("aerial", 2000)
    table = table_of(scene.boxes, scene.scores)
    pq.write_table(table.slice(0, 1000), tmp_path / "in-0.parquet", row_group_size=300)
    values = table.column(column).slice(1000).to_pylist()
    values[500] = value
    bad = table.slice(1000).set_column(table.schema.get_field_index(column), column, pa.array(values, pa.float32()))
    pq.write_table(bad, tmp_path / "in-1.parquet", row_group_size=300)
    out = tmp_path / "out.parquet"
    out.write_bytes(b"old")
    for folder in (None, tmp_path / "work"):
        with pytest.raises(FileError) as error:
            scenes.suppress(sorted(tmp_path.glob("in-*")), out, "nms:0.5", memory=200 * ROW, folder=folder)
        assert message in str(error.value)
        assert out.read_bytes() == b"old"
        assert {path.name for path in tmp_path.iterdir()} == {"in-0.parquet", "in-1.parquet", "out.parquet"}


def test_sizes_that_are_not_ordinary_are_refused(tmp_path):
    scene = make_scene("aerial", 2000)
    boxes = scene.boxes.copy()
    boxes[77] = [0, 0, 1e-20, 1e-20]
    with pytest.raises(ValueError, match=r"ordinary sizes .* in row 78"):
        check(tmp_path, "nms:0.5", boxes, scene.scores)


def test_too_little_memory_and_other_mistakes_are_named(tmp_path):
    scene = make_scene("aerial", 5000)
    with pytest.raises(ValueError, match="memory must be at least 5,000 bytes for 5,000 boxes, got 500"):
        check(tmp_path, "nms:0.5", scene.boxes, scene.scores, at_once=2)
    source = tmp_path / "in-0.parquet"
    with pytest.raises(ValueError, match="columns must have no image"):
        scenes.suppress(source, tmp_path / "o.parquet", "nms:0.5", columns={"image": "id"})
    with pytest.raises(TypeError, match="inputs must be paths, a dataset or an Arrow stream, got int"):
        scenes.suppress(5, tmp_path / "o.parquet", "nms:0.5")


def test_a_billion_boxes_need_a_gigabyte():
    assert boxes_at_once(10**9, 2**30) >= 2 * 10**9 / 512
    assert boxes_at_once(10**9, 2**40) == boxes_at_once(10**9, 2**30)  # more is no faster
    assert boxes_at_once(10**7, 2**40) == 2**28 // ROW
    with pytest.raises(ValueError, match=r"memory must be at least 976,\d+,\d+ bytes for 1,000,000,000 boxes"):
        boxes_at_once(10**9, 2**29)


# Interrupted and continued.


class Stop(BaseException):
    """Ends a call in the middle, as Ctrl-C does."""


@pytest.mark.parametrize("suppression", ["nms:0.5", "hnms:0.7/2+nms:0.5", "nms:0.3/ios"])
def test_a_call_that_is_stopped_anywhere_goes_on_to_the_same_bytes(suppression, tmp_path):
    scene = make_scene("aerial", 6000)
    pq.write_table(table_of(scene.boxes, scene.scores), tmp_path / "in.parquet", row_group_size=600)
    arguments = (tmp_path / "in.parquet", tmp_path / "out.parquet", suppression)
    steps = [0]

    def count(*_):
        steps[0] += 1

    scenes.suppress(*arguments, memory=400 * ROW, progress=count)
    whole = (tmp_path / "out.parquet").read_bytes()
    (tmp_path / "out.parquet").unlink()
    for every in (1, 3, max(steps[0] // 3, 1)):
        for calls in itertools.count(1):
            left = [every * calls]  # more each time: otherwise a part that starts again would never end

            def stop(*_, left=left):
                left[0] -= 1
                if left[0] < 0:
                    raise Stop

            try:
                scenes.suppress(*arguments, memory=400 * ROW, folder=tmp_path / "work", progress=stop)
            except Stop:
                assert not (tmp_path / "out.parquet").exists()
                continue
            break
        assert calls > 1
        assert (tmp_path / "out.parquet").read_bytes() == whole
        assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.parquet"}
        (tmp_path / "out.parquet").unlink()


_CALL = """
import sys
from hashnms import scenes
source, output, suppression, memory, folder = sys.argv[1:]
scenes.suppress(source, output, suppression, memory=int(memory), folder=folder)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_at_random_moments_goes_on_to_the_same_bytes(tmp_path):
    scene = make_scene("aerial", 300_000)
    source, out, work = tmp_path / "in.parquet", tmp_path / "out.parquet", tmp_path / "work"
    pq.write_table(table_of(scene.boxes, scene.scores, scene.labels), source)
    arguments = [str(source), str(out), "hnms:0.8/2+nms:0.5", str(10_000 * ROW), str(work)]
    command = [sys.executable, "-c", _CALL, *arguments]
    start = time.perf_counter()
    subprocess.run(command, check=True)
    seconds, whole = time.perf_counter() - start, out.read_bytes()
    expected = Suppression.of(arguments[2])(scene.boxes, scene.scores, scene.labels).keep
    assert np.array_equal(kept_ids(out), np.sort(expected))
    out.unlink()
    rng, kills = np.random.default_rng(6), 0
    while True:
        process = subprocess.Popen(command)
        try:
            assert process.wait(rng.uniform(0.3, 1.1) * seconds) == 0
            if kills:
                break
            out.unlink()
            seconds /= 2  # the machine is faster than it was: no call has been killed
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            seconds *= 1.2
            assert not out.exists() or out.read_bytes() == whole
    assert out.read_bytes() == whole
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.parquet"}


def stopped(*_):
    raise Stop


def test_a_folder_of_another_call_is_refused(tmp_path):
    scene = make_scene("aerial", 3000)
    source, out, work = tmp_path / "in.parquet", tmp_path / "out.parquet", tmp_path / "work"
    pq.write_table(table_of(scene.boxes, scene.scores), source)
    with pytest.raises(Stop):
        scenes.suppress(source, out, "nms:0.5", folder=work, progress=stopped)
    with pytest.raises(FileError, match=r"with another suppression: nms:0\.5, not nms:0\.6"):
        scenes.suppress(source, out, "nms:0.6", folder=work)
    pq.write_table(table_of(scene.boxes, scene.scores), source, row_group_size=100)
    with pytest.raises(FileError, match="with another source"):
        scenes.suppress(source, out, "nms:0.5", folder=work)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("precious")
    with pytest.raises(FileError, match="must be empty or from an earlier call"):
        scenes.suppress(source, out, "nms:0.5", folder=other)
    assert (other / "mine.txt").read_text() == "precious"
    assert work.exists()


def test_a_call_that_is_killed_while_it_cleans_up_does_not_block_the_next(tmp_path, monkeypatch):
    scene = make_scene("aerial", 3000)
    arguments = (tmp_path / "in.parquet", tmp_path / "out.parquet", "nms:0.5")
    pq.write_table(table_of(scene.boxes, scene.scores), arguments[0])
    for files in range(10):
        left = [files]

        def stopping(path, left=left):
            left[0] -= path.suffix != ".new"
            if left[0] < 0:
                raise Stop
            discard(path)

        with monkeypatch.context() as patched:
            patched.setattr(scenes.folder, "discard", stopping)
            try:
                scenes.suppress(*arguments, memory=500 * ROW, folder=tmp_path / "work")
            except Stop:
                pass
            else:
                break
        whole = arguments[1].read_bytes()
        arguments[1].unlink()
        scenes.suppress(*arguments, memory=500 * ROW, folder=tmp_path / "work")
        assert arguments[1].read_bytes() == whole
        assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.parquet"}
    assert files > 1


def test_one_process_at_a_time_works_in_a_folder(tmp_path):
    scene = make_scene("aerial", 3000)
    source, work = tmp_path / "in.parquet", tmp_path / "work"
    pq.write_table(table_of(scene.boxes, scene.scores), source)

    def again(*_):
        with pytest.raises(FileError, match="which another process uses"):
            scenes.suppress(source, tmp_path / "other.parquet", "nms:0.5", folder=work)
        raise Stop

    with pytest.raises(Stop):
        scenes.suppress(source, tmp_path / "out.parquet", "nms:0.5", folder=work, progress=again)


# Memory.

_LIMITED = """
import sys
from hashnms import scenes, set_num_threads
set_num_threads(1)

def kibibytes(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))

import pyarrow as pa, pyarrow.parquet, pyarrow.dataset
pa.set_cpu_count(1)
small, source, output, memory = sys.argv[1:]
scenes.suppress(small, output, "nms:0.5", memory=int(memory))
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before = kibibytes("VmRSS")
scenes.suppress(source, output, "nms:0.5", memory=int(memory))
print((kibibytes("VmHWM") - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory in /proc")
@pytest.mark.memory
@pytest.mark.slow
def test_a_scene_of_twenty_times_the_memory_stays_within_it(tmp_path):
    count, at_once = 2_000_000, 100_000
    scene = make_scene("aerial", count)
    table = table_of(scene.boxes, scene.scores)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2**17)
    pq.write_table(table.slice(0, 20_000), tmp_path / "small.parquet")
    paths = [str(tmp_path / name) for name in ("small.parquet", "in.parquet", "out.parquet")]
    command = [sys.executable, "-c", _LIMITED, *paths, str(at_once * ROW)]
    used = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert np.array_equal(
        kept_ids(tmp_path / "out.parquet"), np.sort(Suppression.of("nms:0.5")(scene.boxes, scene.scores).keep)
    )
    assert used < at_once * ROW + 90e6  # and what reading and writing Parquet takes
    assert used < count * 100  # far from what all boxes at once take
