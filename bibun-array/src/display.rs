//! Arrays as text, formatted as NumPy does: `Display` like `str`, `Debug` like `repr`.
//!
//! Floats have the fewest digits that distinguish them, but at most eight after the point. All
//! floats of an array are written with a power of ten if one is 1e8 or more (1e6 in `f32`, 1e3 in
//! types of 16 bits), one is below 1e-4, or the largest is more than a thousand times the smallest.
//! Lines have 75 columns. Arrays of more than 1000 elements show three at either end of each axis.

use std::fmt::{self, Write};

use num_complex::Complex;

use crate::{Array, DType, Kind, Scalar};

/// The number of digits after the point.
const PRECISION: usize = 8;
const LINE_WIDTH: usize = 75;
/// Larger arrays are summarised.
const THRESHOLD: usize = 1000;
/// The number of elements shown at either end of a summarised axis.
const EDGE: usize = 3;

/// Formats the elements as NumPy's `str` does.
///
/// ```
/// use bibun_array::Array;
/// let x = Array::from([[1.0, 2.5], [-3.0, 4.0]]);
/// assert_eq!(x.to_string(), "[[ 1.   2.5]\n [-3.   4. ]]");
/// ```
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rank(), self.dtype().kind()) {
            (0, Kind::Truth | Kind::Integer) => write!(f, "{}", Words::new(self).words[0]),
            (0, Kind::Float) => f.write_str(&number(self.element(&[]))),
            (0, Kind::Complex) => f.write_str(&complex_number(self.element(&[]))),
            _ => f.write_str(&Words::new(self).laid_out(" ", 0, LINE_WIDTH)),
        }
    }
}

/// Formats the elements and, if they do not imply them, the dtype and the shape, as NumPy's `repr`
/// does.
///
/// ```
/// use bibun_array::Array;
/// assert_eq!(format!("{:?}", Array::from([1.0, 0.5])), "array([1. , 0.5])");
/// assert_eq!(format!("{:?}", Array::from([1.0f32])), "array([1.], dtype=float32)");
/// ```
impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const START: &str = "array(";
        let body = Words::new(self).laid_out(", ", START.len(), LINE_WIDTH - 1);
        let mut extras = Vec::new();
        if self.size() > THRESHOLD || self.size() == 0 && **self.shape() != [0] {
            let sizes: Vec<String> = self.shape().iter().map(usize::to_string).collect();
            let comma = if sizes.len() == 1 { "," } else { "" };
            extras.push(format!("shape=({}{comma})", sizes.join(", ")));
        }
        let dtype = match self.dtype() {
            DType::U8 => Some("uint8"),
            DType::I32 => Some("int32"),
            DType::F16 => Some("float16"),
            DType::BF16 => Some("bfloat16"),
            DType::F32 => Some("float32"),
            DType::C64 => Some("complex64"),
            DType::C128 if self.size() == 0 => Some("complex128"),
            DType::F64 if self.size() == 0 => Some("float64"),
            DType::I64 if self.size() == 0 => Some("int64"),
            DType::Bool if self.size() == 0 => Some("bool"),
            DType::F64 | DType::C128 | DType::I64 | DType::Bool => None,
        };
        extras.extend(dtype.map(|dtype| format!("dtype={dtype}")));
        if extras.is_empty() {
            return write!(f, "{START}{body})");
        }
        let text = format!("{START}{body},");
        let extras = extras.join(", ") + ")";
        let last_line = text.len() - text.rfind('\n').map_or(0, |position| position + 1);
        let space = match last_line + extras.len() + 1 > LINE_WIDTH {
            true => format!("\n{:1$}", "", START.len()),
            false => " ".to_owned(),
        };
        write!(f, "{text}{space}{extras}")
    }
}

/// The elements to be shown, all written in the same format.
struct Words {
    words: Vec<String>,
    /// The number of elements of each axis if all are shown, or `None` if only the edges are.
    axes: Vec<Option<usize>>,
}

