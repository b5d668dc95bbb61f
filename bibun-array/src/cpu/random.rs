//! Random numbers, computed by vector instructions for many blocks at once and on all threads.

use pulp::{Arch, Simd, WithSimd};

use super::elementwise::PARALLEL;
use super::is_plain;
use super::threads::{chunks, for_each};
use crate::random::{
    Distribution, below, join_words, normal_pair_f32, normal_pair_f64, number_block, word,
};
use crate::{Array, DType, Element, Scalar, Shape, ops};

/// The number of blocks computed at once: 4 KiB, which stay in the first-level cache.
const BLOCKS: usize = 256;

/// See [`Device::random`](crate::Device::random).
pub(super) fn random(
    distribution: Distribution,
    keys: &[u64],
    counter: u64,
    shape: &Shape,
) -> Array {
    let stream = Streams { keys, counter };
    match distribution {
        Distribution::Uniform {
            low,
            high,
            dtype: stored @ (DType::F16 | DType::BF16 | DType::F32),
        } => {
            let last = number_below(Scalar::F64(high).cast(stored)).to_f64() as f32;
            let (low, width) = (low as f32, high as f32 - low as f32);
            let unit = 1.0 / (1 << 24) as f32;
            let x = stream.draw(
                shape,
                #[inline(always)]
                move |_, _, words: [u32; 4]| {
                    words.map(
                        #[inline(always)]
                        |word| (low + width * ((word >> 8) as f32 * unit)).min(last),
                    )
                },
            );
            ops::cast(x, stored)
        }
        Distribution::Uniform { low, high, .. } => {
            let (width, last) = (high - low, high.next_down());
            let unit = 1.0 / (1u64 << 53) as f64;
            stream.draw(
                shape,
                #[inline(always)]
                move |_, _, words| {
                    pairs(words).map(
                        #[inline(always)]
                        |word| (low + width * ((word >> 11) as f64 * unit)).min(last),
                    )
                },
            )
        }
        Distribution::Normal {
            mean,
            std,
            dtype: stored @ (DType::F16 | DType::BF16 | DType::F32),
        } => {
            let (mean, std) = (mean as f32, std as f32);
            let x = stream.draw(
                shape,
                #[inline(always)]
                move |_, _, words: [u32; 4]| {
                    let [a, b] = normal_pair_f32(words[0], words[1]);
                    let [c, d] = normal_pair_f32(words[2], words[3]);
                    [
                        mean + std * a,
                        mean + std * b,
                        mean + std * c,
                        mean + std * d,
                    ]
                },
            );
            ops::cast(x, stored)
        }
        Distribution::Normal { mean, std, .. } => stream.draw(
            shape,
            #[inline(always)]
            move |_, _, words| {
                let [first, second] = pairs(words);
                let [a, b] = normal_pair_f64(first, second);
                [mean + std * a, mean + std * b]
            },
        ),
        Distribution::Integers { low, high } => {
            let range = high.wrapping_sub(low) as u64;
            stream.draw(
                shape,
                #[inline(always)]
                move |key, counter, words| {
                    let words = pairs(words);
                    std::array::from_fn::<i64, 2, _>(
                        #[inline(always)]
                        |i| {
                            let number = below(range, |attempt| match attempt {
                                0 => words[i],
                                _ => word(key, counter, i, attempt),
                            });
                            low.wrapping_add(number as i64)
                        },
                    )
                },
            )
        }
        Distribution::Bernoulli(bound) => stream.draw(
            shape,
            #[inline(always)]
            move |_, _, words: [u32; 4]| {
                words.map(
                    #[inline(always)]
                    |word| u64::from(word) < bound,
                )
            },
        ),
    }
}

/// The next lower number of a finite one.
fn number_below(high: Scalar) -> Scalar {
    let sign = 1 << (8 * high.dtype().size() - 1);
    let bits = high.to_bits();
    let next = match bits & sign {
        0 if bits == 0 => sign | 1,
        0 => bits - 1,
        _ if bits == sign => sign | 1,
        _ => bits + 1,
    };
    Scalar::from_bits(high.dtype(), next)
}

#[inline(always)]
fn pairs([a, b, c, d]: [u32; 4]) -> [u64; 2] {
    [join_words(a, b), join_words(c, d)]
}

/// Streams at the same counter.
#[derive(Clone, Copy)]
struct Streams<'a> {
    keys: &'a [u64],
    counter: u64,
}

impl Streams<'_> {
    /// An array of the elements that `make(key, counter, words)` makes from each block, with an
    /// equal part from each stream.
    fn draw<T: Element, const N: usize>(
        self,
        shape: &Shape,
        make: impl Fn(u64, u64, [u32; 4]) -> [T; N] + Copy + Sync,
    ) -> Array {
        let Self { keys, counter } = self;
        Array::filled_by(shape.clone(), |out: &mut [T]| {
            let threads = rayon::current_num_threads();
            let parallel = out.len() >= PARALLEL && threads > 1;
            let fill = &|key, counter, out: &mut [T]| {
                Arch::new().dispatch(Fill {
                    key,
                    counter,
                    out,
                    make,
                });
            };
            if let &[key] = keys {
                if !parallel {
                    return fill(key, counter, out);
                }
                let blocks = out.len().div_ceil(4 * threads * N);
                return for_each(chunks(out, blocks * N), true, 1, &|i, out| {
                    fill(key, counter.wrapping_add((i * blocks) as u64), out);
                });
            }
            if out.is_empty() {
                return;
            }
            let size = out.len() / keys.len();
            for_each(
                chunks(out, size),
                parallel,
                1,
                &|i, out| match size > FEW * N {
                    true => fill(keys[i], counter, out),
                    // Preparing for many blocks would take longer than making a few.
                    false => one_by_one(keys[i], counter, out, make),
                },
            );
        })
    }
}

/// Up to this many blocks of a stream are made one by one.
const FEW: usize = 8;

/// Fills `out` without vectors.
#[inline(never)]
fn one_by_one<T: Element, const N: usize>(
    key: u64,
    counter: u64,
    out: &mut [T],
    make: impl Fn(u64, u64, [u32; 4]) -> [T; N],
) {
    for (i, out) in out.chunks_mut(N).enumerate() {
        let counter = counter.wrapping_add(i as u64);
        let made = make(key, counter, number_block(key, counter, 0));
        out.copy_from_slice(&made[..out.len()]);
    }
}

struct Fill<'a, T, F> {
    key: u64,
    counter: u64,
    out: &'a mut [T],
    make: F,
}

impl<T, const N: usize, F> WithSimd for Fill<'_, T, F>
where
    T: Element,
    F: Fn(u64, u64, [u32; 4]) -> [T; N],
{
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            key,
            counter,
            out,
            make,
        } = self;
        let (whole, rest) = out.split_at_mut(match const { is_plain::<S>() } {
            true => 0,
            false => out.len() / N * N,
        });
        let mut words = [[0; 4]; BLOCKS];
        for (i, out) in whole.chunks_mut(BLOCKS * N).enumerate() {
            let counter = counter.wrapping_add((i * BLOCKS) as u64);
            let (out, _) = out.as_chunks_mut::<N>();
            for (j, words) in words[..out.len()].iter_mut().enumerate() {
                *words = number_block(key, counter.wrapping_add(j as u64), 0);
            }
            for (j, (out, &words)) in out.iter_mut().zip(&words).enumerate() {
                *out = make(key, counter.wrapping_add(j as u64), words);
            }
        }
        let done = (whole.len() / N) as u64;
        one_by_one(key, counter.wrapping_add(done), rest, make);
    }
}
