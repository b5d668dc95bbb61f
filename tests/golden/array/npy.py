"""Writes the files that the test of npy reads: every dtype and layout, and archives of them.

Run with NumPy 2.4 in this folder: python npy.py
"""

import numpy as np

values = np.array([[0, 1, -2], [100, -128, 127]])
for name in ["f2", "f4", "f8", "i1", "i2", "i4", "i8"]:
    np.save(f"{name}.npy", values.astype(name))
for name in ["u1", "u2", "u4", "u8"]:
    np.save(f"{name}.npy", np.abs(values).astype(name))
np.save("b1.npy", values > 0)
for name in [">f8", ">f4", ">i8", ">i2", ">u4", ">f2"]:
    np.save(f"big_{name[1:]}.npy", values.astype(name))
np.save("fortran.npy", np.asfortranarray(values.astype("f4")))
np.save("scalar.npy", np.array(2.5))
np.save("empty.npy", np.zeros((0, 3), "f4"))
np.save("long.npy", np.arange(5000, dtype="f4").reshape(2, 2500) * 0.5)
np.save("half.npy", np.array([np.inf, -np.inf, np.nan, 6e-8, -6.1e-5, 65504, 0.1, -0.0], "f2"))
np.save("too_large.npy", np.array([2**63], "u8"))
np.save("complex.npy", np.array([1j]))
np.save("record.npy", np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]))
with open("version2.npy", "wb") as file:
    np.lib.format.write_array(file, values.astype("f8"), version=(2, 0))
arrays = {"weight": values.astype("f4"), "a b/c": np.arange(3), "bias": np.array(True)}
np.savez("stored.npz", **arrays)
np.savez_compressed("compressed.npz", **arrays)
texts = {
    "unicode": np.array("naïve 𝄞"),
    "bytes": np.array("plain".encode()),
    "big": np.array("größer", ">U6"),
    "none": np.array(""),
    "several": np.array(["a", "b"]),
    "pickled": np.array(None),
    "record": np.array([(1, 2.0)], [("a]'", "i4"), ("b", "f4")]),
    "numbers": np.arange(3),
}
np.savez("texts.npz", **texts)
