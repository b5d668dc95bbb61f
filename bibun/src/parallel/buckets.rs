//! Gradients on their way: gathered into buckets, which leave as soon as they are full.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bibun_array::{Array, DType, Device, Index, Shape};

use super::communicator::{Communicator, Pending};
use crate::error::{Error, raise};
use crate::hooks::HookHandle;
use crate::variable::Variable;

/// The parameters of a model, divided into buckets that travel as one message. The last parameters come
/// first, because their gradients do.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) parameters: Vec<Parameter>,
    buckets: Vec<Bucket>,
    /// How the elements are divided among the processes, if each updates its part alone.
    pub(super) division: Option<Division>,
}

/// One parameter.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) variable: Variable,
}

/// How processes divide the elements of parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grain {
    /// Each gets as many elements of every bucket as the others, or one more.
    Elements,
    /// Each gets whole parameters, the largest first, each to the one that has least so far.
    Parameters,
}

/// For each parameter, where the part of each process begins among its elements, and where the last one ends.
#[derive(Debug)]
pub(super) struct Division(Vec<Vec<usize>>);

impl Division {
    /// Returns the elements of a parameter that belong to a process.
    pub(super) fn part(&self, parameter: usize, rank: usize) -> Range<usize> {
        let cuts = &self.0[parameter];
        cuts[rank]..cuts[rank + 1]
    }

    fn of(parameters: &[Parameter], buckets: &[Bucket], grain: Grain, count: usize) -> Self {
        let size = |member: usize| parameters[member].variable.size();
        let mut cuts = vec![Vec::new(); parameters.len()];
        match grain {
            Grain::Elements => {
                for Bucket { members, .. } in buckets {
                    let whole: usize = members.iter().map(|&member| size(member)).sum();
                    let mut before = 0;
                    for &member in members {
                        let cut = |rank: usize| {
                            (whole * rank / count).clamp(before, before + size(member))
                        };
                        cuts[member] = (0..=count).map(|rank| cut(rank) - before).collect();
                        before += size(member);
                    }
                }
            }
            Grain::Parameters => {
                let mut order: Vec<usize> = (0..parameters.len()).collect();
                order.sort_by_key(|&member| Reverse(size(member)));
                let mut loads = vec![0; count];
                for member in order {
                    let owner = (0..count).min_by_key(|&rank| loads[rank]).unwrap_or(0);
                    loads[owner] += size(member);
                    let cut = |rank| if rank > owner { size(member) } else { 0 };
                    cuts[member] = (0..=count).map(cut).collect();
                }
            }
        }
        Self(cuts)
    }
}

/// Parameters of one dtype whose gradients travel together.
#[derive(Clone, Debug)]
struct Bucket {
    members: Vec<usize>,
    dtype: DType,
}

impl Plan {
    /// Plans buckets of about this many bytes; a larger parameter has a bucket of its own.
    pub(super) fn of(
        parameters: Vec<(String, Variable)>,
        bytes: usize,
        divided: Option<(Grain, usize)>,
    ) -> Self {
        let parameters = parameters.into_iter();
        let parameters: Vec<Parameter> = parameters
            .map(|(name, variable)| Parameter { name, variable })
            .collect();
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut room = 0;
        for (number, parameter) in parameters.iter().enumerate().rev() {
            let dtype = parameter.variable.dtype();
            let size = parameter.variable.size() * dtype.size();
            match buckets.last_mut() {
                Some(last) if last.dtype == dtype && size <= room => {
                    last.members.push(number);
                    room -= size;
                }
                _ => {
                    let members = vec![number];
                    buckets.push(Bucket { members, dtype });
                    room = bytes.saturating_sub(size);
                }
            }
        }
        let division =
            divided.map(|(grain, count)| Division::of(&parameters, &buckets, grain, count));
        Self {
            parameters,
            buckets,
            division,
        }
    }

    /// Returns whether this is a plan for the same parameters.
    pub(super) fn is_for(&self, parameters: &[(String, Variable)]) -> bool {
        let is_same = |(own, (name, variable)): (&Parameter, &(String, Variable))| {
            own.name == *name && own.variable.identity() == variable.identity()
        };
        self.parameters.len() == parameters.len()
            && self.parameters.iter().zip(parameters).all(is_same)
    }

    fn variable(&self, number: usize) -> &Variable {
        &self.parameters[number].variable
    }

