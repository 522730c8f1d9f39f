"""Nobody pays for PyTorch's compiler who compiles nothing; who does finds it whole."""

import subprocess
import sys
from pathlib import Path

from trainshed.worker.lazy_compiler import NAME

ROOT = Path(__file__).resolve().parents[3]
LEAVE_OUT = "lazy_compiler.leave_out()"
# Trains as two workers do, with each optimizer, and says what it has learned.
TRAIN = """
import os, sys, threading
import torch
import torch.distributed as dist
from torch import nn
from trainshed.worker import lazy_compiler

dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
{before}
for kind in (torch.optim.AdamW, torch.optim.SGD):
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)))
    optimizer = kind(model.parameters(), lr=0.1)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        rates.step()
    optimizer.load_state_dict(optimizer.state_dict())
    print(sum(float(p.double().sum()) for p in model.parameters()).hex())
"""
# Who asks for the compiler, each in a process of its own, and what has to hold then.
ASK = """
import importlib.util, inspect
# Who only looks whether there is one does not get it.
assert importlib.util.find_spec("torch._dynamo").origin.endswith("_dynamo/__init__.py")
inspect.getmodule(lambda: 1)
assert 'torch._dynamo.eval_frame' not in sys.modules
zero_grad = torch.optim.Optimizer.zero_grad.__wrapped__
assert getattr(zero_grad, "__dynamo_disable") is zero_grad
asks = [
    "torch.compile(model.module, backend='eager')(torch.ones(2, 4))",
    "import torch._dynamo.config",
    "from torch._dynamo import testing, utils; utils.counters",
]
at_once = [
    *asks[1:] * 2,
    "torch._dynamo.config.suppress_errors",
    "torch._dynamo.utils.counters",
    "from torch._dynamo.utils import counters",
    "torch._dynamo.disable(lambda: 1)()",
]

def check():
    import importlib
    real = importlib.import_module("torch._dynamo")
    assert torch._dynamo is real is sys.modules["torch._dynamo"]
    assert real.__spec__.origin == real.__file__
    for name in ("config", "utils", "eval_frame"):
        part = importlib.import_module(f"torch._dynamo.{name}")
        assert part is getattr(real, name) is sys.modules[f"torch._dynamo.{name}"], name
        assert part.__spec__.origin == part.__file__, name
    assert real.utils.config is real.config
    ours = lazy_compiler.__name__
    assert not [found for found in sys.meta_path if type(found).__module__ == ours]
    # What may not be compiled is not compiled from now on either.
    assert getattr(zero_grad, "__dynamo_disable") is not zero_grad
    assert getattr(zero_grad, "__dynamo_disable")._torchdynamo_disable

def ask(words):
    try:
        exec(words, {"torch": torch, "model": model})
    except BaseException as error:
        failed.append((words, error))

sys.stdout.flush()
for words in [*([one] for one in asks), at_once]:
    if (child := os.fork()) == 0:
        failed = []
        threads = [threading.Thread(target=ask, args=(one,)) for one in words]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        assert not failed, failed
        check()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, words
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONPATH": "api:app", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_training_without_the_compiler_changes_no_bit_and_who_asks_has_the_whole_one() -> None:
    ours = run(TRAIN.format(before=LEAVE_OUT) + ASK)

    assert ours == run(TRAIN.format(before=""))


def test_a_compiler_that_is_there_stays() -> None:
    there = f"import {NAME}; real = {NAME}; {LEAVE_OUT}"

    run(TRAIN.format(before=there) + f"assert {NAME} is real is sys.modules['{NAME}']")
