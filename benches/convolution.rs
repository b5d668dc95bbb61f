//! How fast convolutions and the two products of their derivatives are, beside the largest rate at
//! which matrix products run.
//!
//! `cargo bench -p bibun-benches --bench convolution [-- filter]` prints a Markdown table; set
//! `RAYON_NUM_THREADS=1` to look at the kernels alone. The weights are made twice: summed over the
//! examples, and for each example by itself, which are the groups of one large convolution. Limits:
//! every element of the result is at least written once, and the product of 512 x 512 matrices,
//! which runs in turns with the rest, is what the cores give.

use std::hint::black_box;
use std::time::Instant;

use bibun_array::{Array, Convolution, ConvolutionPart, DType, Generator, Window, matmul};

/// One convolution over square images.
struct Case {
    examples: usize,
    groups: usize,
    /// All input channels, and their size along both axes.
    input: [usize; 2],
    /// All output channels.
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

const fn case(
    examples: usize,
    groups: usize,
    input: [usize; 2],
    outputs: usize,
    [kernel, stride, padding, dilation]: [usize; 4],
) -> Case {
    Case {
        examples,
        groups,
        input,
        outputs,
        kernel,
        stride,
        padding,
        dilation,
    }
}

const CASES: &[Case] = &[
    case(256, 1, [1, 28], 16, [8, 2, 3, 1]),
    case(256, 1, [16, 13], 32, [4, 2, 0, 1]),
    case(64, 1, [1, 28], 32, [3, 1, 0, 1]),
    case(64, 1, [32, 26], 64, [3, 1, 0, 1]),
    case(64, 1, [3, 32], 32, [3, 1, 1, 1]),
    case(64, 1, [32, 32], 32, [3, 1, 1, 1]),
    case(64, 1, [64, 16], 64, [3, 1, 1, 1]),
    case(64, 1, [64, 8], 128, [3, 1, 1, 1]),
    case(64, 1, [128, 8], 128, [3, 1, 1, 1]),
    case(32, 1, [256, 4], 256, [3, 1, 1, 1]),
    case(64, 1, [64, 16], 256, [1, 1, 0, 1]),
    case(64, 1, [32, 16], 32, [3, 1, 2, 2]),
    case(64, 64, [64, 16], 64, [3, 1, 1, 1]),
    case(64, 8, [64, 16], 64, [3, 1, 1, 1]),
    case(1, 1, [8, 8], 8, [3, 1, 1, 1]),
];

impl Case {
    fn convolution(&self) -> Convolution {
        let window = Window {
            kernel: self.kernel,
            stride: self.stride,
            padding: [self.padding; 2],
            dilation: self.dilation,
        };
        Convolution {
            groups: self.groups,
            inputs: self.input[0] / self.groups,
            outputs: self.outputs / self.groups,
            sizes: [self.input[1]; 2].into(),
            windows: [window; 2].into_iter().collect(),
        }
    }

    fn name(&self) -> String {
        let [inputs, size] = self.input;
        let mut name = format!("{inputs}->{} k{}", self.outputs, self.kernel);
        let settings = [
            ("s", self.stride, 1),
            ("p", self.padding, 0),
            ("d", self.dilation, 1),
            ("g", self.groups, 1),
        ];
        for (letter, value, usual) in settings {
            if value != usual {
                name += &format!(" {letter}{value}");
            }
        }
        name + &format!(", {size}x{size}, {} examples", self.examples)
    }
}

/// Seconds that a call takes, of as many calls as take about two milliseconds.
fn time(calls: usize, f: &dyn Fn() -> Array) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(f());
    }
    start.elapsed().as_secs_f64() / calls as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let mut generator = Generator::new(0);
    let mut normal = |shape: &[usize]| generator.normal(shape, 0.0, 1.0, DType::F32);
    let square = normal(&[512, 512]);
    println!("| convolution | part | µs | GF/s | of matmul |");
    println!("|---|---|---|---|---|");
    for case in CASES {
        let name = case.name();
        if filter.as_ref().is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let all = case.convolution();
        let n = case.examples;
        let each = Convolution {
            groups: n * all.groups,
            ..all.clone()
        };
        use ConvolutionPart::{Input, Output, Weights};
        let [x, w, y] = [Input, Weights, Output].map(|part| normal(&all.shape(part, n)));
        let batch = |x: &Array, part| x.reshape(each.shape(part, 1));
        let (batch_of_x, batch_of_y) = (batch(&x, Input), batch(&y, Output));
        let parts: [(&str, &dyn Fn() -> Array); 5] = [
            ("matmul", &|| matmul(&square, &square)),
            ("output", &|| all.product(Output, &x, &w)),
            ("input", &|| all.product(Input, &w, &y)),
            ("weights", &|| all.product(Weights, &x, &y)),
            ("weights of each example", &|| {
                each.product(Weights, &batch_of_x, &batch_of_y)
            }),
        ];
        let calls = parts.map(|(_, f)| (2e-3 / time(2, f)).clamp(1.0, 1e4) as usize);
        let mut times = parts.map(|_| vec![]);
        for _ in 0..25 {
            for ((_, f), (&calls, times)) in parts.iter().zip(calls.iter().zip(&mut times)) {
                times.push(time(calls, f));
            }
        }
        let best = 2.0 * 512f64.powi(3) / median(&mut times[0]);
        let operations = 2.0 * w.size() as f64 * (y.size() / case.outputs) as f64;
        for ((part, _), times) in parts.iter().zip(&mut times).skip(1) {
            let time = median(times);
            let rate = operations / time;
            println!(
                "| {name} | {part} | {:.1} | {:.1} | {:.2} |",
                time * 1e6,
                rate * 1e-9,
                rate / best
            );
        }
    }
}
