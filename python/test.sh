#!/usr/bin/env bash
# test.sh SOURCE BUILD VENV: runs the Python tests with the package of the build tree. Prints "skipped: REASON" where it
# could not be built.
set -uo pipefail
source=$1
build=$2
venv=$3
if [ ! -x "$venv/bin/python" ] || [ ! -d "$build/python/halfulp" ] || ! compgen -G "$build/python/halfulp/_core*.so" >/dev/null; then
  echo "skipped: the package was not built: ./run test does it where python3-dev, python3-venv and PyPI are"
  exit 0
fi
tests=("$source/python/tests")
# A module with AddressSanitizer needs the sanitizer's runtime, and the C++ library that it watches, loaded before
# Python. Leaks of Python itself are ignored, and arrays may be too large.
runtime=$(ldd "$build"/python/halfulp/_core*.so | sed -n 's/.*libasan[^ ]* => \([^ ]*\).*/\1/p')
if [ -n "$runtime" ]; then
  export LD_PRELOAD="$runtime $(g++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc
  tests=("$source"/python/tests/test_{arrays,bad_input,blocks,fuzz,operations,outputs,products,rounding}.py)
fi
PYTHONPATH=$build/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$source/python" "${tests[@]}"
