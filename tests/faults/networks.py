"""The network between servers and their database: each server has a way of its own, which can fall silent
and be heard again. Nobody is told that it is silent: connections stay open, new ones are accepted, nothing
arrives; what was under way arrives when it is over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

from tests.postgres.proxies import Proxy, proxied

T = TypeVar("T")


class Way:
    def __init__(self, loop: asyncio.AbstractEventLoop, proxies: Sequence[Proxy]) -> None:
        self._loop = loop
        self._proxies = proxies

    @property
    def ports(self) -> list[int]:
        return [proxy.port for proxy in self._proxies]

    def fall_silent(self) -> None:
        for proxy in self._proxies:
            self._loop.call_soon_threadsafe(proxy.open.clear)

    def be_heard(self) -> None:
        for proxy in self._proxies:
            self._loop.call_soon_threadsafe(proxy.open.set)


class Network:
    """Runs in a thread of its own; made by `network`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stack: AsyncExitStack) -> None:
        self._loop = loop
        self._stack = stack

    def way_to(self, ports: Sequence[int]) -> Way:
        async def made() -> Way:
            return Way(self._loop, [await self._stack.enter_async_context(proxied(port)) for port in ports])

        return _wait(self._loop, made())


@contextmanager
def network() -> Iterator[Network]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="network")
    thread.start()
    stack = AsyncExitStack()
    try:
        yield Network(loop, stack)
    finally:
        _wait(loop, stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _wait(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result(60)
