//! States in files: bibun's own, and those of Chainer and PyTorch (`golden/*/make.py`).

use std::fs;
use std::path::{Path, PathBuf};

use bibun::array::{Array, DType, FileError, Generator, Kind, read_npz};
use bibun::functions::relu;
use bibun::links::{
    BatchNorm, Buffer, Chain, Conv2d, ConvTranspose2d, Dropout, Embedding, GroupNorm, LayerNorm,
    Linear, Link,
};
use bibun::serializers::{
    LoadOptions, Names, State, StateError, Value, load_npz, load_safetensors, load_snapshot,
    save_npz, save_safetensors, save_snapshot,
};
use bibun::{Variable, attempt, eval_mode};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(name)
}

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("bibun-serializers-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
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

/// Everything that can be in a state.
fn everything() -> State {
    let mut state = State::new();
    state.insert("trainer/epoch", u64::MAX);
    state.insert("flag", true);
    state.insert(
        "layers/0/weight",
        Array::from([[1.0f32, f32::NAN], [-0.0, 1e-40]]),
    );
    state.insert("f64", Array::from([f64::INFINITY, 5e-324, 0.1]));
    state.insert("turned", Array::arange(0, 6).reshape([2, 3]).transpose());
    state.insert("repeated", Array::full([3, 2], 7));
    state.insert("nothing", Array::zeros([0, 3], DType::F32));
    state.insert("bools", Array::from([true, false, true]));
    state.insert("title", "naïve 𝄞\n{\"quoted\"}");
    state.insert("empty", "");
    state
}

fn names(state: &State) -> Vec<&str> {
    state.iter().map(|(name, _)| name).collect()
}

#[track_caller]
fn same(found: &State, want: &State) {
    assert_eq!(found.len(), want.len());
    for (name, value) in want.iter() {
        match (found.get(name), value) {
            (Some(Value::Array(a)), Value::Array(b)) => {
                assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "{name}");
                assert_eq!(a.to_npy(), b.to_row_major().to_npy(), "{name}");
            }
            (Some(Value::Text(a)), Value::Text(b)) => assert_eq!(a, b),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(found.checksum(), want.checksum());
}

#[test]
fn states_come_back_from_every_file() {
    let folder = Folder::new("back");
    let state = everything();
    let file = folder.file("state");
    save_npz(&file, &state).expect("saved");
    let found = load_npz(&file).expect("loaded");
    same(&found, &state);
    assert_eq!(names(&found), names(&state));
    assert_eq!(
        fs::read(&file).expect("read"),
        state.to_npz().expect("bytes")
    );
    save_safetensors(&file, &state).expect("saved");
    same(&load_safetensors(&file).expect("loaded"), &state);
    let again = everything().to_safetensors().expect("bytes");
    assert_eq!(fs::read(&file).expect("read"), again);
    save_snapshot(&file, &state).expect("saved");
    let found = load_snapshot(&file).expect("loaded");
    same(&found, &state);
    assert_eq!(names(&found), names(&state));
    same(
        &State::from_snapshot(&state.to_snapshot().expect("bytes")).expect("read"),
        &state,
    );
    let whole = load_npz(&file).expect("an npz file as any other");
    assert_eq!(
        whole.text("checksum").expect("a checksum"),
        state.checksum()
    );
    assert_eq!(fs::read_dir(&folder.0).expect("the folder").count(), 1);
    let none = State::new();
    for bytes in [none.to_npz(), none.to_snapshot()] {
        assert!(State::from_npz(&bytes.expect("bytes")).is_ok());
    }
    same(
        &State::from_safetensors(&none.to_safetensors().expect("bytes")).expect("read"),
        &none,
    );
}

#[test]
fn complex_arrays_of_the_most_extreme_shapes_come_back() {
    let wide = [0, 429_496_769, 242_949, 7295];
    let deep = vec![1; 64];
    let state: State = [
        ("wide", Array::zeros(wide, DType::C64)),
        ("deep", Array::ones(deep, DType::C64)),
    ]
    .into_iter()
    .collect();
    let back = State::from_safetensors(&state.to_safetensors().expect("bytes")).expect("read");
    same(&back, &state);
    assert_eq!(back.checksum(), state.checksum());
    let back = State::from_snapshot(&state.to_snapshot().expect("bytes")).expect("read");
    same(&back, &state);
}

#[test]
fn values_that_a_file_cannot_hold_are_refused() {
    let folder = Folder::new("refused");
    let file = folder.file("state.npz");
    save_snapshot(&file, &everything()).expect("saved");
    let message = |written: Result<(), FileError>| written.expect_err("refused").to_string();
    let state: State = [("x", "ends in a NUL\0")].into_iter().collect();
    assert!(message(save_npz(&file, &state)).contains("state.npz, array `x`: the text ends"));
    let state: State = [("checksum", 1.0)].into_iter().collect();
    assert!(message(save_snapshot(&file, &state)).contains("`checksum` is the name of"));
    let state: State = [("__metadata__", 1.0)].into_iter().collect();
    assert!(message(save_safetensors(&file, &state)).contains("no array can be called"));
    let state = everything();
    save_npz(&file, &state).expect("saved");
    let error = load_snapshot(&file).expect_err("no checksum").to_string();
    assert!(
        error.ends_with("state.npz: is no snapshot: it has no checksum"),
        "{error}"
    );
    let mut state = state;
    state.insert("checksum", everything().checksum().replace('a', "b"));
    save_npz(&file, &state).expect("saved");
    let error = load_snapshot(&file)
        .expect_err("another checksum")
        .to_string();
    assert!(
        error.contains("state.npz: is damaged: the checksum is"),
        "{error}"
    );
    assert!(matches!(
        load_npz(folder.file("no")),
        Err(FileError::Io { .. })
    ));
    assert!(matches!(
        load_safetensors(folder.file("no")),
        Err(FileError::Io { .. })
    ));
}

#[test]
fn checksums_tell_everything_apart() {
    let base = everything();
    let mut others: Vec<State> = Vec::new();
    let mut change = |name: &str, value: Value| {
        let mut state = base.clone();
        state.insert(name, value);
        others.push(state);
    };
    change("flag", false.into());
    change("flag", 1u64.into());
    change("f64", Array::from([f64::INFINITY, 0.0, 0.1]).into());
    change("turned", Array::arange(0, 6).reshape([3, 2]).into());
    change("turned", Array::arange(0, 6).reshape([2, 3]).into());
    change("nothing", Array::zeros([3, 0], DType::F32).into());
    change("nothing", Array::zeros([0, 3], DType::F64).into());
    change("empty", " ".into());
    change("title", "".into());
    change("more", "".into());
    let mut fewer = base.clone();
    fewer.remove("empty");
    others.push(fewer);
    let mut sums: Vec<String> = others.iter().map(State::checksum).collect();
    sums.push(base.checksum());
    let count = sums.len();
    sums.sort();
    sums.dedup();
    assert_eq!(sums.len(), count);
    // Known once and for all, so that snapshots of today are read tomorrow.
    let state: State = [("a", Array::from([1.0f32, 2.0]))].into_iter().collect();
    assert_eq!(state.checksum(), CHECKSUM_OF_A);
    let reversed: State = {
        let mut values: Vec<_> = base.clone().into_iter().collect();
        values.reverse();
        values.into_iter().collect()
    };
    assert_eq!(reversed.checksum(), base.checksum());
}

/// By Python: `sha256(pack("<Q", 1) + b"a" + b"f" + pack("<QQff", 1, 2, 1, 2))`.
const CHECKSUM_OF_A: &str = "23cd1597f33459d21efd88f35fd54b16e60aced39eea0489957beba7832d4f46";

#[test]
fn no_damage_to_a_snapshot_goes_unnoticed() {
    let mut state = State::new();
    state.insert("w", Array::from([1.5f32, -2.0]));
    state.insert("title", "one");
    let whole = state.to_snapshot().expect("bytes");
    for length in 0..whole.len() {
        assert!(
            State::from_snapshot(&whole[..length]).is_err(),
            "cut at {length}"
        );
    }
    let mut noticed = 0;
    for place in 0..whole.len() {
        for flip in [0x01, 0x80, 0x55, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] ^= flip;
            match State::from_snapshot(&bytes) {
                Ok(found) => same(&found, &state),
                Err(_) => noticed += 1,
            }
        }
    }
    assert!(noticed > whole.len(), "{noticed}");
}

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
    dropout: Dropout,
}

