"""Session entries of onnxruntime: which a profile may set, and which are always set. Standard library only.

Both sides read this list: a wrong profile is an error when it is loaded, and a run refuses it again.
"""

from __future__ import annotations

from typing import Final

FIXED: Final = {
    "session.load_model_format": "ONNX",
    "session.intra_op.allow_spinning": "0",
    "session.inter_op.allow_spinning": "0",
    "session.record_ep_graph_assignment_info": "1",
}
ALLOWED: Final = frozenset({
    "session.set_denormal_as_zero", "session.disable_prepacking", "session.disable_quant_qdq",
    "session.disable_double_qdq_remover", "session.disable_qdq_constant_folding",
    "session.enable_quant_qdq_cleanup", "session.qdqisint8allowed", "session.x64quantprecision",
    "session.disable_aot_function_inlining", "session.disable_cpu_ep_fallback", "session.dynamic_block_base",
    "session.force_spinning_stop", "session.function_expansion_node_limit",
    "session.function_expansion_byte_limit", "session.strict_shape_type_inference",
    "session.allow_released_opsets_only", "session.graph_optimizations_loop_level",
    "session.use_deterministic_compute", "session.use_device_allocator_for_initializers",
    "session.qdq_matmulnbits_accuracy_level", "session.enable_dq_matmulnbits_fusion",
    "optimization.enable_gelu_approximation", "optimization.enable_cast_chain_elimination",
    "optimization.disable_specified_optimizers", "optimization.constant_folding_max_output_size_in_bytes",
    "mlas.disable_kleidiai", "mlas.use_lut_gemm", "mlas.qnbit.force_fp32",
})  # fmt: skip
"""Session entries a profile may set: none of them writes a file, loads a library, starts a profile,
or changes the parser or the thread count."""
MAX_VALUE: Final = 1024
"""Longest value of an entry, in bytes (onnxruntime_session_options_config_keys.h; newer versions take more)."""
