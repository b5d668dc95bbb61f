//! Indices of all kinds, brought to one form: a range, an array or a new axis for each axis.

use bibun_array::{Array, DType, Index, Shape};
use smallvec::SmallVec;

use super::Selection;
use super::positions::{constant_beside, positions};
use crate::error::{Error, mismatch, raise};
use crate::function::Spec;
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{nonzero, reshape, slice, to_indices};
use crate::variable::Variable;

#[track_caller]
pub(super) fn expect_mask(function: &'static str, x: &Variable, mask: &Variable, axis: usize) {
    let (x, spec) = (x.spec(), mask.spec());
    let fits = x.shape[axis.min(x.shape.rank())..].starts_with(&spec.shape);
    if !fits || spec.shape.rank() == 0 {
        let must_hold = format!("the mask must have the sizes of x from axis {axis} on");
        mismatch(function, &[("x", &x), ("mask", &spec)], must_hold)
    }
}

/// What one axis of x, or none, becomes.
#[derive(Clone, Copy)]
pub(super) enum Item {
    New,
    Range(usize, Index),
    /// An axis that an array indexes.
    Array,
}

impl Item {
    /// Returns the index that makes one axis of it.
    pub(super) fn part(&self) -> Index {
        match *self {
            Self::New => Index::NewAxis,
            Self::Range(_, range) => range,
            Self::Array => Index::ALL,
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        match *self {
            Self::New => false,
            Self::Range(_, range) => range == Index::ALL,
            Self::Array => true,
        }
    }
}

/// An axis of x that an array indexes.
pub(super) struct Indexed {
    /// The axis of x, and the number of the item.
    pub(super) axis: usize,
    pub(super) item: usize,
    pub(super) positions: Variable,
}

/// An index with one item for each axis.
pub(super) struct Request {
    pub(super) items: SmallVec<[Item; 4]>,
    pub(super) arrays: SmallVec<[Indexed; 2]>,
    /// The shape of all arrays together.
    pub(super) common: Shape,
}

impl Request {
    #[track_caller]
    pub(super) fn new(function: &'static str, x: &Variable, index: &[Selection]) -> Self {
        let rank = x.rank();
        let axes_of = |selection: &Selection| match selection {
            Selection::Part(Index::NewAxis | Index::Ellipsis) => 0,
            Selection::Part(_) => 1,
            Selection::Array(mask) if mask.dtype() == DType::Bool => mask.rank(),
            Selection::Array(_) => 1,
        };
        let named: usize = index.iter().map(axes_of).sum();
        let is_rest =
            |selection: &&Selection| matches!(selection, Selection::Part(Index::Ellipsis));
        let rests = index.iter().filter(is_rest).count();
        if named > rank || rests > 1 {
            let what = format!("{named} indices and {rests} ellipses for x = {}", x.spec());
            raise(Error::argument(function, what));
        }
        let rest = Selection::Part(Index::Ellipsis);
        let rest = (rests == 0).then_some(&rest);
        let (mut items, mut arrays, mut axis) = (SmallVec::new(), SmallVec::new(), 0);
        for selection in index.iter().chain(rest) {
            let mut array = |items: &mut SmallVec<[Item; 4]>, axis, own: Variable| {
                let positions = positions(function, &own, x, axis);
                let item = items.len();
                arrays.push(Indexed {
                    axis,
                    item,
                    positions,
                });
                items.push(Item::Array);
            };
            match selection {
                Selection::Part(Index::NewAxis) => items.push(Item::New),
                Selection::Part(Index::Ellipsis) => {
                    let whole =
                        (axis..axis + rank - named).map(|axis| Item::Range(axis, Index::ALL));
                    items.extend(whole);
                    axis += rank - named;
                }
                Selection::Part(Index::At(at)) => {
                    array(&mut items, axis, Variable::constant(*at as i64));
                    axis += 1;
                }
                Selection::Part(range @ Index::Range { .. }) => {
                    items.push(Item::Range(axis, *range));
                    axis += 1;
                }
                Selection::Array(mask) if mask.dtype() == DType::Bool => {
                    expect_mask(function, x, mask, axis);
                    let found = nonzero(mask);
                    for of in 0..mask.rank() {
                        array(&mut items, axis, slice(&found, &[Index::ALL, of.into()]));
                        axis += 1;
                    }
                }
                Selection::Array(own) => {
                    array(&mut items, axis, to_indices(own));
                    axis += 1;
                }
            }
        }
        let specs: Vec<Spec> = arrays
            .iter()
            .map(|array: &Indexed| array.positions.spec())
            .collect();
        let common = specs.iter().try_fold(Shape::from(()), |common, spec| {
            common.broadcast(&spec.shape)
        });
        let Some(common) = common else {
            let named: Vec<(&str, &Spec)> = specs.iter().map(|spec| ("indices", spec)).collect();
            mismatch(function, &named, MUST_BROADCAST)
        };
        Self {
            items,
            arrays,
            common,
        }
    }

    /// Returns the place of the common axes of the arrays among the other items.
    pub(super) fn first(&self) -> usize {
        let [Some(first), Some(last)] = [self.arrays.first(), self.arrays.last()] else {
            return 0;
        };
        match last.item - first.item + 1 == self.arrays.len() {
            true => first.item,
            false => 0,
        }
    }

    /// Returns the items that are not arrays, with the axes of the part that they have.
    fn others(&self) -> impl Iterator<Item = (usize, Item)> {
        let (first, common) = (self.first(), self.common.rank());
        let others = self.items.iter().copied();
        let others = others
            .filter(|item| !matches!(item, Item::Array))
            .enumerate();
        others.map(move |(i, item)| (if i < first { i } else { i + common }, item))
    }

    /// Returns the shape of the part.
    pub(super) fn part(&self, shape: &Shape) -> Shape {
        let others = self.others().map(|(_, item)| match item {
            Item::Range(axis, range) => range_of(shape[axis], range).size(),
            Item::New | Item::Array => 1,
        });
        let mut sizes: SmallVec<[usize; 4]> = others.collect();
        sizes.insert_many(self.first(), self.common.iter().copied());
        sizes.into_iter().collect()
    }

    /// Returns the positions along each axis of x, aligned with the part, beside x and what is written.
    pub(super) fn positions<'a>(
        &'a self,
        shape: &'a Shape,
        beside: &'a [&'a Variable],
    ) -> impl Iterator<Item = (usize, Variable)> + 'a {
        let rank = self.common.rank() + self.others().count();
        let (first, common) = (self.first(), self.common.rank());
        let arrays = self.arrays.iter().map(move |array| {
            let own = array.positions.shape();
            let before = (own.rank()..common).map(|_| 1);
            let behind = (first + common..rank).map(|_| 1);
            let aligned = before.chain(own.iter().copied()).chain(behind);
            (
                array.axis,
                reshape(&array.positions, aligned.collect::<Shape>()),
            )
        });
        let ranges = self.others().filter_map(move |(of, item)| match item {
            Item::Range(axis, range) => {
                let positions = range_of(shape[axis], range);
                let mut aligned: SmallVec<[usize; 4]> = SmallVec::from_elem(1, rank);
                aligned[of] = positions.size();
                let positions = positions.reshape(aligned.into_iter().collect::<Shape>());
                Some((axis, constant_beside(beside, positions)))
            }
            Item::New | Item::Array => None,
        });
        arrays.chain(ranges)
    }
}

fn range_of(size: usize, range: Index) -> Array {
    Array::arange(0, size as i64).slice(&[range])
}
