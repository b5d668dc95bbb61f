//! Linear algebra against the numbers of NumPy and SciPy (`tests/golden/linalg/make.py`).

use bibun::array::{Array, DType, Generator, Shape};
use bibun::linalg::{self, MatrixNorm, VectorNorm};
use bibun::{Variable, compile, grad, hessian, vmap};

const GOLDEN: &str = include_str!("../golden/linalg/values.txt");

fn array(text: &str) -> Option<Array> {
    let mut words = text.split_whitespace();
    let rank: usize = words.next()?.parse().expect("a rank");
    let shape: Vec<usize> = (0..rank)
        .map(|_| words.next().expect("a size").parse().expect("a size"))
        .collect();
    let elements = words.map(|word| word.parse::<f64>().expect("a number"));
    Some(Array::from_vec(elements.collect(), shape))
}

fn matrix_norm(order: &str) -> MatrixNorm {
    match order {
        "fro" | "None" => MatrixNorm::Fro,
        "nuc" => MatrixNorm::Nuc,
        "1" => MatrixNorm::One,
        "-1" => MatrixNorm::NegOne,
        "2" => MatrixNorm::Two,
        "-2" => MatrixNorm::NegTwo,
        "inf" => MatrixNorm::Inf,
        "-inf" => MatrixNorm::NegInf,
        _ => panic!("a norm {order}"),
    }
}

fn vector_norm(order: &str) -> VectorNorm {
    match order {
        "0" => VectorNorm::NonZero,
        "inf" => VectorNorm::Inf,
        "-inf" => VectorNorm::NegInf,
        p => VectorNorm::P(p.parse().expect("a number")),
    }
}

fn computed(name: &str, a: Variable, b: Option<Variable>) -> Variable {
    let b = || b.clone().expect("a second argument");
    match name.split_whitespace().collect::<Vec<_>>()[..] {
        ["solve"] => linalg::solve(a, b()),
        ["inv"] => linalg::inv(a),
        ["det"] => linalg::det(a),
        ["log", ..] => linalg::slogdet(a).1,
        ["sign", ..] => linalg::slogdet(a).0,
        ["expm"] => linalg::expm(a),
        ["matrix_power"] => linalg::matrix_power(a, 3),
        ["cond", order] => linalg::cond(a, matrix_norm(order)),
        ["lu", "p"] => linalg::lu(a).p,
        ["lu", "l"] => linalg::lu(a).l,
        ["lu", "u"] => linalg::lu(a).u,
        ["svdvals"] => linalg::svdvals(a),
        ["pinv"] => linalg::pinv(a),
        ["lstsq"] => linalg::lstsq(a, b()),
        ["matrix_rank"] => linalg::matrix_rank(a),
        ["qr", "q"] => linalg::qr(a).q,
        ["qr", "r"] => linalg::qr(a).r,
        ["matrix_norm", order] => linalg::matrix_norm(a, matrix_norm(order), ..),
        ["vector_norm", order] => linalg::vector_norm(a, vector_norm(order), ..),
        ["cov"] => linalg::cov(a, 1),
        ["corrcoef"] => linalg::corrcoef(a),
        ["cholesky"] => linalg::cholesky(a),
        ["eigvalsh"] => linalg::eigvalsh(a),
        ["sqrtm"] => linalg::sqrtm(a),
        ["logm"] => linalg::logm(a),
        ["fractional_matrix_power"] => linalg::fractional_matrix_power(a, -0.5),
        ["kron"] => linalg::kron(a, b()),
        ["block_diag"] => linalg::block_diag([a, b()]),
        ["cross"] => linalg::cross(a, b(), -1),
        ["vander"] => linalg::vander(a, 4, false),
        _ => panic!("a function {name}"),
    }
}

