"""Job ``inspect``: what a model file is, from its wire form to onnx.checker and shape inference."""

from __future__ import annotations

from sandbox.inspect.job import body, preload

__all__ = ["body", "preload"]
