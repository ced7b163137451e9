"""Arrays of any kind as the extension reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import Error


def to_array(what: str, value: Any) -> npt.NDArray[np.float64]:
    """Numbers as contiguous float64; the extension asks for it where it cannot read an array in place."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise Error(f"{what} has masked values", "fill them, or leave their rows out")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as reason:
        raise Error(f"expected numbers for {what}: {reason}", "give an array of float64") from None
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise Error(
            f"expected numbers for {what}, found an array of {array.dtype}",
            "convert it with numpy.asarray(…, dtype=numpy.float64)",
        )
    return np.require(array, dtype=np.float64, requirements=["C", "ALIGNED"])
