"""A bucket is a file system to pyarrow, and to Ray Train."""

import io
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, copy_files

from tests.app.conftest import KEY, set_environment
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.s3_faults import SLOW_DOWN, Rule
from trainshed.storage.arrow_filesystem import as_ray_has_it, file_system
from trainshed.storage.bucket import PART_BYTES, Bucket
from trainshed.storage.disk import Disk


@pytest.fixture
def files(in_bucket: Bucket) -> FileSystem:
    """The file system of a new bucket."""
    return file_system(in_bucket.root)


@pytest.fixture
def at(in_bucket: Bucket) -> str:
    """A folder in it."""
    return as_ray_has_it(in_bucket)[1]


def listed(files: FileSystem, folder: str, *, recursive: bool = True) -> dict[str, FileType]:
    selector = FileSelector(folder, recursive=recursive)
    found = files.get_file_info(selector)
    return {info.path.removeprefix(f"{folder}/"): info.type for info in found}


def write(files: FileSystem, path: str, content: bytes) -> None:
    with files.open_output_stream(path) as file:
        file.write(content)


def read(files: FileSystem, path: str) -> bytes:
    with files.open_input_stream(path) as file:
        content: bytes = file.read()
        return content


# ------------------------------------------------------------------ whole files


def test_a_file_is_there_when_it_is_closed_and_not_before(files: FileSystem, at: str) -> None:
    write(files, f"{at}/model", b"old")
    file = files.open_output_stream(f"{at}/model")
    file.write(bytes(2 * PART_BYTES))

    assert read(files, f"{at}/model") == b"old"
    file.close()
    assert files.get_file_info(f"{at}/model").size == 2 * PART_BYTES


def test_a_file_that_nobody_closed_never_was(files: FileSystem, at: str) -> None:
    file = files.open_output_stream(f"{at}/model")
    file.write(b"half")
    del file

    assert files.get_file_info(f"{at}/model").type == FileType.NotFound


def test_any_part_of_a_large_file_is_read(files: FileSystem, at: str) -> None:
    content = os.urandom(2 * PART_BYTES + 11)
    write(files, f"{at}/model", content)

    with files.open_input_file(f"{at}/model") as file:
        assert file.size() == len(content)
        assert file.read_at(10, PART_BYTES - 5) == content[PART_BYTES - 5 : PART_BYTES + 5]
        file.seek(-7, io.SEEK_END)
        assert file.read(100) == content[-7:]
        assert file.read(1) == b""
        file.seek(3)
        assert file.read() == content[3:]
        assert file.tell() == len(content)


def test_lines_of_a_stream_are_not_a_request_each(
    faulty_s3: FaultyS3, through_faults: Bucket
) -> None:
    lines = [f'{{"row": {number}}}\n'.encode() for number in range(1000)]
    through_faults.write("rows.jsonl", b"".join(lines))
    files, at = as_ray_has_it(through_faults)
    assert files is not None

    with files.open_input_stream(f"{at}/rows.jsonl") as file:
        found = b"".join(iter(lambda: file.read(100), b""))

    assert found == b"".join(lines)
    assert faulty_s3.count("GET", "*rows.jsonl") == 1


def test_a_server_that_is_slow_is_asked_again(faulty_s3: FaultyS3, through_faults: Bucket) -> None:
    files, at = as_ray_has_it(through_faults)
    assert files is not None
    content = os.urandom(2 * PART_BYTES)
    faulty_s3.add(Rule(SLOW_DOWN, every=2))

    write(files, f"{at}/model", content)

    assert read(files, f"{at}/model") == content


# ---------------------------------------------------------------------- folders


def test_a_folder_is_listed(files: FileSystem, at: str) -> None:
    for name in ("run.json", "1/model", "1/parts/0", "2/model"):
        write(files, f"{at}/{name}", b"x")

    file, folder = FileType.File, FileType.Directory
    assert listed(files, at, recursive=False) == {"run.json": file, "1": folder, "2": folder}
    assert listed(files, at) == {
        "run.json": file,
        "1": folder,
        "1/model": file,
        "1/parts": folder,
        "1/parts/0": file,
        "2": folder,
        "2/model": file,
    }


def test_files_and_folders_are_told_apart(files: FileSystem, at: str) -> None:
    write(files, f"{at}/1/model", b"12345")

    found = files.get_file_info([f"{at}/1/model", f"{at}/1", f"{at}/2", at.partition("/")[0]])

    assert [info.type for info in found] == [
        FileType.File,
        FileType.Directory,
        FileType.NotFound,
        FileType.Directory,
    ]
    assert found[0].size == 5
    assert found[0].mtime is not None