impl Mlp {
    fn new(seed: u64) -> Self {
        let g = &mut Generator::new(seed);
        Self {
            l1: Linear::new(3, 5, g),
            l2: Linear::new(5, 4, g),
            l3: Linear::builder(4, 2).without_bias().build(g),
            dropout: Dropout::new(0.5, g),
        }
    }

    fn predict(&self, x: &Array) -> Vec<f32> {
        let x = Variable::constant(x.clone());
        let h = relu(self.l2.forward(&relu(self.l1.forward(&x))));
        eval_mode(|| self.l3.forward(&self.dropout.forward(&h))).to_vec()
    }
}

/// The model of `golden/chainer/make.py`, and the first part of that of `golden/torch/make.py`.
#[derive(Chain)]
struct Cnn {
    embed: Embedding,
    conv: Conv2d,
    bn: BatchNorm,
    group: GroupNorm,
    deconv: ConvTranspose2d,
    layer: LayerNorm,
}

impl Cnn {
    fn new(seed: u64) -> Self {
        let g = &mut Generator::new(seed);
        Self {
            embed: Embedding::new(7, 6, g),
            conv: Conv2d::new(1, 4, [3, 2], g),
            bn: BatchNorm::new(4),
            group: GroupNorm::new(2, 4),
            deconv: ConvTranspose2d::new(4, 1, [3, 2], g),
            layer: LayerNorm::new(6),
        }
    }

