//! NumPy's files: those that NumPy wrote (`golden/npy.py`), those that it would write, and those
//! that nobody should.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use bibun_array::{
    Array, DType, FileError, NpzReader, NpzValue, NpzWriter, read_npz, s, write_npz, write_whole,
};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../golden/array")
        .join(name)
}

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bibun-npy-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const VALUES: [f64; 6] = [0.0, 1.0, -2.0, 100.0, -128.0, 127.0];

#[test]
fn every_dtype_and_byte_order_is_read() {
    let cases = [
        ("f2", DType::F16),
        ("f4", DType::F32),
        ("f8", DType::F64),
        ("i1", DType::I64),
        ("i2", DType::I64),
        ("i4", DType::I32),
        ("i8", DType::I64),
        ("u1", DType::U8),
        ("u2", DType::I64),
        ("u4", DType::I64),
        ("u8", DType::I64),
        ("big_f8", DType::F64),
        ("big_f4", DType::F32),
        ("big_i8", DType::I64),
        ("big_i2", DType::I64),
        ("big_u4", DType::I64),
        ("big_f2", DType::F16),
        ("b1", DType::Bool),
        ("fortran", DType::F32),
        ("version2", DType::F64),
    ];
    for (name, dtype) in cases {
        let x = Array::read_npy(golden(&format!("{name}.npy"))).expect(name);
        assert_eq!((x.shape(), x.dtype()), (&[2, 3].into(), dtype), "{name}");
        let want = match name {
            "b1" => VALUES.map(|x| f64::from(u8::from(x > 0.0))),
            "u1" | "u2" | "u4" | "u8" => VALUES.map(f64::abs),
            // Unsigned numbers wrapped around when NumPy cast the negative ones.
            "big_u4" => VALUES.map(|x| if x < 0.0 { x + 4294967296.0 } else { x }),
            _ => VALUES,
        };
        assert_eq!(x.cast(DType::F64).to_vec::<f64>(), want, "{name}");
    }
    assert_eq!(
        Array::read_npy(golden("fortran.npy"))
            .expect("fortran")
            .strides(),
        [1, 2]
    );
    let x = Array::read_npy(golden("scalar.npy")).expect("scalar");
    assert_eq!((x.rank(), x.item::<f64>()), (0, 2.5));
    let x = Array::read_npy(golden("empty.npy")).expect("empty");
    assert_eq!((x.shape(), x.dtype()), (&[0, 3].into(), DType::F32));
    let x = Array::read_npy(golden("long.npy")).expect("long");
    let want: Vec<f32> = (0..5000).map(|i| i as f32 * 0.5).collect();
    assert_eq!(x.to_vec::<f32>(), want);
}

#[test]
fn half_precision_keeps_its_special_values() {
    let x = Array::read_npy(golden("half.npy"))
        .expect("half")
        .to_vec::<f32>();
    assert_eq!(x[..2], [f32::INFINITY, f32::NEG_INFINITY]);
    assert!(x[2].is_nan());
    // The smallest subnormal number, one just below the normal ones, the largest, and 0.1.
    let scale = 2.0f32.powi(-24);
    assert_eq!(x[3..7], [scale, -1023.0 * scale, 65504.0, 0.099975586]);
    assert!(x[7] == 0.0 && x[7].is_sign_negative());
}

#[test]
fn files_are_written_as_numpy_writes_them() {
    let folder = Folder::new("same");
    for name in ["f4", "f8", "i8", "b1", "scalar", "empty", "long"] {
        let x = Array::read_npy(golden(&format!("{name}.npy"))).expect(name);
        let file = folder.file(name);
        x.write_npy(&file).expect(name);
        let (found, want) = (fs::read(file), fs::read(golden(&format!("{name}.npy"))));
        assert_eq!(found.expect("written"), want.expect("golden"), "{name}");
    }
    let names: Vec<_> = fs::read_dir(&folder.0).expect("the folder").collect();
    assert_eq!(names.len(), 7, "nothing but the files is left");
}

#[test]
fn every_layout_comes_back_in_its_order() {
    let folder = Folder::new("layouts");
    let file = folder.file("x.npy");
    let x = Array::arange(0, 12).reshape([3, 4]);
    for x in [
        x.transpose(),
        x.slice(s![..; -1, 1..; 2]),
        x.slice(s![0, ..]).broadcast_to([5, 4]),
        Array::full([3000, 3], 7),
        Array::full([2, 2], true),
        Array::zeros([0], DType::Bool),
        Array::zeros([3, 0, 2], DType::I64),
    ] {
        x.write_npy(&file).expect("written");
        let y = Array::read_npy(&file).expect("read");
        assert_eq!((x.shape(), x.dtype()), (y.shape(), y.dtype()));
        assert_eq!(
            x.cast(DType::I64).to_vec::<i64>(),
            y.cast(DType::I64).to_vec::<i64>()
        );
    }
    let special = [f64::NAN, f64::INFINITY, -0.0, 5e-324, 0.1];
    Array::from(special).write_npy(&file).expect("written over");
    let bits = Array::read_npy(&file).expect("read").to_vec::<f64>();
    assert_eq!(
        bits.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        special.map(f64::to_bits)
    );
}

