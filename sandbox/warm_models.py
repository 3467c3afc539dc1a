"""The built-in models that warm a parent up, as bytes: an interpreter that only runs needs no onnx.

``tests/unit/test_sandbox_warm.py`` holds them against what onnx.helper builds.
"""

from __future__ import annotations

import base64
from typing import Final

TINY: Final = base64.b64decode(
    "CAg61AEKEQoBeAoBdxIBeSIGTWF0TXVsChAKAXkKAWISA3N1bSIDQWRkCicKA3N1bRIBcCIHU29mdG1heCoUCgRheGlzGP//"
    "/////////wGgAQISBHdhcm0qOwgECAMQASIwAAAAPwAAAD8AAAA/AAAAPwAAAD8AAAA/AAAAPwAAAD8AAAA/AAAAPwAAAD8A"
    "AAA/QgF3KhUIAxABIgwAAAA/AAAAPwAAAD9CAWJaFAoBeBIPCg0IARIJCgMSAW4KAggEYhQKAXASDwoNCAESCQoDEgFuCgII"
    "A0IECgAQDQ=="
)
"""float32 ``x`` [n,4] to ``p`` [n,3]: MatMul, Add, Softmax."""
TEXT: Final = base64.b64decode(
    "CAg6dApACgV3b3JkcxIFcGxhaW4iEFN0cmluZ05vcm1hbGl6ZXIqHgoSY2FzZV9jaGFuZ2VfYWN0aW9uIgVMT1dFUqABAxIE"
    "d2FybVoUCgV3b3JkcxILCgkICBIFCgMSAW1iFAoFcGxhaW4SCwoJCAgSBQoDEgFtQgQKABAN"
)
"""StringNormalizer over string ``words`` [m] to ``plain`` [m]."""
