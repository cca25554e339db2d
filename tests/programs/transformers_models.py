"""Models of Hugging Face's transformers with random weights, small: a model and what it is called with.

This file runs under PyTorch, and under `rushlight run` as well (tests/programs/directly.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers as tr

WORDS = 61
SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
DECODER = dict(vocab_size=WORDS, **SIZES, num_key_value_heads=2, max_position_embeddings=64)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

Inputs = dict[str, Any]


class Case(NamedTuple):
    model: Callable[[], Any]
    inputs: Callable[[int, int], Inputs]  # of a batch and a length
    generates: bool = False  # text, of its inputs without labels


def words(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, WORDS, (batch, length))


def text(batch: int, length: int) -> Inputs:
    ids = words(batch, length)
    return {"input_ids": ids, "labels": ids.clone()}


def text_with_mask(batch: int, length: int) -> Inputs:
    inputs = text(batch, length)
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, length // 2 :] = 0
    return dict(inputs, attention_mask=mask)


def image(batch: int, _: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 16, 16), "labels": torch.randint(0, 5, (batch,))}


def text_and_image(batch: int, length: int) -> Inputs:
    ids = words(batch, length)
    ids[:, -1] = 2
    return {"input_ids": ids, "pixel_values": torch.randn(batch, 3, 16, 16), "return_loss": True}


def speech(batch: int, length: int) -> Inputs:
    return {"input_features": torch.randn(batch, 8, 32), "labels": words(batch, length)}


def gpt2() -> Any:
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    model = tr.GPT2LMHeadModel(tr.GPT2Config(vocab_size=WORDS, **sizes, **dropout))
    model.loss_type = (
        "ForCausalLM"  # its class's name does not tell: transformers would log that, in every run
    )
    return model


def t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4, "dropout_rate": 0.0}
    return tr.T5ForConditionalGeneration(
        tr.T5Config(vocab_size=WORDS, **sizes, decoder_start_token_id=0, pad_token_id=0)
    )


def whisper() -> Any:
    layers = {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    }
    widths = {"d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 8}
    places = {"max_source_positions": 16, "max_target_positions": 32}
    marks = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    quiet = {"suppress_tokens": [], "begin_suppress_tokens": [], "dropout": 0.0}
    return tr.WhisperForConditionalGeneration(
        tr.WhisperConfig(vocab_size=WORDS, **layers, **widths, **places, **marks, **quiet)
    )


def clip() -> Any:
    marks = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    text_config = dict(vocab_size=WORDS, **SIZES, max_position_embeddings=32, **marks)
    vision_config = dict(**SIZES, image_size=16, patch_size=4)
    return tr.CLIPModel(
        tr.CLIPConfig(text_config=text_config, vision_config=vision_config, projection_dim=16)
    )


def bert() -> Any:
    return tr.BertForMaskedLM(
        tr.BertConfig(vocab_size=WORDS, **SIZES, max_position_embeddings=64, **NO_DROPOUT)
    )


def vit() -> Any:
    return tr.ViTForImageClassification(
        tr.ViTConfig(**SIZES, image_size=16, patch_size=4, num_labels=5, **NO_DROPOUT)
    )


def mamba() -> Any:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "state_size": 4, "time_step_rank": 4}
    return tr.MambaForCausalLM(tr.MambaConfig(vocab_size=WORDS, **sizes))


def mixtral(**settings: Any) -> Any:
    config = tr.MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2)
    model = tr.MixtralForCausalLM(config)
    for name, value in settings.items():
        getattr(model, name)(value)
    return model


CASES: dict[str, Case] = {
    "gpt2": Case(gpt2, text, True),
    "llama": Case(lambda: tr.LlamaForCausalLM(tr.LlamaConfig(**DECODER)), text, True),
    "bert": Case(bert, text_with_mask),
    "t5": Case(t5, text, True),
    "vit": Case(vit, image),
    "mamba": Case(mamba, text, True),
    "whisper": Case(whisper, speech, True),
    "clip": Case(clip, text_and_image),
    "qwen": Case(lambda: tr.Qwen3ForCausalLM(tr.Qwen3Config(**DECODER, head_dim=8)), text, True),
    "gemma": Case(lambda: tr.Gemma2ForCausalLM(tr.Gemma2Config(**DECODER, head_dim=8)), text, True),
    "mixtral": Case(mixtral, text, True),
    # experts as one batched product, of operators of PyTorch only
    "mixtral, batched": Case(lambda: mixtral(set_experts_implementation="batched_mm"), text),
}
