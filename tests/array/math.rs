//! The elementary functions against exact values, against each other in a wider type, against the
//! standard library, and at C99's special values.

use bibun_array::math::{Float, Machine};
use rayon::prelude::*;

/// A loop in the form in which the functions vectorise: inlined into pulp's dispatch.
struct Map<'a, T, F>(&'a [T], &'a mut [T], F);

impl<T: Machine, F: Fn(T) -> T> pulp::NullaryFnOnce for Map<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (y, &x) in self.1.iter_mut().zip(self.0) {
            *y = (self.2)(x);
        }
    }
}

fn map<T: Machine>(x: &[T], function: impl Fn(T) -> T) -> Vec<T> {
    let mut y = vec![T::NAN; x.len()];
    pulp::Arch::new().dispatch(Map(x, &mut y, function));
    y
}

/// The functions of one argument with the bounds that their docs state, in ulp.
macro_rules! for_each_unary {
    ($macro:ident) => {
        $macro! {
            exp 1.0; exp2 1.0; expm1 1.5; sigmoid 2.5; ln 1.0; log2 1.0; log10 1.0; log1p 1.0;
            softplus 2.5; sin 1.0; cos 1.0; tan 2.5; asin 2.5; acos 1.5; atan 2.0; sinh 2.5; cosh
            1.5; tanh 1.5; asinh 2.0; acosh 2.0; atanh 2.0; erf 1.5; erfc 5.0; erfinv 4.0;
            normal_distribution 6.5; normal_density 2.5; gelu 6.5; rsqrt 1.5; cbrt 1.0;
        }
    };
}

/// The functions of two arguments with their bounds.
macro_rules! for_each_binary {
    ($macro:ident) => {
        $macro! { powf 1.5; atan2 2.0; hypot 1.5; }
    };
}

/// The distance from one number with this many fraction bits to the next, around `x`.
fn ulp(x: f64, fraction_bits: i32, least_exponent: i32) -> f64 {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let unit = exponent.max(least_exponent) - fraction_bits;
    2.0_f64.powi(unit / 2) * 2.0_f64.powi(unit - unit / 2)
}

/// How far a result is off, in ulp of f64, where the exact value is `high + low`.
fn error_f64(got: f64, high: f64, low: f64) -> f64 {
    let error = ((got - high) - low).abs() / ulp(high, 52, -1022);
    if error.is_nan() { f64::INFINITY } else { error }
}

/// How far a result is off, in ulp of f32. Infinities, NaN and signs of zero must be those of the
/// exact value, rounded; but a function may be a fraction of an ulp late or early to overflow.
fn error_f32(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got.to_bits() == rounded.to_bits() && !got.is_finite() || got.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    let (sign_differs, zeros) = (
        got.is_sign_negative() != exact.is_sign_negative(),
        got == 0.0,
    );
    if got.is_nan() || exact.is_nan() || sign_differs && zeros && exact == 0.0 {
        return f64::INFINITY;
    }
    // One step beyond the largest number stands for infinity.
    let finite = |x: f64| x.clamp(-(2.0_f64.powi(128)), 2.0_f64.powi(128));
    (finite(got as f64) - finite(exact)).abs()
        / ulp(finite(exact).abs().min(f32::MAX as f64), 23, -126)
}

fn parse(text: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(text, 16).expect("sixteen hexadecimal digits"))
}

#[test]
fn f64_functions_match_the_exact_values() {
    let mut lines = 0;
    for line in include_str!("../golden/array/elementary.txt").lines() {
        let (name, numbers) = line.split_once(' ').expect("a name and numbers");
        let numbers: Vec<f64> = numbers.split(' ').map(parse).collect();
        macro_rules! unary {
            ($($name:ident $bound:literal;)+) => {
                match (name, &numbers[..]) {
                    $((stringify!($name), &[x, high, low]) => {
                        assert!(error_f64(Float::$name(x), high, low) <= $bound, "{name} {x:e}");
                    })+
                    ("lgamma" | "digamma", &[x, high, _]) => {
                        let got = if name == "lgamma" { x.lgamma() } else { x.digamma() };
                        assert!((got - high).abs() <= 1e-14 * high.abs(), "{name} {x:e} {got:e}");
                    }
                    _ => for_each_binary!(binary),
                }
            };
        }
        macro_rules! binary {
            ($($name:ident $bound:literal;)+) => {
                match (name, &numbers[..]) {
                    $((stringify!($name), &[x, y, high, low]) => {
                        let got = Float::$name(x, y);
                        assert!(error_f64(got, high, low) <= $bound, "{name} {x:e} {y:e} {got:e}");
                    })+
                    _ => panic!("{line}"),
                }
            };
        }
        for_each_unary!(unary);
        lines += 1;
    }
    assert!(lines > 1000, "only {lines} lines");
}