    fn forward(&self, ids: &Array) -> Variable {
        let x = self.embed.forward(&Variable::constant(ids.clone()));
        let x = x.reshape([3, 1, 5, 6]);
        let h = eval_mode(|| self.bn.forward(&self.conv.forward(&x)));
        let y = self.deconv.forward(&relu(self.group.forward(&h)));
        self.layer.forward(&y.reshape([15, 6]))
    }

    fn predict(&self, ids: &Array) -> Vec<f32> {
        self.forward(ids).to_vec()
    }
}

/// The model of `golden/torch/make.py`: its last weight is that of the embedding.
#[derive(Chain)]
struct Tied {
    embed: Embedding,
    conv: Conv2d,
    bn: BatchNorm,
    group: GroupNorm,
    deconv: ConvTranspose2d,
    layer: LayerNorm,
    dense: Linear,
    head: Linear,
}

impl Tied {
    fn new(seed: u64) -> Self {
        let cnn = Cnn::new(seed);
        let w = cnn.embed.weight.clone();
        Self {
            embed: cnn.embed,
            conv: cnn.conv,
            bn: cnn.bn,
            group: cnn.group,
            deconv: cnn.deconv,
            layer: cnn.layer,
            dense: Linear::new(6, 6, &mut Generator::new(seed)),
            head: Linear {
                weight: w,
                bias: None,
            },
        }
    }

    fn predict(&self, ids: &Array) -> Vec<f32> {
        let x = self.embed.forward(&Variable::constant(ids.clone()));
        let x = x.reshape([3, 1, 5, 6]);
        let h = eval_mode(|| self.bn.forward(&self.conv.forward(&x)));
        let y = self.deconv.forward(&relu(self.group.forward(&h)));
        let y = self.layer.forward(&y.reshape([15, 6]));
        self.head.forward(&relu(self.dense.forward(&y))).to_vec()
    }
}

