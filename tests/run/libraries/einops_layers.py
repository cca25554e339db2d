"""einops: a mixer of patches, of layers of einops."""

from driver import integers, numbers, same_weights, serve, training
from einops import rearrange, reduce
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn
from torch.nn import functional as F


class Mixer(nn.Module):
    def __init__(self, width=128, tokens=64):
        super().__init__()
        self.patches = nn.Sequential(
            Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), nn.Linear(48, width)
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    EinMix("b n c -> b m c", weight_shape="n m", bias_shape="m", n=tokens, m=tokens),
                    nn.LayerNorm(width),
                    nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)),
                ]
            )
            for _ in range(4)
        )
        self.head = nn.Sequential(Reduce("b n c -> b c", "mean"), nn.Linear(width, 10))

    def forward(self, x):
        x = self.patches(x)
        for first, tokens, second, channels in self.blocks:
            x = x + tokens(first(x))
            x = x + channels(second(x))
        largest = reduce(x, "b n c -> b 1 c", "max")
        return self.head(x + rearrange(largest, "b 1 c -> b 1 c"))


model = Mixer()
same_weights(model)
images, labels = numbers("images", 16, 3, 32, 32), integers("labels", 10, 16)
serve(training(model, lambda: F.cross_entropy(model(images), labels)))
