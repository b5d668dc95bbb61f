//! Arrays as text, against what NumPy prints (`golden/display.py` made the file).

use std::str::FromStr;

use bibun_array::{Array, Element};

fn parsed<T: Element + FromStr>(line: &str, shape: Vec<usize>) -> Array {
    let element = |word: &str| word.parse().ok().expect("an element of the dtype");
    Array::from_vec(
        line.split_whitespace().map(element).collect::<Vec<T>>(),
        shape,
    )
}

#[test]
fn every_record_prints_as_in_numpy() {
    let golden = include_str!("../golden/array/display.txt");
    let mut failures = Vec::new();
    let mut count = 0;
    for record in golden.split("\n= ") {
        let (head, rest) = record
            .trim_start_matches("= ")
            .split_once('\n')
            .expect("a head");
        let (elements, rest) = rest.split_once("\n- str\n").expect("elements");
        let (display, debug) = rest.split_once("\n- repr\n").expect("two texts");
        let mut head = head.split_whitespace();
        let dtype = head.next().expect("a dtype");
        let shape: Vec<usize> = head.map(|size| size.parse().expect("a size")).collect();
        let x = match dtype {
            "float64" => parsed::<f64>(elements, shape),
            "float32" => parsed::<f32>(elements, shape),
            "int64" => parsed::<i64>(elements, shape),
            "bool" => parsed::<bool>(elements, shape),
            other => panic!("no dtype {other}"),
        };
        for (want, found) in [(display, x.to_string()), (debug, format!("{x:?}"))] {
            count += 1;
            if want.trim_end_matches('\n') != found {
                failures.push(format!("want {want}\nfound {found}"));
            }
        }
    }
    assert!(count > 200, "only {count} texts");
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

#[test]
fn the_layout_in_memory_does_not_show() {
    let x = Array::arange(0, 6).reshape([2, 3]);
    let y = Array::from([[0, 3], [1, 4], [2, 5]]).transpose();
    assert_eq!(x.to_string(), y.to_string());
    let x = Array::full([2, 600], 1.5f32);
    assert_eq!(
        x.to_string(),
        Array::from_vec(vec![1.5f32; 1200], [2, 600]).to_string()
    );
}
