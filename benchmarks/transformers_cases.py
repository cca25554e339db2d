"""Models of Hugging Face's transformers with random weights, and what they are called with.

Of medium size: 4 layers of width 256 (T5 and Whisper: 2 of the encoder and 2 of the decoder; Mamba: 2), heads of
64, 2048 words; batches of 4 texts of 128 words (Mamba: of 32, for Dynamo unrolls its loop over positions), of 4
images of 112 x 112, of 2 seconds of sound. Small, with MODEL_SIZE=small: half the layers, width, words, batch and
length. Dropout is off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers as tr

HALF = {"medium": 1, "small": 2}[os.environ.get("MODEL_SIZE", "medium")]
WORDS, LAYERS, WIDTH, HEADS, BATCH, LENGTH = (n // HALF for n in (2048, 4, 256, 4, 4, 128))
SIZES = {
    "num_hidden_layers": LAYERS,
    "hidden_size": WIDTH,
    "intermediate_size": 4 * WIDTH,
    "num_attention_heads": HEADS,
}
DECODER = {
    **SIZES,
    "vocab_size": WORDS,
    "intermediate_size": 688 // HALF,
    "num_key_value_heads": HEADS // 2,
    "max_position_embeddings": 512,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
IMAGES = {"image_size": 112, "patch_size": 16}

Inputs = dict[str, Any]


class Case(NamedTuple):
    model: Callable[[], Any]
    inputs: Callable[[int, int], Inputs]  # of a batch and a length
    batch: int = BATCH
    length: int = LENGTH


def text(batch: int, length: int) -> Inputs:
    ids = torch.randint(3, WORDS, (batch, length))
    return {"input_ids": ids, "labels": ids.clone()}


def text_with_mask(batch: int, length: int) -> Inputs:
    inputs = text(batch, length)
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, length // 2 :] = 0
    return dict(inputs, attention_mask=mask)


def image(batch: int, _: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 112, 112), "labels": torch.randint(0, 100, (batch,))}


def text_and_image(batch: int, length: int) -> Inputs:
    ids = torch.randint(3, WORDS, (batch, length))
    ids[:, -1] = 2
    return {"input_ids": ids, "pixel_values": torch.randn(batch, 3, 112, 112), "return_loss": True}


def speech(batch: int, length: int) -> Inputs:
    return {"input_features": torch.randn(batch, 80, 200), "labels": torch.randint(3, WORDS, (batch, length))}


def gpt2() -> Any:
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 512}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    marks = {"bos_token_id": 1, "eos_token_id": 2}
    model = tr.GPT2LMHeadModel(tr.GPT2Config(vocab_size=WORDS, **sizes, **dropout, **marks))
    model.loss_type = "ForCausalLM"  # its class's name does not tell: transformers would log that
    return model


def t5() -> Any:
    sizes = {
        "d_model": WIDTH,
        "d_kv": WIDTH // HEADS,
        "d_ff": 4 * WIDTH,
        "num_layers": LAYERS // 2,
        "num_heads": HEADS,
        "dropout_rate": 0.0,
    }
    marks = {"decoder_start_token_id": 0, "pad_token_id": 0}
    return tr.T5ForConditionalGeneration(tr.T5Config(vocab_size=WORDS, **sizes, **marks))


def whisper() -> Any:
    layers = {
        "encoder_layers": LAYERS // 2,
        "decoder_layers": LAYERS // 2,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
    }
    widths = {"d_model": WIDTH, "encoder_ffn_dim": 4 * WIDTH, "decoder_ffn_dim": 4 * WIDTH}
    places = {"num_mel_bins": 80, "max_source_positions": 100, "max_target_positions": 256}
    marks = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    quiet = {"suppress_tokens": [], "begin_suppress_tokens": [], "dropout": 0.0}
    return tr.WhisperForConditionalGeneration(
        tr.WhisperConfig(vocab_size=WORDS, **layers, **widths, **places, **marks, **quiet)
    )


def clip() -> Any:
    marks = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    words = dict(vocab_size=WORDS, **SIZES, max_position_embeddings=LENGTH, **marks)
    pictures = dict(**SIZES, **IMAGES)
    return tr.CLIPModel(tr.CLIPConfig(text_config=words, vision_config=pictures, projection_dim=WIDTH))


def bert() -> Any:
    config = tr.BertConfig(vocab_size=WORDS, **SIZES, max_position_embeddings=512, **NO_DROPOUT)
    return tr.BertForMaskedLM(config)


def vit() -> Any:
    return tr.ViTForImageClassification(tr.ViTConfig(**SIZES, **IMAGES, num_labels=100, **NO_DROPOUT))


def mamba() -> Any:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS // 2, "state_size": 16}
    return tr.MambaForCausalLM(tr.MambaConfig(vocab_size=WORDS, **sizes))


def mixtral() -> Any:
    return tr.MixtralForCausalLM(tr.MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2))


CASES: dict[str, Case] = {
    "gpt2": Case(gpt2, text),
    "llama": Case(lambda: tr.LlamaForCausalLM(tr.LlamaConfig(**DECODER)), text),
    "bert": Case(bert, text_with_mask),
    "t5": Case(t5, text),
    "vit": Case(vit, image),
    "mamba": Case(mamba, text, length=LENGTH // 4),
    "whisper": Case(whisper, speech, length=LENGTH // 2),
    "clip": Case(clip, text_and_image, length=LENGTH // 2),
    "qwen": Case(lambda: tr.Qwen3ForCausalLM(tr.Qwen3Config(**DECODER, head_dim=64)), text),
    "gemma": Case(lambda: tr.Gemma2ForCausalLM(tr.Gemma2Config(**DECODER, head_dim=64)), text),
    "mixtral": Case(mixtral, text),
}