#[track_caller]
fn close(found: &[f32], want: &Array) {
    let want = want.to_vec::<f32>();
    assert_eq!(found.len(), want.len());
    for (a, b) in found.iter().zip(&want) {
        assert!((a - b).abs() < 2e-5, "{found:?}, expected {want:?}");
    }
}

#[test]
fn models_of_chainer_predict_what_they_did_there() {
    let results = read_npz(golden("chainer/results.npz")).expect("results");
    let options = LoadOptions::new().names(Names::Chainer);
    let mlp = Mlp::new(1);
    let state = load_npz(golden("chainer/mlp.npz")).expect("mlp");
    let loaded = mlp.load_state_with(&state, &options).expect("fits");
    assert_eq!(
        loaded.loaded,
        ["l1/weight", "l1/bias", "l2/weight", "l2/bias", "l3/weight"]
    );
    close(&mlp.predict(&results["x"]), &results["mlp"]);

    let cnn = Cnn::new(1);
    let state = load_npz(golden("chainer/cnn.npz")).expect("cnn");
    let loaded = cnn.load_state_with(&state, &options).expect("fits");
    assert_eq!(loaded.loaded.len(), 13);
    close(&cnn.predict(&results["ids"]), &results["cnn"]);

    // What was trained there, out of a snapshot of everything.
    let state = load_npz(golden("chainer/snapshot.npz")).expect("snapshot");
    let options = options.under("updater/model:main/predictor");
    mlp.load_state_with(&state, &options).expect("fits");
    close(&mlp.predict(&results["x"]), &results["trained"]);
    assert_eq!(state.count("updater/iteration").expect("a number"), 6);
    let log = state.text("extensions/LogReport/_log").expect("a text");
    assert!(log.contains("\"epoch\": 2, \"iteration\": 6"), "{log}");
}

#[test]
fn pickled_objects_of_chainer_are_left_out() {
    let state = load_npz(golden("chainer/lazy.npz")).expect("the rest");
    let mut found = names(&state);
    found.sort();
    assert_eq!(found, ["late/b", "ready/W", "ready/b"]);
}

#[test]
fn models_of_pytorch_predict_what_they_did_there() {
    let results = read_npz(golden("torch/results.npz")).expect("results");
    let options = LoadOptions::new().names(Names::PyTorch);
    // Under all names of what is tied, and under one of them.
    for name in ["torch/model.safetensors", "torch/one_name.safetensors"] {
        let state = load_safetensors(golden(name)).expect(name);
        let model = Tied::new(1);
        let loaded = model.load_state_with(&state, &options).expect(name);
        assert_eq!(loaded.loaded.len(), 15, "{loaded:?}");
        close(&model.predict(&results["ids"]), &results["y"]);
    }
    let state = load_safetensors(golden("torch/model.safetensors")).expect("model");
    assert_eq!(state.text("format").expect("a text"), "pt");
    let mut other = state.clone();
    other.insert("head.weight", Array::zeros([7, 6], DType::F32));
    let error = Tied::new(1)
        .load_state_with(&other, &options)
        .expect_err("two weights");
    let what = "is not equal to `embed.weight`, with which it is tied";
    assert_eq!(error, StateError::wrong("head.weight", what));
    let mut last = state;
    last.remove("embed.weight");
    Tied::new(1)
        .load_state_with(&last, &options)
        .expect("one name is enough");
}

