//! DataLoader: the same for any number of threads, resumed anywhere, and no thread that hangs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bibun::array::{Array, DType, Generator};
use bibun::datasets::{Collate, DataError, DataLoader, Dataset, Digits, Padded, Sequence};
use bibun::serializers::{State, Stateful};
use bibun::{Error, attempt};

const THREADS: [(usize, usize); 5] = [(0, 0), (0, 1), (3, 1), (5, 3), (1, 4)];

/// Numbers with noise, and their names; some take longer than others.
fn noisy(len: usize) -> impl Dataset<Example = (Array, String)> {
    (0..len).collect::<Vec<_>>().map(|number, random| {
        let noise = random.normal(3, number as f64, 0.1, DType::F64);
        sleep(Duration::from_micros(number as u64 * 37 % 300));
        Ok((noise, number.to_string()))
    })
}

fn values<D: Dataset<Example = (Array, String)>>(
    batches: &mut DataLoader<D>,
) -> (Vec<f64>, Vec<String>) {
    let (noise, names) = batches.next_batch().unwrap();
    (noise.to_vec(), names)
}

#[test]
fn any_number_of_threads_gives_the_same_batches() {
    let reference: Vec<_> = {
        let mut batches = DataLoader::new(noisy(23), 5).shuffle(3);
        (0..15).map(|_| values(&mut batches)).collect()
    };
    for (ahead, threads) in THREADS {
        let mut batches = DataLoader::new(noisy(23), 5)
            .shuffle(3)
            .prefetch(ahead, threads);
        for (i, expected) in reference.iter().enumerate() {
            assert_eq!(
                &values(&mut batches),
                expected,
                "batch {i}, {threads} threads"
            );
        }
        let once: Vec<_> = batches
            .once()
            .map(|batch| batch.unwrap().0.to_vec::<f64>())
            .collect();
        let plain = DataLoader::new(noisy(23), 5).shuffle(3);
        let expected: Vec<_> = plain
            .once()
            .map(|batch| batch.unwrap().0.to_vec::<f64>())
            .collect();
        assert_eq!(once, expected);
        assert_eq!(
            once.iter().map(Vec::len).collect::<Vec<_>>(),
            [15, 15, 15, 15, 9]
        );
    }
}

#[test]
fn each_epoch_has_every_example_once_in_its_own_order() {
    let mut batches = DataLoader::new((0..23usize).collect::<Vec<_>>(), 5).shuffle(3);
    let mut orders = Vec::new();
    for epoch in 0..3 {
        let mut order = Vec::new();
        for batch in 0..5 {
            assert_eq!((batches.epoch(), batches.position()), (epoch, batch * 5));
            assert_eq!(batches.is_new_epoch(), epoch > 0 && batch == 0);
            let detail = epoch as f64 + 5.0 * batch as f64 / 23.0;
            assert!((batches.epoch_detail() - detail).abs() < 1e-12);
            order.extend(batches.next_batch().unwrap().to_vec::<i64>());
        }
        // As it is defined.
        let permutation = Generator::new(3).split(epoch).permutation(23);
        assert_eq!(order, permutation.to_vec::<i64>());
        orders.push(order);
    }
    assert_ne!(orders[0], orders[1]);
    assert_eq!(batches.epoch_detail(), 3.0);

    let mut plain = DataLoader::new((0..5usize).collect::<Vec<_>>(), 2);
    let order: Vec<i64> = (0..3)
        .flat_map(|_| plain.next_batch().unwrap().to_vec())
        .collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);

    let mut full = DataLoader::new((0..5usize).collect::<Vec<_>>(), 2).drop_last();
    assert_eq!(full.batches_per_epoch(), 2);
    let sizes: Vec<usize> = (0..4).map(|_| full.next_batch().unwrap().size()).collect();
    assert_eq!((sizes, full.epoch(), full.position()), (vec![2; 4], 2, 0));
    let sizes: Vec<usize> = full.once().map(|batch| batch.unwrap().size()).collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[test]
