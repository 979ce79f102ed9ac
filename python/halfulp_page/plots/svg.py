"""matplotlib's SVG as a part of a page: without a header, with only our names, colours from the style sheet, a title
and a description."""
from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

from .style import VARIABLES

_XLINK = "{http://www.w3.org/1999/xlink}href"
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(figure: Any, prefix: str, title: str, description: str) -> str:
    """The figure as an <svg> whose ids begin with `prefix`. Without a title it is decoration and hidden from screen
    readers."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    used = {value for element in root.iter() for value in _references(element)}
    for element in root.iter():
        _rewrite(element, prefix, used)
    box = root.get("viewBox", "")
    root.attrib.clear()
    root.set("viewBox", box)
    root.set("class", "plot")
    if title:
        root.set("role", "img")
        root.set("aria-labelledby", f"{prefix}-t {prefix}-d")
        for place, (tag, text) in enumerate((("title", title), ("desc", description))):
            element = ElementTree.Element(tag, {"id": f"{prefix}-{tag[0]}"})
            element.text = text
            root.insert(place, element)
    else:
        root.set("aria-hidden", "true")
        root.set("style", f"width:{box.split()[2]}pt")
    return ElementTree.tostring(root, encoding="unicode")


def _local(tag: Any) -> str:
    return str(tag).rsplit("}", 1)[-1]


def _references(element: Any) -> list[str]:
    found = [element.get(_XLINK, "").lstrip("#")]
    for value in element.attrib.values():
        found += re.findall(r"url\(#([^)]+)\)", value)
    return [name for name in found if name]


def _rewrite(element: Any, prefix: str, used: set[str]) -> None:
    element.tag = _local(element.tag)
    if element.tag != "text":
        element.text = element.text if (element.text or "").strip() else None
    element.tail = None
    attributes = dict(element.attrib)
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            if value in used:
                element.set("id", f"{prefix}-{value}")
        elif name == _XLINK:
            element.set("href", f"#{prefix}-{value[1:]}")
        else:
            element.set(_local(name), _value(name, value, prefix))


def _value(name: str, value: str, prefix: str) -> str:
    value = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", value)
    if name == "style":
        for stand_in, variable in VARIABLES.items():
            value = value.replace(stand_in, variable)
        return re.sub(r"font: [^;]*px [^;]*;?", lambda m: "font-size: " + re.findall(r"[\d.]+px", m[0])[0] + ";", value)
    return _LONG_NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
