//! Products and sums in Einstein's notation.
