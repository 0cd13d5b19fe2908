"""Tables and scenes on Ray Data: two workers on this machine, one of which may be killed."""

import os
import pickle
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hashnms
from hashnms import Suppression, files, nms, tables
from hashnms.cli import app
from hashnms.synthetic import make_scene
from tests.support.boxes import BOX_KINDS

ray = pytest.importorskip("ray", reason="ray is not installed")
cluster = hashnms.cluster
scenes = cluster.scenes
Scene = hashnms.cluster.survey.Scene

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default", "ignore::DeprecationWarning:ray")]


@pytest.fixture(scope="module", autouse=True)
def workers(tmp_path_factory):
    """Ray with two workers, which have the same priority as other processes. The path of their Python has a space."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    with pytest.MonkeyPatch.context() as patch:
        if os.name == "posix":
            prefix = tmp_path_factory.mktemp("a b") / "prefix"
            folder, name = Path(sys.executable).parts[-2:]
            prefix.symlink_to(Path(sys.executable).parents[1])
            patch.setattr(sys, "executable", str(prefix / folder / name))
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=200 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env=cluster.files._runtime_env("local"),
            _temp_dir=str(tmp_path_factory.mktemp("r")),
        )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    yield
    ray.shutdown()


def detections(count, images=30, seed=0):
    """Boxes of some images in any order, with ties, names of images that are text, and a column of something else."""
    rng = np.random.default_rng(seed)
    scene = make_scene("crowd", count, seed=seed)
    return pa.table(
        {
            "file_name": [f"{image}.jpg" for image in rng.integers(0, images, count)],
            "category_id": scene.labels,
            **dict(zip(("x1", "y1", "x2", "y2"), scene.boxes.T, strict=True)),
            "score": scene.scores.round(2),
            "row": np.arange(count),
        }
    )


def in_blocks(table, rows):
    return ray.data.from_arrow([table.slice(first, rows) for first in range(0, len(table), rows)])


def gathered(dataset):
    """All rows in the order of the input."""
    return pa.concat_tables([table for table in ray.get(dataset.to_arrow_refs()) if len(table)]).sort_by("row")


def scene_of(boxes, scores):
    corners = dict(zip(("x1", "y1", "x2", "y2"), np.asarray(boxes).T, strict=True))
    return pa.table({**corners, "score": scores, "row": np.arange(len(scores))})


@dataclass(frozen=True)
class DeadlyScene(Scene):
    """Kills its process the first time that a function of this name asks for numbers."""

    function: str = ""
    marker: str = ""

    def arrays(self, table):
        if sys._getframe(1).f_code.co_name == self.function:
            kill_once(self.marker)
        return super().arrays(table)


class Deadly(Suppression):
    """Kills its process the first time that it is called with boxes."""

    marker: str

    def __init__(self, steps, marker):
        super().__init__(steps)
        object.__setattr__(self, "marker", str(marker))

    def __call__(self, boxes, *arguments, **options):
        if len(boxes):
            kill_once(self.marker)
        return super().__call__(boxes, *arguments, **options)


def kill_once(marker):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_path_of_python_may_have_spaces_where_ray_is_started(monkeypatch):
    """Ray is told, unless the cluster is there already, maybe on other machines: then the path is not ours to tell."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(sys, "executable", "/a/python")
    assert cluster.files._runtime_env(None) is None
    monkeypatch.setattr(sys, "executable", "/a b/python")
    assert cluster.files._runtime_env(None) == cluster.files._runtime_env("local") == {"py_executable": "'/a b/python'"}
    assert cluster.files._runtime_env("auto") is None
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert cluster.files._runtime_env(None) is None


# Many images.


@pytest.mark.parametrize("notation", ["nms:0.5", "softnms:gaussian/0.5", "hnms:0.7/2+nms:0.5+limit:20", "vote:0.5"])
def test_images_in_any_order_give_what_one_table_gives(notation):
    table = detections(6000)
    kept = cluster.suppress(in_blocks(table, 700), notation, row="row", partitions=3)
    assert gathered(kept).equals(tables.suppress(table, notation))


def test_rows_are_numbered_where_no_column_does():
    table = detections(3000)
    table = table.set_column(6, "score", pa.array(np.random.default_rng(1).permutation(3000) / 3000))
    kept = gathered(cluster.suppress(in_blocks(table, 500), "nms:0.5", partitions=3))
    assert kept.equals(tables.suppress(table, "nms:0.5"))