#[test]
fn every_dtype_of_safetensors_is_read() {
    let state = load_safetensors(golden("torch/dtypes.safetensors")).expect("dtypes");
    let want = [0.0, 1.0, 2.5, 100.0, 7.0, 127.0];
    for (name, dtype) in [
        ("float64", DType::F64),
        ("float32", DType::F32),
        ("float16", DType::F16),
        ("bfloat16", DType::BF16),
        ("int64", DType::I64),
        ("int32", DType::I32),
        ("int16", DType::I64),
        ("int8", DType::I64),
        ("uint8", DType::U8),
        ("bool", DType::Bool),
    ] {
        let x = state.array(name).expect(name);
        assert_eq!((x.dtype(), &x.shape()[..]), (dtype, &[2, 3][..]), "{name}");
        let want = match dtype.kind() {
            Kind::Integer => want.map(f64::floor),
            Kind::Truth => want.map(|x| f64::from(u8::from(x != 0.0))),
            Kind::Float => want,
            Kind::Complex => unreachable!("none is listed"),
        };
        assert_eq!(x.cast(DType::F64).to_vec::<f64>(), want, "{name}");
    }
    let special = state.array("special").expect("special").to_vec::<f32>();
    assert!(special[0].is_infinite() && special[1].is_sign_negative() && special[2].is_nan());
    assert!(special[3] > 0.0 && special[3] < 1.1e-40);
    assert_eq!(
        state.number("scalar").map_err(|error| error.wrong.len()),
        Err(1)
    );
    assert_eq!(state.array("scalar").expect("scalar").item::<f32>(), 2.5);
    assert_eq!(state.array("empty").expect("empty").shape()[..], [0, 3]);
    assert_eq!(state.text("title").expect("a text"), "naïve");
    assert_eq!(state.text("a").expect("a text"), "");
}

#[test]
fn models_go_to_other_libraries_and_come_back() {
    for names in [Names::Bibun, Names::Chainer, Names::PyTorch] {
        let (old, new) = (Tied::new(1), Tied::new(2));
        let state = old.state().named(names);
        new.load_state_with(&state, &LoadOptions::new().names(names))
            .expect("fits");
        assert_eq!(new.state().checksum(), old.state().checksum());
        // A Dropout's random numbers are nobody else's.
        let (old, new) = (Mlp::new(1), Mlp::new(2));
        let mut whole = State::new();
        let separator = if names == Names::PyTorch { '.' } else { '/' };
        for (name, value) in old.state().named(names) {
            whole.insert(format!("a{separator}{name}"), value);
        }
        new.load_state_with(&whole, &LoadOptions::new().names(names).under("a"))
            .expect("fits");
        let changed = new.state().checksum() != old.state().checksum();
        assert_eq!(changed, names != Names::Bibun);
        assert_eq!(new.l1.weight.to_vec::<f32>(), old.l1.weight.to_vec::<f32>());
    }
    let chainer = Tied::new(1).state().named(Names::Chainer);
    assert_eq!(chainer.count("bn/N").expect("a number"), 0);
    let torch = Tied::new(1).state().named(Names::PyTorch);
    assert_eq!(torch.count("bn.num_batches_tracked").expect("a number"), 0);
}

#[test]
fn names_of_another_library_are_recognized() {
    let state = load_safetensors(golden("torch/model.safetensors")).expect("model");
    let model = Tied::new(1);
    let error = model.load_state(&state).expect_err("other names");
    assert_eq!(error.names_of, Some(Names::PyTorch));
    let message = error.to_string();
    let hint = "the state does not fit: its names are those of PyTorch (load_state_with takes them, \
                with LoadOptions::new().names(Names::PyTorch)); ";
    assert!(message.starts_with(hint), "{message}");
    assert!(message.contains(" more are missing"), "{message}");
    assert!(
        message.len() < 800,
        "{} characters: {message}",
        message.len()
    );
    // Where names are as was said, or nobody knows them, there is nothing to hint at.
    let theirs = model.state().named(Names::Chainer);
    let error = model.load_state_with(&theirs, &LoadOptions::new().names(Names::PyTorch));
    assert_eq!(
        error.expect_err("other names").names_of,
        Some(Names::Chainer)
    );
    let mut part = model.state();
    part.remove("embed/weight");
    assert_eq!(
        model
            .load_state(&State::new())
            .expect_err("nothing")
            .names_of,
        None
    );
    part.insert("more", 1.0);
    assert_eq!(model.load_state(&part).expect_err("more").names_of, None);
}

