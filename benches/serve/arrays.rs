//! Elements moved, picked, compared and put in order.

use bibun::Variable;
use bibun::functions::{
    argmax, concat, cumsum, embedding, gather, pad, scatter_add, sort, stack, take, top_k, where_,
};
use bibun::s;

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    let flat = |x: Variable| {
        let size = x.size();
        x.reshape([size])
    };
    rows.forward("arrays/transposed-1024x1024", move |[x]| {
        flat(x.transpose())
    });
    rows.forward("arrays/transposed-4096x64", move |[x]| flat(x.transpose()));
    rows.forward("arrays/channels-last", move |[x]| {
        flat(x.permute(&[0, 2, 3, 1]))
    });
    rows.forward("arrays/heads-first", move |[x]| {
        flat(x.permute(&[0, 2, 1, 3]))
    });
    rows.both("arrays/slice", move |[x]| flat(x.slice(s![.., 256..768])));
    rows.both("arrays/pad", |[x]| {
        pad(x, &[(0, 0), (0, 0), (1, 1), (1, 1)], 0.0)
    });
    rows.both("arrays/concat-rows", |[a, b, c, d]| concat([a, b, c, d], 0));
    rows.both("arrays/concat-columns", |[a, b, c, d]| {
        concat([a, b, c, d], 1)
    });
    rows.both("arrays/stack", |[a, b, c, d]| stack([a, b, c, d], 1));
    rows.both("arrays/where", |[condition, x, y]| where_(condition, x, y));
    rows.forward("arrays/greater", |[x, y]| x.greater(y));
    rows.both("arrays/gather", |[x, indices]| gather(x, indices, 1));
    rows.both("arrays/scatter-add", |[x, indices, y]| {
        scatter_add(x, indices, 1, y)
    });
    rows.both("arrays/take-rows", |[x, indices]| take(x, indices, 0));
    rows.both("arrays/embedding", |[table, words]| {
        embedding(words, table, None)
    });
    rows.both("arrays/cumsum-rows", |[x]| cumsum(x, 1));
    rows.both("arrays/cumsum-columns", |[x]| cumsum(x, 0));
    rows.forward("arrays/sort-rows", |[x]| sort(x, 1));
    rows.forward("arrays/sort-vector", |[x]| sort(x, 0));
    rows.forward("arrays/top-10", |[x]| top_k(x, 10, 1));
    rows.forward("arrays/argmax-rows", |[x]| argmax(x, 1));
    rows.forward("arrays/argmax-columns", |[x]| argmax(x, 0));
}
