# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide who may see the page: programs of this machine, or whoever has the token.

On loopback the Host header must name this machine, so that a foreign web page cannot reach the server through a name
of its own (DNS rebinding). Everywhere else each request must carry the token: once in the address, then as a cookie.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

HEADERS = {
    # Nothing is fetched from elsewhere. Plotly sets styles from its script.
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

Next = Callable[[Request], Awaitable[Response]]


def is_loopback(host: str) -> bool:
    """Say whether an address is reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Check each request. Without a token, requests must name this machine."""

    def __init__(self, token: str | None, port: int) -> None:
        self._token, self._cookie = token, f"gr-oac-{port}"  # browsers send cookies to every port of a machine

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is not allowed, or that only brings the token; None if it may go on."""
        if self._token is None:
            if is_loopback(request.url.hostname or ""):
                return None
            return PlainTextResponse("open this page as http://127.0.0.1, or start it with a token", 403)
        if self._fits(request.query_params.get("token")):
            answer = RedirectResponse(request.url.path, 303)  # the token does not stay in the browser's history
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        scheme, _, word = request.headers.get("authorization", "").partition(" ")
        if self._fits(request.cookies.get(self._cookie)) or (scheme.lower() == "bearer" and self._fits(word)):
            return None
        return PlainTextResponse("this page needs its token: open the address that `fl_app dashboard` printed", 401)

    def _fits(self, given: str | None) -> bool:
        return self._token is not None and secrets.compare_digest((given or "").encode(), self._token.encode())
