//! The book's programs, compiled and run. `tests/bibun/book.rs` sees to it that no chapter is missing.

macro_rules! chapters {
    ($($name:ident: $file:literal,)*) => {$(
        #[doc = include_str!(concat!("../../../docs/src/", $file))]
        struct $name;
    )*};
}

chapters! {
    Arrays: "arrays.md",
    Compiled: "compiled.md",
    Data: "data.md",
    Design: "design.md",
    Distributions: "distributions.md",
    EveryFunction: "every-function.md",
    Extensions: "extensions.md",
    Fourier: "fourier.md",
    FromChainer: "from-chainer.md",
    FromJax: "from-jax.md",
    FromPyTorch: "from-pytorch.md",
    Functions: "functions.md",
    Idea: "idea.md",
    LinearAlgebra: "linear-algebra.md",
    Links: "links.md",
    Names: "names.md",
    Optimizers: "optimizers.md",
    OwnFunctions: "own-functions.md",
    Parallel: "parallel.md",
    Peers: "peers.md",
    PerExample: "per-example.md",
    Performance: "performance.md",
    Saving: "saving.md",
    Start: "start.md",
    Training: "training.md",
    Transformations: "transformations.md",
}
