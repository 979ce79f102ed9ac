#!/usr/bin/env bash
# torch_test.sh SOURCE BUILD: runs the tests of halfulp.torch with the package of the build tree, by the Python that
# HALFULP_TORCH_PYTHON names or that of build/torch-venv. Prints "skipped: REASON" where there is none, or no package.
set -uo pipefail
source=$1
build=$2
python=${HALFULP_TORCH_PYTHON:-$source/build/torch-venv/bin/python}
if ! compgen -G "$build/python/halfulp/_core*.so" >/dev/null; then
  echo "skipped: the package was not built: ./run test does it where python3-dev, python3-venv and PyPI are"
elif [ ! -x "$python" ]; then
  echo "skipped: no Python with torch: ./run torch makes build/torch-venv, HALFULP_TORCH_PYTHON names another"
elif ! trouble=$(PYTHONPATH=$build/python "$python" -c 'import pytest, halfulp.torch' 2>&1); then
  echo "skipped: $python: $(tail -1 <<<"$trouble")"
else
  PYTHONPATH=$build/python exec "$python" -m pytest -q -p no:cacheprovider --rootdir "$source/python" "$source/python/tests/with_torch" \
    "$source"/python/tests/test_{arrays,bad_input,calls,outputs}.py
fi
