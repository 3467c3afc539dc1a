"""Bare onnxruntime, as most people use it. Run by an environment of its own, which has no acceptd:

``python ask_onnxruntime.py load|run MODEL [FEEDS.npz ...]``; exit 1 with one line where it says no.
"""

import sys
from typing import Any


def invented(session: Any) -> dict[str, Any]:
    """Return zeros for each input; a free dimension is one."""
    import numpy as np

    kinds = {
        "tensor(float)": np.float32,
        "tensor(double)": np.float64,
        "tensor(float16)": np.float16,
        "tensor(bool)": np.bool_,
    }
    return {
        one.name: np.zeros(
            [size if isinstance(size, int) else 1 for size in one.shape], kinds.get(one.type, np.int64)
        )
        for one in session.get_inputs()
    }


def main() -> int:
    """Load, or load and run."""
    what, model, *feeds = sys.argv[1:]
    try:
        import numpy as np
        import onnxruntime

        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        if what == "run":
            for feed in [dict(np.load(file)) for file in feeds] or [invented(session)]:
                session.run(None, feed)
    except Exception as error:
        print(f"no: {type(error).__name__}: {error}")
        return 1
    print("yes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
