"""What a model of transformers_models.py gives, as JSON: run by PyTorch, and by `rushlight run`.

    python directly.py MODEL...

Weights and inputs come from NumPy, so that both have the same.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
import torch
import transformers
from transformers_models import CASES, WORDS

CALLS = 20  # the last ones run compiled code: of the model, or of the modules in it
warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()


def same_weights(model: Any) -> None:
    draw = np.random.default_rng(0)
    with torch.no_grad():
        for name, tensor in sorted(model.state_dict().items()):
            if tensor.is_floating_point():
                values = np.asarray(draw.standard_normal(tuple(tensor.shape)) * 0.1, np.float32)
                values += "norm" in name.lower() and name.endswith("weight")
                tensor.copy_(torch.from_numpy(values))


def same_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    draw, found = np.random.default_rng(1), {}
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor) and name != "attention_mask":
            shape = tuple(value.shape)
            if value.is_floating_point():
                value = torch.from_numpy(draw.standard_normal(shape).astype(np.float32))
            elif value.dim() == 1:
                value = torch.from_numpy(draw.integers(0, 5, shape))
            else:
                value = torch.from_numpy(draw.integers(3, WORDS, shape))
                value[:, -1] = 2
        found[name] = value
    return found


def results(name: str) -> dict[str, Any]:
    case = CASES[name]
    model = case.model().eval()
    same_weights(model)
    inputs = same_inputs(case.inputs(2, 9))
    for _ in range(CALLS):
        model.zero_grad()
        out = model(**inputs)
        out.loss.backward()
    logits = out.logits if hasattr(out, "logits") else out.logits_per_text
    grads = {n: p.grad.norm().item() for n, p in model.named_parameters() if p.grad is not None}
    found = {"loss": out.loss.item(), "logits": logits.tolist(), "gradients": grads}
    if case.generates:
        given = {k: v for k, v in inputs.items() if k in ("input_ids", "input_features", "attention_mask")}
        found["text"] = model.generate(**given, max_new_tokens=6, do_sample=False).tolist()
    return found


print(json.dumps({name: results(name) for name in sys.argv[1:]}))
