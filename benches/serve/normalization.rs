//! Normalisation: to mean 0 and variance 1 along some axes.

use bibun::functions::{
    batch_normalization, group_normalization, layer_normalization, rms_normalization,
};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    for shape in ["1024x1024", "4096x768"] {
        rows.both(
            &format!("normalization/layer-{shape}"),
            |[x, gamma, beta]| layer_normalization(x, -1, gamma, beta, 1e-5),
        );
        rows.both(&format!("normalization/rms-{shape}"), |[x, gamma]| {
            rms_normalization(x, -1, gamma, 1e-5)
        });
    }
    for shape in ["128x512", "4096x256"] {
        rows.both(
            &format!("normalization/batch-{shape}"),
            |[x, gamma, beta]| batch_normalization(x, gamma, beta, 1e-5),
        );
    }
    for size in ["8", "28"] {
        rows.both(
            &format!("normalization/batch-32x64x{size}x{size}"),
            |[x, gamma, beta]| batch_normalization(x, gamma, beta, 1e-5),
        );
        rows.both(
            &format!("normalization/group-32x64x{size}x{size}"),
            |[x, gamma, beta]| group_normalization(x, 8, gamma, beta, 1e-5),
        );
    }
}
