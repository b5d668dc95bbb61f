//! Tables, archives and folders of images: right ones and wrong ones.

use std::fs;
use std::path::PathBuf;

use bibun::array::{Array, DType, Generator, write_npz};
use bibun::datasets::{Classes, Csv, DataError, DataLoader, Dataset, npz};

use super::Scratch;

const FLOWERS: &str = "id,length,width,name\n\
    1,5.1,3.5,virginica\n\
    2, 4.9 ,\"3.0\",setosa\n\
    3,1e1,-2,\"iris, blue\"\n\
    4,.5,+7,setosa\n";

fn csv(scratch: &Scratch, text: &str) -> Csv {
    let file = scratch.0.join("table.csv");
    fs::write(&file, text).unwrap();
    Csv::new(file)
}

#[test]
fn tables_by_name_and_by_number() {
    let scratch = Scratch::new("csv");
    let flowers = csv(&scratch, FLOWERS).columns(["width", "length"]);
    let table = flowers.clone().double().read().unwrap();
    assert_eq!(table.names, ["width", "length"]);
    assert_eq!(
        table.values.to_vec::<f64>(),
        [3.5, 5.1, 3.0, 4.9, -2.0, 10.0, 7.0, 0.5]
    );

    let seen = flowers.labeled("name", Classes::AsSeen).unwrap();
    assert_eq!(seen.classes, ["virginica", "setosa", "iris, blue"]);
    assert_eq!(seen.labels.to_vec::<i64>(), [0, 1, 2, 1]);
    assert_eq!(seen.values.to_vec::<f32>()[..2], [3.5, 5.1]);
    let sorted = flowers.labeled(3, Classes::Sorted).unwrap();
    assert_eq!(sorted.classes, ["iris, blue", "setosa", "virginica"]);
    assert_eq!(sorted.labels.to_vec::<i64>(), [2, 1, 0, 1]);

    let numbered = csv(&scratch, FLOWERS)
        .columns([1, 2])
        .labeled("id", Classes::Numbers)
        .unwrap();
    assert_eq!(numbered.labels.to_vec::<i64>(), [1, 2, 3, 4]);
    let (x, t) = DataLoader::new(numbered, 3).next_batch().unwrap();
    assert_eq!((x.shape(), t.shape()), (&[3, 2].into(), &[3].into()));

    let plain = csv(&scratch, "1;2\n3;4\n")
        .no_header()
        .delimiter(b';')
        .labeled(0, Classes::Numbers);
    let plain = plain.unwrap();
    assert_eq!(
        (plain.names, plain.values.to_vec::<f32>()),
        (vec!["1".to_owned()], vec![2.0, 4.0])
    );
}

#[test]
fn mistakes_in_a_table_are_named_with_their_position() {
    let scratch = Scratch::new("csv-wrong");
    let cell = |text: &str| {
        csv(&scratch, text)
            .labeled("t", Classes::Numbers)
            .unwrap_err()
    };
    for (text, line, column, what) in [
        ("x,y,t\n1,2,0\n\n1,,0\n", 4, "y", "the cell is empty"),
        ("x,y,t\r\n1,2,0\r\n\r\n1,,0", 4, "y", "the cell is empty"),
        ("x,y,t\n1, two,0\n", 2, "y", "`two` is no number"),
        (
            "x,y,t\n1,1e39,0\n",
            2,
            "y",
            "`1e39` is larger than f32 can be",
        ),
        (
            "x,y,t\n1,2,0\n1,2,0.5\n",
            3,
            "t",
            "`0.5` is no whole number",
        ),
    ] {
        let error = cell(text);
        let message = error.to_string();
        assert!(
            message.ends_with(&format!(
                "table.csv, line {line}, column `{column}`: {what}"
            )),
            "{message}"
        );
        assert!(matches!(error, DataError::Cell { .. }));
    }
    for (text, what) in [
        ("x,y,t\n1,2,0\n1,2\n", "line 3 has 2 cells, expected 3"),
        ("x,y\n1,2\n", "there is no column `t`, only x, y"),
    ] {
        let message = cell(text).to_string();
        assert!(
            message.ends_with(&format!("table.csv: {what}")),
            "{message}"
        );
    }
    fs::write(scratch.0.join("table.csv"), b"x\n\xff\n").unwrap();
    let error = Csv::new(scratch.0.join("table.csv"))
        .read()
        .unwrap_err()
        .to_string();
    assert!(error.contains("line 2 is no UTF-8"), "{error}");
    let error = Csv::new(scratch.0.join("none.csv")).read().unwrap_err();
    assert!(matches!(error, DataError::Io { .. }) && error.to_string().contains("none.csv"));
    // Words may go over several lines.
    let open = csv(&scratch, "x,t\n0,a\n1,\"b\n2,c\n").labeled("t", Classes::Sorted);
    let message = open.unwrap_err().to_string();
    assert!(
        message.ends_with("table.csv: a quote that begins in line 3 or after it is not closed"),
        "{message}"
    );
    for whole in ["x,t\n1,\"0\"", "x,t\n\"1\",0\n", "\"x\",t\n1,inf\n"] {
        assert!(csv(&scratch, whole).read().is_ok(), "{whole}");
    }
    let empty = csv(&scratch, "x,t\n")
        .labeled("t", Classes::Numbers)
        .unwrap();
    assert_eq!((empty.len(), empty.values.shape()), (0, &[0, 1].into()));
}

