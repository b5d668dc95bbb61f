//! Gradients on their way: gathered into buckets, which leave as soon as they are full.

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
    /// Whether each bucket goes to the owners of its parameters, and not to all.
    is_sharded: bool,
}

/// One parameter, and who updates it if not all do.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) variable: Variable,
    pub(super) owner: usize,
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
        owners: Option<usize>,
    ) -> Self {
        let owned = owners_of(&parameters, owners.unwrap_or(1));
        let parameters = parameters.into_iter().zip(owned);
        let parameters: Vec<Parameter> = parameters
            .map(|((name, variable), owner)| Parameter {
                name,
                variable,
                owner,
            })
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
        Self {
            parameters,
            buckets,
            is_sharded: owners.is_some(),
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

    /// Returns the members of a bucket that a process owns.
    fn owned<'a>(&'a self, bucket: &'a Bucket, rank: usize) -> impl Iterator<Item = usize> + 'a {
        let members = bucket.members.iter().copied();
        members.filter(move |&member| self.parameters[member].owner == rank)
    }

    /// Gives all processes the values that the owners have.
    #[track_caller]
    pub(super) fn share_values(&self, world: &Communicator) {
        for bucket in &self.buckets {
            let own: Vec<Array> = self
                .owned(bucket, world.rank())
                .map(|member| self.variable(member).array())
                .collect();
            let what = format!("the values of {}", self.named(bucket));
            let own = packed(&own, bucket.dtype);
            let all = world.start_gather(what, &own).wait_all();
            for (rank, values) in all
                .iter()
                .enumerate()
                .filter(|(rank, _)| *rank != world.rank())
            {
                let mut unpacked = Unpacked::new(values);
                for member in self.owned(bucket, rank) {
                    let variable = self.variable(member);
                    let device = variable.device();
                    variable.set_array(unpacked.next(&variable.shape()).to(device));
                }
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

/// Divides parameters among processes: the largest first, each to the one that has least so far.
fn owners_of(parameters: &[(String, Variable)], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parameters.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(parameters[i].1.size()));
    let (mut owners, mut loads) = (vec![0; parameters.len()], vec![0; count]);
    for i in order {
        let least = (0..count).min_by_key(|&rank| loads[rank]).unwrap_or(0);
        owners[i] = least;
        loads[least] += parameters[i].1.size();
    }
    owners
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
    /// number. Returns for each parameter its gradient, if there is one on any process. In the leaves are
    /// the gradients of this process.
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
        if plan.is_sharded {
            let part = |rank| self.marked(plan, plan.owned(bucket, rank), dtype);
            let parts = (0..world.size()).map(part).collect();
            return world.start_sums(what, parts, scale);
        }
        let members = bucket.members.iter().copied();
        world.start_sum(what, &self.marked(plan, members, dtype), scale)
    }

    /// Returns the gradients of some parameters, one behind the other, and for each of them whether it is
    /// there.
    fn marked(&self, plan: &Plan, members: impl Iterator<Item = usize>, dtype: DType) -> Array {
        let (mut parts, mut marks) = (Vec::new(), Vec::new());
        for member in members {
            let gradient = self.complete[member].clone().flatten();
            marks.push(f64::from(u8::from(gradient.is_some())));
            let zeros = || Array::zeros(plan.variable(member).shape(), dtype);
            parts.push(gradient.unwrap_or_else(zeros));
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
            let members: Vec<usize> = match plan.is_sharded {
                true => plan.owned(bucket, self.world.rank()).collect(),
                false => bucket.members.clone(),
            };
            let mut unpacked = Unpacked::new(&sum);
            let gradients: Vec<Array> = members
                .iter()
                .map(|&member| unpacked.next(&plan.variable(member).shape()))
                .collect();
            let marks = unpacked.next(&[members.len()].into());
            let marks = match marks.dtype().is_complex() {
                true => marks.real(),
                false => marks,
            };
            let marks = marks.cast(DType::F64).to_vec::<f64>();
            for ((member, gradient), mark) in members.into_iter().zip(gradients).zip(marks) {
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
