#!/usr/bin/env bash
# test.sh SOURCE BUILD VENV: the Python tests, with the package of the build tree. "skipped: REASON" where it cannot be built.
set -uo pipefail
source=$1
build=$2
venv=$3
if [ ! -x "$venv/bin/python" ] || [ ! -d "$build/python/halfulp" ] || ! compgen -G "$build/python/halfulp/_core*.so" >/dev/null; then
  echo "skipped: the package was not built: ./run test does it where python3-dev, python3-venv and PyPI are"
  exit 0
fi
PYTHONPATH=$build/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$source/python" "$source/python/tests"