#[test]
fn archives() {
    let scratch = Scratch::new("npz-set");
    let file = scratch.0.join("data.npz");
    let x = Array::arange(0, 6).reshape([3, 2]);
    let arrays = [
        ("x", x.clone()),
        ("t", Array::arange(0, 3)),
        ("few", Array::arange(0, 2)),
        ("one", Array::from(1.0)),
    ];
    write_npz(&file, arrays).unwrap();
    let [t, read] = npz(&file, ["t", "x"]).unwrap();
    assert_eq!((read.to_vec::<i64>(), t.size()), (x.to_vec::<i64>(), 3));
    for (names, what) in [
        (
            ["x", "y"],
            "there is no array `y`, only `x`, `t`, `few`, `one`",
        ),
        (["x", "few"], "`few` has 2 examples, expected 3 as `x`"),
        (
            ["one", "x"],
            "`one` is a single number, expected an array of examples",
        ),
    ] {
        let message = npz(&file, names).unwrap_err().to_string();
        assert!(message.ends_with(&format!("data.npz: {what}")), "{message}");
    }
    assert!(matches!(
        npz(scratch.0.join("no.npz"), ["x"]),
        Err(DataError::Numpy(_))
    ));
}

mod images {
    use super::*;
    use bibun::datasets::ImageFolder;
    use image::{GrayImage, Rgb, RgbImage};

    /// Two classes; `dog` has a JPEG in one colour, `cat` two PNGs.
    fn folder(name: &str) -> Scratch {
        let scratch = Scratch::new(name);
        for class in ["dog", "cat", "empty"] {
            fs::create_dir(scratch.0.join(class)).unwrap();
        }
        let colours = RgbImage::from_fn(3, 2, |x, y| Rgb([x as u8 * 100, y as u8 * 255, 51]));
        colours.save(scratch.0.join("cat/b.png")).unwrap();
        GrayImage::from_fn(3, 2, |x, _| [x as u8 * 51].into())
            .save(scratch.0.join("cat/a.PNG"))
            .unwrap();
        RgbImage::from_pixel(16, 16, Rgb([200, 100, 0]))
            .save(scratch.0.join("dog/c.jpeg"))
            .unwrap();
        fs::write(scratch.0.join("dog/notes.txt"), "no image").unwrap();
        fs::write(scratch.0.join("dog/.hidden.png"), "no image").unwrap();
        fs::write(scratch.0.join("README"), "no folder").unwrap();
        scratch
    }

    #[test]
    fn images_by_class_and_name() {
        let scratch = folder("images");
        let images = ImageFolder::open(&scratch.0).unwrap();
        assert_eq!(images.classes(), ["cat", "dog", "empty"]);
        assert_eq!(images.labels(), [0, 0, 1]);
        assert!(images.file(2).ends_with("dog/c.jpeg"));
        let mut random = Generator::new(0);
        let (grey, class) = images.example(0, &mut random).unwrap();
        assert_eq!((grey.shape(), class), (&[3, 2, 3].into(), 0));
        let (colours, _) = images.example(1, &mut random).unwrap();
        let [x0, x1, x2] = [0.0, 100.0 / 255.0, 200.0 / 255.0];
        let expected = [
            x0, x1, x2, x0, x1, x2, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2,
        ];
        assert_eq!(colours.to_vec::<f32>(), expected);
        let (jpeg, class) = images.example(2, &mut random).unwrap();
        assert_eq!((jpeg.shape(), class), (&[3, 16, 16].into(), 1));
        for (value, expected) in jpeg
            .mean([1, 2])
            .to_vec::<f32>()
            .into_iter()
            .zip([200.0, 100.0, 0.0])
        {
            assert!((value - expected / 255.0).abs() < 0.02, "{value}");
        }

        let one_size = images.clone().grey().resize(4, 5);
        let (x, t) = DataLoader::new(one_size, 3)
            .prefetch(2, 2)
            .next_batch()
            .unwrap();
        assert_eq!((x.shape(), x.dtype()), (&[3, 1, 4, 5].into(), DType::F32));
        assert_eq!(t.to_vec::<i64>(), [0, 0, 1]);
        let error = DataLoader::new(images, 3).next_batch().unwrap_err();
        assert!(matches!(error, DataError::Shapes { .. }));
    }

    /// A PNG of one grey pixel per claimed size, cut after its header.
    fn claims(width: u32, height: u32) -> Vec<u8> {
        let mut header = b"IHDR".to_vec();
        header.extend(width.to_be_bytes());
        header.extend(height.to_be_bytes());
        header.extend([8, 2, 0, 0, 0]);
        let mut checksum = flate2::Crc::new();
        checksum.update(&header);
        let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
        file.extend(header);
        file.extend(checksum.sum().to_be_bytes());
        file.extend(b"\0\0\0\x10IDAT\x78\x01");
        file
    }

    #[test]
    fn images_that_are_none_or_too_large() {
        let scratch = folder("images-wrong");
        let file = scratch.0.join("cat/a.PNG");
        let whole = fs::read(&file).unwrap();
        for bytes in [
            b"no image".to_vec(),
            Vec::new(),
            whole[..whole.len() / 2].to_vec(),
            claims(1 << 20, 1),
            claims(1 << 14, 1 << 14),
            claims(u32::MAX, u32::MAX),
        ] {
            fs::write(&file, bytes).unwrap();
            let images = ImageFolder::open(&scratch.0).unwrap();
            let error = images.example(0, &mut Generator::new(0)).unwrap_err();
            assert!(matches!(error, DataError::Format { .. }), "{error}");
            assert!(error.to_string().contains("a.PNG: "), "{error}");
        }
        let error = ImageFolder::open(scratch.0.join("dog"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("dog: no images; expected folders"),
            "{error}"
        );
        let missing: PathBuf = scratch.0.join("none");
        assert!(matches!(
            ImageFolder::open(missing),
            Err(DataError::Io { .. })
        ));
    }
}
