//! Derive macros for bibun.

mod tree;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};
use tree::Derived;

/// Implements `bibun::Tree` for a container of Variables, with its fields as parts, by their names.
///
/// Fields of tuples are named by their positions, but the only field of a tuple struct or of a
/// variant adds nothing to the name: a wrapper is transparent. For an enum, the fields of the current
/// variant are visited. Type parameters that occur in fields must be Trees, too.
///
/// `#[tree(skip)]` leaves a field out; it is cloned. `compile` compares its value with that of the first
/// call if its type is a Tree, or implements `Hash` or `Debug`, or is an `Arc`, whose address is compared;
/// arguments with fields of other types are refused.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    derive(Derived::Tree, input)
}

/// Implements `bibun::links::Chain` for a model, and `bibun::Tree`, which Chain requires. The difference
/// from `derive(Tree)` is that constants are buffers, and clones of a Variable are one parameter.
///
/// `#[chain(skip)]` leaves a field out; it is cloned. `compile` compares it as with `derive(Tree)`.
#[proc_macro_derive(Chain, attributes(chain))]
pub fn derive_chain(input: TokenStream) -> TokenStream {
    derive(Derived::Chain, input)
}

fn derive(derived: Derived, input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    tree::derive(derived, input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
