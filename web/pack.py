#!/usr/bin/env python3
"""Packs the page into one file that needs no network: its modules behind each other, its style, halfulp.wasm.

  web/pack.py MODULE.wasm OUT.html [--explanations URL]     # where explanations are, with {page} for the page's name
"""
import argparse
import base64
import gzip
import pathlib
import re
import shutil
import subprocess

PAGE = pathlib.Path(__file__).resolve().parent / "page"
IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', re.MULTILINE)


def modules(path: pathlib.Path, done: list) -> list:
    """A module behind those that it imports, each once."""
    if path not in done:
        for name in IMPORT.findall(path.read_text(encoding="utf-8")):
            modules((path.parent / name).resolve(), done)
        done.append(path)
    return done


def script() -> str:
    """All modules as one: their names must differ, which a browser checks. Comments stay in the sources."""
    texts = []
    for path in modules((PAGE / "shell.js").resolve(), []):
        text = IMPORT.sub("", path.read_text(encoding="utf-8"))
        text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
        texts.append(re.sub(r"^ *(//[^\n]*|/\*\*.*?\*/)\n", "", text, flags=re.MULTILINE | re.DOTALL))
    return "".join(texts)


def squeezed(path: pathlib.Path) -> bytes:
    """gzip, by zopfli where it is installed: a twentieth smaller."""
    if shutil.which("zopfli"):
        return subprocess.run(["zopfli", "-c", path], stdout=subprocess.PIPE, check=True).stdout
    return gzip.compress(path.read_bytes(), 9, mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--explanations")
    arguments = parser.parse_args()
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    module = base64.b64encode(squeezed(arguments.module)).decode()
    # What the page may do is said to the browser: its own code, and no request at all.
    policy = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data:"
    for old, new in ((re.compile(r'<link rel="stylesheet"[^>]*>'), f"<style>\n{(PAGE / 'style.css').read_text(encoding='utf-8')}</style>"),
                     (re.compile(r'<script type="module"[^>]*></script>'), f'<script type="text/plain" id="module">{module}</script>\n<script type="module">\n{script()}</script>'),
                     (re.compile(r'<meta charset="utf-8">'), f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">')):
        page, count = old.subn(lambda _: new, page)
        assert count == 1, old.pattern
    if arguments.explanations:
        page = re.sub(r'(<meta name="explanations" content=")[^"]*', lambda found: found[1] + arguments.explanations, page)
    arguments.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
