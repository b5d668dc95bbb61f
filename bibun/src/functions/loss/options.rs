//! Options of losses, which a [`Reduction`](super::Reduction) converts into.

/// Defines a struct of options with a reduction, numbers and their defaults, and Variables that may be
/// missing.
macro_rules! options {
    (
        $(#[$documentation:meta])*
        $Options:ident {
            $($(#[$about:meta])* $field:ident: $Type:ty = $default:expr,)*
            $(;$($(#[$about_input:meta])* $input:ident,)+)?
        }
    ) => {
        $(#[$documentation])*
        #[derive(Clone, Debug)]
        pub struct $Options {
            /// The reduction of the losses. Defaults to their mean.
            pub reduction: $crate::functions::Reduction,
            $($(#[$about])* pub $field: $Type,)*
            $($($(#[$about_input])* pub $input: Option<$crate::Variable>,)+)?
        }

        impl Default for $Options {
            fn default() -> Self {
                Self {
                    reduction: $crate::functions::Reduction::Mean,
                    $($field: $default,)*
                    $($($input: None,)+)?
                }
            }
        }

        impl $Options {
            /// Returns the defaults.
            pub fn new() -> Self {
                Self::default()
            }

            /// Sets the reduction of the losses. Defaults to their mean.
            #[must_use]
            pub fn reduction(self, reduction: $crate::functions::Reduction) -> Self {
                Self { reduction, ..self }
            }
        }

        $(
            impl $Options {
                #[doc = concat!("Sets `", stringify!($field), "`.\n\n")]
                $(#[$about])*
                #[must_use]
                pub fn $field(self, $field: $Type) -> Self {
                    Self { $field, ..self }
                }
            }
        )*

        $($(
            impl $Options {
                #[doc = concat!("Sets `", stringify!($input), "`.\n\n")]
                $(#[$about_input])*
                #[must_use]
                pub fn $input(self, $input: impl Into<$crate::Variable>) -> Self {
                    let $input = Some($input.into());
                    Self { $input, ..self }
                }
            }
        )+)?

        impl From<$crate::functions::Reduction> for $Options {
            fn from(reduction: $crate::functions::Reduction) -> Self {
                Self::new().reduction(reduction)
            }
        }

        impl From<&Self> for $Options {
            fn from(options: &Self) -> Self {
                options.clone()
            }
        }
    };
}
pub(super) use options;
