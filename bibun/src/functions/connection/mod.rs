//! TODO

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    Vec::new()
}