fn augmentation_depends_on_seed_epoch_and_index_alone() {
    let drawn = |batch_size, seed, shuffle: bool| {
        let numbers = (0..12usize).collect::<Vec<_>>();
        let noise = numbers.map(|i, random| Ok((i, random.uniform((), 0.0, 1.0, DType::F64))));
        let mut batches = DataLoader::new(noise, batch_size).seed(seed);
        if shuffle {
            batches = batches.shuffle(seed);
        }
        let mut epochs = Vec::new();
        while batches.epoch() < 2 {
            let epoch = batches.epoch();
            let (i, noise) = batches.next_batch().unwrap();
            epochs.extend(
                i.to_vec::<i64>()
                    .into_iter()
                    .zip(noise.to_vec::<f64>())
                    .map(|(i, noise)| (epoch, i, noise.to_bits())),
            );
        }
        epochs.sort();
        epochs
    };
    let reference = drawn(5, 8, true);
    assert_eq!(reference, drawn(3, 8, false));
    assert_eq!(reference, drawn(12, 8, true));
    assert_ne!(reference, drawn(5, 9, true));
    let (first, second) = reference.split_at(12);
    assert!(
        first
            .iter()
            .zip(second)
            .all(|(a, b)| a.1 == b.1 && a.2 != b.2)
    );
}

#[test]
fn resumed_at_any_place_bit_for_bit() {
    let mut draw = Generator::new(17);
    for drop_last in [false, true] {
        let new = |seed, (ahead, threads)| {
            let batches = DataLoader::new(noisy(23), 4)
                .shuffle(seed)
                .prefetch(ahead, threads);
            if drop_last {
                batches.drop_last()
            } else {
                batches
            }
        };
        let mut whole = new(6, (0, 0));
        let all: Vec<_> = (0..40).map(|_| values(&mut whole)).collect();
        for _ in 0..12 {
            let place = draw.integers(0, 30, ()).item::<i64>() as usize;
            let [before, after] =
                [(); 2].map(|()| THREADS[draw.integers(0, 5, ()).item::<i64>() as usize]);
            let mut first = new(6, before);
            (0..place).for_each(|_| drop(values(&mut first)));
            let state = first.state();
            // Another seed, and some way gone already.
            let mut second = new(7, after);
            values(&mut second);
            second.load_state(&state).unwrap();
            assert_eq!(
                (first.epoch(), first.position()),
                (second.epoch(), second.position())
            );
            for expected in &all[place..place + 10] {
                assert_eq!(
                    &values(&mut second),
                    expected,
                    "{place}: {before:?} to {after:?}"
                );
            }
        }
    }
}

#[test]
fn a_state_that_does_not_fit_changes_nothing() {
    let mut batches = DataLoader::new(noisy(10), 4).shuffle(1).drop_last();
    values(&mut batches);
    let kept = batches.state();
    for (position, fits) in [
        (0u64, true),
        (6, true),
        (7, false),
        (10, false),
        (u64::MAX, false),
    ] {
        let state: State = [
            ("epoch", 2),
            ("position", position),
            ("seed", 5),
            ("examples", 10),
        ]
        .into_iter()
        .collect();
        batches.load_state(&kept).unwrap();
        let loaded = batches.load_state(&state);
        assert_eq!(loaded.is_ok(), fits, "{position}");
        if let Err(error) = loaded {
            let message = error.to_string();
            assert!(
                message.contains("where no batch of 4 examples begins"),
                "{message}"
            );
            assert_eq!((batches.epoch(), batches.position()), (0, 4));
        }
    }
    let error = batches.load_state(&State::new()).unwrap_err().to_string();
    assert!(error.contains("`epoch` is missing"), "{error}");
    let longer = DataLoader::new(noisy(11), 4).state();
    let error = batches.load_state(&longer).unwrap_err().to_string();
    assert!(
        error.contains("`examples` is 11, but the data set has 10"),
        "{error}"
    );
}

