//! `#[derive(Chain)]`: one call of the visitor for each field.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Index, Result, parse_quote};

pub(crate) fn derive(mut input: DeriveInput) -> Result<TokenStream> {
    if let Some(attribute) = find_attribute(&input.attrs) {
        let what = "`chain` is an attribute of fields: #[chain(skip)]";
        return Err(Error::new_spanned(attribute, what));
    }
    let mut visited_types = TokenStream::new();
    let body = match &input.data {
        Data::Struct(data) => {
            let access = |i: usize, field: &Field| match &field.ident {
                Some(name) => quote!(&self.#name),
                None => {
                    let position = Index::from(i);
                    quote!(&self.#position)
                }
            };
            visits(&data.fields, access, &mut visited_types)?
        }
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let name = &variant.ident;
                let bind = |i: usize, _: &Field| format_ident!("field_{i}").into_token_stream();
                let visits = visits(&variant.fields, bind, &mut visited_types)?;
                let bindings = bindings(&variant.fields)?;
                Ok(quote!(Self::#name { #bindings .. } => { #visits }))
            });
            let arms = arms.collect::<Result<Vec<_>>>()?;
            if arms.is_empty() {
                quote!(match *self {})
            } else {
                quote!(match self { #(#arms)* })
            }
        }
        Data::Union(data) => {
            let what = "a union cannot be a Chain, for nobody knows which field is in use";
            return Err(Error::new(data.union_token.span(), what));
        }
    };

    let parameters: Vec<Ident> = input
        .generics
        .type_params()
        .map(|p| p.ident.clone())
        .collect();
    let bounded = bounded_types(&parameters, visited_types);
    let clause = input.generics.make_where_clause();
    for ty in bounded {
        clause
            .predicates
            .push(parse_quote!(#ty: ::bibun::links::Chain));
    }
    let name = &input.ident;
    let (impl_generics, type_generics, clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::bibun::links::Chain for #name #type_generics #clause {
            #[allow(unused_variables)]
            fn visit(&self, visitor: &mut ::bibun::links::Visitor<'_>) {
                #body
            }
        }
    })
}

/// A call of the visitor for each field that is not skipped; their types are put on a list.
fn visits(
    fields: &Fields,
    access: impl Fn(usize, &Field) -> TokenStream,
    visited_types: &mut TokenStream,
) -> Result<TokenStream> {
    let transparent = matches!(fields, Fields::Unnamed(_)) && fields.len() == 1;
    let mut calls = TokenStream::new();
    for (i, field) in fields.iter().enumerate() {
        if is_skipped(field)? {
            continue;
        }
        field.ty.to_tokens(visited_types);
        // Keeps `A` of one field and `::B` of the next from being read as one path.
        quote!(,).to_tokens(visited_types);
        let value = access(i, field);
        // With the type's place, the compiler points at a field that is no Chain.
        let call = match &field.ident {
            _ if transparent => {
                quote_spanned!(field.ty.span()=> ::bibun::links::Chain::visit(#value, visitor);)
            }
            Some(name) => {
                let name = name.to_string();
                let name = name.trim_start_matches("r#");
                quote_spanned!(field.ty.span()=> visitor.child(#name, #value);)
            }
            None => quote_spanned!(field.ty.span()=> visitor.child(#i, #value);),
        };
        calls.extend(call);
    }
    Ok(calls)
}

/// The pattern that binds the fields of a variant that are not skipped.
fn bindings(fields: &Fields) -> Result<TokenStream> {
    let mut pattern = TokenStream::new();
    for (i, field) in fields.iter().enumerate() {
        if !is_skipped(field)? {
            let binding = format_ident!("field_{i}");
            match &field.ident {
                Some(name) => pattern.extend(quote!(#name: #binding,)),
                None => {
                    let position = Index::from(i);
                    pattern.extend(quote!(#position: #binding,));
                }
            }
        }
    }
    Ok(pattern)
}

fn find_attribute(attributes: &[syn::Attribute]) -> Option<&syn::Attribute> {
    attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("chain"))
}

fn is_skipped(field: &Field) -> Result<bool> {
    let mut skipped = false;
    for attribute in &field.attrs {
        if attribute.path().is_ident("chain") {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("skip") {
                    return Err(meta.error("expected `skip`"));
                }
                skipped = true;
                Ok(())
            })?;
        }
    }
    Ok(skipped)
}

/// The type parameters that occur in visited fields (`T`) and the types that belong to them
/// (`T::Layer`). Bounds on these, and not on whole fields, also work for types that contain
/// themselves.
fn bounded_types(parameters: &[Ident], types: TokenStream) -> Vec<TokenStream> {
    let mut bounded: Vec<TokenStream> = Vec::new();
    let mut add = |ty: TokenStream| {
        if !bounded
            .iter()
            .any(|known| known.to_string() == ty.to_string())
        {
            bounded.push(ty);
        }
    };
    let tokens = flatten(types);
    let is_colon =
        |i: usize| matches!(tokens.get(i), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    for (i, token) in tokens.iter().enumerate() {
        let TokenTree::Ident(ident) = token else {
            continue;
        };
        let belongs_to_other = i >= 2 && is_colon(i - 1) && is_colon(i - 2);
        if !parameters.contains(ident) || belongs_to_other {
            continue;
        }
        // PhantomData is a Chain whatever it stands for.
        if i >= 2 && matches!(&tokens[i - 2], TokenTree::Ident(outer) if outer == "PhantomData") {
            continue;
        }
        match tokens.get(i + 3) {
            Some(TokenTree::Ident(associated)) if is_colon(i + 1) && is_colon(i + 2) => {
                add(quote!(#ident::#associated));
            }
            _ => add(quote!(#ident)),
        }
    }
    bounded
}

/// The tokens without their groups, such as `( T , U )` and `[ T ; 3 ]`.
fn flatten(tokens: TokenStream) -> Vec<TokenTree> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => flatten(group.stream()),
            other => vec![other],
        })
        .collect()
}
