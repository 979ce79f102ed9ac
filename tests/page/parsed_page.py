"""Parses a page into its elements for the tests."""
from __future__ import annotations

import json
from html.parser import HTMLParser

import made_reports  # noqa: F401  (it finds halfulp_page)

from halfulp_page import Source, render

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """Elements with their attributes, texts by element, and errors of nesting."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[tuple[str, list[str]]] = []
        self.wrong: list[str] = []
        self.feed(html)
        self.close()
        self.wrong += [f"<{tag}> stays open" for tag, _ in self.open]

    def handle_starttag(self, tag, attributes):
        text: list[str] = []
        self.elements.append((tag, dict(attributes), text))
        if tag not in VOID:
            self.open.append((tag, text))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), []))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()} closes <{self.open[-1][0] if self.open else ''}>")
        else:
            self.open.pop()

    def handle_data(self, data):
        for _, text in self.open:
            text.append(data)

    def all(self, tag: str):
        return [(attributes, "".join(text)) for name, attributes, text in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [a["id"] for _, a, _ in self.elements if a.get("id")]


def page_of(*reports, **options) -> Page:
    return Page(render([Source(f"r{i}.json", json.loads(json.dumps(r))) for i, r in enumerate(reports)], **options))


def text_of(page: Page) -> str:
    return "".join(page.elements[0][2])
