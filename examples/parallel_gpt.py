"""A GPT trained in many processes: data parallel, sharded, tensor parallel, or all of them.

    rushlight launch -n 4 examples/parallel_gpt.py --mesh shard=2,tensor=2
    rushlight plan-parallel examples/parallel_gpt.py --mesh data=8..1024 --latency 2us --bandwidth 100Gbit/s

The dimensions of the mesh say what processes share: `data` has copies of the model (DistributedDataParallel, or
copies of shards), `shard` pieces of it (fully_shard), `tensor` pieces of its products (parallelize_module). The
first command trains, the second predicts how long a step takes and how much memory a process needs. GPT_SIZE
chooses the model: small or medium.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import Replicate
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from rushlight.nn import functional as F
from rushlight.planning import RankProgram


@dataclass(frozen=True)
class Config:
    """The size of the model, and of the batch of one process."""

    layers: int = 4
    heads: int = 4
    width: int = 128
    length: int = 64
    rows: int = 8
    vocabulary: int = 512


SIZES = {
    "small": Config(),
    "medium": Config(layers=6, heads=8, width=512, length=256, rows=2, vocabulary=4096),
}


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.width
        self.head_width = width // config.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        rows, length, _ = x.shape
        given = self.norm1(x)
        q, k, v = (
            part(given).view(rows, length, -1, self.head_width).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(rows, length, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.length, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions(rl.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


TENSOR_PLAN: dict[str, Any] = {
    **{f"blocks.*.{name}": ColwiseParallel() for name in ("query", "key", "value", "up")},
    **{f"blocks.*.{name}": RowwiseParallel() for name in ("out", "down")},
    "head": ColwiseParallel(output_layouts=Replicate()),
}


def parallel(model: Any, mesh: Any) -> Any:
    """The model as the processes of a mesh have it."""
    names = mesh.mesh_dim_names
    if "tensor" in names:
        model = parallelize_module(model, mesh["tensor"], TENSOR_PLAN)
    if "shard" in names:
        outer = mesh[tuple(name for name in names if name in ("data", "shard"))]
        for block in model.blocks:
            fully_shard(block, mesh=outer)
        return fully_shard(model, mesh=outer)
    if "data" in names:
        if "tensor" in names:
            raise ValueError("data and tensor without shard: use shard=1")
        return nn.parallel.DistributedDataParallel(model, device_mesh=mesh, gradient_as_bucket_view=True)
    return model


def build(mesh: Any) -> RankProgram:
    """What one process of a mesh has."""
    config = SIZES[os.environ.get("GPT_SIZE", "small")]
    rl.manual_seed(0)
    model = parallel(GPT(config), mesh)
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-3)

    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, config.vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    part = 0 if "tensor" not in mesh.mesh_dim_names else mesh.get_local_rank("tensor")
    rl.manual_seed(1 + (dist.get_rank() - part))  # processes that share tensors see the same data
    return RankProgram(
        model, optimizer, step, (rl.randint(0, config.vocabulary, (config.rows, config.length + 1)),)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mesh", default="data=-1", help="NAME=SIZE,...; a size of -1 is what is left")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    dist.init_process_group()
    sizes = {name: int(size) for name, _, size in (part.partition("=") for part in options.mesh.split(","))}
    known = 1
    for size in sizes.values():
        known *= max(size, 1)
    shape = tuple(dist.get_world_size() // known if size < 0 else size for size in sizes.values())
    mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=tuple(sizes))
    program = build(mesh)
    step = rl.compile(program.step, fullgraph=True)
    for number in range(options.steps):
        loss = step(*program.inputs)
        if dist.get_rank() == 0 and number % 5 == 4:
            print(f"step {number + 1}: loss {float(loss):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
