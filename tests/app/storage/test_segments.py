"""A text that grows by pieces is read as one, whatever is cut short between them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faulty_s3 import FaultyS3
from tests.s3_faults import Refusal, Rule
from trainshed.storage import segmented_log
from trainshed.storage.bucket import Bucket
from trainshed.storage.folder import Folder
from trainshed.storage.segmented_log import PIECE_BYTES, SegmentedWriter

SOON, NEVER = 0.05, 1000.0
REFUSED = Refusal(403, "AccessDenied")


def wait_for(folder: Folder, want: list[str]) -> None:
    deadline = time.monotonic() + 30
    while list(segmented_log.lines(folder, "log")) != want and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(segmented_log.lines(folder, "log")) == want


def pieces(folder: Folder) -> list[str]:
    return (folder / "log.parts").names()


def begin_three_pieces(folder: Folder) -> tuple[SegmentedWriter, list[str]]:
    """Return a text that is not closed, and its lines, which are a piece each."""
    text = SegmentedWriter(folder, "log", SOON)
    lines = [f"{number}" * PIECE_BYTES + "\n" for number in range(3)]
    for count, line in enumerate(lines, start=1):
        text.write(line)
        wait_for(folder, lines[:count])
    return text, lines


def test_a_text_is_read_while_it_grows(storage: Folder) -> None:
    text = SegmentedWriter(storage, "log", SOON)
    text.write("one\n")
    wait_for(storage, ["one\n"])
    text.write("two\nthr")
    wait_for(storage, ["one\n", "two\n", "thr"])
    text.write("ee\n")
    wait_for(storage, ["one\n", "two\n", "three\n"])

    text.close()
    assert list(segmented_log.lines(storage, "log")) == ["one\n", "two\n", "three\n"]
    assert storage.names() == ["log"]


def test_few_lines_now_and_then_are_one_piece(storage: Folder) -> None:
    text = SegmentedWriter(storage, "log", SOON)
    for number in range(5):
        text.write(f"{number}\n")
        wait_for(storage, [f"{each}\n" for each in range(number + 1)])

    assert pieces(storage) == ["000000"]
    text.close()


def test_many_lines_are_several_pieces_and_one_text(storage: Folder) -> None:
    text = SegmentedWriter(storage, "log", SOON)
    line = "x" * (PIECE_BYTES // 2) + "\n"
    for number in range(5):
        text.write(line)
        wait_for(storage, [line] * (number + 1))

    assert pieces(storage) == ["000000", "000001", "000002"]
    text.close()
    assert list(segmented_log.lines(storage, "log")) == [line] * 5
    assert storage.names() == ["log"]


def test_what_a_kill_left_in_pieces_is_gone_on_with(storage: Folder) -> None:
    killed = SegmentedWriter(storage, "log", SOON)  # and never closed
    killed.write("one\n")
    wait_for(storage, ["one\n"])

    text = SegmentedWriter(storage, "log", SOON)
    text.write("two\n")
    wait_for(storage, ["one\n", "two\n"])
    text.close()

    assert storage.read("log") == b"one\ntwo\n"
    assert storage.names() == ["log"]


def test_pieces_that_a_kill_left_beside_the_whole_count_once(storage: Folder) -> None:
    storage.write("log", b"one\ntwo\n")
    for number, content in enumerate((b"one\n", b"two\n")):
        (storage / "log.parts").write(f"{number:06d}", content)
    assert list(segmented_log.lines(storage, "log")) == ["one\n", "two\n"]

    text = SegmentedWriter(storage, "log", NEVER)
    text.write("three\n")
    text.close()

    assert list(segmented_log.lines(storage, "log")) == ["one\n", "two\n", "three\n"]
    assert storage.names() == ["log"]


def test_what_is_opened_again_is_read_at_every_moment(storage: Folder) -> None:
    SegmentedWriter(storage, "log", NEVER).close()
    written: list[str] = []
    is_over = threading.Event()

    def write() -> None:
        for number in range(15):
            text = SegmentedWriter(storage, "log", NEVER)
            text.write(f"{number}\n")
            text.close()
            written.append(f"{number}\n")
        is_over.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not (is_over.is_set() or writing.done()):
            before = list(written)
            found = list(segmented_log.lines(storage, "log"))
            assert found[: len(before)] == before
        writing.result()
    assert list(segmented_log.lines(storage, "log")) == written


def test_what_storage_takes_too_late_loses_what_was_first_and_says_so(storage: Folder) -> None:
    text = SegmentedWriter(storage, "log", NEVER)
    line = "x" * 2**20 + "\n"
    for _ in range(40):
        text.write(line)
    text.close()

    said, cut, *rest = segmented_log.lines(storage, "log")
    assert said == f"({40 * len(line) - 32 * 2**20} bytes were lost here)\n"
    assert len(cut) < len(line)
    assert rest == [line] * 31


def test_a_piece_that_was_refused_is_sent_again(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule(REFUSED, method="PUT", key="*log.parts/*", times=2))
    text = SegmentedWriter(through_faults, "log", SOON)
    text.write("one\n")
    text.write("two\n")

    wait_for(through_faults, ["one\n", "two\n"])
    assert faulty_s3.count("PUT", "*log.parts/*") >= 3
    text.close()
    assert list(segmented_log.lines(through_faults, "log")) == ["one\n", "two\n"]


def test_a_text_that_could_not_be_ended_is_there_as_far_as_it_came(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    text = SegmentedWriter(through_faults, "log", SOON)
    text.write("one\n")
    wait_for(through_faults, ["one\n"])
    faulty_s3.add(Rule(REFUSED, method="PUT", key="*/log"))

    with pytest.raises(PermissionError):
        text.close()
    assert list(segmented_log.lines(through_faults, "log")) == ["one\n"]


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_text_whose_end_is_tried_again_keeps_all_of_it(
    through_faults: Bucket, faulty_s3: FaultyS3, nth: int
) -> None:
    text, lines = begin_three_pieces(through_faults)
    # The first piece is deleted, then the others, then the mark of that.
    faulty_s3.add(Rule(REFUSED, method="POST", every=nth, times=1))

    with pytest.raises(PermissionError):
        text.close()
    assert list(segmented_log.lines(through_faults, "log")) == lines
    text.close()

    assert list(segmented_log.lines(through_faults, "log")) == lines
    assert through_faults.names() == ["log"]


def test_a_text_that_ends_while_it_is_read_is_read_to_its_end(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    text, lines = begin_three_pieces(through_faults)
    faulty_s3.add(Rule("answer held", method="GET", key="*log.parts/000000", times=1))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(list, segmented_log.lines(through_faults, "log"))
        faulty_s3.wait_until_held()
        text.close()
        faulty_s3.release()
        assert reading.result() == lines
