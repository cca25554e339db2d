"""vit-pytorch: training of a vision transformer."""

from driver import declare_vision, integers, numbers, same_weights, serve, training

declare_vision()

from torch.nn import functional as F  # noqa: E402
from vit_pytorch import ViT  # noqa: E402

model = ViT(image_size=32, patch_size=4, num_classes=10, dim=128, depth=4, heads=4, mlp_dim=256)
same_weights(model)
images, labels = numbers("images", 16, 3, 32, 32), integers("labels", 10, 16)
serve(training(model, lambda: F.cross_entropy(model(images), labels)))