#[test]
fn differences_are_errors_or_allowed() {
    let model = Mlp::new(1);
    let before = model.state().checksum();
    let mut state = Mlp::new(2).state().named(Names::Chainer);
    state.remove("l1/b");
    state.insert("l2/W", Array::zeros([4, 6], DType::F32));
    state.insert("l2/b", "a text");
    state.insert("more", 1.0);
    let strict = LoadOptions::new().names(Names::Chainer);
    let error = model
        .load_state_with(&state, &strict)
        .expect_err("does not fit");
    assert_eq!(error.missing, ["l1/b"]);
    assert_eq!(error.unexpected, ["more"]);
    let wrong: Vec<&str> = error.wrong.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(wrong, ["l2/W", "l2/b"]);
    let partial = strict.allow_missing().allow_unexpected();
    let error = model
        .load_state_with(&state, &partial)
        .expect_err("wrong shapes");
    assert!(error.missing.is_empty() && error.unexpected.is_empty());
    assert_eq!(error.wrong.len(), 2);
    assert!(
        model
            .load_state_with(&state, &partial.clone().under("l2"))
            .is_ok_and(|loaded| {
                loaded.loaded.is_empty()
                    && loaded.unexpected.len() == 2
                    && loaded.missing.len() == 5
            })
    );
    assert_eq!(model.state().checksum(), before, "nothing has changed");
    let loaded = model
        .load_state_with(&state, &partial.skip_wrong())
        .expect("allowed");
    assert_eq!(loaded.loaded, ["l1/weight", "l3/weight"]);
    assert_eq!(loaded.missing, ["l1/b"]);
    assert_eq!(loaded.unexpected, ["more"]);
    assert_eq!(loaded.wrong, error.wrong);
    assert_ne!(model.state().checksum(), before);
    assert_eq!(
        model.l3.weight.to_vec::<f32>(),
        Mlp::new(2).l3.weight.to_vec::<f32>()
    );

    // Floats of another width are wrong unless they shall be converted.
    let wide = Linear::builder(3, 2)
        .dtype(DType::F64)
        .build(&mut Generator::new(1));
    let narrow = Linear::new(3, 2, &mut Generator::new(2));
    assert_eq!(
        wide.load_state(&narrow.state())
            .expect_err("dtypes")
            .wrong
            .len(),
        2
    );
    let options = LoadOptions::new().convert_floats();
    wide.load_state_with(&narrow.state(), &options)
        .expect("converted");
    assert_eq!(
        wide.weight.array().cast(DType::F32).to_vec::<f32>(),
        narrow.weight.to_vec::<f32>()
    );
    let mut counts = narrow.state();
    counts.insert("b", Array::from([1, 2]));
    assert!(
        wide.load_state_with(&counts, &options).is_err(),
        "integers are no floats"
    );
}

#[test]
fn constants_and_shared_buffers_are_loaded_as_before() {
    #[derive(Chain)]
    struct Model {
        fixed: Variable,
        a: Buffer,
        b: Buffer,
    }
    let model = |fixed: f64, value: f64| {
        let a = Buffer::new(value);
        let b = a.clone();
        Model {
            fixed: Variable::constant(fixed),
            a,
            b,
        }
    };
    let (old, new) = (model(1.0, 2.0), model(1.0, 3.0));
    assert_eq!(names(&old.state()), ["fixed", "a"]);
    new.load_state(&old.state()).expect("fits");
    assert_eq!(new.b.get().item::<f64>(), 2.0);
    let mut both = old.state();
    both.insert("b", 2.0);
    new.load_state(&both).expect("the other name of the same");
    both.insert("b", 2.5);
    assert_eq!(
        new.load_state(&both).expect_err("two values").wrong[0].0,
        "b"
    );
    let error = new
        .load_state(&model(1.5, 0.0).state())
        .expect_err("another constant");
    assert!(
        error.to_string().contains("`fixed` is another constant"),
        "{error}"
    );
    assert_eq!(new.b.get().item::<f64>(), 2.0);
}

