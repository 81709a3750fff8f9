"""A convolution and a batch norm (He et al. 2016, 3.4)."""

from torch import Tensor, nn

from txexport.spec import BatchNormSpec
from txmodels.batch_norm import BatchNorm


class ConvolutionNorm(nn.Module):
    """A convolution without a bias, and a batch norm; one of 2 by 2 places has no padding."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, eps: float):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, bias=False)
        self.norm = BatchNorm(BatchNormSpec(outputs, eps))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,height,width) -> y (B,outputs,height/stride,width/stride), rounded up."""
        y: Tensor = self.norm(self.convolution(x))
        return y


class DepthwiseNorm(nn.Module):
    """A convolution of each channel alone without a bias, and a batch norm (Howard et al. 2017, 3.1)."""

    def __init__(self, size: int, kernel: int, stride: int, eps: float):
        super().__init__()
        self.convolution = nn.Conv2d(size, size, kernel, stride, kernel // 2, groups=size, bias=False)
        self.norm = BatchNorm(BatchNormSpec(size, eps))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,size,height,width) -> y (B,size,height/stride,width/stride), rounded up."""
        y: Tensor = self.norm(self.convolution(x))
        return y