#[test]
fn f32_functions_match_f64_at_all_exponents() {
    // A prime step through the bit patterns meets every exponent, both signs, subnormals and NaN.
    let x: Vec<f32> = (0..=u32::MAX).step_by(4093).map(f32::from_bits).collect();
    let wide: Vec<f64> = x.iter().map(|&x| x as f64).collect();
    macro_rules! unary {
        ($($name:ident $bound:literal;)+) => { $(
            let exact = map(&wide, |x| Float::$name(x));
            for ((x, y), exact) in x.iter().zip(map(&x, |x| Float::$name(x))).zip(exact) {
                let error = error_f32(y, exact);
                assert!(error <= $bound, "{} {x:e}: {y:e}, not {exact:e}", stringify!($name));
            }
        )+ };
    }
    for_each_unary!(unary);
}

/// `cargo test --release -p bibun-array-tests every_f32 -- --ignored`
#[test]
#[ignore = "takes an hour of processor time"]
fn every_f32() {
    const PART: u64 = 1 << 20;
    type Worst = (f64, &'static str, f32);
    let worst = |part: u64| -> Vec<Worst> {
        let bits = part * PART..(part + 1) * PART;
        let numbers: Vec<f32> = bits.map(|bits| f32::from_bits(bits as u32)).collect();
        let wide: Vec<f64> = numbers.iter().map(|&x| x as f64).collect();
        let mut all = Vec::new();
        macro_rules! unary {
            ($($name:ident $bound:literal;)+) => { $(
                let found = map(&numbers, |x| Float::$name(x));
                let exact = map(&wide, |x| Float::$name(x));
                let pairs = numbers.iter().zip(found).zip(exact);
                let errors = pairs.map(|((&x, y), exact)| (error_f32(y, exact), x));
                let largest = |a: (f64, f32), b: (f64, f32)| if b.0 > a.0 { b } else { a };
                let (error, at) = errors.fold((0.0, 0.0), largest);
                all.push((error, stringify!($name), at));
            )+ };
        }
        for_each_unary!(unary);
        all
    };
    let larger = |a: Vec<Worst>, b: Vec<Worst>| {
        let pairs = a.into_iter().zip(b);
        pairs.map(|(a, b)| if b.0 > a.0 { b } else { a }).collect()
    };
    let parts = (0..(1_u64 << 32) / PART).into_par_iter().map(worst);
    let all = parts.reduce_with(larger).expect("there are numbers");
    println!("{all:?}");
    let mut bounds = Vec::new();
    macro_rules! unary {
        ($($name:ident $bound:literal;)+) => { bounds.extend([$($bound),+]) };
    }
    for_each_unary!(unary);
    let wrong: Vec<_> = all
        .into_iter()
        .zip(bounds)
        .filter(|(own, bound)| own.0 > *bound)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn f32_functions_match_f64_where_they_vary() {
    // A million numbers with magnitudes from 2^-12 to 2^7.
    let magnitudes = (115_u32 << 23..134 << 23).step_by(317);
    let x: Vec<f32> = magnitudes
        .flat_map(|bits| [bits, bits | 1 << 31])
        .map(f32::from_bits)
        .collect();
    let wide: Vec<f64> = x.iter().map(|&x| x as f64).collect();
    macro_rules! unary {
        ($($name:ident $bound:literal;)+) => { $(
            let exact = map(&wide, |x| Float::$name(x));
            for ((x, y), exact) in x.iter().zip(map(&x, |x| Float::$name(x))).zip(exact) {
                let error = error_f32(y, exact);
                assert!(error <= $bound, "{} {x:e}: {y:e}, not {exact:e}", stringify!($name));
            }
        )+ };
    }
    for_each_unary!(unary);
    macro_rules! binary {
        ($($name:ident $bound:literal;)+) => { $(
            for y in [-7.5_f32, -2.0, -0.3, 1e-3, 0.7, 3.0, 41.0] {
                let exact = map(&wide[..200_000], |x| Float::$name(x, y as f64));
                for ((x, got), exact) in x.iter().zip(map(&x[..200_000], |x| Float::$name(x,
                    y))).zip(exact) {
                    let error = error_f32(got, exact);
                    assert!(error <= $bound, "{} {x:e} {y:e}: {got:e}, not {exact:e}",
                        stringify!($name));
                }
            }
        )+ };
    }
    for_each_binary!(binary);
}

#[test]
fn f64_functions_match_the_standard_library() {
    let bits = (0..=u64::MAX).step_by((1 << 48) + 12_345_677);
    let near = (0..100_000_u32).map(|k| (k as f64 - 50_000.0) / 2_503.0);
    let x: Vec<f64> = bits.map(f64::from_bits).chain(near).collect();
    macro_rules! same {
        ($($name:ident $bound:literal $standard:ident;)+) => { $(
            for (&x, y) in x.iter().zip(map(&x, |x| Float::$name(x))) {
                let exact = f64::$standard(x);
                let same = y == exact && y.is_sign_negative() == exact.is_sign_negative()
                    || y.is_nan() && exact.is_nan();
                // The library itself is up to 1 ulp off.
                assert!(
                    same || error_f64(y, exact, 0.0) <= $bound + 1.0,
                    "{} {x:e}: {y:e}, not {exact:e}", stringify!($name)
                );
            }
        )+ };
    }
    same! {
        exp 1.0 exp; exp2 1.0 exp2; expm1 1.5 exp_m1; ln 1.0 ln; log2 1.0 log2; log10 1.0 log10;
            log1p 1.0 ln_1p;
        sin 1.0 sin; cos 1.0 cos; tan 2.5 tan; asin 2.5 asin; acos 1.5 acos; atan 2.0 atan;
        sinh 2.5 sinh; cosh 1.5 cosh; tanh 1.5 tanh; cbrt 1.0 cbrt;
        sqrt 0.0 sqrt; floor 0.0 floor; ceil 0.0 ceil; trunc 0.0 trunc; round 0.0 round_ties_even;
            abs 0.0 abs;
    }
}

#[test]
fn slices_agree_with_single_numbers() {
    let x: Vec<f64> = (0..=u64::MAX)
        .step_by((1 << 52) + 12_345_677)
        .map(f64::from_bits)
        .collect();
    let singles: Vec<f32> = (0..=u32::MAX)
        .step_by(1_000_003)
        .map(f32::from_bits)
        .collect();
    macro_rules! same {
        ($($name:ident $slice:ident;)+) => { $(
            let mut y = vec![0.0; x.len()];
            Machine::$slice(&x, &mut y);
            for (x, y) in x.iter().zip(y) {
                assert_eq!(y.to_bits() << 1, Float::$name(*x).to_bits() << 1, "{x:e}");
            }
            let mut y = vec![0.0; singles.len()];
            Machine::$slice(&singles, &mut y);
            for (x, y) in singles.iter().zip(y) {
                assert_eq!(y.to_bits() << 1, Float::$name(*x).to_bits() << 1, "{x:e}");
            }
        )+ };
    }
    same! { sin sin_slice; cos cos_slice; tan tan_slice; }
}

/// Equal, with equal signs of zero, or both NaN.
fn same<T: Machine>(got: T, wanted: T) -> bool {
    let reciprocals = T::ONE / got == T::ONE / wanted;
    got == wanted && (got != T::ZERO || reciprocals) || Float::is_nan(got) && Float::is_nan(wanted)
}

fn special_values<T: Machine>(largest: T, least: T, epsilon: T) {
    let (zero, one, inf, nan) = (T::ZERO, T::ONE, T::INFINITY, T::NAN);
    let two = T::TWO;
    let three = two + one;
    let half_pi = T::from_f64(std::f64::consts::FRAC_PI_2);
    let pi = T::from_f64(std::f64::consts::PI);
    let quarter_pi = T::from_f64(std::f64::consts::FRAC_PI_4);
    macro_rules! table {
        ($($name:ident: $($x:expr => $y:expr),+;)+) => { $($(
            let (x, y) = ($x, $y);
            assert!(same(T::$name(x), y), "{}({x:?}) is {:?}, not {y:?}", stringify!($name),
                T::$name(x));
        )+
            assert!(Float::is_nan(T::$name(nan)), "{}(NaN)", stringify!($name));
        )+ };
    }
    table! {
        exp: zero => one, -zero => one, inf => inf, -inf => zero, largest => inf, -largest => zero,
            least => one;
        exp2: zero => one, inf => inf, -inf => zero, largest => inf, -largest => zero, three =>
            T::from_f64(8.0);
        expm1: zero => zero, -zero => -zero, inf => inf, -inf => -one, largest => inf, -largest =>
            -one, least => least, -least => -least;
        sigmoid: zero => T::HALF, inf => one, -inf => zero, largest => one, -largest => zero;
        ln: zero => -inf, -zero => -inf, one => zero, inf => inf, -one => nan, -inf => nan, -least
            => nan;
        log2: zero => -inf, -zero => -inf, one => zero, two => one, inf => inf, -one => nan, -inf =>
            nan;
        log10: zero => -inf, -zero => -inf, one => zero, T::from_f64(1000.0) => three, inf => inf,
            -one => nan, -inf => nan;
        log1p: zero => zero, -zero => -zero, -one => -inf, inf => inf, -two => nan, -inf => nan,
            least => least, -least => -least;
        softplus: inf => inf, -inf => zero, largest => largest, -largest => zero;
        sqrt: zero => zero, -zero => -zero, inf => inf, -one => nan, -inf => nan;
        rsqrt: zero => inf, -zero => -inf, inf => zero, -one => nan;
        cbrt: zero => zero, -zero => -zero, inf => inf, -inf => -inf, T::from_f64(-27.0) => -three;
        sin: zero => zero, -zero => -zero, inf => nan, -inf => nan, least => least, -least =>
            -least;
        cos: zero => one, -zero => one, inf => nan, -inf => nan, least => one;
        tan: zero => zero, -zero => -zero, inf => nan, -inf => nan, least => least, -least =>
            -least;
        asin: zero => zero, -zero => -zero, one => half_pi, -one => -half_pi, two => nan, -inf =>
            nan, least => least;
        acos: one => zero, -one => pi, zero => half_pi, two => nan, -two => nan, inf => nan;
        atan: zero => zero, -zero => -zero, inf => half_pi, -inf => -half_pi, largest => half_pi,
            -least => -least;
        sinh: zero => zero, -zero => -zero, inf => inf, -inf => -inf, largest => inf, least =>
            least;
        cosh: zero => one, -zero => one, inf => inf, -inf => inf, -largest => inf;
        tanh: zero => zero, -zero => -zero, inf => one, -inf => -one, largest => one, -least =>
            -least;
        asinh: zero => zero, -zero => -zero, inf => inf, -inf => -inf, least => least;
        acosh: one => zero, zero => nan, -two => nan, inf => inf, -inf => nan;
        atanh: zero => zero, -zero => -zero, one => inf, -one => -inf, two => nan, -inf => nan,
            least => least;
        erf: zero => zero, -zero => -zero, inf => one, -inf => -one, largest => one;
        erfc: zero => one, inf => zero, -inf => two, largest => zero, -largest => two;
        erfinv: zero => zero, -zero => -zero, one => inf, -one => -inf, two => nan, -inf => nan;
        sign: zero => zero, -zero => zero, inf => one, -inf => -one, -least => -one;
        round: T::HALF => zero, -T::HALF => -zero, T::from_f64(2.5) => two, inf => inf;
        lgamma: one => zero, two => zero, zero => inf, -one => inf, inf => inf, -inf => inf;
        digamma: zero => -inf, -zero => inf, -one => nan, inf => inf, -inf => nan;
    }
    macro_rules! table_of_two {
        ($($name:ident: $(($x:expr, $y:expr) => $z:expr),+;)+) => { $($(
            let (x, y, z) = ($x, $y, $z);
            let got = T::$name(x, y);
            assert!(same(got, z), "{}({x:?}, {y:?}) is {got:?}, not {z:?}", stringify!($name));
        )+)+ };
    }
    table_of_two! {
        powf: (zero, three) => zero, (-zero, three) => -zero, (-zero, two) => zero, (zero, -one) =>
            inf,
            (-zero, -one) => -inf, (-zero, -two) => inf, (-zero, -T::HALF) => inf, (-zero, T::HALF)
                => zero,
            (zero, inf) => zero, (zero, -inf) => inf,
            (-one, inf) => one, (-one, -inf) => one, (one, nan) => one, (nan, zero) => one, (nan,
                one) => nan,
            (two, nan) => nan, (-two, T::HALF) => nan, (-two, three) => T::from_f64(-8.0), (-two,
                two) => two + two,
            (two, inf) => inf, (T::HALF, inf) => zero, (two, -inf) => zero, (T::HALF, -inf) => inf,
            (inf, two) => inf, (inf, -two) => zero, (-inf, three) => -inf, (-inf, two) => inf,
                (-inf, -three) => -zero,
            (-inf, T::HALF) => inf, (largest, two) => inf, (-largest, three) => -inf, (least, two)
                => zero,
            (inf, zero) => one, (largest, one) => largest, (-two, inf) => inf, (-two, largest) =>
                inf;
        atan2: (zero, one) => zero, (-zero, one) => -zero, (zero, -one) => pi, (-zero, -one) => -pi,
            (zero, zero) => zero, (-zero, zero) => -zero, (zero, -zero) => pi, (-zero, -zero) =>
                -pi,
            (one, zero) => half_pi, (-one, -zero) => -half_pi, (inf, inf) => quarter_pi, (-inf, inf)
                => -quarter_pi,
            (inf, -inf) => T::from_f64(2.356194490192345), (one, inf) => zero, (one, -inf) => pi,
                (-one, -inf) => -pi,
            (inf, one) => half_pi, (-inf, -one) => -half_pi, (nan, one) => nan, (one, nan) => nan,
            (largest, largest) => quarter_pi, (least, least) => quarter_pi, (inf, largest) =>
                half_pi;
        hypot: (zero, zero) => zero, (-zero, zero) => zero, (inf, nan) => inf, (nan, -inf) => inf,
            (nan, one) => nan,
            (one, nan) => nan, (largest, largest) => inf, (largest, zero) => largest, (least, zero)
                => least;
        logaddexp: (inf, inf) => inf, (-inf, -inf) => -inf, (inf, -inf) => inf, (-inf, one) => one,
            (nan, one) => nan,
            (one, nan) => nan, (largest, largest) => largest;
        maximum: (one, two) => two, (two, one) => two, (nan, one) => nan, (one, nan) => nan, (inf,
            one) => inf;
        minimum: (one, two) => one, (two, one) => one, (nan, one) => nan, (one, nan) => nan, (-inf,
            one) => -inf;
    }
    for n in -12..=12 {
        let power = T::from_f64(3.0_f64.powi(n));
        let off = (three.powi(n) - power).abs();
        assert!(off <= power * epsilon, "3^{n}");
        assert!(
            same((-zero).powi(n), (-zero).powf(T::from_f64(n as f64))),
            "(-0)^{n}"
        );
        assert!(
            same((-two).powi(n), (-two).powf(T::from_f64(n as f64))),
            "(-2)^{n}"
        );
    }
}

#[test]
fn special_values_of_f32() {
    special_values(f32::MAX, f32::from_bits(1), f32::EPSILON);
}

#[test]
fn special_values_of_f64() {
    special_values(f64::MAX, f64::from_bits(1), f64::EPSILON);
}

#[test]
fn logaddexp_matches_its_definition() {
    let x: Vec<f64> = (0..2000).map(|k| (k as f64 - 1000.0) / 50.0).collect();
    for b in [-17.0, -1.3, 0.0, 0.4, 9.0] {
        for (a, y) in x.iter().zip(map(&x, |a| a.logaddexp(b))) {
            let exact = (a.exp() + b.exp()).ln();
            let size = a.abs().max(b.abs()).max(exact.abs()).max(1.0);
            assert!(
                (y - exact).abs() <= 4.0 * f64::EPSILON * size,
                "{a} {b}: {y}, not {exact}"
            );
        }
    }
}

/// Its bits are those of the exponential where its domain is.
#[test]
fn the_exponential_of_what_is_not_positive_is_the_exponential() {
    fn check<T: Machine + PartialEq + std::fmt::Debug>(x: &[T], bits: impl Fn(T) -> u64) {
        let found = map(x, |x| x.exp_of_negative());
        for ((&x, y), z) in x.iter().zip(map(x, |x| x.exp())).zip(found) {
            assert!(bits(y) == bits(z), "exp({x:?}) is {y:?} and {z:?}");
        }
    }
    // Every 97th f32 that is not positive, and f64 of as many exponents.
    let singles: Vec<f32> = (0x8000_0000..=0xff80_0000_u32)
        .step_by(97)
        .map(f32::from_bits)
        .chain([0.0, f32::NEG_INFINITY, f32::NAN])
        .collect();
    let doubles: Vec<f64> = (1 << 63..=0xfff0_0000_0000_0000_u64)
        .step_by((1 << 43) + 0x1234_5677)
        .map(f64::from_bits)
        .chain((0..100_000).map(|i| f64::from(i) * -0.007_5))
        .chain([0.0, f64::NEG_INFINITY, f64::NAN])
        .collect();
    check(&singles, |x| match x.is_nan() {
        true => 1 << 40,
        false => x.to_bits().into(),
    });
    check(&doubles, |x| match x.is_nan() {
        true => u64::MAX,
        false => x.to_bits(),
    });
}