#[test]
fn archives_are_read_and_written_in_order() {
    for name in ["stored.npz", "compressed.npz"] {
        let arrays = read_npz(golden(name)).expect(name);
        assert_eq!(
            arrays.keys().collect::<Vec<_>>(),
            ["weight", "a b/c", "bias"]
        );
        assert_eq!(arrays["weight"].cast(DType::F64).to_vec::<f64>(), VALUES);
        assert_eq!(arrays["a b/c"].to_vec::<i64>(), [0, 1, 2]);
        assert!(arrays["bias"].item::<bool>());
    }
    let folder = Folder::new("archives");
    let arrays = read_npz(golden("stored.npz")).expect("stored");
    let (one, two) = (folder.file("one.npz"), folder.file("two.npz"));
    write_npz(&one, &arrays).expect("written");
    write_npz(
        &two,
        arrays.iter().map(|(name, x)| (name.as_str(), x.clone())),
    )
    .expect("written");
    assert_eq!(fs::read(&one).expect("one"), fs::read(&two).expect("two"));
    let again = read_npz(&one).expect("read");
    assert!(again.keys().eq(arrays.keys()));
    for (name, x) in &arrays {
        assert_eq!(format!("{x:?}"), format!("{:?}", again[name]));
    }
    write_npz(&one, Vec::<(String, Array)>::new()).expect("an empty archive");
    assert!(read_npz(&one).expect("an empty archive").is_empty());
}