impl Words {
    fn new(x: &Array) -> Self {
        let summarise = x.size() > THRESHOLD;
        let mut indices = vec![Vec::new()];
        let mut axes = Vec::new();
        for &size in x.shape().iter() {
            let edges = summarise && size > 2 * EDGE;
            let shown: Vec<usize> = match edges {
                true => (0..EDGE).chain(size - EDGE..size).collect(),
                false => (0..size).collect(),
            };
            axes.push((!edges).then_some(size));
            indices = indices
                .iter()
                .flat_map(|index: &Vec<usize>| {
                    shown.iter().map(|&i| [index.as_slice(), &[i]].concat())
                })
                .collect();
        }
        // One copy from wherever the array is, unless most of it is left out.
        let x = if summarise {
            x.clone()
        } else {
            x.on_host("display")
        };
        let elements: Vec<Scalar> = indices.iter().map(|index| x.element(index)).collect();
        let words = match x.dtype().kind() {
            Kind::Truth => {
                let width = if x.rank() == 0 { 0 } else { 5 };
                aligned(
                    elements.iter().map(|x| python_bool(*x).into()).collect(),
                    width,
                )
            }
            Kind::Integer => aligned(elements.iter().map(Scalar::to_string).collect(), 0),
            Kind::Float => floats(&elements, x.dtype()),
            Kind::Complex => complex_numbers(&elements, x.dtype()),
        };
        Self { words, axes }
    }

    /// The words in nested brackets. `indent` columns come before the first one.
    fn laid_out(&self, separator: &str, indent: usize, width: usize) -> String {
        if self.words.is_empty() {
            return "[]".to_owned();
        }
        self.axis(0, &mut self.words.iter(), separator, indent, width)
    }

    /// One bracket along `axis`, or a single word after the last axis. Every bracket that closes
    /// after this one takes a column of the line.
    fn axis(
        &self,
        axis: usize,
        words: &mut std::slice::Iter<'_, String>,
        separator: &str,
        indent: usize,
        width: usize,
    ) -> String {
        let Some(&size) = self.axes.get(axis) else {
            return words
                .next()
                .expect("as many words as the axes have")
                .clone();
        };
        let is_row = axis + 1 == self.axes.len();
        let mut parts: Vec<String> = (0..size.unwrap_or(2 * EDGE))
            .map(|_| self.axis(axis + 1, words, separator, indent + 1, width - 1))
            .collect();
        if size.is_none() {
            parts.insert(EDGE, "...".to_owned());
        }
        let margin = " ".repeat(indent + 1);
        if !is_row {
            let lines = "\n".repeat(self.axes.len() - axis - 1);
            let between = format!("{}{lines}{margin}", separator.trim_end());
            return format!("[{}]", parts.join(&between));
        }
        let (mut text, mut line) = (String::new(), margin.clone());
        for (i, part) in parts.iter().enumerate() {
            if line.len() + part.len() > width - 1 && line.len() > margin.len() {
                text += line.trim_end();
                text.push('\n');
                line.clone_from(&margin);
            }
            line += part;
            if i + 1 < parts.len() {
                line += separator;
            }
        }
        text += &line;
        format!("[{}]", &text[margin.len()..])
    }
}

fn python_bool(x: Scalar) -> &'static str {
    if x == Scalar::Bool(true) {
        "True"
    } else {
        "False"
    }
}

/// The words aligned to the right, at least `width` wide.
fn aligned(words: Vec<String>, width: usize) -> Vec<String> {
    let width = words.iter().map(String::len).max().unwrap_or(0).max(width);
    words.iter().map(|word| format!("{word:>width$}")).collect()
}

/// The real or the imaginary part of a complex number.
fn part(x: Scalar, pick: fn(Complex<f64>) -> f64) -> Scalar {
    Scalar::F64(pick(x.to_complex())).cast(x.dtype().to_real())
}

