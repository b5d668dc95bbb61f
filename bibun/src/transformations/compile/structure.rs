//! The structure of an argument, which a program is for.

use rustc_hash::FxHashMap;

use crate::tree::{Buffer, Held, Role, Tree, Visitor};
use crate::variable::Variable;

/// What a function sees of an argument beside the values of its leaves: the name of each position,
/// which positions have one leaf, and the constants and buffers of its models, by identity.
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
    Constant(Variable),
    Buffer(Buffer),
    Absent,
}

impl Structure {
    pub(super) fn of<T: Tree + ?Sized>(tree: &T) -> Self {
        let mut positions: Vec<Position> = Vec::new();
        let mut leaves = 0;
        let mut known = FxHashMap::default();
        tree.visit(&mut Visitor::of_places(&mut |name, held, role| {
            let mut leaf = |x: &Variable| {
                let is_parameter = role == Role::Parameter;
                let number = match is_parameter {
                    true => *known.entry(x.identity()).or_insert(leaves),
                    false => leaves,
                };
                leaves = leaves.max(number + 1);
                Content::Leaf {
                    number,
                    is_parameter,
                    is_frozen: x.is_frozen(),
                }
            };
            let content = match held {
                Held::Buffer(buffer) if role == Role::Buffer => Content::Buffer(buffer.clone()),
                Held::Buffer(buffer) => leaf(&buffer.get()),
                Held::Variable(x) if role == Role::Buffer => Content::Constant(x.clone()),
                Held::Variable(x) if x.is_absent() => Content::Absent,
                Held::Variable(x) => leaf(x),
            };
            let name = name.to_owned();
            positions.push(Position { name, content });
        }));
        Self(positions)
    }

    /// Returns the leaves of a Tree, if it has this structure.
    // PERF: without a list of names, because it is asked in every call.
    pub(super) fn leaves<T: Tree + ?Sized>(&self, tree: &T) -> Option<Vec<Variable>> {
        let mut expected = self.0.iter();
        let mut leaves: Vec<Variable> = Vec::new();
        let mut fits = true;
        tree.visit(&mut Visitor::of_places(&mut |name, held, role| {
            let position = expected.next().filter(|position| position.name == name);
            let Some(Position { content, .. }) = position else {
                fits = false;
                return;
            };
            let content_of_buffer;
            let x = match (&held, content) {
                (Held::Buffer(buffer), Content::Buffer(expected)) => {
                    fits &= role == Role::Buffer && buffer.is_same(expected);
                    return;
                }
                (Held::Variable(x), Content::Constant(expected)) => {
                    fits &= role == Role::Buffer && x.is_same(expected);
                    return;
                }
                (Held::Variable(x), Content::Absent) => {
                    fits &= role != Role::Buffer && x.is_absent();
                    return;
                }
                (Held::Buffer(buffer), _) => {
                    content_of_buffer = buffer.get();
                    &content_of_buffer
                }
                (Held::Variable(x), _) => x,
            };
            let Content::Leaf {
                number,
                is_parameter,
                is_frozen,
            } = content
            else {
                fits = false;
                return;
            };
            fits &= role != Role::Buffer
                && !x.is_absent()
                && *is_parameter == (role == Role::Parameter)
                && *is_frozen == x.is_frozen();
            match leaves.get(*number) {
                // A parameter that is at two positions.
                Some(first) => fits &= first.is_same(x),
                None => {
                    let is_new = |leaf: &Variable| !leaf.is_same(x);
                    fits &= !is_parameter || leaves.iter().all(is_new);
                    leaves.push(x.clone());
                }
            }
        }));
        (fits && expected.next().is_none()).then_some(leaves)
    }
}
