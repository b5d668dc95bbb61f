//! Formulas as the source of a kernel in CUDA C.

use std::fmt::Write;

use super::{Formula, Operation, Type};

impl Formula {
    /// Returns the source of a CUDA C kernel that computes the formula in this precision
    /// (`Type::Single` or `Type::Double`): `name(x0, .., y, n, c0, ..)` takes pointers to `n`
    /// elements each and the given numbers. Compiled without contraction (`--fmad=false`), it
    /// computes the same bits as the CPU. For several results there are as many pointers
    /// `y0, y1, ..`, each of which may be that of an input.
    ///
    /// Returns `None` if the formula uses a function that branches and that CUDA does not have:
    /// `digamma` and those of [`Special`](crate::math::Special).
    ///
    /// ```
    /// use bibun_array::formula::{Formula, Type};
    /// let relu = Formula::trace(1, 0, |x, _| x[0].maximum(0.0));
    /// let text = relu.cuda("relu", Type::Single).unwrap();
    /// assert!(text.starts_with("extern \"C\" __global__ void relu(const float* __restrict__ x0,"));
    /// ```
    ///
    /// # Panics
    /// Panics if `precision` is neither of the two.
    pub fn cuda(&self, name: &str, precision: Type) -> Option<String> {
        let formula = self.expanded(precision);
        let number = c_type(precision);
        let mut text = format!("extern \"C\" __global__ void {name}(");
        let is_one = formula.results.len() == 1;
        let restrict = if is_one { "__restrict__ " } else { "" };
        let target = |k: usize| {
            if is_one {
                "y".to_owned()
            } else {
                format!("y{k}")
            }
        };
        for (i, input) in formula.input_types().into_iter().enumerate() {
            let input = match input {
                // An input that is not read.
                Type::Number => number,
                known => c_type(known),
            };
            write!(text, "const {input}* {restrict}x{i}, ").ok()?;
        }
        for (k, node) in formula.results.iter().enumerate() {
            let result = c_type(formula.lines[node.index()].value);
            write!(text, "{result}* {}, ", target(k)).ok()?;
        }
        text.push_str("unsigned long long n");
        for i in 0..formula.given {
            write!(text, ", {number} c{i}").ok()?;
        }
        text.push_str(
            ") {\n  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;\n  \
             unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;\n  \
             for (; i < n; i += step) {\n",
        );
        for (i, line) in formula.lines.iter().enumerate() {
            let arguments: Vec<u32> = line.arguments().iter().map(|node| node.0).collect();
            // The precision of the operation. The values of comparisons and conversions do not have
            // it.
            let of = line
                .arguments()
                .first()
                .map_or(line.value, |node| formula.lines[node.index()].value);
            let of = if of == Type::Truth { line.value } else { of };
            let of = match line.operation {
                Operation::ToNumber => line.value,
                _ => of,
            };
            let value = expression(line.operation, of, &arguments)?;
            writeln!(text, "    const {} v{i} = {value};", c_type(line.value)).ok()?;
        }
        for (k, node) in formula.results.iter().enumerate() {
            writeln!(text, "    {}[i] = v{};", target(k), node.0).ok()?;
        }
        text.push_str("  }\n}\n");
        Some(text)
    }
}

const fn c_type(value: Type) -> &'static str {
    match value {
        Type::Number => unreachable!(),
        Type::Single => "float",
        Type::Double => "double",
        Type::Truth => "bool",
        Type::Integer => "long long",
    }
}

/// The bits of the two precisions, by their names in CUDA.
struct Bits {
    to: &'static str,
    from: &'static str,
    fraction: u32,
    bias: f64,
    /// The distance from the bits of `√½` to those of 1.
    above_root: u64,
    root: u64,
}

const SINGLE: Bits = Bits {
    to: "__float_as_uint",
    from: "__uint_as_float",
    fraction: 23,
    bias: 127.0,
    above_root: (1f32.to_bits() - std::f32::consts::FRAC_1_SQRT_2.to_bits()) as u64,
    root: std::f32::consts::FRAC_1_SQRT_2.to_bits() as u64,
};
const DOUBLE: Bits = Bits {
    to: "(unsigned long long)__double_as_longlong",
    from: "__longlong_as_double",
    fraction: 52,
    bias: 1023.0,
    above_root: 1f64.to_bits() - std::f64::consts::FRAC_1_SQRT_2.to_bits(),
    root: std::f64::consts::FRAC_1_SQRT_2.to_bits(),
};

