//! What is done to examples on their way.

use std::collections::HashSet;

use bibun::array::{Array, DType, Generator};
use bibun::datasets::transforms::{
    Affine, Statistics, add_noise, normalize, one_hot, random_affine, random_crop, random_erasing,
    random_flip,
};
use bibun::datasets::{DataError, Digits};
use bibun::{attempt, compile};

#[test]
fn statistics_are_those_of_all_elements_of_a_channel() {
    let mut random = Generator::new(1);
    let images: Vec<Array> = (0..7)
        .map(|i| random.normal([3, 4, 5], 1000.0 + i as f64, 2.0, DType::F64))
        .collect();
    let statistics = Statistics::of(images.iter().cloned().map(Ok)).unwrap();
    let all = bibun::array::stack(&images.iter().collect::<Vec<_>>(), 0);
    let [mean, std] = [all.mean([0, 2, 3]), all.std([0, 2, 3], 0)].map(|x| x.to_vec::<f64>());
    for channel in 0..3 {
        assert!((statistics.mean[channel] - mean[channel]).abs() < 1e-10);
        assert!((statistics.std[channel] - std[channel]).abs() < 1e-10);
    }
    let normalized: Vec<Array> = images
        .iter()
        .map(|image| statistics.normalize(image))
        .collect();
    let after = Statistics::of(normalized.into_iter().map(Ok)).unwrap();
    for channel in 0..3 {
        assert!(after.mean[channel].abs() < 1e-10 && (after.std[channel] - 1.0).abs() < 1e-10);
    }

    assert!(matches!(Statistics::of([]), Err(DataError::Empty)));
    let shapes = [[2, 2], [3, 2]].map(|shape| Ok(Array::zeros(shape, DType::F32)));
    assert!(matches!(
        Statistics::of(shapes),
        Err(DataError::Shapes { .. })
    ));
    let broken = [Err(DataError::other("broken"))];
    assert!(matches!(Statistics::of(broken), Err(DataError::Other(_))));
}

#[test]
fn crops_are_windows_of_the_padded_image() {
    let image = Array::arange(1, 13).reshape([1, 3, 4]);
    let mut random = Generator::new(2);
    let mut places = HashSet::new();
    for _ in 0..400 {
        let crop = random_crop(&image, [3, 4], 1, &mut random).to_vec::<i64>();
        // Some place of the padded image has just this window.
        let place = (-1i64..=1).flat_map(|down| (-1i64..=1).map(move |right| (down, right)));
        let found = place.into_iter().find(|&(down, right)| {
            (0..3i64).all(|row| {
                (0..4i64).all(|column| {
                    let (y, x) = (row + down, column + right);
                    let inside = (0..3).contains(&y) && (0..4).contains(&x);
                    let expected = if inside { 1 + y * 4 + x } else { 0 };
                    crop[(row * 4 + column) as usize] == expected
                })
            })
        });
        places.insert(found.expect("a window"));
    }
    assert_eq!(places.len(), 9);
    let whole = random_crop(&image, [3, 4], 0, &mut random);
    assert_eq!(whole.to_vec::<i64>(), image.to_vec::<i64>());
}

#[test]
fn flips_are_as_likely_as_was_said() {
    let image = Array::from([[[1.0, 2.0], [3.0, 4.0]]]);
    let mut random = Generator::new(3);
    let flipped = (0..2000)
        .filter(
            |_| match random_flip(&image, 0.25, &mut random).to_vec::<f64>()[..] {
                [2.0, 1.0, 4.0, 3.0] => true,
                [1.0, 2.0, 3.0, 4.0] => false,
                _ => panic!("neither one nor the other"),
            },
        )
        .count();
    assert!((400..600).contains(&flipped), "{flipped}");
}

#[test]
fn crops_and_flips_are_parts_of_programs() {
    let augment = compile(|(image, random): &(Array, Generator)| {
        let mut random = random.clone();
        let crop = random_crop(image, [3, 4], 1, &mut random);
        (random_flip(&crop, 0.5, &mut random), random)
    });
    let image = Array::arange(1, 13).reshape([1, 3, 4]);
    let (mut eager, mut compiled) = (Generator::new(7), Generator::new(7));
    for _ in 0..20 {
        let crop = random_crop(&image, [3, 4], 1, &mut eager);
        let expected = random_flip(&crop, 0.5, &mut eager);
        let got;
        (got, compiled) = augment.call(&(image.clone(), compiled));
        assert!(got.has_same_bits(&expected));
    }
    assert_eq!(augment.traces(), 1);
}

