//! Special functions: those around Γ, the normal distribution, entropies and Bessel functions.

mod bessel;
mod entropy;
mod exponential_integral;
mod gamma;
mod incomplete;
mod multivariate;
mod normal;
mod polynomials;

use bibun_array::math::Special;

use crate::functions::families::ElementFunction;

pub use bessel::*;
pub use entropy::*;
pub use exponential_integral::*;
pub use gamma::*;
pub use incomplete::*;
pub use multivariate::*;
pub use normal::*;
pub use polynomials::*;

/// Returns the function of a special function of formulas, with its derivatives.
pub(in crate::functions) fn of_special(function: Special) -> &'static ElementFunction {
    match function {
        Special::Polygamma => gamma::Polygamma::function(),
        Special::Zeta => Zeta::function(),
        Special::Beta => BetaFunction::function(),
        Special::Betaln => Betaln::function(),
        Special::BetaSlope => gamma::BetaSlope::function(),
        Special::PolygammaDifference => gamma::PolygammaDifference::function(),
        Special::Gammainc => Gammainc::function(),
        Special::Gammaincc => Gammaincc::function(),
        Special::GammaincA => incomplete::GammaincA::function(),
        Special::GammaincAa => incomplete::GammaincAa::function(),
        Special::GammaDensity => incomplete::GammaDensity::function(),
        Special::Betainc => Betainc::function(),
        Special::BetaincA => incomplete::BetaincA::function(),
        Special::BetaincB => incomplete::BetaincB::function(),
        Special::BetaincAa => incomplete::BetaincAa::function(),
        Special::BetaincAb => incomplete::BetaincAb::function(),
        Special::BetaincBb => incomplete::BetaincBb::function(),
        Special::BetaDensity => incomplete::BetaDensity::function(),
        Special::Gammaincinv => Gammaincinv::function(),
        Special::Gammainccinv => Gammainccinv::function(),
        Special::Betaincinv => Betaincinv::function(),
        Special::BesselI => bessel::BesselI::function(),
        Special::BesselIe => bessel::BesselIe::function(),
        Special::BesselJ => bessel::BesselJ::function(),
        Special::BesselY => bessel::BesselY::function(),
        Special::BesselK => bessel::BesselK::function(),
        Special::BesselKe => bessel::BesselKe::function(),
        Special::Expn => exponential_integral::Expn::function(),
        Special::Expi => Expi::function(),
        Special::Erfcx => normal::ScaledErfc::function(),
        Special::LogNdtr => normal::LogDistribution::function(),
        Special::Ndtri => Ndtri::function(),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        bessel::samples(),
        entropy::samples(),
        exponential_integral::samples(),
        gamma::samples(),
        incomplete::samples(),
        normal::samples(),
        multivariate::samples(),
        polynomials::samples(),
    ]
    .concat()
}
