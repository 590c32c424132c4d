"""The pages on which people sign in to the console, and sign out.

A person signs in with an API key of the server. A server without keys serves this machine only and takes everybody for the same
person, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.storage import ApiKey
from toolcaddie.doors.console.answers import Answer, redirect
from toolcaddie.doors.console.forms import new_number, token_of
from toolcaddie.doors.console.languages import COOKIE, NAMES
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import Request, Visit
from toolcaddie.doors.console.sections import HOME, PageRoute, Section
from toolcaddie.doors.console.sessions import SESSION_SECONDS, Sessions
from toolcaddie.ports import KeyStore
from toolcaddie.util.replacing import replace

SIGN_IN = f"{HOME}sign-in"
_SIGN_OUT = f"{HOME}sign-out"
_LANGUAGE = f"{HOME}language"
_LANGUAGE_SECONDS = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """A cookie of the console. Over https its name begins so that no other host can set it."""

    name: str

    def name_in(self, request: Request) -> str:
        return f"__Host-{self.name}" if request.is_secure else self.name

    def read(self, request: Request) -> str:
        return request.cookie(self.name_in(request))

    def written(self, request: Request, value: str, *, seconds: int) -> str:
        """Returns the header that sets the cookie; with no seconds, it is removed."""
        place = "Path=/; Secure" if request.is_secure else f"Path={HOME.rstrip('/')}"
        return f"{self.name_in(request)}={value}; {place}; HttpOnly; SameSite=Strict; Max-Age={seconds}"


SESSION = Cookie(name="toolcaddie-session")
FORM = Cookie(name="toolcaddie-form")
"""For the form on which a person signs in: there is no session yet to which its token could belong."""


def signing(sessions: Sessions, keys: KeyStore) -> Section:
    """Returns the section with which sessions begin and end."""
    return Section(title="", path=SIGN_IN, routes=lambda renderer: _Signing(sessions, keys, renderer).routes)


class _Signing:
    def __init__(self, sessions: Sessions, keys: KeyStore, renderer: Renderer) -> None:
        self._sessions = sessions
        self._keys = keys
        self._renderer = renderer

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=SIGN_IN, handle=self._show, is_public=True),
            PageRoute(method="POST", path=SIGN_IN, handle=self._sign_in, is_public=True),
            PageRoute(method="POST", path=_SIGN_OUT, handle=self._sign_out, is_public=True),
            PageRoute(method="GET", path=_LANGUAGE, handle=self._choose_language, is_public=True),
        )

    async def _show(self, visit: Visit) -> Answer:
        if visit.session is not None:
            return redirect(_target(visit.request.query.get("next", "")))
        return await self._page(visit, visit.request.query.get("next", ""))

    async def _page(self, visit: Visit, target: str, *, problem: str = "") -> Answer:
        """Returns the page with the form, whose token belongs to a cookie of its own."""
        number = FORM.read(visit.request) or new_number()
        answer = self._renderer.page(
            "sign_in.html",
            replace(visit, token=token_of(number), session=None),
            status=403 if problem else 200,
            has_keys=await self._keys.any(),
            target=_target(target),
            problem=problem,
            from_elsewhere=visit.request.header(b"sec-fetch-site") == "cross-site",
        )
        return answer.with_cookie(FORM.written(visit.request, number, seconds=SESSION_SECONDS))

    async def _sign_in(self, visit: Visit) -> Answer:
        target = visit.form.get("next", "")
        principal: Principal = Principal()
        key: ApiKey | None = None
        secret = visit.form.get("key", "").strip()
        if secret or await self._keys.any():  # another process may have made the first key a moment ago
            key = await self._keys.check(secret)
            if key is None:
                return await self._page(visit, target, problem="This API key is unknown or revoked.")
            principal = key.principal
        if earlier := SESSION.read(visit.request):
            await self._sessions.end(earlier)
        number = await self._sessions.start(principal, key)
        answer = redirect(_target(target)).with_cookie(FORM.written(visit.request, "", seconds=0))
        return answer.with_cookie(SESSION.written(visit.request, number, seconds=SESSION_SECONDS))

    async def _sign_out(self, visit: Visit) -> Answer:
        await self._sessions.end(SESSION.read(visit.request))
        return redirect(SIGN_IN).with_cookie(SESSION.written(visit.request, "", seconds=0))

    async def _choose_language(self, visit: Visit) -> Answer:
        language = visit.request.query.get("to", "")
        if language not in NAMES:
            raise RequestError(f"the console speaks {', '.join(NAMES)}; choose one of them", param="to")
        answer = redirect(_target(visit.request.query.get("next", "")))
        path = HOME.rstrip("/")
        return answer.with_cookie(f"{COOKIE}={language}; Path={path}; SameSite=Lax; Max-Age={_LANGUAGE_SECONDS}")


def _target(path: str) -> str:
    """Returns the page to show after signing in: one of the console, never of another site."""
    is_plain = path.isascii() and path.isprintable() and "\\" not in path and "//" not in path
    is_own = path.startswith(HOME) and is_plain and ".." not in unquote(path.partition("?")[0]).split("/")
    return path if is_own and not path.startswith((SIGN_IN, _SIGN_OUT, _LANGUAGE)) else HOME
