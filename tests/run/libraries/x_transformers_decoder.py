"""x-transformers: training of a decoder with rotary embeddings and gated feed forward layers."""

from driver import integers, same_weights, serve, training
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=256,
        max_seq_len=128,
        attn_layers=Decoder(dim=128, depth=4, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True),
    )
)
same_weights(model)
text = integers("text", 256, 4, 129)
serve(training(model, lambda: model(text)))
