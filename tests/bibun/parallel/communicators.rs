//! Collectives of arrays, and what happens if processes do not come together.

use std::time::{Duration, Instant};

use bibun::array::{Array, DType, Generator, bf16};
use bibun::parallel::{Communicator, Message, local};
use bibun::{Error, Spec, attempt};

/// Large enough to be sent in parts.
const SIZE: usize = 3001;

fn own(world: &Communicator, dtype: DType, shape: &[usize]) -> Array {
    of_rank(world.rank(), dtype, shape)
}

fn of_rank(rank: usize, dtype: DType, shape: &[usize]) -> Array {
    let x = Generator::new(7)
        .split(rank as u64)
        .normal(shape, 0.0, 100.0, DType::F64);
    x.cast(dtype)
}

/// The sum in the order of the ranks, in the dtype in which halves are added.
fn sum(count: usize, dtype: DType, shape: &[usize]) -> Array {
    let sums = (0..count).map(|rank| of_rank(rank, dtype, shape).cast(dtype.accumulator()));
    sums.reduce(|sum, x| sum + x).unwrap().cast(dtype)
}

const NUMBERS: [DType; 7] = [
    DType::U8,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

#[test]
fn sums_have_the_bits_of_the_sum_in_order() {
    for count in 1..=4 {
        for shape in [&[][..], &[0], &[2, 3], &[SIZE]] {
            local::run(count, |world| {
                for dtype in NUMBERS {
                    let y = world.all_reduce(&own(&world, dtype, shape));
                    assert!(
                        y.has_same_bits(&sum(count, dtype, shape)),
                        "{count} {dtype} {shape:?}"
                    );
                }
            });
        }
    }
}

#[test]
fn sums_of_halves_are_rounded_once() {
    // 256 + 1 is 256 in bf16: one by one, nothing would come of the ones.
    let sums = local::run(4, |world| {
        let x = if world.is_first() { 256.0 } else { 1.0 };
        world
            .all_reduce(&Array::full([3], bf16::from_f32(x)))
            .cast(DType::F32)
            .to_vec::<f32>()
    });
    // 259 lies between 258 and 260, and goes to the even one.
    assert_eq!(sums, vec![vec![260.0; 3]; 4]);
}

#[test]
fn arrays_go_where_they_belong() {
    for count in 1..=4 {
        local::run(count, |world| {
            let rank = world.rank();
            for dtype in NUMBERS.into_iter().chain([DType::Bool]) {
                let shape = [2 * count, 3];
                let x = own(&world, dtype, &shape);
                let all: Vec<Array> = (0..count)
                    .map(|rank| of_rank(rank, dtype, &shape))
                    .collect();
                let whole = bibun::array::concat(&all.iter().collect::<Vec<_>>(), 0);
                assert!(world.all_gather(&x).has_same_bits(&whole));
                let root = count / 2;
                assert!(world.broadcast(&x, root).has_same_bits(&all[root]));
                let part = |x: &Array, rank: usize| x.slice(&[(2 * rank..2 * rank + 2).into()]);
                let parts: Vec<Array> = all.iter().map(|x| part(x, rank)).collect();
                let parts = bibun::array::concat(&parts.iter().collect::<Vec<_>>(), 0);
                assert!(world.all_to_all(&x).has_same_bits(&parts));
                if dtype != DType::Bool {
                    let expected = part(&sum(count, dtype, &shape), rank);
                    assert!(world.reduce_scatter(&x).has_same_bits(&expected));
                }
                // Around in a ring.
                if count > 1 {
                    world.send(&x, (rank + 1) % count);
                    let before = (rank + count - 1) % count;
                    let received = world.receive(&Spec::new(shape, dtype), before);
                    assert!(received.has_same_bits(&all[before]));
                }
            }
            // Other layouts.
            let x = own(&world, DType::F64, &[3, 2 * count]).transpose();
            let expected = of_rank(0, DType::F64, &[3, 2 * count]).transpose();
            assert!(world.broadcast(&x, 0).has_same_bits(&expected));
            let bytes = world.gather_bytes(&vec![rank as u8; rank]);
            assert_eq!(
                bytes,
                (0..count)
                    .map(|rank| vec![rank as u8; rank])
                    .collect::<Vec<_>>()
            );
            assert_eq!(world.broadcast_bytes(&bytes[rank]), Vec::<u8>::new());
            world.barrier();
        });
    }
}

#[test]
fn a_sum_sends_what_it_must() {
    for count in 1..=4u64 {
        local::run(count as usize, |world| {
            let before = world.traffic().bytes_sent;
            world.all_reduce(&Array::zeros([12_000], DType::F32));
            let sent = world.traffic().bytes_sent - before;
            // 2 (n - 1) / n of the array, which is the least.
            assert_eq!(sent, 2 * (count - 1) * 48_000 / count);
        });
    }
}

#[test]
fn groups_are_split() {
    local::run(4, |world| {
        let rank = world.rank();
        let (row, column) = (world.split(rank / 2), world.split(rank % 2));
        assert_eq!(
            (row.size(), row.rank(), column.rank()),
            (2, rank % 2, rank / 2)
        );
        let x = Array::from([rank as f64]);
        let [by_row, by_column] =
            [&row, &column].map(|group| group.all_reduce(&x).to_vec::<f64>()[0]);
        assert_eq!(by_row, [1.0, 5.0][rank / 2]);
        assert_eq!(by_column, [2.0, 4.0][rank % 2]);
        let alone = row.split(rank);
        assert_eq!((alone.size(), alone.is_first()), (1, true));
        assert_eq!(alone.all_reduce(&x).to_vec::<f64>(), [rank as f64]);
    });
}

#[test]
fn messages_are_bytes() {
    for dtype in NUMBERS.into_iter().chain([DType::Bool]) {
        let elements = of_rank(0, dtype, &[SIZE]);
        let message = Message::Part {
            context: u64::MAX - 1,
            what: "a collective".to_owned(),
            location: "somewhere".to_owned(),
            elements: elements.clone(),
        };
        let bytes = message.to_bytes();
        let Some(Message::Part {
            context,
            what,
            location,
            elements: read,
        }) = Message::from_bytes(&bytes)
        else {
            panic!("{dtype}");
        };
        assert_eq!(
            (context, &*what, &*location),
            (u64::MAX - 1, "a collective", "somewhere")
        );
        assert!(read.has_same_bits(&elements));
        // Cut off anywhere in the head, it is no message.
        let head = bytes.len() - SIZE * dtype.size();
        assert!((0..head).all(|end| Message::from_bytes(&bytes[..end]).is_none()));
    }
    assert!(Message::from_bytes(&[42]).is_none());
}

/// Returns the message of the error of each process.
fn errors(results: Vec<Result<(), Error>>) -> Vec<String> {
    let message = |result: Result<(), Error>| match result {
        Err(error @ Error::Communication { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    results.into_iter().map(message).collect()
}

#[test]
fn other_shapes_and_other_collectives_are_named() {
    let all = errors(local::try_run(2, |world| {
        world.all_reduce(&Array::zeros([2 + world.rank()], DType::F32));
    }));
    // One of the two sees the difference, the other that or the end of the first.
    let expected = "process 0 is at all_reduce of [2] f32, called at";
    let seen = all
        .iter()
        .any(|error| error.contains("all_reduce of [3] f32, called at"));
    assert!(seen && all[0].contains(expected), "{all:#?}");
    assert!(all[0].contains("parallel/communicators.rs:"), "{all:#?}");
    let all = errors(local::try_run(2, |world| match world.rank() {
        0 => drop(world.all_gather(&Array::from([1.0]))),
        _ => world.barrier(),
    }));
    let seen = all.iter().any(|error| error.contains("in the same order"));
    assert!(seen, "{all:#?}");
    // Other dtypes.
    let all = errors(local::try_run(2, |world| {
        let dtype = [DType::F32, DType::F64][world.rank()];
        world.broadcast(&Array::zeros([2], dtype), 0);
    }));
    assert!(all[1].contains("broadcast of [2] f64 from 0"), "{all:#?}");
}

#[test]
fn a_process_that_hangs_is_named_after_the_timeout() {
    let began = Instant::now();
    let results = local::try_run(3, |world| {
        world.set_timeout(Duration::from_millis(200));
        world.barrier();
        if world.rank() == 1 {
            std::thread::sleep(Duration::from_secs(2));
            return;
        }
        world.all_reduce(&Array::from([1.0]));
    });
    assert!(results[1].is_ok());
    let failed = [&results[0], &results[2]].map(|result| result.as_ref().unwrap_err().to_string());
    let by_timeout = failed.iter().any(|error| {
        error.contains("s for process 1 in all_reduce of [1] f64")
            && error.contains("what it last took part in was barrier")
    });
    assert!(by_timeout, "{failed:#?}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_process_that_ends_is_named_at_once() {
    let began = Instant::now();
    let results = local::try_run(3, |world| match world.rank() {
        2 => {
            let (x, y) = (
                bibun::Variable::new([1.0, 2.0]),
                bibun::Variable::new([1.0, 2.0, 3.0]),
            );
            drop(x + y);
        }
        1 => {}
        _ => drop(world.all_reduce(&Array::from([1.0]))),
    });
    assert!(matches!(results[2], Err(Error::Mismatch { .. })));
    let error = results[0].as_ref().unwrap_err().to_string();
    assert!(
        error.contains("but process 1 has ended")
            || error.contains("process 2 has ended by an error"),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    // After a fault nothing goes on.
    let errors = local::try_run(2, |world| {
        let first =
            bibun::attempt(|| world.all_reduce(&Array::zeros([1 + world.rank()], DType::F32)));
        assert!(first.is_err());
        world.barrier();
    });
    assert!(errors.iter().all(Result::is_err));
}

#[test]
fn panics_of_threads_are_passed_on() {
    let run = || {
        local::run(2, |world| {
            assert!(world.rank() == 0, "the cause");
            world.barrier();
        })
    };
    let panic = std::panic::catch_unwind(run).unwrap_err();
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    assert_eq!(text.as_deref(), Some("the cause"));
}

#[test]
fn mistakes_are_named() {
    local::run(2, |world| {
        let x = Array::from([1.0, 2.0, 3.0]);
        let refused = |what: &str, f: &dyn Fn()| {
            let error = bibun::attempt(f).unwrap_err().to_string();
            assert!(
                error.contains(what) && error.contains("communicators.rs"),
                "{error}"
            );
        };
        let parts = "first axis cannot be divided into 2 equal parts";
        refused(parts, &|| drop(world.reduce_scatter(&x)));
        refused(parts, &|| drop(world.all_to_all(&x)));
        let axes = "x has no axes";
        refused(axes, &|| drop(world.all_gather(&Array::from(1.0))));
        refused("no process 2 in a group of 2", &|| {
            drop(world.broadcast(&x, 2))
        });
        refused("is this one itself", &|| world.send(&x, world.rank()));
        let spec = Spec::new([1], DType::F64);
        refused("is this one itself", &|| {
            drop(world.receive(&spec, world.rank()))
        });
        refused("truths are not added", &|| {
            drop(world.all_reduce(&Array::from([true])))
        });
    });
}

/// Those who see somebody go may panic of their own accord; what comes out is the panic that was the first.
#[test]
fn the_first_panic_is_the_one_that_comes_out() {
    for _ in 0..5 {
        let caught = std::panic::catch_unwind(|| {
            local::run(4, |world| {
                assert_ne!(world.rank(), 3, "the real cause");
                let ones = Array::from([1.0]);
                attempt(|| world.all_reduce(&ones)).expect("somebody else's panic");
            })
        });
        let panic = caught.expect_err("a panic");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.contains("the real cause"), "{message}");
    }
}
