"""Ctrl-C, forks and subinterpreters during calls, each in its own process."""
import os
import subprocess
import sys

import pytest


def in_a_process(program, timeout=60):
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


PRESSED = """
import os, signal, sys, threading, time
import numpy as np
import halfulp

def pressed_after(seconds, work):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        work()
        return "finished"
    except KeyboardInterrupt:
        return time.monotonic() - start
"""


@pytest.mark.parametrize("work", ["rsqrt(halfulp.encode(np.full(1 << 22, 0.7), 'fp64'), 'fp64', codes=True)", "rem(halfulp.encode(np.full(1 << 23, 1e300), 'fp64'), np.uint64(1), 'fp64', codes=True)"])
def test_ctrl_c_ends_operations(work):
    """Calls that compute for half a minute."""
    seconds = in_a_process(PRESSED + f"print(pressed_after(1.5, lambda: halfulp.{work}))")
    assert seconds.strip() != "finished" and float(seconds) < 8


def test_ctrl_c_ends_waiting():
    """A thread runs a long command. The main thread waits for its turn, and Ctrl-C stops its waiting."""
    seconds = in_a_process(PRESSED + """
threading.Thread(target=lambda: halfulp.verify("mul", "bf16", against="oracle", exhaustive=True), daemon=True).start()
time.sleep(0.5)
print(pressed_after(0.3, lambda: halfulp.explain(1, "fp16")))
sys.stdout.flush()
os._exit(0)  # the thread goes on
""")
    assert 0.2 < float(seconds) < 5


def test_forks_beside_a_command():
    """A child forked while a thread runs a command lacks that thread. The child gets an error, and the parent goes
    on."""
    assert in_a_process("""
import os, threading, time, warnings
import halfulp
warnings.simplefilter("ignore")
threading.Thread(target=lambda: halfulp.verify("mul", "bf16", against="oracle", exhaustive=True), daemon=True).start()
time.sleep(0.3)
child = os.fork()
if child == 0:
    try:
        halfulp.explain(1, "fp16")
    except RuntimeError as why:
        os._exit(7 if "forked" in str(why) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
""").strip() == "7"


def test_forks_between_commands():
    assert in_a_process("""
import os, warnings
import halfulp
warnings.simplefilter("ignore")
halfulp.explain(1, "fp16")
child = os.fork()
if child == 0:
    os._exit(0 if halfulp.explain(1, "fp16")["is_exact"] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""").strip() == "0"


def test_other_interpreters_leave_this_one_whole():
    assert in_a_process("""
try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        interpreters = None
import halfulp
if interpreters is not None:
    try:
        interpreters.run_string(interpreters.create(), "import halfulp")
    except Exception as why:
        pass
print(halfulp.quantize(300, "e4m3"), halfulp.Format("e4m3").max, flush=True)
import os
os._exit(0)
""").split() == ["288.0", "448.0"]


def test_an_instruction_set_of_the_environment_is_heeded_or_refused():
    def imported(name):
        program = "import halfulp._core as core; print(core.instruction_set())"
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "HALFULP_INSTRUCTION_SET": name})

    refused = imported("AVX9")
    last = refused.stderr.splitlines()[-1]
    assert refused.returncode != 0
    assert last.startswith("ImportError: HALFULP_INSTRUCTION_SET: unknown instruction set 'AVX9'")
    for name in last.split("accepted: ")[1].split(", "):
        assert imported(name).stdout.strip() == name