    /// Returns the members of a bucket of which a process has elements, with these.
    fn owned<'a>(
        &'a self,
        division: &'a Division,
        bucket: &'a Bucket,
        rank: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
        let members = bucket.members.iter();
        let owned = members.map(move |&member| (member, division.part(member, rank)));
        owned.filter(|(_, part)| !part.is_empty())
    }

    /// Gives all processes the values that each has for its part, as `own` returns them for a parameter.
    #[track_caller]
    pub(super) fn share_values(&self, world: &Communicator, own: impl Fn(usize) -> Array) {
        let Some(division) = &self.division else {
            return;
        };
        for bucket in &self.buckets {
            let of_me = self.owned(division, bucket, world.rank());
            let of_me: Vec<Array> = of_me.map(|(member, _)| own(member)).collect();
            let what = format!("the values of {}", self.named(bucket));
            let of_me = packed(&of_me, bucket.dtype);
            let all = world.start_gather(what, &of_me).wait_all();
            let mut all: Vec<Unpacked<'_>> = all.iter().map(Unpacked::new).collect();
            for &member in &bucket.members {
                let parts = all.iter_mut().enumerate().filter_map(|(rank, values)| {
                    let part = division.part(member, rank);
                    (!part.is_empty()).then(|| values.next(&[part.len()].into()))
                });
                let parts: Vec<Array> = parts.collect();
                let variable = self.variable(member);
                let whole = packed(&parts, bucket.dtype).reshape(variable.shape());
                variable.set_array(whole.to(variable.device()));
            }
        }
    }

    fn named(&self, bucket: &Bucket) -> String {
        let name = |member: usize| &self.parameters[member].name;
        let sizes = bucket
            .members
            .iter()
            .map(|&member| self.variable(member).size());
        let size: usize = sizes.sum();
        match bucket.members[..] {
            [only] => format!("`{}`, [{size}] {}", name(only), bucket.dtype),
            [first, .., last] => format!(
                "`{}` to `{}`, [{size}] {}",
                name(first),
                name(last),
                bucket.dtype
            ),
            [] => unreachable!("a bucket has a member"),
        }
    }
}

/// The sum of gradients over all processes, while it is being formed.
#[derive(Debug)]
pub(super) struct Exchange {
    plan: Arc<Plan>,
    world: Communicator,
    /// For each parameter whether its gradient is complete here, and the gradient.
    complete: Vec<Option<Option<Array>>>,
    /// The sums that are under way, one for each bucket from the first on.
    pending: Vec<Pending>,
}

impl Exchange {
    /// Runs `walk`, a backward pass, and adds up the gradients of all processes, times one over their
    /// number. Returns for each parameter its gradient, if there is one on any process; of divided ones that
    /// of the elements of this process, as one axis. In the leaves are the gradients of this process.
    #[track_caller]
    pub(super) fn during(
        plan: &Arc<Plan>,
        world: &Communicator,
        walk: impl FnOnce(),
    ) -> Vec<Option<Array>> {
        let exchange = Self {
            plan: Arc::clone(plan),
            world: world.clone(),
            complete: vec![None; plan.parameters.len()],
            pending: Vec::new(),
        };
        let exchange = Arc::new(Mutex::new(Some(exchange)));
        let mut hooks = Hooks(Vec::new());
        for (number, parameter) in plan.parameters.iter().enumerate() {
            let variable = &parameter.variable;
            if variable.is_frozen() {
                with(&exchange, |exchange| exchange.complete[number] = Some(None));
                continue;
            }
            let (own, exchange) = (variable.clone(), Arc::clone(&exchange));
            hooks.0.push(variable.register_hook(move |gradient| {
                let gradient = gradient.array();
                let whole = match own.grad() {
                    Some(before) => before.array() + gradient,
                    None => gradient,
                };
                with(&exchange, |exchange| exchange.arrived(number, whole));
                None
            }));
        }
        walk();
        drop(hooks);
        let exchange = exchange
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        exchange.expect("it was put back").finish()
    }

    #[track_caller]
    fn arrived(&mut self, number: usize, gradient: Array) {
        if self.complete[number].is_some() {
            let what = format!(
                "the gradient of `{}` has left already, and another one arrived; compute the loss as one \
                 Variable, and its gradient in one backward pass",
                self.plan.parameters[number].name
            );
            raise(Error::argument("DataParallel", what));
        }
        self.complete[number] = Some(Some(gradient));
        self.send_complete();
    }

    /// Sends the next buckets as far as they are full. All processes send them in the same order.
    fn send_complete(&mut self) {
        let plan = Arc::clone(&self.plan);
        while let Some(bucket) = plan.buckets.get(self.pending.len())
            && (bucket.members.iter()).all(|&member| self.complete[member].is_some())
        {
            self.pending.push(self.sent(&plan, bucket));
        }
    }

