//! History as a page.

use super::picture::Picture;
use super::svg::{STYLE, STYLE_DARK, Use};
use super::{History, counted, grouped};

impl History {
    /// A page that needs nothing but itself.
    ///
    /// Takes the feature `pictures`.
    ///
    /// It zooms (wheel, buttons, `+` and `-`), moves (drag, arrow keys with shift), and folds links
    /// ([`with_links`](History::with_links)) and functions that are made of others; whatever the pointer or the focus is on is told with
    /// its shape, dtype, source line, bytes kept, and statistics of value and gradient where they
    /// are still there. `forward` lets data flow, generation by generation, `backward` lets the
    /// gradients flow back, and `play` does all of it. Behind `#` the page takes a list of its
    /// commands, such as `#fold=layers/0,forward=3`.
    ///
    /// As much is drawn as by [`svg`](History::svg).
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
        let picture = Picture::of(self).svg(Use::InPage);
        let summary = format!(
            "{}, {} bytes kept",
            counted(self.function_count(), "function", "functions"),
            grouped(self.kept_bytes())
        );
        let dark = format!(":root[data-theme=dark] {{\n{STYLE_DARK}}}\n");
        let parts = [
            (
                "<!-- style -->",
                format!("{STYLE}{dark}{}", include_str!("page.css")),
            ),
            ("<!-- summary -->", summary),
            ("<!-- picture -->", picture),
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
}
