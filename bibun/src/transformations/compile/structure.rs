//! The structure of an argument, which a program is for.

use std::sync::atomic::{AtomicBool, Ordering};

use bibun_array::Array;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::error::{Error, raise};
use crate::node::Key;
use crate::tree::{Buffer, Held, Part, Role, Tree, Visitor};
use crate::variable::Variable;

/// What a function sees of an argument beside the values of its leaves and arrays: the name of each
/// position, which positions have one Variable, plain fields, and the constants and buffers of its models, by
/// identity.
#[derive(Debug)]
pub(super) struct Structure {
    contents: Vec<Content>,
    /// The number of leaves and arrays.
    inputs: usize,
    /// Whether the Tree reads the names of positions itself.
    needs_path: bool,
    /// Whether the leaves of the last argument were elements and nothing else.
    was_bare: AtomicBool,
}

#[derive(Debug)]
enum Content {
    /// The name of what comes next, and the number of names around it.
    Field(usize, &'static str),
    Child(usize, String),
    /// The leaf with this number.
    Leaf {
        number: usize,
        is_parameter: bool,
        is_frozen: bool,
    },
    /// The next array.
    Array,
    Constant(Variable),
    ConstantArray(Array),
    Buffer(Buffer),
    Plain(u64),
    Absent,
}

/// Beyond this number of leaves, those that are known are looked for in a set.
const FEW: usize = 16;

impl Structure {
    #[track_caller]
    pub(super) fn of<T: Tree + ?Sized>(tree: &T) -> Self {
        let mut contents: Vec<Content> = Vec::new();
        let (mut leaves, mut arrays) = (0, 0);
        let mut known = FxHashMap::default();
        let mut opaque = None;
        let mut see = |name: &str, part: Part<'_>| {
            let mut leaf = |x: &Variable, role| {
                let is_parameter = role == Role::Parameter;
                let key = (x.identity(), is_parameter);
                let number = *known.entry(key).or_insert(leaves);
                leaves = leaves.max(number + 1);
                Content::Leaf {
                    number,
                    is_parameter,
                    is_frozen: x.is_frozen(),
                }
            };
            contents.push(match part {
                Part::Field(depth, name) => Content::Field(depth, name),
                Part::Child(depth, name) => Content::Child(depth, name.to_owned()),
                Part::Held(Held::Buffer(buffer), Role::Buffer) => Content::Buffer(buffer.clone()),
                Part::Held(Held::Buffer(buffer), role) => leaf(&buffer.get(), role),
                Part::Held(Held::Variable(x), Role::Buffer) => Content::Constant(x.clone()),
                Part::Held(Held::Variable(x), _) if x.is_absent() => Content::Absent,
                Part::Held(Held::Variable(x), role) => leaf(x, role),
                Part::Array(_) => {
                    arrays += 1;
                    Content::Array
                }
                Part::Plain(bits) => Content::Plain(bits),
                Part::Skipped(x) => Content::Constant(x.clone()),
                Part::SkippedArray(x) => Content::ConstantArray(x.clone()),
                Part::Opaque(of) => {
                    opaque.get_or_insert_with(|| format!("`{name}` of the argument is a {of}"));
                    return;
                }
            });
        };
        let mut visitor = Visitor::of_everything(&mut see).showing_names(true);
        tree.visit(&mut visitor);
        let needs_path = visitor.is_path_asked();
        if let Some(opaque) = opaque {
            let what = format!(
                "{opaque}, which is no Tree and has neither `Hash` nor `Debug` where it stands, so a \
                 later call could not tell whether it has changed; implement one of them (a generic field \
                 needs the bound on its struct), or capture the value"
            );
            raise(Error::argument("compile", what));
        }
        Self {
            contents,
            inputs: leaves + arrays,
            needs_path,
            was_bare: AtomicBool::new(true),
        }
    }

    /// Returns the leaves of a Tree, and behind them its arrays, if it has this structure.
    pub(super) fn inputs<T: Tree + ?Sized>(&self, tree: &T) -> Option<Vec<Variable>> {
        let mut leaves: Vec<Variable> = Vec::with_capacity(self.inputs);
        let mut arrays: Vec<Variable> = Vec::new();
        let (mut leaf, mut array) = (
            |x: &Variable| {
                leaves.push(x.clone());
                true
            },
            |x: &Array| arrays.push(Variable::constant(x)),
        );
        if !self.fits(tree, &mut leaf, &mut array) {
            return None;
        }
        let are_bare = leaves.iter().all(|x| x.bare().is_some());
        self.was_bare.store(are_bare, Ordering::Relaxed);
        leaves.append(&mut arrays);
        Some(leaves)
    }

