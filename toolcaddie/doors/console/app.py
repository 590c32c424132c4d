"""The console as an ASGI application: it finds the page of a request, and checks who asks before the page is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import quote

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, ToolcaddieError
from toolcaddie.core.wire import Problem
from toolcaddie.doors.console.answers import Answer, Send, redirect
from toolcaddie.doors.console.forms import check_origin, check_token, read_form, token_of
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import Receive, Request, Visit
from toolcaddie.doors.console.sections import HOME, PageRoute, Section
from toolcaddie.doors.console.sessions import Sessions
from toolcaddie.doors.console.signing import FORM, SESSION, SIGN_IN, signing
from toolcaddie.doors.gateway.access import Access, repeated_header
from toolcaddie.doors.reviewing import STATUSES
from toolcaddie.ports import KeyStore, Store
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_STATUSES: Mapping[str, int] = {
    **STATUSES,
    "signed_out": 401,
    "foreign_form": 403,
    "forbidden": 403,
    "unknown_page": 404,
    "wrong_method": 405,
    "form_too_large": 413,
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

    `sections`: the parts of the console besides signing in. `identified` returns the principal in whose name a person acts.
    """

    paths = (HOME.rstrip("/"), HOME)
    """The paths at which this application is mounted."""

    def __init__(
        self,
        sections: Sequence[Section],
        store: Store,
        keys: KeyStore,
        *,
        identified: Callable[[Principal], Principal],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sessions = Sessions(store, keys, clock=clock)
        self._access = Access(keys)
        self._identified = identified
        self._first = sections[0].path
        self._renderer = Renderer({section.title: section.path for section in sections})
        everything = (signing(self._sessions, keys), *sections)
        self._routes = [route for section in everything for route in section.routes(self._renderer)]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        request: Request = Request.of(scope)
        visit = Visit(request=request, token=token_of(SESSION.read(request)))
        answer: Answer | None
        try:
            answer = self._renderer.asset(request.path)
            if answer is None:
                await self._check_access(request)
                visit = replace(visit, session=await self._sessions.find(SESSION.read(request)))
                answer = await self._answer(visit, receive)
        except RequestError as error:
            answer = self._failure(visit, _STATUSES.get(error.code, 400), str(error))
        except ToolcaddieError as error:
            log.error("page_failed", path=request.path[:200], error=str(error))
            answer = self._failure(visit, 503, str(error))
        except Exception:  # the outermost frame: an unforeseen error is logged and reported
            log.exception("page_failed", path=request.path[:200])
            answer = self._failure(visit, 500, "The server's log says why.")
        if answer is not None:
            await answer.send(send, head=request.method == "HEAD")

    async def _check_access(self, request: Request) -> None:
        """Raises `RequestError` for repeated headers; and, where the server has no keys, for everything but a browser on this
        machine that shows a page of this server."""
        if refusal := repeated_header(request.raw_headers, request.headers):
            raise RequestError(refusal.message, code="repeated_header")
        if not await self._access.has_keys():
            checked = await self._access.check(request.headers, client=request.client, has_body=False)
            if isinstance(checked, Problem):
                raise RequestError(checked.message, code="forbidden")

    async def _answer(self, visit: Visit, receive: Receive) -> Answer | None:
        """Returns the answer; None: the browser has gone."""
        request = visit.request
        if request.path in self.paths:
            return redirect(self._first)
        route, part = self._route(request)
        visit = replace(visit, part=part)
        if request.method == "POST":
            check_origin(request)
            form = await read_form(request, receive)
            if form is None:
                return None
            check_token(form, token_of(FORM.read(request)) if route.path == SIGN_IN else visit.token)
            visit = replace(visit, form=form)
        if route.is_public:
            return await route.handle(visit)
        if visit.session is None:
            return _signed_out(request)
        person = self._identified(visit.session.person)
        return await route.handle(replace(visit, session=replace(visit.session, person=person)))

    def _route(self, request: Request) -> tuple[PageRoute, str]:
        method = "GET" if request.method == "HEAD" else request.method
        matches = [(route, part) for route in self._routes if (part := route.part_of(request.path)) is not None]
        for route, part in matches:
            if route.method == method:
                return route, part
        if matches:
            raise RequestError(f"{request.method[:20]} is not possible here.", code="wrong_method")
        raise RequestError("There is no such page.", code="unknown_page")

    def _failure(self, visit: Visit, status: int, message: str) -> Answer:
        heading = _HEADINGS.get(status, "This did not work")
        return self._renderer.page(
            "error.html",
            visit,
            status=status,
            heading=heading,
            message=_sentence(message),
            back=_page_of(visit.request),
        )


def _signed_out(request: Request) -> Answer:
    if request.method == "POST":
        raise RequestError("Your session is over, and nothing was done.", code="signed_out")
    return redirect(f"{SIGN_IN}?next={quote(request.path)}")


def _page_of(request: Request) -> str:
    """Returns the page to go back to: for a form, the one that it was on."""
    page = request.path.rpartition("/")[0]
    return page if request.method == "POST" and page.startswith(HOME) else HOME


def _sentence(message: str) -> str:
    """Returns the message of an error with a capital letter and a full stop."""
    return message[:1].upper() + message[1:] + ("" if message.endswith((".", "?", "!")) else ".")
