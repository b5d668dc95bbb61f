//! History as a page.

use super::picture::Picture;
use super::svg::{STYLE, STYLE_DARK, Use};
use super::{History, counted, grouped};

impl History {
    /// Returns a self-contained HTML page.
    ///
    /// Requires the feature `pictures`.
    ///
    /// The page zooms (wheel, buttons, `+` and `-`), moves (drag, arrow keys with shift), and folds
    /// links ([`with_links`](History::with_links)) and composite functions. For the element under the
    /// pointer or the focus it shows the shape, the dtype, the source line, the saved bytes, and
    /// statistics of the value and the gradient if they are still there. `forward` lets data flow,
    /// generation by generation, `backward` lets the gradients flow back, and `play` does both. The
    /// part of the address after `#` is a list of the page's commands, such as
    /// `#fold=layers/0,forward=3`.
    ///
    /// The page draws as many functions as [`svg`](History::svg).
    ///
    /// ```
    /// use bibun::{history, Variable};
    /// let x = Variable::new([1.0, 2.0]);
    /// let y = x.tanh().sum(..);
    /// y.backward();
    /// let page = history(&y).html();
    /// assert!(page.contains("gradient: min"));
    /// ```
    pub fn html(&self) -> String {
        let summary = format!(
            "{}, {} bytes kept",
            counted(self.function_count(), "function", "functions"),
            grouped(self.kept_bytes())
        );
        page("History", &summary, &self.picture(Use::InPage))
    }
}

/// Returns a self-contained page with a picture.
pub(crate) fn page(title: &str, summary: &str, picture: &Picture) -> String {
    let dark = format!(":root[data-theme=dark] {{\n{STYLE_DARK}}}\n");
    let parts = [
        ("<!-- title -->", title.to_owned()),
        (
            "<!-- style -->",
            format!("{STYLE}{dark}{}", include_str!("page.css")),
        ),
        ("<!-- label -->", title.to_owned()),
        ("<!-- summary -->", summary.to_owned()),
        ("<!-- picture -->", picture.svg(Use::InPage)),
        ("<!-- script -->", include_str!("page.js").to_owned()),
    ];
    let mut rest = include_str!("page.html");
    let mut page = String::new();
    for (place, part) in parts {
        let (before, after) = rest.split_once(place).expect("the template has the place");
        page += before;
        page += &part;
        rest = after;
    }
    page + rest
}
