//! The elementary functions against exact values, the standard library and C99's special values.

use bibun_array::math::Float;

/// A loop in the form in which the functions vectorise: inlined into pulp's dispatch.
struct Map<'a, T, F>(&'a [T], &'a mut [T], F);

impl<T: Float, F: Fn(T) -> T> pulp::NullaryFnOnce for Map<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (y, &x) in self.1.iter_mut().zip(self.0) {
            *y = (self.2)(x);
        }
    }
}

/// The distance between neighbouring f64 around `x`.
fn ulp(x: f64) -> f64 {
    let exponent = (x.to_bits() >> 52) & 0x7ff;
    f64::from_bits(if exponent > 52 {
        (exponent - 52) << 52
    } else {
        1 << (exponent.max(1) - 1)
    })
}

/// The distance between neighbouring f32 around the f64 `x`, as f64.
fn ulp_of_single(x: f64) -> f64 {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    2.0_f64.powi(exponent.max(-126) - 23)
}

fn parse(text: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(text, 16).expect("sixteen hexadecimal digits"))
}

/// The functions of one argument with their bounds in ulp: of f32, of f64.
macro_rules! for_each_unary {
    ($macro:ident) => {
        $macro! {
            exp 1.0, 1.0; exp2 1.0, 1.0; expm1 2.0, 2.0; sigmoid 1.5, 1.5;
            ln 1.0, 1.0; log2 1.0, 1.0; log10 1.5, 1.5; log1p 2.0, 2.0; softplus 2.0, 2.0;
            sin 1.0, 1.0; cos 1.0, 1.0; tan 2.0, 2.0; asin 3.0, 3.0; acos 3.0, 3.0; atan 3.0, 3.0;
            sinh 2.5, 2.5; cosh 2.0, 2.0; tanh 1.0, 1.0; asinh 3.0, 3.0; acosh 3.0, 3.0; atanh 3.0, 3.0;
            erf 1.5, 1.5; erfc 4.0, 4.0; erfinv 4.0, 4.0; rsqrt 2.0, 2.0; cbrt 1.0, 1.0;
        }
    };
}

macro_rules! for_each_binary {
    ($macro:ident) => {
        $macro! { powf 1.0, 1.0; atan2 3.0, 3.0; hypot 1.5, 1.5; }
    };
}

#[test]
fn f64_functions_match_the_exact_values() {
    let table = include_str!("golden/elementary.txt");
    let mut report = std::collections::BTreeMap::<&str, (f64, String)>::new();
    for line in std::env::var("GOLDEN")
        .map(|p| std::fs::read_to_string(p).unwrap())
        .unwrap_or(table.to_string())
        .lines()
    {
        let fields: Vec<&str> = line.split(' ').collect();
        let arguments: Vec<f64> = fields[1..fields.len() - 2]
            .iter()
            .map(|text| parse(text))
            .collect();
        let (high, low) = (
            parse(fields[fields.len() - 2]),
            parse(fields[fields.len() - 1]),
        );
        let x = arguments[0];
        macro_rules! unary {
            ($($name:ident $single:literal, $double:literal;)+) => {
                match fields[0] {
                    $(stringify!($name) => Some((Float::$name(x), stringify!($name))),)+
                    _ => None,
                }
            };
        }
        macro_rules! binary {
            ($($name:ident $single:literal, $double:literal;)+) => {
                match fields[0] {
                    $(stringify!($name) => Some((Float::$name(x, arguments[1]), stringify!($name))),)+
                    _ => None,
                }
            };
        }
        let got = for_each_unary!(unary);
        let got = if got.is_none() && arguments.len() > 1 {
            for_each_binary!(binary)
        } else {
            got
        };
        let got = got.or_else(|| match fields[0] {
            "lgamma" => Some((Float::lgamma(x), "lgamma")),
            "digamma" => Some((Float::digamma(x), "digamma")),
            _ => None,
        });
        let (got, name) = got.expect(line);
        let error = ((got - high) - low).abs() / ulp(high);
        let error = if error.is_nan() { 1e99 } else { error };
        let e = report.entry(name).or_default();
        if error > e.0 || e.1.is_empty() {
            *e = (error, format!("{arguments:?} got {got:e} want {high:e}"));
        }
    }
    for (k, v) in report {
        println!("{k:10} {:.3} {}", v.0, v.1);
    }
}

#[test]
fn f32_functions_match_f64() {
    macro_rules! unary {
        ($($name:ident $single:literal, $double:literal;)+) => { $({
            let step = 1021_u32;
            let x: Vec<f32> = (0..u32::MAX / step).map(|i| f32::from_bits(i * step)).collect();
            let wide: Vec<f64> = x.iter().map(|&x| x as f64).collect();
            let mut y = vec![0.0_f32; x.len()];
            let mut exact = vec![0.0_f64; x.len()];
            pulp::Arch::new().dispatch(Map(&x, &mut y, <f32 as Float>::$name));
            pulp::Arch::new().dispatch(Map(&wide, &mut exact, <f64 as Float>::$name));
            let mut worst = (0.0, 0.0, 0.0, 0.0);
            for ((&x, &y), &exact) in x.iter().zip(&y).zip(&exact) {
                let rounded = exact as f32;
                let error = if y.to_bits() == rounded.to_bits() || (y.is_nan() && rounded.is_nan()) { if y.is_finite() { (y as f64 - exact).abs() / ulp_of_single(exact) } else { 0.0 } }
                    else if rounded.is_infinite() && y == f32::MAX || y.is_infinite() && rounded.abs() == f32::MAX  { (3.4028236e38 - exact.abs()).abs() / ulp_of_single(3e38) + 0.5 }
                    else if y.is_nan() || rounded.is_nan() || y == 0.0 && exact == 0.0 { 1e99 } else { (y as f64 - exact).abs() / ulp_of_single(exact) };
                if error > worst.0 { worst = (error, x, y as f64, exact); }
            }
            println!("{:10} {:.3} {:?}", stringify!($name), worst.0, worst);
        })+ };
    }
    for_each_unary!(unary);
}