/// The message of the error that a file of these bytes gives.
#[track_caller]
fn refusal(folder: &Folder, bytes: &[u8]) -> String {
    let file = folder.file("hostile.npy");
    fs::write(&file, bytes).expect("written");
    match Array::read_npy(&file) {
        Err(error @ FileError::Format { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Version 1 with any header, and some data.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn hostile_headers_are_refused_with_reasons() {
    let folder = Folder::new("hostile");
    let refused = |header: &str, reason: &str| {
        let message = refusal(&folder, &with_header(header, 48));
        assert!(message.contains(reason), "{header} gave {message}");
        assert!(message.contains("hostile.npy"), "{message}");
    };
    let shaped =
        |shape: &str| format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    refused(
        &shaped("(7,)"),
        "48 bytes of data, expected 56 for <f8 of shape [7]",
    );
    refused(&shaped("(1000000000000,)"), "expected 8000000000000");
    refused(
        &shaped("(4294967296, 4294967296)"),
        "no array has the shape",
    );
    refused(
        &shaped("(0, 4294967296, 4294967296)"),
        "no array has the shape",
    );
    refused(&shaped("(99999999999999999999999,)"), "the header is");
    refused(&shaped("(-1,)"), "the header is");
    refused(
        &shaped(&format!("({})", "1, ".repeat(65))),
        "no array has the shape",
    );
    refused(&shaped("(6"), "the header is");
    refused(&shaped("6"), "the header is");
    refused(&shaped("(6,),, "), "the header is");
    refused(&shaped("(6,)").replace("False", "false"), "the header is");
    refused(
        &shaped("(6,)").replace("'fortran_order': False,", ""),
        "the header is",
    );
    refused(
        &shaped("(6,)").replace("'shape'", "'size'"),
        "the header is",
    );
    refused(&shaped("(6,)").replace('}', "} + evil()"), "the header is");
    refused(&shaped("(6,)").replace('}', ""), "the header is");
    refused("", "the header is");
    refused(&"{".repeat(60000), "the header is");
    for dtype in [
        "<c32", "<f16", "<f3", "|O", "<U4", "f8", "", "|", "é8", "<M8[ns]",
    ] {
        refused(&shaped("(1,)").replace("<f8", dtype), "the dtype is");
    }
    let fine = with_header(&shaped("(6,)"), 48);
    fs::write(folder.file("fine.npy"), &fine).expect("written");
    assert_eq!(
        Array::read_npy(folder.file("fine.npy"))
            .expect("fine")
            .size(),
        6
    );
    // The order of keys, spaces and other quotes do not matter.
    let odd = r#" {"shape" :(2 ,3L,) , "fortran_order":True,"descr":">f8"}  "#;
    fs::write(folder.file("odd.npy"), with_header(odd, 48)).expect("written");
    assert_eq!(
        Array::read_npy(folder.file("odd.npy"))
            .expect("odd")
            .shape(),
        &[2, 3][..]
    );
    for length in 0..fine.len() {
        refusal(&folder, &fine[..length]);
    }
    for (place, byte, reason) in [
        (0, b'x', "the first bytes are others"),
        (6, 9, "version 9.0 of the format"),
        (6, 2, "expected at most 65536"),
    ] {
        let mut bytes = fine.clone();
        bytes[place] = byte;
        let message = refusal(&folder, &bytes);
        assert!(message.contains(reason), "{message}");
    }
    for (name, reason) in [
        ("too_large", "9223372036854775808 is greater"),
        ("record", "the dtype is `[("),
    ] {
        let error = Array::read_npy(golden(&format!("{name}.npy")))
            .expect_err(name)
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn damaged_archives_are_refused() {
    let folder = Folder::new("damaged");
    let file = folder.file("damaged.npz");
    let whole = fs::read(golden("compressed.npz")).expect("golden");
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).expect("written");
        assert!(read_npz(&file).is_err(), "cut at {length}");
    }
    // Whatever single byte is changed: an error or an archive, never a panic.
    let mut refused = 0;
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x55;
        fs::write(&file, bytes).expect("written");
        refused += usize::from(read_npz(&file).is_err());
    }
    assert!(
        refused > whole.len() / 2,
        "{refused} of {} were seen",
        whole.len()
    );
    // One element of an array without compression: the checksum notices.
    let mut bytes = fs::read(golden("stored.npz")).expect("golden");
    let position = bytes
        .windows(4)
        .position(|x| x == 100.0f32.to_le_bytes())
        .expect("100");
    bytes[position] ^= 1;
    fs::write(&file, bytes).expect("written");
    let error = read_npz(&file).expect_err("another checksum").to_string();
    assert!(error.contains("damaged.npz, array `weight`: "), "{error}");
    fs::write(&file, b"no zip").expect("written");
    let error = read_npz(&file).expect_err("no zip").to_string();
    assert!(error.contains("expected a zip archive"), "{error}");
    let npy = read_npz(golden("f8.npy"))
        .expect_err("no archive")
        .to_string();
    assert!(npy.contains("expected a zip archive"), "{npy}");
}

#[test]
fn what_was_there_stays_when_writing_fails() {
    let folder = Folder::new("atomic");
    let file = folder.file("x.npz");
    write_npz(&file, [("x", Array::from([1.0]))]).expect("written");
    let before = fs::read(&file).expect("read");
    let twice = [("y", Array::from(1.0)), ("y", Array::from(2.0))];
    let error = write_npz(&file, twice).expect_err("two names").to_string();
    assert!(error.contains("array `y`"), "{error}");
    assert_eq!(fs::read(&file).expect("read"), before);
    assert_eq!(fs::read_dir(&folder.0).expect("the folder").count(), 1);
    let nowhere = Array::from(1.0).write_npy(folder.file("no/such/folder.npy"));
    assert!(matches!(nowhere, Err(FileError::Io { .. })));
    assert!(Array::from(1.0).write_npy("..").is_err());
    assert!(matches!(
        Array::read_npy(&folder.0),
        Err(FileError::Io { .. })
    ));
}

#[test]
fn a_damaged_name_of_a_dtype_is_no_other_value() {
    let mut file = Cursor::new(Vec::new());
    let mut writer = NpzWriter::new(&mut file);
    writer
        .array("x", &Array::from([1.0, 2.0]))
        .expect("a new name");
    writer.finish().expect("memory");
    let mut bytes = file.into_inner();
    let read = |bytes: &[u8]| {
        NpzReader::new(Cursor::new(bytes.to_vec()))
            .expect("its list")
            .read("x")
    };
    assert!(matches!(read(&bytes), Ok(NpzValue::Array(_))));
    let dtype = bytes
        .windows(3)
        .position(|part| part == b"<f8")
        .expect("its header");
    bytes[dtype + 1] ^= 1;
    let error = read(&bytes)
        .expect_err("the checksum is another")
        .to_string();
    assert!(error.contains("array `x`"), "{error}");
}

#[test]
fn texts_are_read_and_nothing_stands_in_their_way() {
    let mut reader = NpzReader::open(golden("texts.npz")).expect("texts");
    let mut texts = Vec::new();
    let mut others = Vec::new();
    let names: Vec<String> = reader.names().map(str::to_owned).collect();
    for name in names {
        match reader.read(&name).expect(&name) {
            NpzValue::Text(text) => texts.push((name, text)),
            NpzValue::Other(what) => others.push((name, what)),
            NpzValue::Array(x) => {
                assert_eq!((&*name, x.to_vec::<i64>()), ("numbers", vec![0, 1, 2]))
            }
            other => panic!("{other:?}"),
        }
    }
    let want = [
        ("unicode", "naïve 𝄞"),
        ("bytes", "plain"),
        ("big", "größer"),
        ("none", ""),
    ];
    assert_eq!(
        texts,
        want.map(|(name, text)| (name.to_owned(), text.to_owned()))
    );
    assert_eq!(
        others[0],
        ("several".to_owned(), "the dtype is `<U1`".to_owned())
    );
    assert_eq!(
        others[1],
        ("pickled".to_owned(), "the dtype is `|O`".to_owned())
    );
    assert!(others[2].1.starts_with("the dtype is `[("), "{others:?}");
    let error = reader
        .read("nothing")
        .expect_err("no such name")
        .to_string();
    assert!(
        error.ends_with("texts.npz, array `nothing`: there is no such array"),
        "{error}"
    );
    let error = read_npz(golden("texts.npz"))
        .expect_err("a text")
        .to_string();
    assert!(
        error.contains("array `unicode`: is a text, expected b1"),
        "{error}"
    );
}

#[test]
fn texts_come_back() {
    let texts = ["", "a", "naïve 𝄞", "with \0 inside", "{'descr': '<f8'}\n"];
    let mut file = Cursor::new(Vec::new());
    let mut writer = NpzWriter::new(&mut file);
    for text in texts {
        writer.text(&format!("../{text}/.npy"), text).expect(text);
    }
    writer.finish().expect("written");
    let mut reader = NpzReader::new(file).expect("read");
    assert_eq!(reader.names().len(), texts.len());
    for text in texts {
        match reader.read(&format!("../{text}/.npy")).expect(text) {
            NpzValue::Text(found) => assert_eq!(found, text),
            other => panic!("{other:?}"),
        }
    }
    let mut file = Cursor::new(Vec::new());
    let error = NpzWriter::new(&mut file)
        .text("x", "end\0")
        .expect_err("a NUL")
        .to_string();
    assert!(
        error.starts_with("array `x`: the text ends in a NUL"),
        "{error}"
    );
}

#[test]
fn texts_that_are_none_are_refused() {
    let archive = |npy: &[u8]| {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file("x.npy", options).expect("started");
        archive.write_all(npy).expect("written");
        let mut reader = NpzReader::new(archive.finish().expect("whole")).expect("read");
        reader.read("x").map_err(|error| error.to_string())
    };
    let header =
        |dtype: &str| format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ()}}");
    for (dtype, data, reason) in [
        (
            "<U3",
            8,
            "8 bytes of data, expected 4 for each of 3 characters",
        ),
        (
            "|S9",
            8,
            "8 bytes of data, expected 1 for each of 9 characters",
        ),
        (
            "<U4611686018427387905",
            8,
            "expected 4 for each of 4611686018427387905",
        ),
    ] {
        let error = archive(&with_header(&header(dtype), data)).expect_err(dtype);
        assert!(error.contains(reason), "{error}");
    }
    for (dtype, data) in [
        ("<U1", [0, 0xd8, 0, 0]),
        ("<U1", [255; 4]),
        ("|S4", [255; 4]),
    ] {
        let mut npy = with_header(&header(dtype), 0);
        npy.extend(data);
        let error = archive(&npy).expect_err(dtype);
        assert!(error.contains("characters that are none"), "{error}");
    }
    for dtype in ["<U-1", "<U+1", "<U99999999999999999999", "<U", "<S", "é8"] {
        let value = archive(&with_header(&header(dtype), 8));
        assert!(
            matches!(value, Ok(NpzValue::Other(_) | NpzValue::Text(_))),
            "{dtype}: {value:?}"
        );
    }
}

#[test]
fn bytes_left_by_a_killed_process_do_not_stand_in_the_way() {
    let folder = Folder::new("left");
    let file = folder.file("x.txt");
    // Whatever number comes next.
    for count in 0..300 {
        let name = format!("x.txt.{}-{count}.part", std::process::id());
        fs::write(folder.file(&name), "half").expect("written");
    }
    write_whole(&file, |file| Ok(file.write_all(b"whole")?)).expect("written");
    assert_eq!(fs::read_to_string(&file).expect("read"), "whole");
}

#[test]
fn links_stay_and_what_is_no_file_is_refused() {
    let folder = Folder::new("links");
    let (file, link) = (folder.file("file.txt"), folder.file("link.txt"));
    fs::write(&file, "before").expect("written");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        write_whole(&link, |file| Ok(file.write_all(b"whole")?)).expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("read"), "whole");
        let refused = write_whole("/dev/null", |file| Ok(file.write_all(b"whole")?));
        let message = refused.expect_err("refused").to_string();
        assert!(message.contains("that is no file"), "{message}");
    }
    let inside = folder.file("folder");
    fs::create_dir(&inside).expect("created");
    assert!(write_whole(&inside, |_| Ok(())).is_err());
}
