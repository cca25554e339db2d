"""kornia: blurring, edges, colours, a warp and a similarity of images, and the gradient of it."""

import kornia
import torch
from driver import numbers, serve

images = numbers("images", 4, 3, 64, 64).sigmoid()
others = numbers("others", 4, 3, 64, 64).sigmoid()
angles = torch.tensor([5.0, -10.0, 20.0, 45.0])


def step():
    x = images.clone().requires_grad_()
    blurred = kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5))
    edges = kornia.filters.sobel(kornia.color.rgb_to_grayscale(blurred))
    turned = kornia.geometry.transform.rotate(x, angles)
    hue = kornia.color.rgb_to_hsv(turned.clamp(0.01, 0.99))
    loss = kornia.losses.ssim_loss(turned, others, window_size=5) + edges.mean() + hue[:, 1:].mean()
    loss.backward()
    return [loss, x.grad, kornia.enhance.equalize_clahe(images[:1, :1]).mean()]


serve(step)
