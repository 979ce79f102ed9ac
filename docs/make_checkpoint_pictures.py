#!/usr/bin/env python3
"""Makes the pictures of docs/how-to/inspect-a-checkpoint.md, of the checkpoint that the page itself makes.

  docs/make_checkpoint_pictures.py --halfulp build/release/bin/halfulp           # writes the pictures
  docs/make_checkpoint_pictures.py --halfulp ... --check                         # exit status 1 where numbers differ

Needs NumPy and matplotlib, whose versions draw the same numbers differently. So --check compares what a picture says in
words (its <desc>): every format's bits and decibels, of layers and tensors the least and the most in each format.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parent
PAGE = DOCS / "how-to" / "inspect-a-checkpoint.md"
PICTURES = ("checkpoint-formats.svg", "checkpoint-layers.svg", "checkpoint_choice-choice.svg")
MODEL = re.compile(r"<!-- file: small_model.py -->\n```python\n(.*?)```", re.DOTALL)
CHOICE = re.compile(r"^\$ halfulp (choose model/ .*?) --mix", re.MULTILINE)


def drawn(halfulp):
    """Each picture's text by its name."""
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        def run(*words):
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        run(sys.executable, "-c", MODEL.search(page)[1])
        run(halfulp, "inspect", "model/", "--out", "report.json", "--quiet")
        run(halfulp, *CHOICE.search(page)[1].split(), "--out", "choice.json", "--quiet")
        run(halfulp, "page", "report.json", "choice.json", "--out", "pages/", "--python", sys.executable)
        return {name: pathlib.Path(folder, "pages", "figures", name).read_text(encoding="utf-8") for name in PICTURES}


def words(svg):
    return re.search(r"<desc[^>]*>(.*?)</desc>", svg, re.DOTALL)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--halfulp", required=True, help="the program")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a picture has other numbers")
    arguments = parser.parse_args()
    for name, svg in drawn(str(pathlib.Path(arguments.halfulp).resolve())).items():
        file = DOCS / "pictures" / name
        if not arguments.check:
            file.write_text(svg, encoding="utf-8")
        elif words(file.read_text(encoding="utf-8")) != words(svg):
            sys.exit(f"docs/pictures/{name} has other numbers than now: docs/make_checkpoint_pictures.py draws it")


if __name__ == "__main__":
    main()
