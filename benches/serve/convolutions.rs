//! Convolutions and pooling, over one to three axes.

use bibun::functions::{
    ConvOptions, ConvTransposeOptions, Pooling, avg_pool, conv_transpose2d, conv1d, conv2d, conv3d,
    global_avg_pool, max_pool,
};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    let plain = ConvOptions::<2>::new();
    for (name, options) in [
        ("1x1", plain),
        ("3x3", plain.padding(1)),
        ("3x3-of-3", plain.padding(1)),
        ("3x3-small", plain.padding(1)),
        ("3x3-stride-2", plain.padding(1).stride(2)),
        ("5x5", plain.padding(2)),
        ("7x7-stride-2", plain.padding(3).stride(2)),
        ("depthwise", plain.padding(1).groups(64)),
        ("grouped", plain.padding(1).groups(8)),
        ("dilated", plain.padding(2).dilation(2)),
    ] {
        rows.both(&format!("convolutions/{name}"), move |[x, w]| {
            conv2d(x, w, None, options)
        });
    }
    let options = ConvTransposeOptions::<2>::new().stride(2).padding(1);
    rows.both("convolutions/transposed", move |[x, w]| {
        conv_transpose2d(x, w, None, options)
    });
    let options = ConvOptions::<1>::new().padding(2);
    rows.both("convolutions/1-axis", move |[x, w]| {
        conv1d(x, w, None, options)
    });
    let options = ConvOptions::<3>::new().padding(1);
    rows.both("convolutions/3-axes", move |[x, w]| {
        conv3d(x, w, None, options)
    });
    rows.both("pooling/max-2x2", |[x]| max_pool(x, [2, 2]));
    rows.both("pooling/max-3x3-stride-2", |[x]| {
        max_pool(x, Pooling::new([3, 3]).stride(2).padding(1))
    });
    rows.both("pooling/average-2x2", |[x]| avg_pool(x, [2, 2]));
    rows.both("pooling/average-global", |[x]| global_avg_pool(x));
}