/// Files for `golden/chainer/check.py`, in the folder that `FOLDER` names.
#[test]
#[ignore = "writes files for Chainer to read"]
fn files_for_chainer() {
    let folder = PathBuf::from(std::env::var_os("FOLDER").expect("the variable FOLDER"));
    let options = LoadOptions::new().names(Names::Chainer);
    let (mlp, cnn) = (Mlp::new(1), Cnn::new(1));
    let models: [(&str, &dyn Chain); 2] = [("mlp", &mlp), ("cnn", &cnn)];
    for (name, model) in models {
        let file = format!("{name}.npz");
        let state = load_npz(golden("chainer").join(&file)).expect(name);
        model.load_state_with(&state, &options).expect(name);
        save_npz(folder.join(file), &model.state().named(Names::Chainer)).expect(name);
    }
}

/// Files for `golden/torch/check.py`, in the folder that `FOLDER` names.
#[test]
#[ignore = "writes files for PyTorch to read"]
fn files_for_torch() {
    let folder = PathBuf::from(std::env::var_os("FOLDER").expect("the variable FOLDER"));
    let state = load_safetensors(golden("torch/model.safetensors")).expect("model");
    let model = Tied::new(1);
    model
        .load_state_with(&state, &LoadOptions::new().names(Names::PyTorch))
        .expect("fits");
    let ours = model.state().named(Names::PyTorch);
    save_safetensors(folder.join("model.safetensors"), &ours).expect("saved");
    let mut texts = State::new();
    texts.insert("title", "naïve");
    texts.insert("flag", true);
    texts.insert("x", Array::from([[0.5, 1.5]]));
    texts.insert("b", "2");
    save_safetensors(folder.join("texts.safetensors"), &texts).expect("saved");
}

#[test]
fn two_values_do_not_get_one_name_of_another_library() {
    #[derive(Chain)]
    struct Both {
        weight: Variable,
        gamma: Variable,
    }
    let both = Both {
        weight: Variable::new([1.0]),
        gamma: Variable::new([2.0]),
    };
    let error = attempt(|| both.state().named(Names::PyTorch)).expect_err("`weight` twice");
    assert!(error.to_string().contains("`weight`"), "{error}");
    assert_eq!(both.state().named(Names::Chainer).len(), 2);
    let mut state = State::new();
    state.insert("weight", Array::from([3.0]));
    let options = LoadOptions::new().names(Names::PyTorch);
    assert!(both.load_state_with(&state, &options).is_err());
    assert_eq!(both.weight.item::<f64>() + both.gamma.item::<f64>(), 3.0);
}

#[test]
fn equal_names_are_refused() {
    use std::collections::BTreeMap;
    type Nested = BTreeMap<String, BTreeMap<String, Variable>>;
    let model = |first: &str, second: &str| -> Nested {
        let part = |name: &str, x: f64| [(name.to_owned(), Variable::new(x))].into();
        [
            (first.to_owned(), part("z", 1.0)),
            ("x".to_owned(), part(second, 2.0)),
        ]
        .into()
    };
    let same = model("x/y", "y/z");
    for refused in [
        bibun::attempt(|| same.state()),
        bibun::attempt(|| same.trainable_state()),
    ] {
        let message = refused.unwrap_err().to_string();
        assert!(
            message.contains("two Variables of the model are named `x/y/z`"),
            "{message}"
        );
        assert!(message.contains("serializers.rs"), "{message}");
    }
    let error = same.load_state(&State::new()).unwrap_err();
    assert_eq!(error.wrong[0].0, "x/y/z");
    assert_eq!(model("x/y", "z").state().len(), 2);
    // One Variable in several places has several names.
    let w = Variable::new(1.0);
    assert_eq!([w.clone(), w].state().len(), 1);
}
