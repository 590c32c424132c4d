"""A scripted server of containers. It is not Incus: no container runs anywhere.

It speaks the part of the REST interface 1.0 of Incus and LXD that deals with containers, on a socket, and is strict: whatever the
real server would refuse, and every key that it does not know, is an error. It runs in a thread of its own, so that programs with
several event loops can use it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.tools.host.incus_rules import (
    FINGERPRINT,
    NAME,
    NEW,
    PUT,
    SOURCE,
    STATE,
    Operation,
    Refusal,
    body_of,
    check_settings,
    etag_of,
    sync,
)


@dataclass(slots=True)
class IncusServer:
    """Its containers, and what the test has told it."""

    images: tuple[str, ...] = ("debian/12", FINGERPRINT)
    profiles: tuple[str, ...] = ("default", "web")
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """Reasons with which operations fail: of `create`, `update`, `delete`, `start` and `stop`."""
    stalls: bool = False
    """True: operations never end by themselves."""
    meddles: bool = False
    """True: somebody else changes each container after it was read."""
    answer: web.Response | None = None
    """Sent to everyone in place of an answer."""
    auth: str = "trusted"
    cancelled: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _operations: dict[str, Operation] = field(default_factory=dict)

    def add(self, name: str, **parts: Any) -> None:
        """Adds a container that somebody else has made."""
        config = {"volatile.base_image": FINGERPRINT, "image.os": "debian", **parts.pop("config", {})}
        self.instances[name] = {
            "name": name,
            "type": "container",
            "status": "Stopped",
            "architecture": "x86_64",
            "description": "",
            "profiles": ["default"],
            "config": config,
            "devices": {},
            "ephemeral": False,
            "stateful": False,
            **parts,
        }

    @contextmanager
    def serving(self, path: Path) -> Iterator[None]:
        """Serves on a socket until the end of the `with` block."""
        started, stop = threading.Event(), asyncio.Event()
        loop = asyncio.new_event_loop()

        async def serve() -> None:
            runner = web.AppRunner(self._app(), shutdown_timeout=0.1)
            await runner.setup()
            await web.UnixSite(runner, str(path)).start()
            started.set()
            await stop.wait()
            for operation in self._operations.values():
                operation.task.cancel()
            await runner.cleanup()

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
        thread.start()
        assert started.wait(10)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._checked])
        app.add_routes(
            [
                web.get("/1.0", self._server),
                web.get("/1.0/instances", self._list),
                web.post("/1.0/instances", self._create),
                web.get("/1.0/instances/{name}", self._get),
                web.put("/1.0/instances/{name}", self._put),
                web.delete("/1.0/instances/{name}", self._delete),
                web.put("/1.0/instances/{name}/state", self._switch),
                web.get("/1.0/operations/{id}/wait", self._wait),
                web.delete("/1.0/operations/{id}", self._cancel),
            ]
        )
        return app

    @web.middleware
    async def _checked(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        if self.answer is not None:
            return web.Response(status=self.answer.status, text=self.answer.text, headers=self.answer.headers)
        try:
            if request.query.get("project") != "default":
                raise Refusal(404, "Project not found")
            return await handler(request)
        except Refusal as error:
            return web.json_response(
                {"type": "error", "error": str(error), "error_code": error.code}, status=error.code
            )
        except web.HTTPNotFound:
            return web.json_response({"type": "error", "error": "Not Found", "error_code": 404}, status=404)

    # --- reading -------------------------------------------------------------------------------------------------------

    async def _server(self, request: web.Request) -> web.Response:
        environment = {"server": "incus", "server_version": "6.0"}
        return sync({"api_version": "1.0", "auth": self.auth, "environment": environment})

    async def _list(self, request: web.Request) -> web.Response:
        if request.query.get("recursion") != "1":
            return sync([f"/1.0/instances/{name}" for name in self.instances])
        return sync(list(self.instances.values()))

    async def _get(self, request: web.Request) -> web.Response:
        instance = self._instance(request)
        response = sync(instance, etag=etag_of(instance))
        if self.meddles:
            instance["description"] += "!"
        return response

    def _instance(self, request: web.Request) -> dict[str, Any]:
        try:
            return self.instances[request.match_info["name"]]
        except KeyError as error:
            raise Refusal(404, "Instance not found") from error

    # --- changing ------------------------------------------------------------------------------------------------------

    async def _create(self, request: web.Request) -> web.Response:
        body = await body_of(request, NEW)
        name, source = body["name"], body["source"]
        if not NAME.fullmatch(name):
            raise Refusal(400, f"Invalid instance name: {name!r}")
        if name in self.instances:
            raise Refusal(409, f"Instance {name!r} already exists")
        if unknown := set(source) - SOURCE:
            raise Refusal(400, f"unknown key {unknown}")
        if source["type"] != "image" or ("alias" in source) == ("fingerprint" in source):
            raise Refusal(400, "Must specify one of alias or fingerprint for init from image")
        if "server" in source and (source["mode"], source["protocol"]) != ("pull", "simplestreams"):
            raise Refusal(400, "bad mode or protocol")
        check_settings(body, self.profiles)

        def made() -> None:
            if source.get("alias", source.get("fingerprint")) not in self.images:
                raise Refusal(404, "Image not found")
            self.add(name, **{key: body[key] for key in ("description", "profiles", "config")})

        return self._begun("create", made)

    async def _put(self, request: web.Request) -> web.Response:
        instance, body = self._instance(request), await body_of(request, PUT)
        if request.headers.get("If-Match") not in (None, etag_of(instance)):
            raise Refusal(412, "Precondition failed")
        check_settings(body, self.profiles)
        return self._begun("update", lambda: instance.update(body))

    async def _switch(self, request: web.Request) -> web.Response:
        instance, body = self._instance(request), await body_of(request, STATE)
        status = {"start": "Running", "stop": "Stopped"}.get(body["action"])
        if status is None:
            raise Refusal(400, "Unknown action")
        if instance["status"] == status:
            raise Refusal(400, f"The instance is already {status.lower()}")
        return self._begun(body["action"], lambda: instance.update(status=status))

    async def _delete(self, request: web.Request) -> web.Response:
        instance = self._instance(request)
        if instance["status"] != "Stopped":
            raise Refusal(400, "Instance is running")
        return self._begun("delete", lambda: self.instances.pop(instance["name"], None))

    # --- operations ----------------------------------------------------------------------------------------------------

    def _begun(self, kind: str, work: Callable[[], object]) -> web.Response:
        async def run() -> None:
            if self.stalls:
                await asyncio.Event().wait()
            await asyncio.sleep(0.001)  # the answer is on its way
            try:
                if kind in self.failures:
                    raise Refusal(400, self.failures[kind])
                work()
            except Refusal as error:
                operation.error = str(error)

        operation = Operation(asyncio.ensure_future(run()))
        self._operations[operation.name] = operation
        address = f"/1.0/operations/{operation.name}?project=default"
        body = {"type": "async", "status": "Operation created", "status_code": 100, "operation": address}
        return web.json_response({**body, "metadata": operation.shown()}, status=202)

    def _operation(self, request: web.Request) -> Operation:
        try:
            return self._operations[request.match_info["id"]]
        except KeyError as error:
            raise Refusal(404, "Operation not found") from error

    async def _wait(self, request: web.Request) -> web.Response:
        operation = self._operation(request)
        await asyncio.wait({operation.task}, timeout=float(request.query["timeout"]))
        return sync(operation.shown())

    async def _cancel(self, request: web.Request) -> web.Response:
        operation = self._operation(request)
        operation.task.cancel()
        self.cancelled.append(operation.name)
        return sync({})
