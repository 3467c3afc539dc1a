"""Build helpers: suites of real models, and the comparison of their verdicts with plain onnxruntime."""