#[test]
fn errors_and_panics_come_once_in_their_place() {
    for (ahead, threads) in THREADS {
        let dataset = (0..20i64)
            .collect::<Vec<_>>()
            .map(|number, _| match number {
                5 => Err(DataError::other("number 5 is broken")),
                9 => panic!("number 9 explodes"),
                13 => Ok(Array::zeros(2, DType::F32).reshape([3]).size() as i64),
                _ => Ok(number),
            });
        let mut batches = DataLoader::new(dataset, 2).prefetch(ahead, threads);
        for _ in 0..2 {
            for batch in 0..10 {
                let next = catch_unwind(AssertUnwindSafe(|| attempt(|| batches.next_batch())));
                match (batch, next) {
                    (2, Ok(Ok(Err(error)))) => assert_eq!(error.to_string(), "number 5 is broken"),
                    (4, Err(payload)) => {
                        assert_eq!(payload.downcast_ref(), Some(&"number 9 explodes"));
                    }
                    (6, Ok(Err(error))) => assert!(matches!(error, Error::Array(_)), "{error}"),
                    (_, Ok(Ok(Ok(numbers)))) => {
                        assert_eq!(numbers.to_vec::<i64>(), [2 * batch, 2 * batch + 1]);
                        assert!(![2, 4, 6].contains(&batch));
                    }
                    _ => panic!("batch {batch} with {threads} threads"),
                }
            }
        }
        assert_eq!(batches.epoch(), 2);
    }
}

/// Whether it comes true before long.
fn soon(what: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !what() {
        if start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn threads_work_ahead_so_far_and_end_when_dropped() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    let dataset = Arc::new((0..1000i64).collect::<Vec<_>>().map(move |number, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(number)
    }));
    let mut batches = DataLoader::new(dataset.clone(), 10).prefetch(4, 2);
    batches.next_batch().unwrap();
    assert!(soon(|| made.load(Ordering::Relaxed) == 50));
    sleep(Duration::from_millis(20));
    assert_eq!(made.load(Ordering::Relaxed), 50);
    batches.next_batch().unwrap();
    assert!(soon(|| made.load(Ordering::Relaxed) == 60));
    let mut once = batches.once();
    once.next().unwrap().unwrap();
    drop((batches, once));
    assert!(soon(|| Arc::strong_count(&dataset) == 1));

    // Not even a thread that is busy for long is waited for.
    let slow = vec![1.0; 10].map(|number, _| {
        sleep(Duration::from_secs(1));
        Ok(number)
    });
    let mut batches = DataLoader::new(slow, 1).prefetch(8, 2);
    batches.next_batch().unwrap();
    let start = Instant::now();
    drop(batches);
    assert!(start.elapsed() < Duration::from_millis(500));
}

#[test]
fn functions_without_a_batch_rule_are_named() {
    let message = |f: &dyn Fn()| attempt(f).unwrap_err().to_string();
    let error = message(&|| drop(DataLoader::new(vec![1.0], 0)));
    assert!(error.contains("a batch of 0 examples"), "{error}");
    let error = message(&|| drop(DataLoader::new(Vec::<f64>::new(), 1)));
    assert!(error.contains("no examples"), "{error}");
    let error = message(&|| drop(DataLoader::new(vec![1.0], 2).drop_last()));
    assert!(
        error.contains("1 examples do not fill a batch of 2"),
        "{error}"
    );
    let error = message(&|| {
        (vec![1.0], vec![1.0, 2.0]).len();
    });
    assert!(error.contains("1 examples beside 2"), "{error}");
    let error = message(&|| drop(Sequence::new(1.0)));
    assert!(error.contains("without axes"), "{error}");

    let zeros = |shape: &[usize], dtype| Array::zeros(shape, dtype);
    let error = Array::collate(vec![zeros(&[2], DType::F32), zeros(&[2], DType::F64)]).unwrap_err();
    assert!(error.to_string().contains("f32 and f64"), "{error}");
    let error = Array::collate(vec![zeros(&[2], DType::F32), zeros(&[3], DType::F32)]).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("[2] and [3]") && message.contains("pads"),
        "{message}"
    );
    assert!(matches!(Array::collate(vec![]), Err(DataError::Empty)));
    assert!(matches!(f32::collate(vec![]), Err(DataError::Empty)));
    let sequences = [[2, 3], [2, 4]].map(|shape| Sequence::new(zeros(&shape, DType::F32)));
    assert!(matches!(
        Sequence::collate(sequences.into()),
        Err(DataError::Shapes { .. })
    ));
}