#[test]
fn the_numbers_of_numpy_and_scipy() {
    let mut names = std::collections::BTreeSet::new();
    let mut matrices = Vec::new();
    for line in GOLDEN.lines() {
        let parts: Vec<&str> = line.split(';').collect();
        let (name, number, b, expected) = match parts[..] {
            ["matrix", a] => {
                matrices.push(array(a).expect("a matrix"));
                continue;
            }
            [name, number, b, expected] => (name, number, b, expected),
            _ => panic!("{line}"),
        };
        names.insert(name);
        let a: Array = matrices[number.trim().parse::<usize>().expect("a number")].clone();
        let y = computed(name, Variable::new(a.clone()), array(b).map(Variable::new));
        let expected = array(expected).expect("a result").to_vec::<f64>();
        let size = expected.iter().fold(0.0f64, |size, x| size.max(x.abs()));
        // Of the matrix of Hilbert, a solution has as many wrong digits as its condition says, in both libraries.
        let condition = match a.rank() == 2 && a.shape()[0] == a.shape()[1] {
            true => linalg::cond(Variable::new(a), MatrixNorm::Two).item::<f64>(),
            false => 10.0,
        };
        let y = y.cast(bibun::array::DType::F64).to_vec::<f64>();
        assert_eq!(y.len(), expected.len(), "{name}");
        for (y, expected) in y.iter().zip(&expected) {
            let apart = (y - expected).abs() / size;
            assert!(
                apart <= 1e-13 + 1e-15 * condition,
                "{name}: {y} and {expected}, {apart:e}"
            );
        }
    }
    assert!(names.len() >= 45, "{names:?}");
}

/// The logarithm of the density of a Gaussian, in three ways, with all derivatives, for a batch and in a program.
#[test]
fn densities_agree_in_every_way() {
    let by_cholesky = |a: &Variable, x: &Variable| {
        let l = linalg::cholesky(a);
        let z = linalg::triangular_solve(&l, x.expand_dims(-1), linalg::Triangle::Lower);
        -0.5 * z.square().sum(..) - l.diagonal(0, [0, 1]).log().sum(..)
    };
    let by_solve = |a: &Variable, x: &Variable| {
        -0.5 * (x * linalg::solve(a, x)).sum(..) - 0.5 * linalg::logdet(a)
    };
    let by_eigenvalues = |a: &Variable, x: &Variable| {
        let (w, v) = linalg::eigh(a);
        let z = x.matmul(v);
        -0.5 * (z.square() / &w).sum(..) - 0.5 * w.log().sum(..)
    };
    let a = Variable::new([[3.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.0]]);
    let x = Variable::constant([0.3, -1.0, 2.0]);
    let close = |a: &[f64], b: &[f64], what: &str| {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < 1e-12, "{what}: {a} and {b}");
        }
    };
    type Way<'a> = &'a dyn Fn(&Variable, &Variable) -> Variable;
    let ways: [Way<'_>; 3] = [&by_cholesky, &by_solve, &by_eigenvalues];
    // All of them of the symmetric part, so that they have one derivative.
    let all = ways.map(|way| {
        let f = |a: &Variable| way(&((a + a.swapaxes(0, 1)) * 0.5), &x);
        [f(&a), grad(f, &a), hessian(f, &a)].map(|y| y.to_vec::<f64>())
    });
    for way in &all[1..] {
        for (found, expected) in way.iter().zip(&all[0]) {
            close(found, expected, "a way");
        }
    }
    let x = x.detach();
    let f = move |a: &Variable| grad(|a| by_cholesky(a, &x), a);
    let batch = Variable::new(Array::from([1.0, 2.0, 5.0]).reshape([3, 1, 1])) * a.expand_dims(0);
    let mapped = vmap(&f, &batch).to_vec::<f64>();
    let program = compile(f.clone());
    for i in 0..3 {
        let own = batch.slice(bibun::s![i]);
        let alone = f(&own).to_vec::<f64>();
        close(&mapped[i as usize * 9..][..9], &alone, "vmap");
        close(&program.call(&own).to_vec::<f64>(), &alone, "compile");
    }
}

fn normal(shape: [usize; 2], seed: u64) -> Array {
    Generator::new(seed).normal(shape, 0.0, 1.0, DType::F64)
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * largest, "{what}: {a} and {b}");
    }
}

/// The direction of a derivative does not decide how far the exponential is scaled down.
#[test]
fn derivatives_of_exponentials_are_linear() {
    let a = Variable::new(normal([3, 3], 0));
    let slopes = |scale: f64| grad(|a| linalg::expm(a).sum(..) * scale, &a).to_vec::<f64>();
    let one = slopes(1.0);
    for scale in [1e-200, 1e-9, 1e4, 1e12, 1e16, 1e200] {
        let found: Vec<f64> = slopes(scale).iter().map(|x| x / scale).collect();
        assert_near(&found, &one, 1e-13, &format!("{scale:e}"));
    }
    let nothing = Variable::new(Array::zeros([2, 0, 0], DType::F64));
    assert_eq!(
        grad(|a| linalg::expm(a).sum(..), &nothing).shape(),
        [2, 0, 0]
    );
    assert_eq!(
        grad(|a| linalg::expm(a).sum(..) * 0.0, &a).to_vec::<f64>(),
        [0.0; 9]
    );
}

