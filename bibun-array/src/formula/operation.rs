//! The operations that formulas consist of, each with the kernel that computes it alone.

use crate::math::Special;
use crate::{Definition, ops};

/// The type of the value of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A number of the precision in which the formula is computed.
    Number,
    /// An f32, in a formula [expanded](crate::formula::Formula::expanded) for one precision.
    Single,
    /// An f64, in a formula expanded in the same way.
    Double,
    /// An i64, which wraps around.
    Integer,
    /// The result of a comparison.
    Truth,
}

macro_rules! operations {
    ($($(#[$documentation:meta])* $operation:ident = $name:literal($($argument:ident),*) -> $value:ident
        $([$DEFINITION:ident])?;)*) => {
        /// One step of a [`Formula`](crate::formula::Formula), without its arguments.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Operation {
            /// An element of the input with this number.
            Input(u8),
            /// A number given with the call, the same for all elements.
            Given(u8),
            /// A constant of the formula, as the bits of an f64. It is rounded to the precision of
            /// the formula.
            Constant(u64),
            /// A condition that always or never holds.
            Always(bool),
            /// An integer constant of the formula.
            Whole(i64),
            /// A special function.
            Special(Special),
            $($(#[$documentation])* $operation,)*
        }

        impl Operation {
            /// All operations that have arguments, without the special functions, which are
            /// [`Special::ALL`].
            pub const ALL: &'static [Self] = &[$(Self::$operation),*];

            /// Returns the name in printed formulas.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::Input(_) => "input",
                    Self::Given(_) => "given",
                    Self::Constant(_) => "constant",
                    Self::Always(_) => "always",
                    Self::Whole(_) => "whole",
                    Self::Special(function) => function.name(),
                    $(Self::$operation => $name,)*
                }
            }

            /// Returns the types of the arguments. `Number` is any precision, the same for all
            /// arguments; sums, differences, products, comparisons, extremes and choices also take
            /// `Integer`.
            pub const fn arguments(self) -> &'static [Type] {
                match self {
                    Self::Input(_)
                    | Self::Given(_)
                    | Self::Constant(_)
                    | Self::Always(_)
                    | Self::Whole(_) => &[],
                    Self::Special(function) => function.arguments(),
                    $(Self::$operation => &[$(Type::$argument),*],)*
                }
            }

            /// Returns the kernel of the operation, or `None` for leaves and for operations
            /// composed of others.
            ///
            /// ```
            /// use bibun_array::formula::Operation;
            /// assert_eq!(Operation::Tanh.definition().unwrap().name(), "tanh");
            /// ```
            pub const fn definition(self) -> Option<&'static Definition> {
                match self {
                    Self::Special(function) => Some(function.definition()),
                    $($(Self::$operation => Some(&ops::$DEFINITION),)?)*
                    _ => None,
                }
            }

            /// Returns the type of the value. `Number` is the precision of the arguments. An input
            /// may have another type.
            pub const fn value(self) -> Type {
                match self {
                    Self::Input(_) | Self::Given(_) | Self::Constant(_) | Self::Special(_) => {
                        Type::Number
                    }
                    Self::Always(_) => Type::Truth,
                    Self::Whole(_) => Type::Integer,
                    $(Self::$operation => Type::$value,)*
                }
            }
        }
    };
}

