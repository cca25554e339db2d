"""peft: adaption of a GPT-2 by matrices of low rank."""

from driver import declare_vision, integers, same_weights, serve, training

declare_vision()  # transformers imports torchvision where there is one

from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

config = GPT2Config(
    vocab_size=256,
    n_positions=64,
    n_embd=128,
    n_layer=2,
    n_head=4,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
)
model = get_peft_model(
    GPT2LMHeadModel(config),
    LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True),
)
same_weights(model)
text = integers("text", 256, 4, 64)
serve(training(model, lambda: model(input_ids=text, labels=text).loss))
