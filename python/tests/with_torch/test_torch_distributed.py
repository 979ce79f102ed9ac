"""The communication hook with two processes over gloo, and the orders by hand."""
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
if not torch.distributed.is_available():
    pytest.skip("torch without distributed", allow_module_level=True)
import halfulp.torch as ht  # noqa: E402
from halfulp.torch._distributed import summed  # noqa: E402

PROGRAM = """
import os, sys, torch, torch.distributed as dist, halfulp.torch as ht
rank, where, order, rounding = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
dist.init_process_group("gloo", init_method=f"file://{where}", rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.Linear(7, 5)
x = torch.randn(2, 6, 7)[rank]
own = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
parallel = torch.nn.parallel.DistributedDataParallel(model)
parallel.register_comm_hook(None, ht.communication_hook("e5m2", order=order, sums="bf16", rounding=rounding, seed=3))
parallel(x).square().sum().backward()
torch.save([[p.grad.clone() for p in model.parameters()], own], f"{where}.{rank}")
dist.barrier()
os._exit(0)  # torch's own processes abort now and then where they end their groups
"""


@pytest.mark.parametrize("order", ["sequential", "ring", "tree"])
@pytest.mark.parametrize("rounding", ["nearest-even", "stochastic"])
def test_two_processes(tmp_path, order, rounding):
    where = tmp_path / "meeting"
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    children = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(rank), str(where), order, rounding], env=environment, stderr=subprocess.PIPE, text=True) for rank in range(2)]
    for child in children:
        _, trouble = child.communicate(timeout=120)
        assert child.returncode == 0, trouble[-2000:]
    (a, own_a), (b, own_b) = (torch.load(f"{where}.{rank}", weights_only=True) for rank in range(2))
    for p, q, mine, theirs in zip(a, b, own_a, own_b):
        assert torch.equal(p, q)
        if rounding == "nearest-even":
            total = ht.quantize(ht.quantize(mine, "e5m2") + ht.quantize(theirs, "e5m2"), "bf16")
            assert torch.equal(p, ht.quantize(total / 2, "bf16"))


def test_orders_differ_where_sums_round():
    parts = [torch.tensor([v, v, v]) for v in (256.0, 1.0, 1.0, 1.0)]
    bf16 = lambda x, i, at: ht.quantize(x, "bf16")
    assert summed(parts, "sequential", bf16).tolist() == [256, 256, 256]
    assert summed(parts, "tree", bf16).tolist() == [258, 258, 258]
    # Part 0 begins with 256, which swallows the rest; part 1 ends with it; part 2 adds it before its last.
    assert summed(parts, "ring", bf16).tolist() == [256, 260, 260]
    with pytest.raises(ValueError, match="^order: "):
        ht.communication_hook(order="star")
