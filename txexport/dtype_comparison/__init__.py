"""Comparison of a bundle's dtypes: size, accuracy, speed; on ONNX Runtime, without PyTorch."""

from txexport.errors import needed_for

with needed_for("compare-dtypes"):
    from txexport.dtype_comparison.comparison import compare_dtypes
    from txexport.dtype_comparison.result import DtypeComparison, DtypeResult

__all__ = ["DtypeComparison", "DtypeResult", "compare_dtypes"]