    /// Returns the same as arrays, if all leaves are elements and nothing else.
    // PERF: without Variables, which need not be known for a call that leaves no history.
    pub(super) fn arrays<T: Tree + ?Sized>(&self, tree: &T) -> Option<Vec<Array>> {
        if !self.was_bare.load(Ordering::Relaxed) {
            return None;
        }
        let mut leaves: Vec<Array> = Vec::with_capacity(self.inputs);
        let mut arrays: Vec<Array> = Vec::new();
        let (mut leaf, mut array) = (
            |x: &Variable| {
                let elements = x.bare();
                leaves.extend(elements.cloned());
                elements.is_some()
            },
            |x: &Array| arrays.push(x.clone()),
        );
        if !self.fits(tree, &mut leaf, &mut array) {
            return None;
        }
        leaves.append(&mut arrays);
        Some(leaves)
    }

    /// Whether a Tree has this structure. Calls `leaf` with each leaf, as long as it returns `true`, and
    /// `array` with each array.
    // PERF: without a list of names, because it is asked in every call.
    fn fits<T: Tree + ?Sized>(
        &self,
        tree: &T,
        leaf: &mut dyn FnMut(&Variable) -> bool,
        array: &mut dyn FnMut(&Array),
    ) -> bool {
        let mut expected = self.contents.iter();
        let mut known: SmallVec<[(Key, bool); 4]> = SmallVec::new();
        let mut many: FxHashSet<(Key, bool)> = FxHashSet::default();
        let mut fits = true;
        let mut see = |_: &str, part: Part<'_>| {
            if !fits {
                return;
            }
            let Some(content) = expected.next() else {
                fits = false;
                return;
            };
            let content_of_buffer;
            let (x, role) = match (&part, content) {
                (Part::Field(depth, name), Content::Field(expected_depth, expected)) => {
                    let is_it = std::ptr::eq(*name, *expected) || name == expected;
                    fits = depth == expected_depth && is_it;
                    return;
                }
                (Part::Child(depth, name), Content::Child(expected_depth, expected)) => {
                    fits = depth == expected_depth && name == expected;
                    return;
                }
                (Part::Held(Held::Buffer(buffer), role), Content::Buffer(expected)) => {
                    fits = *role == Role::Buffer && buffer.is_same(expected);
                    return;
                }
                (Part::Held(Held::Variable(x), role), Content::Constant(expected)) => {
                    fits = *role == Role::Buffer && x.is_identical(expected);
                    return;
                }
                (Part::Held(Held::Variable(x), role), Content::Absent) => {
                    fits = *role != Role::Buffer && x.is_absent();
                    return;
                }
                (Part::Held(Held::Buffer(buffer), role), Content::Leaf { .. }) => {
                    content_of_buffer = buffer.get();
                    (&content_of_buffer, *role)
                }
                (Part::Held(Held::Variable(x), role), Content::Leaf { .. }) => (*x, *role),
                (Part::Array(x), Content::Array) => {
                    array(x);
                    return;
                }
                (Part::Plain(bits), Content::Plain(expected)) => {
                    fits = bits == expected;
                    return;
                }
                (Part::Skipped(x), Content::Constant(expected)) => {
                    fits = x.is_identical(expected);
                    return;
                }
                (Part::SkippedArray(x), Content::ConstantArray(expected)) => {
                    fits = x.has_same_bits(expected);
                    return;
                }
                _ => {
                    fits = false;
                    return;
                }
            };
            let Content::Leaf {
                number,
                is_parameter,
                is_frozen,
            } = content
            else {
                unreachable!("other contents are compared above")
            };
            fits = role != Role::Buffer
                && !x.is_absent()
                && *is_parameter == (role == Role::Parameter)
                && *is_frozen == x.is_frozen();
            let key = (x.identity(), *is_parameter);
            match known.get(*number) {
                // A Variable that is at two positions.
                Some(first) => fits &= *first == key,
                None => {
                    if known.len() == FEW {
                        many.extend(known.iter().copied());
                    }
                    fits &= match known.len() < FEW {
                        true => !known.contains(&key),
                        false => many.insert(key),
                    };
                    known.push(key);
                    fits = fits && leaf(x);
                }
            }
        };
        let visitor = Visitor::of_everything(&mut see);
        tree.visit(&mut visitor.showing_names(self.needs_path));
        fits && expected.next().is_none()
    }
}