def test_all_rows_of_an_image_come_in_one_call():
    """Also if a partition is larger than Ray's usual blocks."""
    context = ray.data.DataContext.get_current()
    before = context.target_max_block_size
    context.target_max_block_size = 10_000
    try:
        table = detections(20_000, images=3)
        kept = cluster.suppress(in_blocks(table, 300), "limit:7", row="row", partitions=2)
        assert len(gathered(kept)) == 21
        assert gathered(kept).equals(tables.suppress(table, "limit:7"))
    finally:
        context.target_max_block_size = before


@pytest.mark.parametrize("stage", ["before the shuffle", "after it"])
def test_a_killed_worker_costs_no_row_and_makes_none_twice(stage, tmp_path):
    table, marker = detections(6000), str(tmp_path / "killed")
    dataset, chain = in_blocks(table, 700), Suppression.parse("nms:0.5")
    ray.cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["_"]))
    if stage == "after it":
        chain = Deadly(chain.steps, marker)
    else:

        def die(batch):
            kill_once(marker)
            return batch

        dataset = dataset.map_batches(die, batch_format="pyarrow", batch_size=None)
    kept = gathered(cluster.suppress(dataset, chain, row="row", partitions=3))
    assert os.path.exists(marker)
    assert kept.equals(tables.suppress(table, "nms:0.5"))


@pytest.mark.parametrize("rows", [0, 50])
def test_nothing_kept_has_the_columns_of_the_input(rows):
    """With no rows at all, or none above the score; from a table, and from the output of a function."""
    table = detections(50)
    whole = in_blocks(table.slice(0, rows), 20) if rows else ray.data.from_arrow(table.slice(0, 0))
    made = in_blocks(table, 20).map_batches(lambda some: some.slice(0, min(rows, len(some))), batch_format="pyarrow")
    for dataset, row in ((whole, None), (made, "row")):
        for kept in (
            cluster.suppress(dataset, "score:2+vote:0.5", row=row, partitions=2),
            cluster.scene(dataset, "score:2+hnms:0.7/1+nms:0.5", row=row),
        ):
            assert kept.materialize().schema().base_schema.equals(table.schema)
            assert kept.count() == 0


# One scene.


@pytest.mark.parametrize(
    ("large", "metric", "gather"), [(3, "ios", 500), (500, "ios", 500), (500, "iou", 400), (3, "diou", 10**6)]
)
def test_a_scene_gives_nms_of_all(large, metric, gather):
    """By place, by rank and then by place, by place with many large boxes, or gathered at once."""
    rng = np.random.default_rng(3)
    corner, size = rng.random((4000, 2)) * 2000, rng.uniform(10, 40, (4000, 2))
    size[:large] = 1500
    boxes = rng.permutation(np.concatenate([corner, corner + size], axis=1).astype(np.float32))
    table = scene_of(boxes, rng.integers(0, 1000, 4000) / 1000)
    kept = cluster.scene(in_blocks(table, 700), f"nms:0.5/{metric}", row="row", tile_boxes=700, gather=gather)
    keep = nms(boxes, table.column("score").to_numpy(), 0.5, metric=metric)
    assert gathered(kept).column("row").to_pylist() == sorted(keep.tolist())


def test_rows_without_numbers_are_decided_by_rank():
    """They are read several times, and have the same numbers each time."""
    boxes = np.tile(np.float32([0, 0, 10, 10]), (600, 1))
    table = scene_of(boxes, np.zeros(600)).append_column("more", pa.array(np.arange(600)))
    dataset = in_blocks(table, 100).map_batches(lambda some: some, batch_format="pyarrow")
    assert cluster.scene(dataset, "nms:0.5", tile_boxes=100, gather=300).count() == 1
    assert cluster.scene(dataset, "nms:1", tile_boxes=100, gather=300).count() == 600


