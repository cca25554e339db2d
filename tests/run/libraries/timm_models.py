"""timm: training of a ResNet and a vision transformer, and prediction with a ConvNeXt."""

import torch
from driver import declare_vision, integers, numbers, same_weights, serve, training

declare_vision()

import timm  # noqa: E402
from torch.nn import functional as F  # noqa: E402

images, labels = numbers("images", 4, 3, 64, 64), integers("labels", 10, 4)


def trained(model):
    same_weights(model)
    return training(model, lambda: F.cross_entropy(model(images), labels), lr=1e-4)


steps = [
    trained(timm.create_model("resnet18", num_classes=10)),
    trained(timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10, depth=4)),
]
convnext = timm.create_model("convnext_atto", num_classes=10).eval()
same_weights(convnext)


def step():
    found = [train() for train in steps]
    with torch.no_grad():
        return [*found, convnext(images)]


serve(step)
