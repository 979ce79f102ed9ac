"""Parses the pages of the documentation: fenced blocks with the comments that steer their test, headings, links."""
import dataclasses
import pathlib
import re

FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*(\S*)\s*$")
COMMENT = re.compile(r"^<!-- (not run|slow|needs|file|copy of): (.+) -->$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)|<img[^>]* src=\"([^\"]+)\"")


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of the opening fence, from 1
    end: int  # of the closing one
    language: str
    text: str
    steering: dict

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def all_pages(root):
    """README, HACKING and docs, without what Sphinx makes; relative to the root."""
    pages = [root / "README.md", root / "HACKING.md", *sorted((root / "docs").rglob("*.md"))]
    return [page.relative_to(root) for page in pages]


def blocks_of(root, page):
    lines = (root / page).read_text(encoding="utf-8").split("\n")
    found, i = [], 0
    while i < len(lines):
        opening = FENCE.match(lines[i])
        if not opening:
            i += 1
            continue
        end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() == opening.group(2)), None)
        if end is None:
            raise SystemExit(f"{page}:{i + 1}: this block does not end")
        steering, above = {}, i - 1
        while above >= 0 and (comment := COMMENT.match(lines[above].strip())):
            steering[comment.group(1)] = comment.group(2)
            above -= 1
        indent = len(opening.group(1))
        found.append(Block(page, i + 1, end + 1, opening.group(3), "".join(line[indent:] + "\n" for line in lines[i + 1:end]), steering))
        i = end + 1
    return found


def prose_of(root, page):
    """The page's lines without blocks and inline code, which become empty."""
    lines = (root / page).read_text(encoding="utf-8").split("\n")
    for block in blocks_of(root, page):
        for i in range(block.line - 1, block.end):
            lines[i] = ""
    return [re.sub(r"`[^`]*`", "", line) for line in lines]


def anchors_of(root, page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    lines = (root / page).read_text(encoding="utf-8").split("\n")
    inside = {i for block in blocks_of(root, page) for i in range(block.line - 1, block.end)}
    anchors, counts = set(), {}
    for i, line in enumerate(lines):
        heading = re.match(r"#{1,6} (.+)", line)
        if not heading or i in inside:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
        slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        number = counts.get(slug, 0)
        counts[slug] = number + 1
        anchors.add(slug if number == 0 else f"{slug}-{number}")
    return anchors


def broken_links(root):
    """Broken relative links, one line each. Links to other sites are not followed."""
    problems = []
    for page in all_pages(root):
        for number, line in enumerate(prose_of(root, page), 1):
            for match in LINK.finditer(line):
                target = match.group(1) or match.group(2)
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = page if not path else (root / page.parent / path).resolve()
                if path and not file.exists():
                    problems.append(f"{page}:{number}: {target}: there is no such file")
                    continue
                if path and not file.is_relative_to(root):
                    problems.append(f"{page}:{number}: {target} leaves the repository")
                    continue
                if anchor and anchor not in anchors_of(root, file.relative_to(root) if path else page):
                    problems.append(f"{page}:{number}: {target}: there is no such heading")
    return problems
