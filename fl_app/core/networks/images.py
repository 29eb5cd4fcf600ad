# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the two networks of the paper. Their weights are drawn from torch's global generator."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fl_app.core.sizes import check_sizes
from fl_app.core.torchvision_compat import load_torchvision

SMALLEST_IMAGE_PIXELS = 8  # both networks halve the image three times
ONEDNN_CHANNEL_BLOCK = 16  # channels that oneDNN processes together


def cnn(classes: int, in_channels: int = 1, image_size: int = 28) -> nn.Module:
    """Build the CNN of the prototype: 109,402 parameters for 26 classes of 28x28x1.

    Parameters
    ----------
    classes
        Number of classes, 2 or more.
    in_channels
        Number of channels of an image.
    image_size
        Height and width of an image in pixels.
    """
    _check(classes, in_channels, image_size)

    def stage(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.ReLU(), nn.MaxPool2d(2)]

    features = 80 * (image_size // 8) ** 2
    return in_fast_layout(
        nn.Sequential(
            *stage(in_channels, 24, 5), *stage(24, 96, 3), *stage(96, 80, 3), nn.Flatten(), nn.Linear(features, classes)
        )
    )


def resnet18(classes: int, in_channels: int = 1, image_size: int = 28, width: int = 64) -> nn.Module:
    """Build torchvision's ResNet-18 with the stem for small images: 3x3 without stride, and no pooling after it.

    It has 11,173,962 parameters for 10 classes of 32x32x3.

    Parameters
    ----------
    classes
        Number of classes, 2 or more.
    in_channels
        Number of channels of an image.
    image_size
        Height and width of an image in pixels.
    width
        Number of channels of the first stage.
    """
    _check(classes, in_channels, image_size, width)
    resnet = load_torchvision().models.resnet
    block = resnet.BasicBlock
    model: Any = resnet.ResNet(block, [2, 2, 2, 2], num_classes=classes)
    model.inplanes = width  # _make_layer reads the number of input channels here, and updates it
    model.conv1 = nn.Conv2d(in_channels, width, kernel_size=3, padding=1, bias=False)
    model.bn1 = nn.BatchNorm2d(width)
    model.maxpool = nn.Identity()
    for number in range(4):
        layer = model._make_layer(block, width * 2**number, 2, stride=1 if number == 0 else 2)
        if number > 0 and width * 2 ** (number - 1) < ONEDNN_CHANNEL_BLOCK:
            layer[0].downsample[0] = PickingConv2d(layer[0].downsample[0])
        setattr(model, f"layer{number + 1}", layer)
    model.fc = nn.Linear(8 * width, classes)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):  # torchvision initialises them in the same way in its constructor
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return in_fast_layout(model)


class PickingConv2d(nn.Conv2d):
    """Compute a strided 1x1 convolution by picking the pixels first; parameters and results are the same.

    oneDNN writes past its workspace in the backward pass of a strided 1x1 convolution if the input is channels last and
    has fewer channels than oneDNN's block (uxlfoundation/oneDNN#6035). Without the stride it does not.
    """

    def __init__(self, strided: nn.Conv2d) -> None:
        super().__init__(strided.in_channels, strided.out_channels, 1, strided.stride, bias=False)  # type: ignore[arg-type]

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        down, across = self.stride
        return nn.functional.conv2d(image[:, :, ::down, ::across], self.weight)


def in_fast_layout(model: nn.Module) -> nn.Module:
    """Bring a convolutional network into channels last: on a CPU up to three times faster than contiguous."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def layout_of(model: nn.Module) -> torch.memory_format:
    """Return the memory layout in which a model wants its images: that of its own weights."""
    images = [parameter for parameter in model.parameters() if parameter.dim() == 4]
    last = any(one.is_contiguous(memory_format=torch.channels_last) and not one.is_contiguous() for one in images)
    return torch.channels_last if last else torch.contiguous_format


def _check(classes: int, in_channels: int, image_size: int, width: int = 1) -> None:
    check_sizes(2, classes=classes)
    check_sizes(1, in_channels=in_channels, width=width)
    check_sizes(SMALLEST_IMAGE_PIXELS, image_size=image_size)