@pytest.mark.parametrize("function", ["_seen", "_best_of_cells", "_touched", "_decided", "_below"])
def test_a_killed_worker_changes_nothing_about_a_scene(function, tmp_path):
    """Killed while it looks for tiles, takes the best of cells, divides into tiles, decides one, or decides by rank."""
    table, marker = detections(3000), tmp_path / "killed"
    ray.cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["_"]))
    chain = Suppression.parse("hnms:0.8/1+nms:0.5" if function == "_best_of_cells" else "nms:0.5")
    columns = tables.Columns.find(table.column_names, image=None)
    sizes = {"tile_boxes": 100, "gather": 1000} if function == "_below" else {"tile_boxes": 1000, "gather": 500}
    deadly = DeadlyScene(columns, "row", **sizes, function=function, marker=str(marker))
    kept = gathered(scenes.by_steps(in_blocks(table, 700), chain, deadly))
    assert marker.exists()
    assert kept.equals(tables.suppress(table, chain, image=None))


def test_sizes_that_are_not_ordinary_are_one_error_with_the_row():
    rng = np.random.default_rng(8)
    boxes = BOX_KINDS["random"](rng, 500).astype(np.float32)
    boxes[321] = [0, 0, 1e-20, 1e-20]
    dataset = in_blocks(scene_of(boxes, rng.random(500)), 100)
    with pytest.raises(Exception, match=r"row 321: boxes of a scene in parts must have ordinary sizes"):
        cluster.scene(dataset, "nms:0.5", row="row", tile_boxes=50, gather=10).materialize()


@pytest.mark.parametrize("notation", ["hnms:0.7/1", "hnms:0.7/3", "score:0.2+hnms:0.73/1+nms:0.5"])
def test_hnms_is_combined_and_merged_once_for_each_hash(notation):
    table = detections(6000)
    kept = cluster.scene(in_blocks(table, 700), notation, row="row", tile_boxes=1000, gather=100)
    assert gathered(kept).equals(tables.suppress(table, notation, image=None))


def test_whole_numbers_are_computed_alike_in_all_tiles():
    """In float64 if one number of the scene does not fit into float32."""
    rng = np.random.default_rng(5)
    corner = rng.integers(0, 20_000, (4000, 2))
    boxes = np.concatenate([corner, corner + rng.integers(2000, 4000, (4000, 2))], axis=1)
    boxes[-1] = [2**26, 0, 2**26 + 1, 1]
    table = scene_of(boxes, rng.random(4000))
    kept = cluster.scene(in_blocks(table, 500), "nms:0.3", row="row", tile_boxes=500, gather=1000)
    assert gathered(kept).column("row").to_pylist() == sorted(
        nms(boxes, table.column("score").to_numpy(), 0.3).tolist()
    )


# Files.


