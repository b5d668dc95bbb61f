//! Special functions against exact values, with the bounds that their documentation promises.

use bibun_array::math::{Float, Special};

/// The largest relative error of a function at some arguments, or `None` if the error is relative to the
/// larger of 1 and the value.
fn bound(function: Special, x: &[f64]) -> (f64, bool) {
    match function {
        Special::Polygamma | Special::Zeta => (1e-14, false),
        Special::Beta | Special::BetaSlope => (1e-12, false),
        Special::PolygammaDifference => (1e-13, false),
        Special::Betaln => (1e-14, true),
        Special::Gammainc
        | Special::Gammaincc
        | Special::GammaDensity
        | Special::Betainc
        | Special::BetaDensity => (1e-12, false),
        Special::GammaincA | Special::BetaincA | Special::BetaincB => (1e-10, false),
        Special::GammaincAa | Special::BetaincAa | Special::BetaincAb | Special::BetaincBb => {
            (1e-10, true)
        }
        // As exact as the probability is.
        Special::Gammaincinv | Special::Gammainccinv => (1e-12 / x[0].min(1.0), false),
        Special::Betaincinv => (1e-12 / x[0].min(x[1]).min(1.0), false),
        Special::BesselI => (1e-14, false),
        Special::BesselIe => (1e-14 * 100f64.powf(x[2]), false),
        Special::BesselJ | Special::Expi => (1e-14, true),
        Special::BesselY if x[1].abs() > 1.0 => (1e-12, true),
        Special::BesselY => (1e-14, true),
        Special::BesselK | Special::BesselKe | Special::Expn => (1e-14, false),
        Special::Erfcx if x[0] < -1.0 => (1e-13, false),
        Special::Erfcx => (1e-14, false),
        Special::LogNdtr => (1e-13, false),
        Special::Ndtri => (2e-15, false),
    }
}

#[test]
fn values() {
    let number = |text: &str| {
        f64::from_bits(u64::from_str_radix(text, 16).expect("sixteen hexadecimal digits"))
    };
    let mut lines = [0; Special::ALL.len()];
    let mut wrong = Vec::new();
    for line in include_str!("../golden/array/special.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let place = (Special::ALL.iter()).position(|function| function.name() == words[0]);
        let place = place.expect(line);
        let function = Special::ALL[place];
        let equals = words.len() - 2;
        let x: Vec<f64> = words[1..equals].iter().map(|word| number(word)).collect();
        let wanted = number(words[equals + 1]);
        let got = f64::special(function, &x);
        let (bound, is_absolute) = bound(function, &x);
        let size = wanted
            .abs()
            .max(if is_absolute { 1.0 } else { f64::MIN_POSITIVE });
        let error = (got - wanted).abs() / size;
        if error > bound || got.is_nan() {
            wrong.push(format!(
                "{} of {x:?}: {got:e}, not {wanted:e} ({error:.1e})",
                words[0]
            ));
        }
        // In f32 it is the same number, rounded.
        let narrow: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let wide: Vec<f64> = narrow.iter().map(|&x| f64::from(x)).collect();
        let (narrow, wide) = (
            f32::special(function, &narrow),
            f64::special(function, &wide),
        );
        assert!(
            narrow == wide as f32 || narrow.is_nan() && wide.is_nan(),
            "{line}"
        );
        lines[place] += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    for (function, lines) in Special::ALL.iter().zip(lines) {
        assert!(
            lines >= 40,
            "{} has {lines} lines in special.txt",
            function.name()
        );
    }
}
