//! Derive macros for bibun.

mod chain;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `bibun::links::Chain`: a walk over the fields, by their names.
///
/// The fields of tuples are called by their positions, but the only field of a tuple struct or of
/// a variant adds nothing to the name: a wrapper is transparent. Of an enum, the fields of the
/// variant at hand are visited. Type parameters that occur in fields must be Chains too.
///
/// `#[chain(skip)]` leaves a field out.
#[proc_macro_derive(Chain, attributes(chain))]
pub fn derive_chain(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    chain::derive(input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