/// Complex numbers, with the points of either part in one column.
fn complex_numbers(elements: &[Scalar], dtype: DType) -> Vec<String> {
    let parts = |pick: fn(Complex<f64>) -> f64| -> Vec<Scalar> {
        elements.iter().map(|&x| part(x, pick)).collect()
    };
    let (real, imaginary) = (parts(|x| x.re), parts(|x| x.im));
    let real = floats(&real, dtype.to_real());
    let magnitudes: Vec<Scalar> = imaginary.iter().map(|&x| magnitude(x)).collect();
    let words = floats(&magnitudes, dtype.to_real());
    let parts = real.iter().zip(words.iter().zip(&imaginary));
    let words = parts.map(|(real, (word, imaginary))| {
        let digits = word.trim();
        // The letter stands behind the last digit, as in NumPy.
        let digits = format!("{digits}j");
        let width = word.len() + 1;
        format!("{real}{}{digits:<width$}", sign(*imaginary))
    });
    words.collect()
}

fn magnitude(x: Scalar) -> Scalar {
    Scalar::F64(x.to_f64().abs()).cast(x.dtype())
}

fn sign(x: Scalar) -> char {
    if x.to_f64().is_sign_negative() {
        '-'
    } else {
        '+'
    }
}

/// A single complex number with all the digits that it needs, as Python writes it.
fn complex_number(x: Scalar) -> String {
    let (real, imaginary) = (part(x, |x| x.re), part(x, |x| x.im));
    let trimmed = |x: Scalar| {
        let text = number(x);
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    };
    let (start, end) = (trimmed(real), trimmed(magnitude(imaginary)));
    match (
        real.to_f64() == 0.0 && real.to_f64().is_sign_positive(),
        sign(imaginary),
    ) {
        (true, '+') => format!("{end}j"),
        (true, sign) => format!("{sign}{end}j"),
        (false, sign) => format!("({start}{sign}{end}j)"),
    }
}

/// Floats with their points in one column.
fn floats(elements: &[Scalar], dtype: DType) -> Vec<String> {
    let magnitudes = || {
        let magnitudes = elements.iter().map(|x| x.to_f64().abs());
        magnitudes.filter(|x| x.is_finite() && *x != 0.0)
    };
    let largest = magnitudes().fold(0.0, f64::max);
    let smallest = magnitudes().fold(f64::INFINITY, f64::min);
    // Compared in the dtype: 1e-4 as `f32` is below 1e-4 itself.
    let rounded = |x: f64| Scalar::F64(x).cast(dtype).to_f64();
    let high = [1e8, 1e6, 1e3][shortness(dtype)];
    let (low, ratio) = (rounded(1e-4), rounded(largest / smallest));
    let scientific = largest >= high || smallest < low || ratio > 1000.0;
    let parts: Vec<Parts> = elements
        .iter()
        .map(|&x| match (x.to_f64().is_finite(), scientific) {
            (false, _) => Parts::Other(number(x)),
            (true, true) => scientific_parts(x, PRECISION),
            (true, false) => positional_parts(x),
        })
        .collect();
    let widest = |part: fn(&Parts) -> &str| parts.iter().map(|x| part(x).len()).max().unwrap_or(0);
    let (whole, fraction) = (widest(Parts::whole), widest(Parts::fraction));
    let exponent = parts.iter().map(|x| x.exponent().len()).max().unwrap_or(0);
    let words = parts.iter().zip(elements).map(|(part, x)| match part {
        Parts::Positional(before, behind) => format!("{before:>whole$}.{behind:<fraction$}"),
        Parts::Scientific(..) => {
            // Further digits are those of the exact value, not zeros.
            let text = format!("{:.fraction$e}", x.to_f64());
            let (mantissa, _) = text.split_once('e').expect("a power of ten");
            let point = if fraction == 0 { "." } else { "" };
            let (sign, digits) = part.exponent().split_at(1);
            let digits_width = exponent - 1;
            let width = whole + 1 + fraction - point.len();
            format!("{mantissa:>width$}{point}e{sign}{digits:0>digits_width$}")
        }
        Parts::Other(word) => word.clone(),
    });
    aligned(words.collect(), 0)
}

