"""matplotlib's SVG as a part of a page: without a header, with only our names, colours from the style sheet, a title
and a description."""
from __future__ import annotations

import io
import itertools
import re
from typing import Any
from xml.etree import ElementTree

from .style import CLASSES, VARIABLES

_XLINK = "{http://www.w3.org/1999/xlink}href"
_DEFAULT = ("stroke-linecap", "stroke-linejoin", "font-family")  # the style sheet has them
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def inline_svg(figure: Any, prefix: str, title: str, description: str) -> str:
    """The figure as an <svg> whose ids begin with `prefix`. Without a title it is decoration and hidden from screen
    readers."""
    buffer = io.StringIO()
    figure.canvas.print_svg(buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style") or (child.get("style") or "").replace(" ", "") == "fill:none":  # nothing is seen of it
                parent.remove(child)
    used = {value: str(i) for i, value in enumerate(dict.fromkeys(value for element in root.iter() for value in _references(element)))}
    for element in root.iter():
        _rewrite(element, prefix, used)
    _unwrap(root)
    _with_classes(root)
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


def class_rules() -> str:
    """What pictures need of a style sheet."""
    return "".join(f".{name}{{{style}}}" for style, name in CLASSES.items())


def _local(tag: Any) -> str:
    return str(tag).rsplit("}", 1)[-1]


def _references(element: Any) -> list[str]:
    found = [element.get(_XLINK, "").lstrip("#")]
    for value in element.attrib.values():
        found += re.findall(r"url\(#([^)]+)\)", value)
    return [name for name in found if name]


def _unwrap(parent: Any) -> None:
    """Puts what groups without attributes hold in their place, and drops definitions of nothing."""
    children = []
    for child in list(parent):
        _unwrap(child)
        if child.tag in ("g", "defs") and not child.attrib and (child.tag == "g" or not len(child)):
            children += list(child)
        else:
            children.append(child)
    parent[:] = _shared(children)


def _shared(children: list[Any]) -> list[Any]:
    """Puts neighbours that look alike into a group that says so once."""
    found: list[Any] = []
    for style, run in itertools.groupby(children, key=lambda c: (c.get("style"), c.get("clip-path"))):
        alike = list(run)
        if len(alike) < 3 or not style[0]:
            found += alike
            continue
        group = ElementTree.Element("g", {name: value for name, value in zip(("style", "clip-path"), style) if value})
        for child in alike:
            for name in group.attrib:
                del child.attrib[name]
        group[:] = alike
        found.append(group)
    return found


def _with_classes(root: Any) -> None:
    """Frequent styles by name; class_rules() has them for the page, and a file of its own gets them."""
    for element in root.iter():
        if name := CLASSES.get(element.get("style", "")):
            del element.attrib["style"]
            element.set("class", name)


def _rewrite(element: Any, prefix: str, used: dict[str, str]) -> None:
    element.tag = _local(element.tag)
    if element.tag != "text":
        element.text = element.text if (element.text or "").strip() else None
    element.tail = None
    attributes = dict(element.attrib)
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            if value in used:
                element.set("id", f"{prefix}-{used[value]}")
        elif name == _XLINK:
            element.set("href", f"#{prefix}-{used[value[1:]]}")
        elif not value.startswith("rotate(-0 "):
            element.set(_local(name), _value(name, value, prefix, used))


def _value(name: str, value: str, prefix: str, used: dict[str, str]) -> str:
    value = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{prefix}-{used[m[1]]})", value)
    if name == "style":
        for stand_in, variable in VARIABLES.items():
            value = value.replace(stand_in, variable)
        return _style(value)
    value = _LONG_NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
    return _path(re.sub(r"\s*([A-Za-z])\s*", r"\1", value.strip())) if name == "d" else value


def _style(value: str) -> str:
    """Properties in the order of their names, whatever matplotlib's version orders them by."""
    value = re.sub(r"font: [^;]*?([\d.]+px) [^;]*", r"font-size: \1", value)
    properties = (part.split(":", 1) for part in value.split(";") if part.strip())
    return ";".join(sorted(f"{name.strip()}:{of.strip()}" for name, of in properties if name.strip() not in _DEFAULT))


def _path(d: str) -> str:
    """A path with the shorter commands for lines along an axis, and without those of no length."""
    if not re.fullmatch(r"(?:[ML][^A-Za-z]+|z)*", d):
        return d
    found: list[str] = []
    here = ["", ""]
    for command, numbers in re.findall(r"([MLz])([^MLz]*)", d):
        to = numbers.split()
        if command == "L" and to == here:
            continue
        along = [i for i in (0, 1) if command == "L" and to[1 - i] == here[1 - i]]
        found.append("HV"[along[0]] + to[along[0]] if along else command + " ".join(to))
        here = to or here
    return "".join(found)
