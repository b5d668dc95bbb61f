//! `#[derive(Tree)]` and `#[derive(Chain)]`: a call of the visitor and of the mapper for each field.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Index, Result, parse_quote};

/// The trait that is derived.
#[derive(Clone, Copy)]
pub(crate) enum Derived {
    Tree,
    Chain,
}

impl Derived {
    /// Returns the name of the attribute.
    fn attribute(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Chain => "chain",
        }
    }
}

pub(crate) fn derive(derived: Derived, mut input: DeriveInput) -> Result<TokenStream> {
    let name = derived.attribute();
    if let Some(attribute) = input.attrs.iter().find(|a| a.path().is_ident(name)) {
        let what = format!("`{name}` is an attribute of fields: #[{name}(skip)]");
        return Err(Error::new_spanned(attribute, what));
    }
    let mut visited = TokenStream::new();
    let mut cloned = TokenStream::new();
    let mut walk = |fields: &Fields, access: &dyn Fn(usize, &Field) -> TokenStream| {
        walk_fields(derived, fields, access, &mut visited, &mut cloned)
    };
    let (visits, mapped) = match &input.data {
        Data::Struct(data) => {
            let access = |i: usize, field: &Field| match &field.ident {
                Some(name) => quote!(&self.#name),
                None => {
                    let position = Index::from(i);
                    quote!(&self.#position)
                }
            };
            let (visits, parts) = walk(&data.fields, &access)?;
            (visits, quote!(Self { #parts }))
        }
        Data::Enum(data) => {
            let mut visit_arms = TokenStream::new();
            let mut map_arms = TokenStream::new();
            for (number, variant) in data.variants.iter().enumerate() {
                let name = &variant.ident;
                let bind = |i: usize, _: &Field| format_ident!("field_{i}").into_token_stream();
                let (visits, parts) = walk(&variant.fields, &bind)?;
                let bindings = bindings(&variant.fields);
                visit_arms.extend(quote!(Self::#name { #bindings } => {
                    visitor.plain(&#number);
                    #visits
                }));
                map_arms.extend(quote!(Self::#name { #bindings } => Self::#name { #parts },));
            }
            match data.variants.is_empty() {
                true => (quote!(match *self {}), quote!(match *self {})),
                false => (
                    quote!(match self { #visit_arms }),
                    quote!(match self { #map_arms }),
                ),
            }
        }
        Data::Union(data) => {
            let what = "nobody knows which field of a union is in use, so it has no leaves";
            return Err(Error::new(data.union_token.span(), what));
        }
    };
    let (visits, mapped) = match derived {
        Derived::Tree => (visits, mapped),
        Derived::Chain => (
            quote!(visitor.chain(|visitor| { #visits });),
            quote!(mapper.chain(|mapper| #mapped)),
        ),
    };

    let parameters: Vec<Ident> = input
        .generics
        .type_params()
        .map(|p| p.ident.clone())
        .collect();
    let trees = bounded_types(&parameters, visited);
    let clones = bounded_types(&parameters, cloned);
    let clause = input.generics.make_where_clause();
    for ty in trees {
        clause.predicates.push(parse_quote!(#ty: ::bibun::Tree));
    }
    for ty in clones {
        let bound = parse_quote!(#ty: ::core::clone::Clone);
        clause.predicates.push(bound);
    }
    let name = &input.ident;
    let (impl_generics, type_generics, clause) = input.generics.split_for_impl();
    let chain = match derived {
        Derived::Tree => TokenStream::new(),
        Derived::Chain => quote! {
            #[automatically_derived]
            impl #impl_generics ::bibun::links::Chain for #name #type_generics #clause {}
        },
    };
    Ok(quote! {
        #chain
        #[automatically_derived]
        impl #impl_generics ::bibun::Tree for #name #type_generics #clause {
            #[allow(unused_variables)]
            fn visit(&self, visitor: &mut ::bibun::Visitor<'_>) {
                #visits
            }
            #[allow(unused_variables)]
            fn map(&self, mapper: &mut ::bibun::Mapper<'_>) -> Self {
                #mapped
            }
        }
    })
}

/// Returns the code that visits each field and the code that maps it. The types of visited and of
/// skipped fields are added to `visited` and `cloned`.
fn walk_fields(
    derived: Derived,
    fields: &Fields,
    access: &dyn Fn(usize, &Field) -> TokenStream,
    visited: &mut TokenStream,
    cloned: &mut TokenStream,
) -> Result<(TokenStream, TokenStream)> {
    let transparent = matches!(fields, Fields::Unnamed(_)) && fields.len() == 1;
    let (mut visits, mut parts) = (TokenStream::new(), TokenStream::new());
    for (i, field) in fields.iter().enumerate() {
        let skipped = is_skipped(derived, field)?;
        let types = if skipped { &mut *cloned } else { &mut *visited };
        field.ty.to_tokens(types);
        // Keeps `A` of one field and `::B` of the next from being read as one path.
        quote!(,).to_tokens(types);
        let value = access(i, field);
        let member = match &field.ident {
            Some(name) => quote!(#name),
            None => Index::from(i).into_token_stream(),
        };
        // The span of the type makes the compiler point at a field that is not a Tree.
        let span = field.ty.span();
        if skipped {
            parts.extend(quote_spanned!(span=> #member: ::core::clone::Clone::clone(#value),));
            let name = member.to_string();
            let name = name.trim_start_matches("r#");
            visits.extend(quote!({
                #[allow(unused_imports)]
                use ::bibun::skipped::{
                    OfAddress as _, OfHash as _, OfNothing as _, OfText as _, OfTree as _, Skipped,
                };
                (&&&&&Skipped(#value)).show(#name, visitor);
            }));
            continue;
        }
        visits.extend(match &field.ident {
            _ if transparent => quote_spanned!(span=> ::bibun::Tree::visit(#value, visitor);),
            Some(name) => {
                let name = name.to_string();
                let name = name.trim_start_matches("r#");
                quote_spanned!(span=> visitor.field(#name, #value);)
            }
            None => {
                let name = i.to_string();
                quote_spanned!(span=> visitor.field(#name, #value);)
            }
        });
        parts.extend(quote_spanned!(span=> #member: ::bibun::Tree::map(#value, mapper),));
    }
    Ok((visits, parts))
}

/// Returns the pattern that binds the fields of a variant.
fn bindings(fields: &Fields) -> TokenStream {
    let mut pattern = TokenStream::new();
    for (i, field) in fields.iter().enumerate() {
        let binding = format_ident!("field_{i}");
        match &field.ident {
            Some(name) => pattern.extend(quote!(#name: #binding,)),
            None => {
                let position = Index::from(i);
                pattern.extend(quote!(#position: #binding,));
            }
        }
    }
    pattern
}

fn is_skipped(derived: Derived, field: &Field) -> Result<bool> {
    let mut skipped = false;
    for attribute in &field.attrs {
        if attribute.path().is_ident(derived.attribute()) {
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

/// Returns the type parameters that occur in the types of fields (`T`) and their associated types
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
        // PhantomData is a Tree whatever its parameter is.
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

/// Returns the tokens without their groups, such as `( T , U )` and `[ T ; 3 ]`.
fn flatten(tokens: TokenStream) -> Vec<TokenTree> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => flatten(group.stream()),
            other => vec![other],
        })
        .collect()
}
