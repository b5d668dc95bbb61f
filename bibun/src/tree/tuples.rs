//! The tuples that have the traits of their parts.

/// Calls a macro with the tuples of up to 8 parts: a type parameter and a position for each part.
macro_rules! for_tuples {
    ($implement:ident) => {
        $implement! {
            (A 0)
            (A 0, B 1)
            (A 0, B 1, C 2)
            (A 0, B 1, C 2, D 3)
            (A 0, B 1, C 2, D 3, E 4)
            (A 0, B 1, C 2, D 3, E 4, F 5)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
        }
    };
}

pub(crate) use for_tuples;

#[cfg(test)]
mod tests {
    use bibun_array::{Array, Generator};

    use crate::datasets::{Collate, Dataset};
    use crate::transformations::Container;
    use crate::{BatchAxes, Variable};

    #[test]
    fn tuples_of_eight_parts_have_all_traits_of_their_parts() {
        let axes = BatchAxes::from((0, 1, 2, 3, 4, 5, 6, 7));
        let named = (0..8).map(|axis| (axis.to_string(), Some(axis)));
        assert_eq!(axes, BatchAxes::named(named));

        let x = || Variable::new(1.0);
        let container = (x(), x(), x(), x(), x(), x(), x(), x());
        let mut count = 0;
        let filled = container.fill(&mut || {
            count += 1;
            count
        });
        assert_eq!(filled, (1, 2, 3, 4, 5, 6, 7, 8));

        let rows = |first: i64| Array::from([first, first + 1]);
        let data = (
            rows(0),
            rows(2),
            rows(4),
            rows(6),
            rows(8),
            rows(10),
            rows(12),
            rows(14),
        );
        let example = |index| data.example(index, &mut Generator::new(0)).unwrap();
        let batch = Collate::collate(vec![example(0), example(1)]).unwrap();
        assert_eq!((data.len(), batch.7.to_vec::<i64>()), (2, vec![14, 15]));
    }
}
