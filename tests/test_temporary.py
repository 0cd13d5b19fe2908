"""Temporary folders: what killed processes leave is removed by the next one, what living ones use is not."""

import errno
import subprocess
import sys

import pytest

from hashnms import _locks, _temporary
from hashnms._locks import FileLock
from hashnms._temporary import discard, move, naming, temporary_folder


def in_a_process(script, *arguments):
    """A process that prints a line when it is where the test wants it."""
    before = "import sys\nfrom pathlib import Path\nfrom hashnms._temporary import *\npath = Path(sys.argv[1])\n"
    command = [sys.executable, "-c", before + script, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "there\n"
    return process


def names(folder):
    return sorted(path.name for path in folder.iterdir())


AT_WORK = """
with temporary_folder(path.parent, path.name) as new:
    (new / "part").write_text("some")
    print("there", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_removed_when_its_block_ends_whatever_happens(tmp_path):
    for error in (None, OSError, KeyboardInterrupt):
        with pytest.raises(error) if error else naming("nothing"), temporary_folder(tmp_path, "out") as new:
            (new / "deep").mkdir()
            (new / "deep" / "file").write_text("")
            (new / "deep" / "file").chmod(0o444)
            if sys.platform != "win32":  # which asks for a right to make links
                (new / "link").symlink_to(tmp_path)
            if error:
                raise error
        assert names(tmp_path) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path):
    out = tmp_path / "out.json"
    killed, living = (in_a_process(AT_WORK, out) for _ in range(2))
    killed.kill()
    killed.communicate()
    assert len(names(tmp_path)) == 2
    with temporary_folder(tmp_path, "out.json"):
        assert len(names(tmp_path)) == 2  # that of the living process and this one
    assert names(tmp_path) == [".hashnms-out.json.1"]
    living.kill()
    living.communicate()
    with temporary_folder(tmp_path, "other.json"):
        assert ".hashnms-out.json.1" in names(tmp_path)  # of another output
    with temporary_folder(tmp_path, "out.json"):
        pass
    assert names(tmp_path) == []


def test_as_many_processes_as_one_likes_work_on_one_output(tmp_path):
    processes = [in_a_process(AT_WORK, tmp_path / "out") for _ in range(3)]
    with temporary_folder(tmp_path, "out"):
        assert len(names(tmp_path)) == 4
    for process in processes:
        process.communicate("")
        assert process.returncode == 0
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows asks for a right to make links")
def test_folders_that_are_not_ours_stay(tmp_path):
    """No lock in them, or a link in their place."""
    (tmp_path / ".hashnms-out.0").mkdir()
    (tmp_path / ".hashnms-out.0" / "mine").write_text("precious")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lock").write_text("")
    (tmp_path / ".hashnms-out.1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".hashnms-out.2").mkdir()  # killed before it was locked
    with temporary_folder(tmp_path, "out") as new:
        assert new.parent.name == ".hashnms-out.2"
    assert names(tmp_path) == [".hashnms-out.0", ".hashnms-out.1", "elsewhere"]
    assert names(tmp_path / ".hashnms-out.0") == ["mine"]
    assert names(tmp_path / "elsewhere") == ["lock"]


@pytest.mark.filterwarnings("always::UserWarning")
def test_without_locks_leftovers_are_named_and_not_removed(tmp_path, monkeypatch):
    process = in_a_process(AT_WORK, tmp_path / "out")
    process.kill()
    process.communicate()
    with monkeypatch.context() as patched:
        patched.setattr(_locks, "_fcntl", None)
        patched.setattr(_locks, "_msvcrt", None)
        with (
            pytest.warns(UserWarning, match=r"\.hashnms-out\.0 is left from a process that was killed, or in use"),
            temporary_folder(tmp_path, "out"),
        ):
            pass
    assert names(tmp_path) == [".hashnms-out.0"]


def test_a_folder_whose_replacement_fails_is_there_again(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "file").write_text("old")

    def replace():
        with temporary_folder(tmp_path, "out") as new:
            (new / "out").mkdir()
            (new / "out" / "file").write_text("new")
            move(new / "out", out)

    def fail(*_):
        raise PermissionError(errno.EACCES, "in use")

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", fail)
        with pytest.raises(PermissionError):
            replace()
    assert (out / "file").read_text() == "old"
    replace()
    assert (out / "file").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_a_folder_that_a_killed_process_had_moved_away_is_there_again(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "file").write_text("old")
    script = """
import os
def stop(*_):
    print("there", flush=True)
    sys.stdin.read()
os.replace = stop
with temporary_folder(path.parent, path.name) as new:
    (new / path.name).mkdir()
    move(new / path.name, path)
"""
    process = in_a_process(script, out)
    assert not out.exists()
    process.kill()
    process.communicate()
    with temporary_folder(tmp_path, "out"):
        assert (out / "file").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_a_second_interrupt_while_it_cleans_up_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(path, left=[1]):  # noqa: B006
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        discard(path)

    monkeypatch.setattr(_temporary, "discard", interrupted)
    with pytest.raises(KeyboardInterrupt), temporary_folder(tmp_path, "out") as new:
        (new / "file").write_text("")
    assert names(tmp_path) == []


def test_a_long_name_and_one_of_two_bytes_a_character(tmp_path):
    for name in ("a" * 255, "ä" * 127, "漢" * 85):
        with temporary_folder(tmp_path, name) as new:
            (new / name).write_text("")


def test_the_folder_of_the_output_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError), temporary_folder(tmp_path / "missing", "out"):
        pass


def test_errors_name_the_output(tmp_path):
    for error, name in (
        (OSError(errno.ENOSPC, "No space left on device"), "out"),
        (PermissionError(errno.EACCES, "denied", str(tmp_path / ".hashnms-out.0" / "new")), "out"),
        (PermissionError(errno.EACCES, "denied", "input"), "input"),
        (OSError(errno.EIO, "Input/output error"), None),
    ):
        with pytest.raises(OSError, match=error.strerror) as caught, naming("out"):
            raise error
        assert type(caught.value) is type(error)
        assert caught.value.filename == name


def test_one_lock_for_one_file(tmp_path):
    first = FileLock(tmp_path / "lock")
    assert first.is_certain
    with pytest.raises(BlockingIOError):
        FileLock(tmp_path / "lock")
    first.remove()
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "lock", create=False)
    FileLock(tmp_path / "lock").release()
    assert names(tmp_path) == ["lock"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not remove an open file")
def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(tmp_path, monkeypatch):
    path = tmp_path / "lock"

    def removed_first(file, usual=_locks._lock):
        path.unlink()
        return usual(file)

    monkeypatch.setattr(_locks, "_lock", removed_first)
    with pytest.raises(BlockingIOError):
        FileLock(path)