#[test]
fn examples_of_every_kind() {
    let (a, b, c, d) = Collate::collate(vec![
        (1u8, true, 2.5f32, "a".to_owned()),
        (2, false, 3.5, "b".to_owned()),
    ])
    .unwrap();
    assert_eq!(a.to_vec::<i64>(), [1, 2]);
    assert_eq!(b.to_vec::<bool>(), [true, false]);
    assert_eq!(c.to_vec::<f32>(), [2.5, 3.5]);
    assert_eq!(d, ["a", "b"]);

    let [long, short] = [
        [[1.0, 2.0], [3.0, 4.0]].into(),
        Array::zeros([0, 2], DType::F64),
    ];
    let sequences = vec![
        (Sequence::new(short).padded_with(-1), 0i64),
        (Sequence::new(long), 1),
    ];
    let (Padded { values, lengths }, _) = Collate::collate(sequences).unwrap();
    assert_eq!(values.shape(), &[2, 2, 2]);
    assert_eq!(
        values.to_vec::<f64>(),
        [-1.0, -1.0, -1.0, -1.0, 1.0, 2.0, 3.0, 4.0]
    );
    assert_eq!(lengths, [0, 2]);
}

/// A gather gives what the examples would.
#[test]
fn gathered_batches_are_batches_of_examples() {
    let images = Digits::new(0).images(0..20);
    let x = Array::arange(0, 60).reshape([20, 3]);
    let both = ((x, images.clone().planes()), images).subset([7, 0, 3, 19, 3]);
    let indices = [4, 1, 0];
    let ((x, planes), (rows, classes)) = both.gathered(&indices).unwrap().unwrap();
    let random = Generator::new(0);
    let examples = indices.map(|i| both.example(i, &mut random.split(i as u64)).unwrap());
    let ((x2, planes2), (rows2, classes2)) = Collate::collate(examples.into()).unwrap();
    assert_eq!(x.to_vec::<i64>(), x2.to_vec::<i64>());
    assert_eq!(planes.0.shape(), planes2.0.shape());
    assert_eq!(planes.0.to_vec::<f32>(), planes2.0.to_vec::<f32>());
    assert_eq!(
        (rows.shape(), rows.to_vec::<f32>()),
        (rows2.shape(), rows2.to_vec::<f32>())
    );
    assert_eq!(classes.to_vec::<i64>(), classes2.to_vec::<i64>());
}

#[test]
fn sets_side_by_side_draw_alike() {
    let noise = || vec![0.0; 3].map(|_, random| Ok(random.uniform((), 0.0, 1.0, DType::F64)));
    let both = (noise(), noise())
        .map(|(a, b), random| Ok((a, b, random.uniform((), 0.0, 1.0, DType::F64))));
    let (a, b, c) = both.batch(&[0, 1, 2], &Generator::new(0)).unwrap();
    let [a, b, c] = [a, b, c].map(|x| x.to_vec::<f64>());
    assert_eq!(a, b);
    assert!(a.iter().all(|x| !c.contains(x)));
}

#[test]
fn sets_of_one_kind_of_example_behind_a_pointer() {
    type Numbers = Arc<dyn Dataset<Example = f64>>;
    let sets: [Numbers; 2] = [
        Arc::new(vec![1.0, 2.0]),
        Arc::new(vec![3.0].map(|x, _| Ok(2.0 * x))),
    ];
    let [a, b] = sets;
    let mut batches = DataLoader::new(a.chain(b), 3);
    assert_eq!(
        batches.next_batch().unwrap().to_vec::<f64>(),
        [1.0, 2.0, 6.0]
    );
}

#[test]
fn more_threads_than_a_machine_can_have_are_refused() {
    for (ahead, threads) in [(usize::MAX, 1), (1, usize::MAX)] {
        let loader = || DataLoader::new(Array::arange(0, 10), 2).prefetch(ahead, threads);
        let message = attempt(loader).expect_err("an error").to_string();
        assert!(message.contains("at most 65536"), "{message}");
    }
}
