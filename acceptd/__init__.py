"""acceptd: the gate that every ONNX model passes before production."""

__version__ = "0.1.0"
