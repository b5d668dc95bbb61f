//! One step of training a 784-100-100-10 network at batch 128: forward, loss, backward, update.
//!
//! `cargo bench -p bibun-benches --bench training_step`. The limit: 6 x 128 x (784 x 100 + 100 x 100 +
//! 100 x 10) floating-point operations less the first layer's input gradient, 2 x 128 x 784 x 100:
//! about 49 million, over the machine's peak.

mod mlp_step;

use divan::Bencher;

#[divan::bench]
fn mlp_784_100_100_10_batch_128(bencher: Bencher<'_, '_>) {
    bencher.bench_local(mlp_step::mlp_step());
}

fn main() {
    divan::main();
}
