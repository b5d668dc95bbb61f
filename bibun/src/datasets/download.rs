//! Downloaded and verified files.
//!
//! Downloads use plain HTTP. Others on the network can see what is fetched, but nobody can change
//! it unnoticed, because a file is used only if its SHA-256 is the one written down here. A file
//! gets its name when it is complete and verified; until then it has another name, and it is
//! removed if something goes wrong.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hmac_sha256::Hash;
use ureq::Agent;

use super::{DataError, Mnist, mnist};

/// A file on the network: its address and its expected content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteFile<'a> {
    /// The address, whose last part is the name of the file.
    pub url: &'a str,
    /// The SHA-256 of its content, in lower-case hexadecimal digits.
    pub sha256: &'a str,
    /// The size in bytes.
    pub bytes: u64,
}

/// The four files of MNIST.
pub const MNIST: [RemoteFile<'static>; 4] = [
    RemoteFile {
        url: "http://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
        sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        bytes: 9_912_422,
    },
    RemoteFile {
        url: "http://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
        sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        bytes: 28_881,
    },
    RemoteFile {
        url: "http://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
        sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        bytes: 1_648_877,
    },
    RemoteFile {
        url: "http://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
        sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        bytes: 4_542,
    },
];

/// The four files of Fashion-MNIST (Xiao, Rasul, Vollgraf, 2017).
pub const FASHION_MNIST: [RemoteFile<'static>; 4] = [
    RemoteFile {
        url: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
        sha256: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        bytes: 26_421_880,
    },
    RemoteFile {
        url: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
        sha256: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        bytes: 29_515,
    },
    RemoteFile {
        url: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
        sha256: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        bytes: 4_422_102,
    },
    RemoteFile {
        url: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
        sha256: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        bytes: 5_148,
    },
];

/// Reads MNIST from a folder; missing files are downloaded into it first.
///
/// # Errors
/// Returns an error if a file is missing and cannot be downloaded (the error says how to do it by
/// hand), or cannot be used.
///
/// ```no_run
/// let mnist = bibun::datasets::download::mnist_or_download("data/mnist")?;
/// assert_eq!(mnist.train.len(), 60_000);
/// # Ok::<(), bibun::datasets::DataError>(())
/// ```
pub fn mnist_or_download(folder: impl AsRef<Path>) -> Result<Mnist, DataError> {
    read_or_download(folder.as_ref(), &MNIST)
}

/// Reads Fashion-MNIST from a folder; missing files are downloaded into it first.
///
/// # Errors
/// Returns an error as [`mnist_or_download`] does.
///
/// ```no_run
/// let fashion = bibun::datasets::download::fashion_mnist_or_download("data/fashion-mnist")?;
/// assert_eq!(fashion.train.len(), 60_000);
/// # Ok::<(), bibun::datasets::DataError>(())
/// ```
pub fn fashion_mnist_or_download(folder: impl AsRef<Path>) -> Result<Mnist, DataError> {
    read_or_download(folder.as_ref(), &FASHION_MNIST)
}

fn read_or_download(folder: &Path, sources: &[RemoteFile<'_>]) -> Result<Mnist, DataError> {
    for source in sources {
        // A file that was decompressed by hand is read too, and errors in it are reported there.
        let plain = folder.join(source.name().trim_end_matches(".gz"));
        if !plain.exists() {
            source.fetch(folder)?;
        }
    }
    Ok(mnist(folder)?)
}

impl RemoteFile<'_> {
    /// The longest time for which a server may be silent.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(self.url)
    }

    /// Downloads the file into a folder, which is created if it does not exist, and returns its
    /// path. A file that already exists with the right content is kept; any other is replaced once
    /// the right one is complete.
    ///
    /// # Errors
    /// Returns an error if there is no network, the server does not have the file or is silent for
    /// 30 seconds, or the received content is shorter, longer or other than expected.
    pub fn fetch(&self, folder: impl AsRef<Path>) -> Result<PathBuf, DataError> {
        self.fetch_within(folder, Self::PATIENCE)
    }

    /// Downloads the file as [`RemoteFile::fetch`] does, from a server that may be silent for this
    /// long.
    ///
    /// # Errors
    /// Returns an error as [`RemoteFile::fetch`] does.
    pub fn fetch_within(
        &self,
        folder: impl AsRef<Path>,
        patience: Duration,
    ) -> Result<PathBuf, DataError> {
        let folder = folder.as_ref();
        let file = folder.join(self.name());
        if self.is_at(&file) {
            return Ok(file);
        }
        fs::create_dir_all(folder).map_err(|source| DataError::io(folder, source))?;
        let part = Part::beside(&file);
        self.download(&part.0, patience)
            .map_err(|what| DataError::Download {
                url: self.url.to_owned(),
                file: file.clone(),
                sha256: self.sha256.to_owned(),
                what,
            })?;
        fs::rename(&part.0, &file).map_err(|source| DataError::io(&file, source))?;
        Ok(file)
    }

    /// Returns whether the file exists with the right content.
    fn is_at(&self, file: &Path) -> bool {
        let right_size = fs::metadata(file).is_ok_and(|found| found.len() == self.bytes);
        let checksum = || {
            let mut checksum = Hash::new();
            copy(&mut File::open(file)?, |bytes| {
                checksum.update(bytes);
                Ok(())
            })?;
            io::Result::Ok(hexadecimal(&checksum.finalize()))
        };
        right_size && checksum().is_ok_and(|found| found == self.sha256)
    }

    /// Downloads into a file, or returns a description of what went wrong.
    fn download(&self, file: &Path, patience: Duration) -> Result<(), String> {
        let mut config = Agent::config_builder()
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            .timeout_per_read(Some(patience));
        // Requests to this machine do not go through a proxy.
        if ["http://127.0.0.1", "http://localhost"]
            .iter()
            .any(|here| self.url.starts_with(here))
        {
            config = config.proxy(None);
        }
        let agent: Agent = config.build().into();
        let mut response = agent
            .get(self.url)
            .call()
            .map_err(|error| error.to_string())?;
        // One byte more than expected shows that the content is too long.
        let mut body = response
            .body_mut()
            .as_reader()
            .take(self.bytes.saturating_add(1));
        let mut out = File::create(file).map_err(|error| error.to_string())?;
        let mut checksum = Hash::new();
        let expected = self.bytes;
        let mut found = 0;
        let copied = copy(&mut body, |bytes| {
            found += bytes.len() as u64;
            checksum.update(bytes);
            out.write_all(bytes)
        });
        if let Err(error) = copied {
            return Err(format!("after {found} of {expected} bytes: {error}"));
        }
        if found < expected {
            return Err(format!(
                "the answer ended after {found} of {expected} bytes"
            ));
        }
        if found > expected {
            return Err(format!(
                "the answer goes on after {expected} bytes, where it should end"
            ));
        }
        let found = hexadecimal(&checksum.finalize());
        if found != self.sha256 {
            return Err(format!(
                "the SHA-256 of what came is {found}, expected {}",
                self.sha256
            ));
        }
        out.sync_all().map_err(|error| error.to_string())
    }
}

/// An incomplete file, which is removed unless it is completed and renamed.
struct Part(PathBuf);

impl Part {
    fn beside(file: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{}-{number}.part", std::process::id()));
        Self(name.into())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After the rename there is no file under this name.
        let _ = fs::remove_file(&self.0);
    }
}

fn copy(from: &mut impl Read, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes all");
    }
    text
}
