"""Output: every byte once, at an offset that never changes its meaning, or its loss is told."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from tests.site.worlds import UNTIL_TOLD, LocalWorld, assignment, python

from windlass.core.errors import NotFound
from windlass.site.orchestrators.local import logs
from windlass.site.orchestrators.local.folders import AttemptKey
from windlass.site.orchestrators.local.launch import Limits
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator
from windlass.site.orchestrators.local.supervisor import Log
from windlass.site.orchestrators.port import LogChunk


async def collect(site: LocalOrchestrator, workload: str = "wl_1", offset: int = 0) -> list[LogChunk]:
    return [chunk async for chunk in site.follow_log(workload, 1, 0, offset=offset)]


def test_binary_and_broken_unicode_come_through_unchanged(world: LocalWorld) -> None:
    everything = bytes(range(256)) + "größe 漢字 🚀\n".encode() + b"\xff\xfe"
    world.ensure(assignment("wl_1", *python(f"import os; os.write(1, {everything!r})")))
    world.gone()
    assert world.log() == everything


def test_stdout_and_stderr_are_one_stream_in_order(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "sh", "-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2"))
    world.gone()
    assert world.log() == b"1\n2\n3\n4\n"


def test_one_huge_line_is_cut_at_the_cap_and_the_reader_is_told_how_much_is_missing(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, limits=Limits(log_cap_bytes=100_000))
    size = 3_000_000
    world.ensure(assignment("wl_1", *python(f"import sys; sys.stdout.write('x' * {size} + 'end')")))
    world.gone()
    files = sorted(world.folder().glob("log.*"))
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) <= 200_000
    first = world.run(lambda site: site.read_log("wl_1", 1, 0, offset=10))
    assert first.dropped == first.offset - 10 > 0
    tail = world.run(lambda site: site.read_log("wl_1", 1, 0, offset=-5))
    assert (tail.data, tail.next_offset, tail.dropped) == (b"xxend", size + 3, 0)


def test_following_sees_every_byte_while_the_log_rotates(tmp_path: Path) -> None:
    """The worker waits for the reader between bursts, so nothing may be dropped."""
    world = LocalWorld(tmp_path, limits=Limits(log_cap_bytes=4096))
    wait = "while [ ! -e go$i ]; do sleep 0.01; done"
    burst = f"for i in 1 2 3 4 5 6 7 8; do head -c 3000 /dev/zero | tr '\\0' $i; {wait}; done"

    async def story(site: LocalOrchestrator) -> bytes:
        await site.ensure(assignment("wl_1", "sh", "-c", burst))
        seen, bursts = b"", 0
        async for chunk in site.follow_log("wl_1", 1, 0):
            assert chunk.dropped == 0
            assert chunk.offset == len(seen)
            seen += chunk.data
            if len(seen) == 3000 * (bursts + 1):
                bursts += 1
                (world.folder() / "work" / f"go{bursts}").touch()
        return seen

    seen = world.run(story)
    assert seen == b"".join(str(number).encode() * 3000 for number in range(1, 9))
    assert len(list(world.folder().glob("log.*"))) == 2


def test_following_ends_when_the_worker_has_ended_and_all_is_read(world: LocalWorld) -> None:
    async def story(site: LocalOrchestrator) -> None:
        await site.ensure(assignment("wl_1", *UNTIL_TOLD))
        follower = asyncio.ensure_future(collect(site))
        await asyncio.to_thread(world.tell, 0)
        assert b"".join(chunk.data for chunk in await follower) == b"up\n"

    world.run(story)


def test_following_goes_on_when_the_attempt_is_forgotten_meanwhile(world: LocalWorld) -> None:
    async def story(site: LocalOrchestrator) -> None:
        await site.ensure(assignment("wl_1", "sh", "-c", "seq 1 100000"))
        stream = site.follow_log("wl_1", 1, 0)
        first = await anext(stream)
        while not (await site.observe())[0].gone:
            await site.changed()
        await site.forget("wl_1", 1)
        rest = [chunk.data async for chunk in stream]
        assert first.data + b"".join(rest) == b"".join(b"%d\n" % number for number in range(1, 100_001))

    world.run(story)


def test_following_what_was_refused_ends_at_once(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1"))
    assert world.run(collect) == []


def test_an_unknown_attempt_has_no_log(world: LocalWorld) -> None:
    with pytest.raises(NotFound):
        world.run(lambda site: collect(site, "wl_9"))


def test_reads_at_any_offset_agree_with_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law: a chunk at offset o is the written bytes from o; `dropped` is what came before it."""
    monkeypatch.chdir(tmp_path)
    chance = random.Random(7)
    log, written = Log(1000), b""
    for _ in range(200):
        data = chance.randbytes(chance.randrange(1, 700))
        log.write(data)
        written += data
        offset = chance.randrange(0, len(written) + 1)
        chunk = logs.read(tmp_path, offset=offset, limit=chance.randrange(1, 2000))
        assert chunk.data == written[chunk.offset : chunk.next_offset]
        assert chunk.offset - chunk.dropped == offset
        assert chunk.data or chunk.offset == len(written)
        assert chunk.dropped == 0 or offset < len(written) - 1000
    log.close()


def test_a_log_that_moves_under_the_readers_hands_is_read_where_it_went(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ensure(assignment("wl_1", *python("print('all of it')")))
    world.gone()
    original = logs.read
    moved: list[Path] = []

    async def story(site: LocalOrchestrator) -> bytes:
        def moving(folder: Path, *, offset: int, limit: int) -> LogChunk:
            if not moved:
                moved.append(site.folders.retire(AttemptKey("wl_1", 1)))
            return original(folder, offset=offset, limit=limit)

        monkeypatch.setattr(logs, "read", moving)
        return (await site.read_log("wl_1", 1, 0)).data

    assert world.run(story) == b"all of it\n" and moved
