"""captum: what a convolutional network's answers are due to, by four methods."""

from captum.attr import DeepLift, IntegratedGradients, LayerGradCam, Saliency
from driver import numbers, same_weights, serve
from torch import nn

model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 64, 10),
).eval()  # fmt: skip
same_weights(model)
images = numbers("images", 4, 3, 32, 32)
saliency, gradients, lift = Saliency(model), IntegratedGradients(model), DeepLift(model)
cam = LayerGradCam(model, model[3])


def step():
    return [
        saliency.attribute(images, target=3),
        gradients.attribute(images, target=3, n_steps=16),
        lift.attribute(images, target=3),
        cam.attribute(images, target=3),
    ]


serve(step)
