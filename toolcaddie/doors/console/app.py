"""The console as an ASGI application: it finds the page of a request, and checks who asks before the page is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any
from urllib.parse import quote

from toolcaddie.app.settings.console import ConsoleSettings
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, ToolcaddieError
from toolcaddie.core.wire import Problem
from toolcaddie.doors import asked
from toolcaddie.doors.console.acts import Acts
from toolcaddie.doors.console.answers import Answer, Reply, Send, json_answer, redirect
from toolcaddie.doors.console.forms import LONGEST_FORM, check_origin, check_token, read_form, read_json, token_of
from toolcaddie.doors.console.languages import language_of
from toolcaddie.doors.console.levels import Levels
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import Receive, Request, Visit
from toolcaddie.doors.console.sections import HOME, PageRoute, Section
from toolcaddie.doors.console.sessions import Session, Sessions
from toolcaddie.doors.console.signing import FORM, SESSION, SIGN_IN, signing
from toolcaddie.doors.gateway.access import AUTHORIZATION, Access, repeated_header
from toolcaddie.doors.reviewing import STATUSES
from toolcaddie.ports import EventLog, KeyStore, Store
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_STATUSES: Mapping[str, int] = {
    **STATUSES,
    **asked.STATUSES,
    "signed_out": 401,
    "foreign_form": 403,
    "forbidden": 403,
    "unknown_page": 404,
    "wrong_method": 405,
    "form_too_large": 413,
    "unknown_file": 404,
    "unknown_version": 404,
    "unknown_job": 404,
    "unknown_proposal": 404,
    "unknown_evaluation": 404,
    "decided": 409,
    "job_is_running": 409,
    "job_is_over": 409,
    "evaluation_is_running": 409,
}
_HEADINGS: Mapping[int, str] = {
    401: "Please sign in again",
    403: "Not allowed",
    404: "Not found",
    409: "This has changed meanwhile",
    500: "Something went wrong",
    503: "Not available at the moment",
}


class Console:
    """An ASGI application for `/console` and all paths below.

    `sections`: the parts of the console besides signing in. `event_log`: the trail, which records everything that people do.
    `identified` returns the principal in whose name a person acts; `holding`, the context manager in whose block the catalog of a
    tenant is open.
    """

    paths = (HOME.rstrip("/"), HOME)
    """The paths at which this application is mounted."""

    def __init__(
        self,
        sections: Sequence[Section],
        store: Store,
        keys: KeyStore,
        event_log: EventLog,
        *,
        identified: Callable[[Principal], Principal],
        holding: Callable[[str], AbstractAsyncContextManager[None]] = lambda tenant: nullcontext(),
        settings: ConsoleSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sessions = Sessions(store, keys, clock=clock)
        self._access = Access(keys)
        self._acts = Acts(event_log, clock=clock)
        self._levels = Levels(settings or ConsoleSettings())
        self._identified = identified
        self._holding = holding
        self._sections = sections
        self._renderer = Renderer()
        everything = (signing(self._sessions, keys), *sections)
        self.routes: Sequence[tuple[Section, PageRoute]] = [
            (section, route) for section in everything for route in section.routes(self._renderer)
        ]
        """All pages and targets of forms, each with its section."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        request: Request = Request.of(scope)
        visit = Visit(request=request, token=token_of(SESSION.read(request)), language=language_of(request))
        reply: Reply | None
        try:
            reply = self._renderer.asset(request.path)
            if reply is None:
                await self._check_access(request)
                visit = await self._with_session(visit)
                reply = await self._answer(visit, receive)
        except RequestError as error:
            reply = self._failure(visit, _STATUSES.get(error.code, 400), str(error), code=error.code)
        except ToolcaddieError as error:
            log.error("page_failed", path=request.path[:200], error=str(error))
            reply = self._failure(visit, 503, str(error))
        except Exception:  # the outermost frame: an unforeseen error is logged and reported
            log.exception("page_failed", path=request.path[:200])
            reply = self._failure(visit, 500, "The server's log says why.")
        if reply is not None:
            await reply.send(send, receive, head=request.method == "HEAD")

    async def _check_access(self, request: Request) -> None:
        """Raises `RequestError` for repeated headers; and, where the server has no keys, for everything but a browser on this
        machine that shows a page of this server."""
        if refusal := repeated_header(request.raw_headers, request.headers):
            raise RequestError(refusal.message, code="repeated_header")
        if not await self._access.has_keys():
            checked = await self._access.check(request.headers, client=request.client, has_body=False)
            if isinstance(checked, Problem):
                raise RequestError(checked.message, code="forbidden")

    async def _with_session(self, visit: Visit) -> Visit:
        """Returns the visit with its session and what the person may do. The session of a browser follows from its cookie, that
        of a program from the API key in its request."""
        session = await self._sessions.find(SESSION.read(visit.request))
        session = session or await self._session_of_program(visit.request)
        if session is None:
            return visit
        sections = [each for each in self._sections if self._levels.may(session, each.level, of_server=each.of_server)]
        return replace(
            visit,
            session=session,
            level=self._levels.of(session),
            tenant=self._levels.tenant_of(session),
            titles={section.title: section.path for section in sections},
        )

    async def _session_of_program(self, request: Request) -> Session | None:
        if not request.wants_json:
            return None
        has_body = request.method == "POST"
        sender = await self._access.sender(request.headers, client=request.client, has_body=has_body)
        if isinstance(sender, Problem):
            if AUTHORIZATION in request.headers:
                raise RequestError(sender.message, code="signed_out")
            return None
        return self._sessions.of_request(sender.principal, sender.key)

    async def _answer(self, visit: Visit, receive: Receive) -> Reply | None:
        """Returns the answer; None: the browser has gone."""
        request = visit.request
        if request.path in self.paths:
            return redirect(next(iter(visit.titles.values()), SIGN_IN))
        section, route, part = self._route(request)
        visit = replace(visit, part=part)
        if request.method == "POST":
            form = await self._form(visit, receive, route)
            if form is None:
                return None
            visit = replace(visit, form=form)
        if route.is_public:
            return await route.handle(visit)
        if visit.session is None:
            return _signed_out(request)
        session = visit.session
        if section.needs_bot:
            session = replace(session, person=self._identified(session.person))
            visit = replace(visit, session=session)
        self._levels.check(session, route.level or section.level, of_server=section.of_server)
        async with self._holding(session.person.tenant) if section.needs_catalog else nullcontext():
            return await (self._act(route, visit) if request.method == "POST" else route.handle(visit))

    async def _form(self, visit: Visit, receive: Receive, route: PageRoute) -> Mapping[str, str] | None:
        """Returns the fields of a form that a page of the console has sent, or those of a program's JSON; None: the sender has
        gone."""
        longest = LONGEST_FORM if visit.session is None else route.longest_form
        if visit.session is not None and visit.session.is_of_request:
            return await read_json(visit.request, receive, longest=longest)
        check_origin(visit.request)
        form = await read_form(visit.request, receive, longest=longest)
        if form is not None:
            check_token(form, token_of(FORM.read(visit.request)) if route.path == SIGN_IN else visit.token)
        return form

    async def _act(self, route: PageRoute, visit: Visit) -> Reply:
        """Returns the answer to a form, after it was recorded in the trail who sent it; how it ended is recorded too."""
        act_id = await self._acts.begin(visit)
        try:
            reply = await route.handle(visit)
        except BaseException as error:
            status = _STATUSES.get(error.code, 400) if isinstance(error, RequestError) else 500
            await self._acts.end(act_id, status=status, error=f"{type(error).__name__}: {error}")
            raise
        await self._acts.end(act_id, status=reply.status)
        if visit.request.wants_json and isinstance(reply, Answer) and reply.location:
            return json_answer({"done": True, "act": act_id, "location": reply.location})
        return reply

    def _route(self, request: Request) -> tuple[Section, PageRoute, str]:
        method = "GET" if request.method == "HEAD" else request.method
        matches = [
            (section, route, part)
            for section, route in self.routes
            if (part := route.part_of(request.path)) is not None
        ]
        for section, route, part in matches:
            if route.method == method:
                return section, route, part
        if matches:
            raise RequestError(f"{request.method[:20]} is not possible here.", code="wrong_method")
        raise RequestError("There is no such page.", code="unknown_page")

    def _failure(self, visit: Visit, status: int, message: str, *, code: str = "") -> Answer:
        heading = _HEADINGS.get(status, "This did not work")
        return self._renderer.page(
            "error.html",
            visit,
            {"error": {"message": _sentence(message), "code": code or None, "status": status}},
            status=status,
            heading=heading,
            message=_sentence(message),
            back=visit.request.address if visit.request.method == "POST" else HOME,
        )


def _signed_out(request: Request) -> Answer:
    if request.wants_json:
        raise RequestError("send an API key of this server as 'Authorization: Bearer tc_...'", code="signed_out")
    if request.method == "POST":
        raise RequestError("Your session is over, and nothing was done.", code="signed_out")
    return redirect(f"{SIGN_IN}?next={quote(request.address)}")


def _sentence(message: str) -> str:
    """Returns the message of an error with a capital letter and a full stop."""
    return message[:1].upper() + message[1:] + ("" if message.endswith((".", "?", "!")) else ".")