#[test]
fn affine_identity_and_half_turn() {
    let image = Digits::new(0).images(0..1).image(0);
    let mut random = Generator::new(4);
    let same = random_affine(&image, &Affine::default(), &mut random);
    assert_eq!(same.to_vec::<f32>(), image.to_vec::<f32>());

    // Of angles within 180 degrees either way, those at the ends are half turns.
    let (mut most, mut best) = (f32::INFINITY, 0.0);
    let turned = image.flip(&[1, 2]).to_vec::<f32>();
    let any = Affine {
        degrees: 180.0,
        ..Affine::default()
    };
    for _ in 0..300 {
        let result = random_affine(&image, &any, &mut random).to_vec::<f32>();
        let off: f32 = result.iter().zip(&turned).map(|(a, b)| (a - b).abs()).sum();
        most = most.min(off);
        best = f32::max(best, off);
    }
    assert!(most < 0.1 * best, "{most} of {best}");
}

#[test]
fn affine_enlarges_shifts_and_slants() {
    // A square of 6 by 6 pixels in the middle.
    let mut image = Array::zeros([2, 20, 20], DType::F32);
    image.assign(bibun::s![.., 7..13, 7..13], &Array::from(1.0f32));
    let mut random = Generator::new(5);
    let area = |image: &Array| image.sum([1, 2]).to_vec::<f32>();
    let twice = Affine {
        scale: 2.0..=2.0,
        ..Affine::default()
    };
    let larger = area(&random_affine(&image, &twice, &mut random));
    assert!(
        larger.iter().all(|area| (area - 144.0).abs() < 1.0),
        "{larger:?}"
    );
    let slanted = Affine {
        shear: 30.0,
        ..Affine::default()
    };
    let shifted = Affine {
        shift: 0.2,
        ..Affine::default()
    };
    for limits in [slanted, shifted] {
        for _ in 0..50 {
            let moved = random_affine(&image, &limits, &mut random);
            let areas = area(&moved);
            assert!(
                areas.iter().all(|area| (area - 36.0).abs() < 0.1),
                "{limits:?}: {areas:?}"
            );
            assert_ne!(moved.to_vec::<f32>(), image.to_vec::<f32>());
        }
    }
}

#[test]
fn erased_rectangles_have_the_areas_of_the_paper() {
    let image = Array::ones([2, 40, 50], DType::F32);
    let mut random = Generator::new(6);
    let mut shares = Vec::new();
    for _ in 0..500 {
        let erased = random_erasing(&image, 0.5, &mut random);
        let planes = erased.sum([1, 2]).to_vec::<f32>();
        assert_eq!(planes[0], planes[1]);
        shares.push(1.0 - planes[0] / 2000.0);
    }
    let none = shares.iter().filter(|&&share| share == 0.0).count();
    assert!((200..300).contains(&none), "{none}");
    assert!(
        shares
            .iter()
            .all(|share| *share == 0.0 || (0.015..0.36).contains(share))
    );
    assert_eq!(image.sum(..).item::<f32>(), 4000.0);
}

#[test]
fn mistakes_are_named() {
    let flat = Array::zeros([3, 3], DType::F32);
    let doubles = Array::zeros([1, 3, 3], DType::F64);
    let random = || Generator::new(0);
    for (error, what) in [
        (
            attempt(|| random_flip(&flat, 0.5, &mut random())),
            "expected [channels, height, width]",
        ),
        (
            attempt(|| random_crop(&doubles, [4, 3], 0, &mut random())),
            "4 x 3 does not fit into 3 x 3",
        ),
        (
            attempt(|| random_affine(&doubles, &Affine::default(), &mut random())),
            "f64, expected f32",
        ),
        (
            attempt(|| normalize(&doubles, &[0.0; 2], &[1.0])),
            "2 means and 1 standard",
        ),
        (attempt(|| one_hot(3, 3)), "no class 3 among 3"),
        (attempt(|| one_hot(-1, 3)), "no class -1"),
        (
            attempt(|| add_noise(&doubles, -1.0, &mut random())),
            "-1 is no standard deviation",
        ),
    ] {
        let message = error.unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    }
}
