"""Random ids: each is given out once, also in a copy of the process."""

from __future__ import annotations

import multiprocessing
import re
from multiprocessing.connection import Connection

import pytest

from toolcaddie.util.random_ids import random_id


def test_ids_are_32_hexadecimal_digits_and_none_comes_twice() -> None:
    ids = [random_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in ids)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_copy_of_the_process_gives_out_other_ids() -> None:
    random_id()  # the others of its group are left over
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_send_ids, args=(sender,))
    process.start()
    theirs = receiver.recv()
    process.join()
    assert set(theirs).isdisjoint(random_id() for _ in range(2_000))


def _send_ids(sender: Connection) -> None:
    sender.send([random_id() for _ in range(100)])