/// The value of an operation on numbers of the precision `of`.
fn expression(operation: Operation, of: Type, v: &[u32]) -> Option<String> {
    use Operation::*;
    if let Some(text) = integer_expression(operation, of, v) {
        return Some(text);
    }
    let single = of == Type::Single;
    let bits = if single { SINGLE } else { DOUBLE };
    let constant = |x: f64| literal(x, single);
    let holder = 2f64.powi(bits.fraction as i32);
    let (to, from, fraction) = (bits.to, bits.from, bits.fraction);
    let call = |name: &str| {
        let arguments: Vec<String> = v.iter().map(|v| format!("v{v}")).collect();
        format!(
            "{name}{}({})",
            if single { "f" } else { "" },
            arguments.join(", ")
        )
    };
    Some(match (operation, v) {
        (Input(i), _) => format!("x{i}[i]"),
        (Given(i), _) => format!("c{i}"),
        (Constant(value), _) => constant(f64::from_bits(value)),
        (Always(holds), _) => holds.to_string(),
        (Add, [a, b]) => format!("v{a} + v{b}"),
        (Subtract, [a, b]) => format!("v{a} - v{b}"),
        (Multiply, [a, b]) => format!("v{a} * v{b}"),
        (Divide, [a, b]) => format!("v{a} / v{b}"),
        (Negative, [a]) => format!("-v{a}"),
        (Equal, [a, b]) => format!("v{a} == v{b}"),
        (Less, [a, b]) => format!("v{a} < v{b}"),
        (LessEqual, [a, b]) => format!("v{a} <= v{b}"),
        (IsNan, [a]) => format!("v{a} != v{a}"),
        (And, [a, b]) => format!("v{a} && v{b}"),
        (Or, [a, b]) => format!("v{a} || v{b}"),
        (Xor, [a, b]) => format!("v{a} != v{b}"),
        (Not, [a]) => format!("!v{a}"),
        (Select, [c, a, b]) => format!("v{c} ? v{a} : v{b}"),
        (MultiplyAdd, _) => call("fma"),
        (Abs, _) => call("fabs"),
        (Round, _) => call("rint"),
        (CopySign, _) => call("copysign"),
        (Sqrt | Floor | Ceil | Trunc | Sin | Cos | Tan | Lgamma | Fmod, _) => {
            call(operation.name())
        }
        (ToNumber, [a]) => format!("({})v{a}", c_type(of)),
        (Widen, [a]) => format!("(double)v{a}"),
        (Narrow, [a]) => format!("(float)v{a}"),
        (PowerOfTwo, [a]) => format!("{from}({to}(v{a}) << {fraction})"),
        (IsOdd, [a]) => format!("({to}(v{a}) & 1) != 0"),
        (HasBitOfTwo, [a]) => format!("({to}(v{a}) & 2) != 0"),
        (Exponent, [a]) => {
            let (above, bias) = (bits.above_root, constant(holder + bits.bias));
            let held = format!("{to}({})", constant(holder));
            format!("{from}((({to}(v{a}) + {above}) >> {fraction}) | {held}) - {bias}")
        }
        (Fraction, [a]) => {
            let (above, root, mask) = (bits.above_root, bits.root, (1u64 << fraction) - 1);
            format!("{from}((({to}(v{a}) + {above}) & {mask}) + {root})")
        }
        (IsSignNegative, [a]) => {
            format!("({to}(v{a}) >> {}) != 0", if single { 31 } else { 63 })
        }
        _ => return None,
    })
}

/// The value of an operation with integer arguments or an integer result. They wrap around, which
/// in C only unsigned integers do.
fn integer_expression(operation: Operation, of: Type, v: &[u32]) -> Option<String> {
    use Operation::*;
    let wrapping = |operator: &str, a: u32, b: u32| {
        format!("(long long)((unsigned long long)v{a} {operator} (unsigned long long)v{b})")
    };
    let smallest = "(-9223372036854775807LL - 1)";
    Some(match (operation, of, v) {
        (Whole(i64::MIN), ..) => smallest.to_owned(),
        (Whole(x), ..) => format!("{x}LL"),
        (Add, Type::Integer, &[a, b]) => wrapping("+", a, b),
        (Subtract, Type::Integer, &[a, b]) => wrapping("-", a, b),
        (Multiply, Type::Integer, &[a, b]) => wrapping("*", a, b),
        (Maximum, Type::Integer, [a, b]) => format!("v{a} > v{b} ? v{a} : v{b}"),
        (Minimum, Type::Integer, [a, b]) => format!("v{a} < v{b} ? v{a} : v{b}"),
        // The one quotient that overflows.
        (Quotient, _, [a, b]) => {
            format!("v{b} == -1 ? (long long)(0 - (unsigned long long)v{a}) : v{a} / v{b}")
        }
        (Rest, _, [a, b]) => format!("v{b} == -1 ? 0 : v{a} % v{b}"),
        (BitsAnd | BitsOr | BitsXor, _, [a, b]) => format!("v{a} {} v{b}", operation.name()),
        (ToInteger, _, [a]) => format!(
            "v{a} != v{a} ? 0 : v{a} >= 9223372036854775808.0 ? 9223372036854775807LL : \
             v{a} < -9223372036854775808.0 ? {smallest} : (long long)v{a}"
        ),
        _ => return None,
    })
}

fn literal(x: f64, single: bool) -> String {
    let (infinite, nan) = match single {
        true => ("__uint_as_float(0x7f800000)", "__uint_as_float(0x7fc00000)"),
        false => (
            "__longlong_as_double(0x7ff0000000000000)",
            "__longlong_as_double(0x7ff8000000000000)",
        ),
    };
    if x.is_nan() {
        nan.to_owned()
    } else if x.is_infinite() {
        format!("{}{infinite}", if x < 0.0 { "-" } else { "" })
    } else if single {
        format!("{:e}f", x as f32)
    } else {
        // The exponent alone makes the text a floating-point literal.
        format!("{x:e}")
    }
}
