//! Data sets in NumPy archives.

use std::path::Path;

use bibun_array::{Array, read_npz};

use super::DataError;

/// Reads the arrays with these names from a `.npz` file; their first axes must count the same
/// examples. A tuple of them is a [`Dataset`](super::Dataset).
///
/// # Errors
/// Returns an error if the file cannot be read, an array is missing, or their first axes differ.
///
/// ```
/// use bibun::array::{Array, write_npz};
/// use bibun::datasets::{DataLoader, npz};
/// # let folder = std::env::temp_dir().join(format!("bibun-npz-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("data.npz");
/// write_npz(&file, [("x", Array::from([[1.0, 2.0], [3.0, 4.0]])), ("t", Array::from([0i64, 1]))])?;
/// let [x, t] = npz(&file, ["x", "t"])?;
/// let (x, t) = DataLoader::new((x, t), 2).next_batch()?;
/// assert_eq!((x.shape(), t.shape()), (&[2, 2].into(), &[2].into()));
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn npz<const N: usize>(
    file: impl AsRef<Path>,
    names: [&str; N],
) -> Result<[Array; N], DataError> {
    let file = file.as_ref();
    let arrays = read_npz(file)?;
    let mut first: Option<(&str, usize)> = None;
    for name in names {
        let Some(array) = arrays.get(name) else {
            let there: Vec<String> = arrays.keys().map(|name| format!("`{name}`")).collect();
            let what = format!("there is no array `{name}`, only {}", there.join(", "));
            return Err(DataError::format(file, what));
        };
        let Some(&len) = array.shape().first() else {
            let what = format!("`{name}` is a single number, expected an array of examples");
            return Err(DataError::format(file, what));
        };
        match first {
            Some((other, expected)) if expected != len => {
                let what = format!("`{name}` has {len} examples, expected {expected} as `{other}`");
                return Err(DataError::format(file, what));
            }
            _ => first = Some((name, len)),
        }
    }
    Ok(names.map(|name| arrays[name].clone()))
}