operations! {
    /// The largest finite number.
    Largest = "largest"() -> Number;

    /// `a + b`.
    Add = "+"(Number, Number) -> Number [ADD];
    /// `a - b`.
    Subtract = "-"(Number, Number) -> Number [SUBTRACT];
    /// `a b`.
    Multiply = "*"(Number, Number) -> Number [MULTIPLY];
    /// `a / b`.
    Divide = "/"(Number, Number) -> Number [DIVIDE];
    /// `a b + c`, rounded once.
    MultiplyAdd = "multiply_add"(Number, Number, Number) -> Number [MULTIPLY_ADD];
    /// `-a`.
    Negative = "negative"(Number) -> Number [NEGATIVE];
    /// The magnitude `|a|`.
    Abs = "abs"(Number) -> Number [ABS];
    /// The sign -1, 0 or 1; NaN for NaN.
    Sign = "sign"(Number) -> Number [SIGN];
    /// The square root.
    Sqrt = "sqrt"(Number) -> Number [SQRT];
    /// The greatest integer that is at most `a`.
    Floor = "floor"(Number) -> Number [FLOOR];
    /// The least integer that is at least `a`.
    Ceil = "ceil"(Number) -> Number [CEIL];
    /// The nearest integer towards zero.
    Trunc = "trunc"(Number) -> Number [TRUNC];
    /// The nearest integer; halves go to the even one.
    Round = "round"(Number) -> Number [ROUND];
    /// The greater of two; NaN if either is NaN.
    Maximum = "maximum"(Number, Number) -> Number [MAXIMUM];
    /// The lesser of two; NaN if either is NaN.
    Minimum = "minimum"(Number, Number) -> Number [MINIMUM];
    /// The first clamped between the other two.
    Clip = "clip"(Number, Number, Number) -> Number [CLIP];

    /// `a == b`.
    Equal = "=="(Number, Number) -> Truth [EQUAL];
    /// `a < b`.
    Less = "<"(Number, Number) -> Truth [LESS];
    /// `a <= b`.
    LessEqual = "<="(Number, Number) -> Truth [LESS_EQUAL];
    /// Whether the number is NaN.
    IsNan = "is_nan"(Number) -> Truth [IS_NAN];
    /// Whether both hold.
    And = "and"(Truth, Truth) -> Truth [LOGICAL_AND];
    /// Whether one or both hold.
    Or = "or"(Truth, Truth) -> Truth [LOGICAL_OR];
    /// Whether exactly one holds.
    Xor = "xor"(Truth, Truth) -> Truth [LOGICAL_XOR];
    /// Whether the condition does not hold.
    Not = "not"(Truth) -> Truth [LOGICAL_NOT];
    /// The second if the first holds, else the third.
    Select = "where"(Truth, Number, Number) -> Number [SELECT];

    /// `a²`.
    Square = "square"(Number) -> Number [SQUARE];
    /// `1 / a`.
    Reciprocal = "reciprocal"(Number) -> Number [RECIPROCAL];
    /// `1 / √a`.
    Rsqrt = "rsqrt"(Number) -> Number [RSQRT];
    /// The cube root.
    Cbrt = "cbrt"(Number) -> Number [CBRT];
    /// `√(a² + b²)`.
    Hypot = "hypot"(Number, Number) -> Number [HYPOT];
    /// `a^b`.
    Power = "pow"(Number, Number) -> Number [POWER];
    /// `(1 - a) (1 + a)`.
    OneMinusSquare = "one_minus_square"(Number) -> Number;
    /// `a / √(a² + b²)`.
    Direction = "direction"(Number, Number) -> Number;
    /// `a / (a² + b²)`.
    Inversion = "inversion"(Number, Number) -> Number;

    /// `e^a`.
    Exp = "exp"(Number) -> Number [EXP];
    /// `e^a` of a number that is not positive.
    ExpOfNegative = "exp_of_negative"(Number) -> Number [EXP_OF_NEGATIVE];
    /// `2^a`.
    Exp2 = "exp2"(Number) -> Number [EXP2];
    /// `e^a - 1`.
    Expm1 = "expm1"(Number) -> Number [EXPM1];
    /// The natural logarithm.
    Log = "log"(Number) -> Number [LOG];
    /// The logarithm to base 2.
    Log2 = "log2"(Number) -> Number [LOG2];
    /// The logarithm to base 10.
    Log10 = "log10"(Number) -> Number [LOG10];
    /// `log(1 + a)`.
    Log1p = "log1p"(Number) -> Number [LOG1P];
    /// `log(e^a + e^b)`.
    Logaddexp = "logaddexp"(Number, Number) -> Number [LOGADDEXP];
    /// `1 / (1 + e^-a)`.
    Sigmoid = "sigmoid"(Number) -> Number [SIGMOID];
    /// `log(sigmoid(a))`.
    LogSigmoid = "log_sigmoid"(Number) -> Number;
    /// `sigmoid(a) sigmoid(-a)`.
    LogisticDensity = "logistic_density"(Number) -> Number;
    /// `log(1 + e^a)`.
    Softplus = "softplus"(Number) -> Number [SOFTPLUS];

    /// The sine.
    Sin = "sin"(Number) -> Number [SIN];
    /// The cosine.
    Cos = "cos"(Number) -> Number [COS];
    /// The tangent.
    Tan = "tan"(Number) -> Number [TAN];
    /// The inverse sine.
    Asin = "asin"(Number) -> Number [ASIN];
    /// The inverse cosine.
    Acos = "acos"(Number) -> Number [ACOS];
    /// The inverse tangent.
    Atan = "atan"(Number) -> Number [ATAN];
    /// The angle of the point `(b, a)`.
    Atan2 = "atan2"(Number, Number) -> Number [ATAN2];
    /// The hyperbolic sine.
    Sinh = "sinh"(Number) -> Number [SINH];
    /// The hyperbolic cosine.
    Cosh = "cosh"(Number) -> Number [COSH];
    /// The hyperbolic tangent.
    Tanh = "tanh"(Number) -> Number [TANH];
    /// The inverse hyperbolic sine.
    Asinh = "asinh"(Number) -> Number [ASINH];
    /// The inverse hyperbolic cosine.
    Acosh = "acosh"(Number) -> Number [ACOSH];
    /// The inverse hyperbolic tangent.
    Atanh = "atanh"(Number) -> Number [ATANH];

    /// The error function.
    Erf = "erf"(Number) -> Number [ERF];
    /// `1 - erf(a)`.
    Erfc = "erfc"(Number) -> Number [ERFC];
    /// The inverse of the error function.
    Erfinv = "erfinv"(Number) -> Number [ERFINV];
    /// The distribution function of the standard normal distribution.
    NormalDistribution = "normal_distribution"(Number) -> Number [NORMAL_DISTRIBUTION];
    /// The density of the standard normal distribution.
    NormalDensity = "normal_density"(Number) -> Number [NORMAL_DENSITY];
    /// A number times its normal distribution.
    Gelu = "gelu"(Number) -> Number [GELU];
    /// `log |Γ(a)|`.
    Lgamma = "lgamma"(Number) -> Number [LGAMMA];
    /// The derivative of `log Γ(a)`.
    Digamma = "digamma"(Number) -> Number [DIGAMMA];
    /// The remainder of `a / b` rounded towards zero.
    Fmod = "fmod"(Number, Number) -> Number [FMOD];

    /// The remainder of `floor(a / b)`.
    Remainder = "remainder"(Number, Number) -> Number [REMAINDER];

    /// `2^n` of a whole number in the range of normal exponents, from the bits of its sum with 1.5 times the
    /// first number whose neighbours are 1 apart, and the bias of exponents.
    PowerOfTwo = "power_of_two"(Number) -> Number;
    /// Whether a whole number is odd, from the bits of its sum with 1.5 times the first number whose
    /// neighbours are 1 apart.
    IsOdd = "is_odd"(Number) -> Truth;
    /// Whether the second lowest bit of a whole number is set, from the same sum.
    HasBitOfTwo = "has_bit_of_two"(Number) -> Truth;
    /// The exponent `k` of a positive normal number `2^k m` with `√½ <= m < √2`.
    Exponent = "exponent"(Number) -> Number;
    /// The fraction `m` of the same number.
    Fraction = "fraction"(Number) -> Number;
    /// The magnitude of the first with the sign of the second.
    CopySign = "copysign"(Number, Number) -> Number [COPY_SIGN];
    /// Whether the sign bit is set.
    IsSignNegative = "is_sign_negative"(Number) -> Truth [IS_SIGN_NEGATIVE];
    /// `a / b` of integers, rounded towards zero, where `b` is not 0.
    Quotient = "quotient"(Integer, Integer) -> Integer;
    /// The remainder of the quotient.
    Rest = "rest"(Integer, Integer) -> Integer;
    /// The bitwise and.
    BitsAnd = "&"(Integer, Integer) -> Integer [BITWISE_AND];
    /// The bitwise or.
    BitsOr = "|"(Integer, Integer) -> Integer [BITWISE_OR];
    /// The bitwise exclusive or.
    BitsXor = "^"(Integer, Integer) -> Integer [BITWISE_XOR];
    /// The number nearest to an integer.
    ToNumber = "to_number"(Integer) -> Number;
    /// A number without its fraction, clamped to the range of integers; 0 for NaN.
    ToInteger = "to_integer"(Number) -> Integer;

    /// The number in double precision.
    Widen = "widen"(Single) -> Double;
    /// The number nearest to one in double precision.
    Narrow = "narrow"(Double) -> Single;
}
