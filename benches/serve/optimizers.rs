//! Steps of optimizers: of ten million parameters in few tensors, and of half a million in a thousand.

use bibun::optimizers::hooks::ClipNorm;
use bibun::optimizers::{Adam, AdamW, MomentumSgd, Sgd};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    for sizes in ["few", "many"] {
        let name = |optimizer| format!("optimizers/{optimizer}-{sizes}");
        rows.update(&name("sgd"), || Sgd::new(1e-3));
        rows.update(&name("momentum"), || MomentumSgd::new(1e-3, 0.9));
        rows.update(&name("adam"), || Adam::new(1e-3));
        rows.update(&name("adamw"), || AdamW::new(1e-3));
        rows.update(&name("adam-clipped"), || {
            Adam::new(1e-3).hook(ClipNorm(1.0))
        });
    }
}
