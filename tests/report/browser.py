"""A page in a real browser: nothing may be fetched, and nothing may be complained of."""

from __future__ import annotations


class Watched:
    """An open page, what it has complained of, and what it has asked for."""

    def __init__(self, browser, address, width=1280, **options):
        self.trouble, self.requests, self.address = [], [], address
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.route("**/*", self._answer)
        self.page.goto(address)

    def close(self):
        self.page.close()
        assert self.trouble == []
        assert self.requests == [self.address]

    def _answer(self, route):
        self.requests.append(route.request.url)
        if len(self.requests) == 1:
            route.continue_()
        else:
            route.abort()