@pytest.fixture(params=["many small files", "one large"])
def parquet_folder(request, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    table = detections(8000).drop_columns(["row"])
    size = 150 if request.param == "many small files" else 8000
    for number, first in enumerate(range(0, 8000, size)):
        pq.write_table(table.slice(first, size), folder / f"{number:03}.parquet", row_group_size=1000)
    return folder


def test_a_scene_of_the_command_line_is_one_scene_whatever_the_rows_say(tmp_path):
    given, out, expected = tmp_path / "in.parquet", tmp_path / "out", tmp_path / "expected.parquet"
    pq.write_table(detections(3000), given)
    command = ["suppress", str(given), "-s", "nms:0.5"]
    result = CliRunner().invoke(app, [*command, "-o", str(out), "--engine", "ray", "--scene"])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(app, [*command, "-o", str(expected), "--scene"]).exit_code == 0
    assert pq.read_table(out).sort_by("row").equals(pq.read_table(expected))


@pytest.mark.parametrize("columns", [{}, {"image": None}])
def test_files_give_what_they_give_on_one_machine(parquet_folder, tmp_path, columns):
    expected, got = tmp_path / "expected.parquet", tmp_path / "out"
    files.suppress(parquet_folder, expected, "nms:0.5", columns=columns)
    summary = cluster.suppress_files(parquet_folder, got, "nms:0.5", columns=columns)
    order = [(name, "ascending") for name in pq.read_schema(expected).names]
    one, other = pq.read_table(expected), pq.read_table(got)
    assert (summary.boxes_in, summary.boxes_out) == (8000, len(one))
    assert other.sort_by(order).equals(one.sort_by(order))


def test_the_command_replaces_a_folder_of_parquet_files_and_nothing_else(tmp_path):
    given, out = tmp_path / "in.parquet", tmp_path / "out"
    pq.write_table(detections(500), given)
    command = ["suppress", str(given), "-o", str(out), "--engine", "ray"]
    for _ in range(2):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    assert pq.read_table(out).num_rows == tables.suppress(detections(500), "nms:0.5").num_rows
    (out / "notes.txt").write_text("mine")
    for more, message in [
        ([], "notes.txt"),
        (["--skip-bad"], "--skip-bad must not be given"),
        (["-f", "csv"], "--format"),
    ]:
        result = CliRunner().invoke(app, [*command, *more])
        assert result.exit_code == 2
        assert message in result.output


@pytest.mark.parametrize(
    ("column", "value", "columns"),
    [
        ("score", np.nan, {}),
        ("file_name", None, {}),
        ("score", np.inf, {"image": None}),
        ("x2", -1e6, {"image": None}),
        ("category_id", None, {"image": None}),
    ],
)
def test_a_bad_row_is_one_error_with_file_and_row_and_nothing_is_written(tmp_path, column, value, columns):
    table = detections(3000).drop_columns(["row"])
    for number in range(3):
        part = table.slice(1000 * number, 1000)
        if number == 1:
            values = part.column(column).to_pylist()
            values[123] = value
            part = part.set_column(part.column_names.index(column), column, pa.array(values, part.column(column).type))
        pq.write_table(part, tmp_path / f"{number}.parquet")
    with pytest.raises(files.FileError) as error:
        cluster.suppress_files(str(tmp_path / "*.parquet"), tmp_path / "out", "nms:0.5", columns=columns)
    assert str(error.value).startswith(f"{tmp_path / '1.parquet'}, row 124: column")
    assert column in str(error.value)
    assert {path.name for path in tmp_path.iterdir()} == {"0.parquet", "1.parquet", "2.parquet"}


def test_a_column_of_the_wrong_type_is_one_error(tmp_path):
    table = detections(100)
    table = table.set_column(6, "score", table.column("score").cast(pa.string()))
    pq.write_table(table, tmp_path / "in.parquet")
    for columns in ({}, {"image": None}):
        with pytest.raises(TypeError) as error:
            cluster.suppress_files(tmp_path / "in.parquet", tmp_path / "out", "nms:0.5", columns=columns)
        assert str(error.value) == "column score must hold numbers, got string"
        assert not (tmp_path / "out").exists()


def test_no_rows_in_give_no_rows_out(tmp_path):
    pq.write_table(detections(10).slice(0, 0), tmp_path / "in.parquet")
    for columns in ({}, {"image": None}):
        assert (
            cluster.suppress_files(tmp_path / "in.parquet", tmp_path / "out", "nms:0.5", columns=columns).boxes_out == 0
        )
        assert pq.read_table(tmp_path / "out").column_names == detections(10).column_names


def test_the_error_of_a_row_survives_what_ray_does_to_it():
    error = cluster.RowError(1234, "column score must be a finite number, got nan")
    assert str(error) == "row 1,234: column score must be a finite number, got nan"
    error.args = (f"{error} and more",)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# What is refused at once.


def test_bad_arguments_are_one_clear_error(tmp_path):
    table = detections(50)
    dataset = ray.data.from_arrow(table)
    with pytest.raises(TypeError, match=r"dataset must be a ray\.data\.Dataset, got Table"):
        cluster.suppress(table, "nms:0.5")
    with pytest.raises(ValueError, match="row must be the name of a column"):
        cluster.suppress(dataset, "nms:0.5", row="number")
    with pytest.raises(ValueError, match="image must be the name of a column, got None"):
        cluster.suppress(dataset, "nms:0.5", image=None)
    with pytest.raises(ValueError, match=r"must have only the steps score, hnms and nms, got softnms:gaussian/0\.5"):
        cluster.scene(dataset, "hnms:0.7/1+softnms:gaussian/0.5")
    with pytest.raises(ValueError, match="gather"):
        cluster.scene(dataset, "nms:0.5", gather=0)
    with pytest.raises(TypeError, match="row must be a column of whole numbers, got file_name of string"):
        cluster.scene(dataset, "nms:0.5", row="file_name")
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.rename_columns([*table.column_names[:-1], "number"]), tmp_path / "b.parquet")
    with pytest.raises(files.FileError, match=r"output must be a folder, because .*, got the file .*a\.parquet"):
        cluster.suppress_files(tmp_path / "b.parquet", tmp_path / "a.parquet", "nms:0.5")
    with pytest.raises(files.FileError, match=r"b\.parquet: columns must be those of the first file"):
        cluster.suppress_files(tmp_path, tmp_path / "out", "nms:0.5")
