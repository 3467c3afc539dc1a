"""Output shapes of matrix products, convolutions and poolings (formulas of the ONNX operator pages)."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.inspect.known import Attributes, Known, Shape
from sandbox.inspect.sizes import at, broadcast, sizes


def matmul(_a: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """A (batched) matrix product."""
    left, right = at(inputs, 0).shape, at(inputs, 1).shape
    if left is None or right is None or not left or not right:
        return [None] * count
    batch = broadcast([left[:-2], right[:-2]])
    if batch is None:
        return [None] * count
    tail = (*(left[-2:-1] if len(left) > 1 else ()), *(right[-1:] if len(right) > 1 else ()))
    return [(*batch, *tail)] * count


def gemm(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """Gemm."""
    left, right = at(inputs, 0).shape, at(inputs, 1).shape
    if left is None or right is None or len(left) != 2 or len(right) != 2:
        return [(None, None)] * count
    rows = left[1] if attributes.integer("transA", 0) else left[0]
    return [(rows, right[0] if attributes.integer("transB", 0) else right[1])] * count


def _windowed(
    size: int | None, kernel: int, stride: int, dilation: int, pads: tuple[int, int], *, ceil: bool
) -> int | None:
    if size is None or stride <= 0:
        return None
    room = size + sum(pads) - dilation * (kernel - 1) - 1
    out = (room + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (out - 1) * stride >= size + pads[0]:
        out -= 1  # no window begins behind the padding
    return max(out, 0)


def spatial(attributes: Attributes, shape: Shape, kernel: Sequence[int | None]) -> list[int | None]:
    """Return the spatial sizes of a convolution or pooling over ``shape`` (N, C, …) with a known kernel."""
    rank = len(shape) - 2
    strides = attributes.integers("strides") or (1,) * rank
    dilations = attributes.integers("dilations") or (1,) * rank
    pads = attributes.integers("pads") or (0,) * 2 * rank
    auto = attributes.text("auto_pad", b"NOTSET")
    if len(kernel) != rank or len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        return [None] * max(rank, 0)
    out: list[int | None] = []
    for index in range(rank):
        size, window, stride = shape[index + 2], kernel[index], strides[index]
        if auto.startswith(b"SAME"):
            out.append(None if size is None or stride <= 0 else -(-size // stride))
        elif window is None:
            out.append(None)
        else:
            both = (0, 0) if auto == b"VALID" else (pads[index], pads[index + rank])
            ceil = bool(attributes.integer("ceil_mode", 0))
            out.append(_windowed(size, window, stride, dilations[index], both, ceil=ceil))
    return out


def conv(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """A convolution."""
    shape, weight = at(inputs, 0).shape, at(inputs, 1).shape
    if shape is None or weight is None or len(shape) != len(weight) or len(shape) < 3:
        return [None] * count
    return [(shape[0], weight[0], *spatial(attributes, shape, weight[2:]))] * count


def pool(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """A pooling."""
    shape, kernel = at(inputs, 0).shape, attributes.integers("kernel_shape")
    if shape is None or kernel is None or len(shape) < 3:
        return [None] * count
    return [(*shape[:2], *spatial(attributes, shape, kernel))] * count


def global_pool(_a: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """A pooling over all of the space."""
    shape = at(inputs, 0).shape
    return [None if shape is None else (*shape[:2], *(1,) * (len(shape) - 2))] * count


def conv_transpose(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """A transposed convolution."""
    shape, weight = at(inputs, 0).shape, at(inputs, 1).shape
    if shape is None or weight is None or len(shape) != len(weight) or len(shape) < 3:
        return [None] * count
    rank = len(shape) - 2
    channels = None if weight[1] is None else weight[1] * attributes.integer("group", 1)
    stated = attributes.integers("output_shape")
    if stated:
        return [(shape[0], channels, *stated[-rank:])] * count
    strides = attributes.integers("strides") or (1,) * rank
    dilations = attributes.integers("dilations") or (1,) * rank
    pads = attributes.integers("pads") or (0,) * 2 * rank
    extra = attributes.integers("output_padding") or (0,) * rank
    auto = attributes.text("auto_pad", b"NOTSET")
    if not len(strides) == len(dilations) == len(extra) == rank or len(pads) != 2 * rank:
        return [None] * count
    out: list[int | None] = []
    for index in range(rank):
        size, window, stride = shape[index + 2], weight[index + 2], strides[index]
        if size is None or window is None or stride <= 0:
            out.append(None)
        elif auto.startswith(b"SAME"):
            out.append(size * stride)
        else:
            both = 0 if auto == b"VALID" else pads[index] + pads[index + rank]
            out.append(stride * (size - 1) + extra[index] + (window - 1) * dilations[index] + 1 - both)
    return [(shape[0], channels, *out)] * count


def unpool(_a: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """A reversed pooling, whose output's shape is stated."""
    return [sizes(at(inputs, 2))] * count


def roi_align(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """Regions of interest, each cut to one size."""
    shape, regions = at(inputs, 0).shape, at(inputs, 1).shape
    if shape is None or regions is None or len(shape) != 4 or not regions:
        return [None] * count
    height, width = attributes.integer("output_height", 1), attributes.integer("output_width", 1)
    return [(regions[0], shape[1], height, width)] * count


def affine_grid(_a: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """A grid over an image of a stated size."""
    size = sizes(at(inputs, 1))
    if size is None or len(size) not in {4, 5}:
        return [None] * count
    return [(size[0], *size[2:], len(size) - 2)] * count


def einsum(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[Shape | None]:
    """Einstein's summation, where it spells out every axis."""
    left, arrow, right = attributes.text("equation", b"").replace(b" ", b"").partition(b"->")
    terms = left.split(b",")
    if len(left) > 256 or len(right) > 256 or b"." in left + right or len(terms) != len(inputs):
        return [None] * count
    found: dict[int, int | None] = {}
    for term, value in zip(terms, inputs, strict=True):
        if value.shape is None or len(value.shape) != len(term):
            return [None] * count
        for letter, size in zip(term, value.shape, strict=True):
            if found.get(letter, 1) == 1 or (found[letter] is None and size not in {1, None}):
                found[letter] = size
    if not arrow:
        right = bytes(sorted(letter for letter in found if left.count(letter) == 1))
    return [
        None if any(letter not in found for letter in right) else tuple(found[letter] for letter in right)
    ] * count
