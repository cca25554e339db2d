"""linear-attention-transformer: training of a causal language model."""

from driver import integers, same_weights, serve, training
from linear_attention_transformer import LinearAttentionTransformerLM
from torch.nn import functional as F

model = LinearAttentionTransformerLM(
    num_tokens=256, dim=128, heads=4, depth=2, max_seq_len=128, causal=True, blindspot_size=1
)
same_weights(model)
text = integers("text", 256, 4, 129)


def loss():
    scores = model(text[:, :-1])
    return F.cross_entropy(scores.transpose(1, 2), text[:, 1:])


serve(training(model, loss))