/// The class of a float by size: 0 for `f64`, 1 for `f32`, 2 for types of 16 bits.
fn shortness(dtype: DType) -> usize {
    match dtype.size() {
        8 => 0,
        4 => 1,
        _ => 2,
    }
}

/// The value, rounded to the fewest decimal digits that distinguish it from its neighbours, as a
/// type that Rust writes with the fewest digits.
pub(crate) fn decimal(x: Scalar) -> Scalar {
    let dtype = x.dtype();
    if dtype.size() > 2 || !x.to_f64().is_finite() {
        return x;
    }
    // Five digits distinguish all numbers of 16 bits.
    let written = (0..5).map(|digits| {
        let text = format!("{:.digits$e}", x.to_f64());
        Scalar::F64(text.parse().expect("a number"))
    });
    let mut back = written.filter(|decimal| decimal.cast(dtype) == x);
    back.next().unwrap_or(Scalar::F64(x.to_f64()))
}

/// The parts of a float, for its columns.
enum Parts {
    /// The digits before and after the point.
    Positional(String, String),
    /// The same, and the sign and digits of the power of ten.
    Scientific(String, String, String),
    /// `nan`, `inf` or `-inf`.
    Other(String),
}

impl Parts {
    fn whole(&self) -> &str {
        match self {
            Self::Positional(whole, _) | Self::Scientific(whole, ..) => whole,
            Self::Other(_) => "",
        }
    }
    fn fraction(&self) -> &str {
        match self {
            Self::Positional(_, fraction) | Self::Scientific(_, fraction, _) => fraction,
            Self::Other(_) => "",
        }
    }
    fn exponent(&self) -> &str {
        match self {
            Self::Scientific(.., exponent) => exponent,
            Self::Positional(..) | Self::Other(_) => "",
        }
    }
}

/// `x` without a power of ten.
fn positional_parts(x: Scalar) -> Parts {
    let shortest = x.to_string();
    let (whole, fraction) = shortest.split_once('.').unwrap_or((&shortest, ""));
    if fraction.len() <= PRECISION {
        return Parts::Positional(whole.to_owned(), fraction.to_owned());
    }
    let rounded = format!("{:.PRECISION$}", x.to_f64());
    let (whole, fraction) = rounded.split_once('.').expect("digits behind a point");
    Parts::Positional(whole.to_owned(), fraction.trim_end_matches('0').to_owned())
}

/// `x` with a power of ten of at least two digits and at most `precision` digits after the point.
fn scientific_parts(x: Scalar, precision: usize) -> Parts {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = if let Scalar::F32(x) = x {
        write!(text, "{x:e}")
    } else {
        write!(text, "{:e}", decimal(x).to_f64())
    };
    let digits = |text: &str| {
        let (mantissa, exponent) = text.split_once('e').expect("a power of ten");
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: i32 = exponent.parse().expect("a small integer");
        (
            whole.to_owned(),
            fraction.trim_end_matches('0').to_owned(),
            format!("{exponent:+03}"),
        )
    };
    let (whole, fraction, exponent) = match digits(&text) {
        (_, fraction, _) if fraction.len() > precision => {
            digits(&format!("{:.precision$e}", x.to_f64()))
        }
        shortest => shortest,
    };
    Parts::Scientific(whole, fraction, exponent)
}

/// A single float with all the digits that it needs, as Python writes it.
fn number(x: Scalar) -> String {
    let value = x.to_f64();
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let high = [1e16, 1e6, 1e3][shortness(x.dtype())];
    if value == 0.0 || (1e-4..high).contains(&value.abs()) {
        let text = x.to_string();
        return if text.contains('.') {
            text
        } else {
            text + ".0"
        };
    }
    match scientific_parts(x, usize::MAX) {
        Parts::Scientific(whole, fraction, exponent) if fraction.is_empty() => {
            format!("{whole}e{exponent}")
        }
        Parts::Scientific(whole, fraction, exponent) => format!("{whole}.{fraction}e{exponent}"),
        Parts::Positional(..) | Parts::Other(_) => unreachable!("asked for a power of ten"),
    }
}
