#!/usr/bin/env bash
# wheel_test.sh SOURCE BUILD VENV WORK: makes the wheel, twice the same, and uses it as somebody without a compiler
# does: in a new virtual environment, with nothing else on PATH. Prints "skipped: REASON" where PyPI cannot be had.
set -euo pipefail
source=$1
build=$2
venv=$3
work=$4
rm -rf "$work"
mkdir -p "$work/home"
export SOURCE_DATE_EPOCH=1700000000  # as `./run wheel` takes the commit's time
wheel=$("$source/python/wheel.sh" "$source" "$build" "$venv" "$work/dist")
case $wheel in skipped:*) echo "$wheel" && exit 0 ;; esac
again=$("$source/python/wheel.sh" "$source" "$build" "$venv" "$work/again")
cmp "$wheel" "$again" || { echo "packed again, the wheel has other bytes" && exit 1; }
size=$(stat -c %s "$wheel")
[ "$size" -le 25000000 ] || { echo "$wheel has $size bytes: more than 25 MB" && exit 1; }
case $wheel in *-manylinux_*) ;; *) echo "$wheel has no manylinux tag" && exit 1 ;; esac

"$venv/bin/python" -m venv "$work/clean"
cd "$work/home"
export PATH=$work/clean/bin HOME=$work/home PYTHONNOUSERSITE=1
unset PYTHONPATH LD_LIBRARY_PATH
pip install -q --disable-pip-version-check --retries 1 --timeout 10 "$wheel" || { echo "skipped: pip install failed" && exit 0; }
halfulp run swamping --quiet --out swamping.json
halfulp validate swamping.json
# README's first lines of Python.
python - "$source/README.md" <<'PYTHON'
import re, sys
block = re.search(r"```python\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.S)[1]
assert "halfulp.quantize" in block
exec(block)
import halfulp
assert halfulp.__file__.startswith(sys.prefix), halfulp.__file__
assert halfulp.run("swamping", backend="emulated").claims
PYTHON
# The page comes along; what draws it is asked for by name.
if message=$(halfulp page swamping.json --python="$work/clean/bin/python" --out page.html 2>&1); then echo "a page without matplotlib?" && exit 1; fi
case $message in *matplotlib*"pip install"*) ;; *) echo "the message does not say what to install: $message" && exit 1 ;; esac
if "$venv/bin/python" -c 'import matplotlib, jinja2' 2>/dev/null; then
  halfulp page swamping.json --python="$venv/bin/python" --out page.html
  [ -s page.html ]
fi
