"""onnx.checker with its full check. Run by an environment of its own, which has no acceptd:

``python ask_onnx.py MODEL``; exit 1 with one line where it says no.
"""

import sys


def main() -> int:
    """Check one file by its path, so that external data is looked at too."""
    try:
        import onnx

        onnx.checker.check_model(sys.argv[1], full_check=True)
    except Exception as error:
        print(f"no: {type(error).__name__}: {error}")
        return 1
    print("yes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