def test_what_is_not_there_is_said_to_be(files: FileSystem, at: str) -> None:
    for ask in (
        files.open_input_file,
        files.open_input_stream,
        files.delete_file,
        files.delete_dir,
        files.delete_dir_contents,
        lambda path: files.get_file_info(FileSelector(path)),
        lambda path: files.copy_file(path, f"{at}/other"),
        lambda path: files.move(path, f"{at}/other"),
    ):
        with pytest.raises(FileNotFoundError):
            ask(f"{at}/nothing")
    assert files.get_file_info(FileSelector(f"{at}/nothing", allow_not_found=True)) == []
    files.delete_dir_contents(f"{at}/nothing", missing_dir_ok=True)


def test_a_folder_need_not_be_made(files: FileSystem, at: str, in_bucket: Bucket) -> None:
    files.create_dir(f"{at}/new")

    assert not in_bucket.exists()


def test_files_and_folders_are_deleted_copied_and_moved(files: FileSystem, at: str) -> None:
    for name in ("1/model", "1/parts/0", "2/model"):
        write(files, f"{at}/{name}", name.encode())

    files.copy_file(f"{at}/1/model", f"{at}/copied")
    files.move(f"{at}/2/model", f"{at}/moved")
    files.delete_dir(f"{at}/1")

    assert sorted(listed(files, at)) == ["copied", "moved"]
    assert read(files, f"{at}/copied") == b"1/model"
    assert read(files, f"{at}/moved") == b"2/model"
    files.delete_file(f"{at}/copied")
    files.delete_dir_contents(at)
    assert files.get_file_info(at).type == FileType.NotFound


def test_a_whole_bucket_is_not_deleted(files: FileSystem, at: str) -> None:
    write(files, f"{at}/model", b"x")
    bucket = at.partition("/")[0]

    for delete in (files.delete_dir, files.delete_dir_contents):
        with pytest.raises(PermissionError, match="a whole bucket is not deleted"):
            delete(bucket)
    assert read(files, f"{at}/model") == b"x"


def test_nothing_is_added_to_a_file(files: FileSystem, at: str) -> None:
    with pytest.raises(NotImplementedError, match="nothing can be added to an object"):
        files.open_append_stream(f"{at}/log")


# ----------------------------------------------------------------- who uses it


def test_folders_are_copied_both_ways(files: FileSystem, at: str, tmp_path: Path) -> None:
    contents = {"model": os.urandom(PART_BYTES + 1), "parts/0": b"0", "parts/deep/1": b""}
    for name, content in contents.items():
        file = tmp_path / "from" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    here = LocalFileSystem()
    copy_files(str(tmp_path / "from"), at, here, files, chunk_size=64 * 2**20)
    copy_files(at, str(tmp_path / "to"), files, here)

    assert {name: (tmp_path / "to" / name).read_bytes() for name in contents} == contents


def test_tables_are_written_and_read(files: FileSystem, at: str) -> None:
    rows = pa.table({"x": list(range(100_000)), "y": [str(number) for number in range(100_000)]})
    for part in range(2):
        parquet.write_table(rows, f"{at}/rows/{part}.parquet", 10_000, filesystem=files)

    file = parquet.ParquetFile(f"{at}/rows/0.parquet", filesystem=files, pre_buffer=True)
    assert file.read_row_group(3, columns=["y"]) == rows.select(["y"]).slice(30_000, 10_000)
    assert parquet.read_table(f"{at}/rows", filesystem=files).num_rows == 200_000


def test_it_travels_to_other_processes(files: FileSystem, at: str) -> None:
    write(files, f"{at}/model", b"x")

    came = pickle.loads(pickle.dumps(files))

    assert came == files
    assert came != file_system("s3://another-bucket")
    assert read(came, f"{at}/model") == b"x"


def test_ray_train_keeps_checkpoints_there(files: FileSystem, at: str, tmp_path: Path) -> None:
    from ray.train import Checkpoint
    from ray.train.v2._internal.execution.storage import StorageContext, delete_fs_path

    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "model").write_bytes(b"weights")
    storage = StorageContext(at, "ray", storage_filesystem=files)
    came: StorageContext = pickle.loads(pickle.dumps(storage))

    kept = came.persist_current_checkpoint(
        Checkpoint.from_directory(str(tmp_path / "made")), "checkpoint_1"
    )

    assert kept.path == f"{at}/ray/checkpoint_1"
    with kept.as_directory() as folder:
        assert (Path(folder) / "model").read_bytes() == b"weights"
    delete_fs_path(kept.filesystem, kept.path)
    assert [name for name in listed(files, at) if "checkpoint" in name] == []


def test_a_folder_of_a_disk_is_that_of_this_process() -> None:
    assert as_ray_has_it(Disk(Path("/runs"))) == (None, "/runs")


def test_a_bucket_that_is_missing_is_said_to_be(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, s3.environment)
    files, path = file_system("s3://no-such-bucket"), f"no-such-bucket/{KEY}"

    for ask in (
        lambda: files.get_file_info(FileSelector(path)),
        lambda: write(files, f"{path}/model", b"x"),
        lambda: files.get_file_info(path),
    ):
        with pytest.raises(OSError, match="no such bucket"):
            ask()
