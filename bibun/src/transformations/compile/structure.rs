//! The structure of an argument, which a program is for.

use bibun_array::Array;
use rustc_hash::FxHashMap;

use crate::error::{Error, raise};
use crate::node::Key;
use crate::tree::{Buffer, Held, Part, Role, Tree, Visitor};
use crate::variable::Variable;

/// What a function sees of an argument beside the values of its leaves and arrays: the name of each
/// position, which positions have one Variable, plain fields, and the constants and buffers of its models, by
/// identity.
#[derive(Debug)]
pub(super) struct Structure(Vec<Position>);

#[derive(Debug)]
struct Position {
    name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
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

impl Structure {
    #[track_caller]
    pub(super) fn of<T: Tree + ?Sized>(tree: &T) -> Self {
        let mut positions: Vec<Position> = Vec::new();
        let mut leaves = 0;
        let mut known = FxHashMap::default();
        let mut opaque = None;
        tree.visit(&mut Visitor::of_everything(&mut |name, part| {
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
            let content = match part {
                Part::Held(Held::Buffer(buffer), Role::Buffer) => Content::Buffer(buffer.clone()),
                Part::Held(Held::Buffer(buffer), role) => leaf(&buffer.get(), role),
                Part::Held(Held::Variable(x), Role::Buffer) => Content::Constant(x.clone()),
                Part::Held(Held::Variable(x), _) if x.is_absent() => Content::Absent,
                Part::Held(Held::Variable(x), role) => leaf(x, role),
                Part::Array(_) => Content::Array,
                Part::Plain(bits) => Content::Plain(bits),
                Part::Skipped(x) => Content::Constant(x.clone()),
                Part::SkippedArray(x) => Content::ConstantArray(x.clone()),
                Part::Opaque(of) => {
                    opaque.get_or_insert_with(|| format!("`{name}` of the argument is a {of}"));
                    return;
                }
            };
            let name = name.to_owned();
            positions.push(Position { name, content });
        }));
        if let Some(opaque) = opaque {
            let what = format!(
                "{opaque}, which is no Tree and has neither `Hash` nor `Debug`, so a later call could \
                 not tell whether it has changed; implement one of them, or capture the value"
            );
            raise(Error::argument("compile", what));
        }
        Self(positions)
    }

    /// Returns the leaves of a Tree, and behind them its arrays, if it has this structure.
    // PERF: without a list of names, because it is asked in every call.
    pub(super) fn inputs<T: Tree + ?Sized>(&self, tree: &T) -> Option<Vec<Variable>> {
        let mut expected = self.0.iter();
        let mut leaves: Vec<Variable> = Vec::new();
        let mut known: Vec<(Key, bool)> = Vec::new();
        let mut arrays: Vec<Variable> = Vec::new();
        let mut fits = true;
        tree.visit(&mut Visitor::of_everything(&mut |name, part| {
            if !fits {
                return;
            }
            let position = expected.next().filter(|position| position.name == name);
            let Some(Position { content, .. }) = position else {
                fits = false;
                return;
            };
            let content_of_buffer;
            let (x, role) = match (&part, content) {
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
                    arrays.push(Variable::constant(*x));
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
                    fits &= !known.contains(&key);
                    known.push(key);
                    leaves.push(x.clone());
                }
            }
        }));
        leaves.append(&mut arrays);
        (fits && expected.next().is_none()).then_some(leaves)
    }
}