/// Orders on both sides of the border between loops and blocks.
#[test]
fn singular_matrices_of_any_order() {
    for n in [5, 16, 17, 40] {
        let what = format!("order {n}");
        let ones = Variable::new(Array::ones([n, n], DType::F64));
        assert_eq!(linalg::det(&ones).item::<f64>(), 0.0, "{what}");
        let slopes = grad(|a| linalg::det(a).square().sum(..), &ones).to_vec::<f64>();
        assert!(slopes.iter().all(|&x| x == 0.0), "{what}");
        let zeros = Variable::new(Array::zeros([n, n], DType::F64));
        let found = linalg::slogdet(&zeros);
        assert_eq!(found.1.item::<f64>(), f64::NEG_INFINITY, "{what}");
        let mut gap = Array::eye(n, DType::F64).to_vec::<f64>();
        gap[0] = 0.0;
        for a in [
            Array::from_vec(gap, [n, n]),
            Array::ones([n, 5], DType::F64),
            Array::ones([5, n], DType::F64),
            normal([n, n], 1).triu(1),
        ] {
            let factors = linalg::lu(Variable::constant(&a));
            let product = factors.p.matmul(&factors.l).matmul(&factors.u);
            assert_near(&product.to_vec::<f64>(), &a.to_vec::<f64>(), 1e-14, &what);
        }
    }
}

#[test]
fn singular_values_at_both_ends_of_the_range() {
    for shape in [[5, 5], [17, 17], [20, 3], [3, 20]] {
        let a = normal(shape, 1);
        let values = |scale: f64| linalg::svdvals(Variable::constant(&a * scale)).to_vec::<f64>();
        let one = values(1.0);
        for scale in [1e-300, 1e-200, 1e155, 1e300] {
            let found: Vec<f64> = values(scale).iter().map(|x| x / scale).collect();
            assert_near(&found, &one, 1e-13, &format!("{shape:?} {scale:e}"));
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (square, tall) = (normal([140, 140], 2), normal([1500, 20], 3));
    let all = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads").install(|| {
            let mut all = Vec::new();
            for a in [&square, &tall].map(Variable::constant) {
                let linalg::Qr { q, r } = linalg::qr(&a);
                all.extend([q, r, linalg::svdvals(&a)]);
            }
            let square = Variable::constant(&square);
            let (sign, size) = linalg::slogdet(&square);
            all.extend([sign, size, linalg::inv(&square), linalg::eigvalsh(&square)]);
            all.iter()
                .flat_map(|x| x.to_vec::<f64>())
                .collect::<Vec<f64>>()
        })
    };
    let one = all(1);
    let two = all(2);
    assert!(
        one.iter()
            .zip(&two)
            .all(|(a, b)| a.to_bits() == b.to_bits())
    );
}

#[test]
fn programs_of_matrices_without_elements() {
    for shape in [vec![0, 0], vec![2, 0, 0]] {
        let a = Variable::constant(Array::zeros(Shape::new(&shape), DType::F64));
        let f = |a: &Variable| linalg::inv_ex(a);
        let (y, info) = compile(f).call(&a);
        assert_eq!(y.shape(), a.shape());
        assert_eq!(info.shape(), shape[..shape.len() - 2]);
    }
}

/// Of small and of large orders, beside the real matrices `[[b, -c], [c, b]]`.
#[test]
fn exponentials_of_complex_matrices() {
    use bibun::functions::{concat, imag, real};

    for n in [1, 3, 20, 40] {
        let part = |seed| Generator::new(seed).normal([2, n, n], 0.0, 0.5, DType::F64);
        let (b, c) = (Variable::constant(part(1)), Variable::constant(part(2)));
        let above = concat([&b, &-&c], -1);
        let whole = concat([above, concat([&c, &b], -1)], -2);
        let expected = linalg::expm(whole).slice(bibun::s![.., .., ..n as isize]);
        let y = linalg::expm(bibun::functions::complex(b, c));
        let found = concat([real(&y), imag(y)], -2);
        let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
        let size = expected.iter().fold(1.0f64, |size, x| size.max(x.abs()));
        let apart = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let most = apart.fold(0.0, f64::max) / size;
        assert!(most < 1e-13, "{most:e} of order {n}");
    }
}
