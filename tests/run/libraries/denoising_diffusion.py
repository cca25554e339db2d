"""denoising-diffusion-pytorch: training of a U-Net on given noise (generators draw other numbers)."""

from driver import declare_vision, integers, numbers, same_weights, serve, training

declare_vision()

from denoising_diffusion_pytorch import GaussianDiffusion, Unet  # noqa: E402

model = Unet(dim=16, dim_mults=(1, 2, 4), flash_attn=False)
diffusion = GaussianDiffusion(model, image_size=16, timesteps=100)
same_weights(model)
images, noise = numbers("images", 4, 3, 16, 16), numbers("noise", 4, 3, 16, 16)
times = integers("times", 100, 4)
serve(training(model, lambda: diffusion.p_losses(images, times, noise=noise)))