    fn sent(&self, plan: &Plan, bucket: &Bucket) -> Pending {
        let (world, dtype) = (&self.world, bucket.dtype);
        let what = format!("the gradients of {}", plan.named(bucket));
        let scale = 1.0 / world.size() as f64;
        if let Some(division) = &plan.division {
            let part = |rank| self.marked(plan.owned(division, bucket, rank), dtype);
            let parts = (0..world.size()).map(part).collect();
            return world.start_sums(what, parts, scale);
        }
        let members = bucket.members.iter();
        let members = members.map(|&member| (member, 0..plan.variable(member).size()));
        world.start_sum(what, &self.marked(members, dtype), scale)
    }

    /// Returns the gradients of some elements, one behind the other, and for each parameter whether it has one.
    fn marked(&self, members: impl Iterator<Item = (usize, Range<usize>)>, dtype: DType) -> Array {
        let (mut parts, mut marks) = (Vec::new(), Vec::new());
        for (member, part) in members {
            let gradient = self.complete[member].clone().flatten();
            marks.push(f64::from(u8::from(gradient.is_some())));
            parts.push(match gradient {
                Some(gradient) => elements(&gradient, part),
                None => Array::zeros([part.len()], dtype),
            });
        }
        let count = marks.len();
        parts.push(Array::from_vec(marks, [count]).cast(dtype));
        packed(&parts, dtype)
    }

    /// Sends the rest, with what earlier backward passes left in the leaves, and waits for the sums.
    #[track_caller]
    fn finish(mut self) -> Vec<Option<Array>> {
        let plan = Arc::clone(&self.plan);
        for (complete, parameter) in self.complete.iter_mut().zip(&plan.parameters) {
            complete.get_or_insert_with(|| Some(parameter.variable.grad()?.array()));
        }
        self.send_complete();
        let mut sums = vec![None; plan.parameters.len()];
        for (bucket, pending) in plan.buckets.iter().zip(self.pending) {
            let sum = pending.wait();
            let members: Vec<(usize, Shape)> = match &plan.division {
                Some(division) => {
                    let own = plan.owned(division, bucket, self.world.rank());
                    own.map(|(member, part)| (member, [part.len()].into()))
                        .collect()
                }
                None => {
                    let members = bucket.members.iter();
                    let members = members.map(|&member| (member, plan.variable(member).shape()));
                    members.collect()
                }
            };
            let mut unpacked = Unpacked::new(&sum);
            let gradients: Vec<Array> = members
                .iter()
                .map(|(_, shape)| unpacked.next(shape))
                .collect();
            let marks = unpacked.next(&[members.len()].into());
            let marks = match marks.dtype().is_complex() {
                true => marks.real(),
                false => marks,
            };
            let marks = marks.cast(DType::F64).to_vec::<f64>();
            for (((member, _), gradient), mark) in members.into_iter().zip(gradients).zip(marks) {
                let device: &'static dyn Device = plan.variable(member).device();
                sums[member] = (mark > 0.0).then(|| gradient.to(device));
            }
        }
        sums
    }
}

/// Works on the exchange while nobody else can, and without a lock.
#[track_caller]
fn with(exchange: &Mutex<Option<Exchange>>, f: impl FnOnce(&mut Exchange)) {
    let lock = || exchange.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = lock().take();
    if let Some(mut taken) = taken {
        f(&mut taken);
        *lock() = Some(taken);
    }
}

/// Hooks that are removed when this is dropped.
struct Hooks(Vec<HookHandle>);

impl Drop for Hooks {
    fn drop(&mut self) {
        self.0.drain(..).for_each(HookHandle::remove);
    }
}

/// Returns some elements of an array as one axis.
pub(super) fn elements(x: &Array, part: Range<usize>) -> Array {
    let x = x.to_row_major();
    x.reshape([x.size()]).slice(&[part.into()])
}

/// Returns the elements of arrays, one behind the other.
fn packed(parts: &[Array], dtype: DType) -> Array {
    let flat = |x: &Array| {
        let x = x.to(bibun_array::cpu()).cast(dtype).to_row_major();
        x.reshape([x.size()])
    };
    let parts: Vec<Array> = parts.iter().map(flat).collect();
    match &parts[..] {
        [] => Array::zeros([0], dtype),
        parts => bibun_array::concat(&parts.iter().collect::<Vec<_>>(), 0),
    }
}

/// Takes arrays out of one that has the elements of all.
struct Unpacked<'a> {
    whole: &'a Array,
    taken: usize,
}

impl<'a> Unpacked<'a> {
    fn new(whole: &'a Array) -> Self {
        Self { whole, taken: 0 }
    }

    fn next(&mut self, shape: &Shape) -> Array {
        let range: Range<usize> = self.taken..self.taken + shape.size();
        self.taken = range.end;
        self.whole
            .slice(&[Index::from(range)])
            .reshape(shape.clone())
    }
}
