"""Tells which public functions of PyTorch and JAX have no row in the chapter every-function.md, and which rows
are of none.

    python every_function.py
"""

import importlib
import inspect
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
CHAPTER = os.path.join(HERE, "..", "..", "..", "docs", "src", "every-function.md")

# What does not apply, as the chapter says.
OTHER = re.compile(
    "quantiz|cudnn|mkldnn|miopen|sparse|autocast|fake_quant|torch_function|dlpack|printoptions|rng_state"
    "|default_d|deterministic|num_threads|type_comment|batch_norm_|_copy$|_copy_|_indices$|^_|_$"
    "|^(q_|sym_|set_|get_|native|unsafe|fbgemm|parse|import_ir|prepare|profiler|compiled_with|unify|init_num"
    "|is_anomaly|is_vulkan|is_storage|is_distributed|is_inference|is_neg|is_conj|resolve|boolean_dispatch"
    "|assert_int|fused_moving|thread_safe|classproperty|Optional|typename|scaled_(mm|addmm|grouped|dot_general"
    "|matmul))"
    "|^(sspaddmm|smm|hsmm|spmm|hspmm|saddmm|dsmm|fork|wait|choose_qparams_optimized|int_repr|is_tensor"
    "|is_warn_always_enabled|iterable|array_repr|array_str|frompyfunc|einsum_path|from_file|frombuffer"
    "|fromfile|fromstring|empty_strided|empty_permuted|apply_over_axes|grouped_mm|slice_inverse|as_strided"
    "|as_strided_scatter|spacing|resize)$"
)


KEPT = ("ix_", "tril_indices", "triu_indices")


def functions(module):
    for name in dir(module):
        value = getattr(module, name)
        apart = inspect.ismodule(value) or inspect.isclass(value) or not callable(value)
        if not apart and (not OTHER.search(name) or name in KEPT):
            yield name


def main():
    text = open(CHAPTER, encoding="utf-8").read()
    for section in text.split("\n## ")[1:]:
        title, rows = section.split("\n", 1)
        module = importlib.import_module(title.split("`")[1])
        told = set(re.findall(r"^\| `(\w+)` \|", rows, re.M))
        real = set(functions(module))
        for name in sorted(real - told):
            print(f"{module.__name__}.{name} has no row")
        for name in sorted(told - real):
            print(f"{module.__name__}.{name} does not exist")


main()
