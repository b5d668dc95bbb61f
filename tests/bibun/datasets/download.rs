//! Downloads from a server on this machine that behaves in all the ways servers do.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bibun::datasets::DataError;
use bibun::datasets::download::{FASHION_MNIST, MNIST, RemoteFile};

use super::Scratch;

const CONTENT: &[u8] = b"abc";
/// FIPS 180-2, appendix B.1.
const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const PATIENCE: Duration = Duration::from_millis(400);

/// The address of a server that answers once.
fn serve(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/files/data.gz", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        answer(&mut stream);
    });
    url
}

fn send(stream: &mut TcpStream, head: &str, body: &[u8]) {
    // Whoever has heard enough hangs up.
    let _ = stream.write_all(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").as_bytes());
    let _ = stream.write_all(body);
}

fn source(url: &str) -> RemoteFile<'_> {
    RemoteFile {
        url,
        sha256: SHA256,
        bytes: CONTENT.len() as u64,
    }
}

#[test]
fn a_good_file_is_fetched_once() {
    let scratch = Scratch::new("download");
    let folder = scratch.0.join("new/folder");
    let url = serve(|stream| send(stream, "200 OK\r\nContent-Length: 3", CONTENT));
    let file = source(&url).fetch_within(&folder, PATIENCE).unwrap();
    assert_eq!(file, folder.join("data.gz"));
    assert_eq!(fs::read(&file).unwrap(), CONTENT);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    // The server has gone by now.
    assert_eq!(source(&url).fetch(&folder).unwrap(), file);

    // What is there and wrong is replaced, but not by nothing.
    fs::write(&file, b"abd").unwrap();
    source(&url).fetch_within(&folder, PATIENCE).unwrap_err();
    assert_eq!(fs::read(&file).unwrap(), b"abd");
    let url = serve(|stream| send(stream, "200 OK", CONTENT));
    source(&url).fetch_within(&folder, PATIENCE).unwrap();
    assert_eq!(fs::read(&file).unwrap(), CONTENT);
}

/// The message of a download that fails, after a look at what it leaves.
fn failure(name: &str, url: &str) -> String {
    let scratch = Scratch::new(name);
    let start = Instant::now();
    let error = source(url).fetch_within(&scratch.0, PATIENCE).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(matches!(error, DataError::Download { .. }), "{error}");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0, "{error}");
    let message = error.to_string();
    for part in [
        url,
        scratch.0.join("data.gz").to_str().unwrap(),
        SHA256,
        "by hand",
    ] {
        assert!(message.contains(part), "{message}");
    }
    message
}

#[test]
fn other_bytes() {
    let url = serve(|stream| send(stream, "200 OK\r\nContent-Length: 3", b"abd"));
    let message = failure("other", &url);
    let found = "the SHA-256 of what came is a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9";
    assert!(message.contains(found), "{message}");
}

#[test]
fn a_cut_connection() {
    let url = serve(|stream| send(stream, "200 OK\r\nContent-Length: 3", b"a"));
    let message = failure("cut", &url);
    assert!(message.contains("1 of 3 bytes"), "{message}");
    let url = serve(|stream| send(stream, "200 OK", b"ab"));
    let message = failure("short", &url);
    assert!(message.contains("ended after 2 of 3 bytes"), "{message}");
    let message = failure("nothing", &serve(|_| {}));
    assert!(message.contains("could not be downloaded"), "{message}");
}

#[test]
fn an_answer_without_end() {
    let url = serve(|stream| {
        send(stream, "200 OK", b"");
        while stream.write_all(&[b'a'; 1000]).is_ok() {}
    });
    let message = failure("endless", &url);
    assert!(message.contains("goes on after 3 bytes"), "{message}");
}

#[test]
fn a_server_that_falls_silent() {
    let url = serve(|stream| {
        send(stream, "200 OK\r\nContent-Length: 3", b"a");
        thread::sleep(Duration::from_secs(5));
    });
    let message = failure("silent", &url);
    assert!(message.contains("1 of 3 bytes"), "{message}");
    let message = failure("mute", &serve(|_| thread::sleep(Duration::from_secs(5))));
    assert!(message.contains("timeout"), "{message}");
}

#[test]
fn no_file_and_no_server() {
    let url = serve(|stream| send(stream, "404 Not Found\r\nContent-Length: 3", CONTENT));
    let message = failure("missing", &url);
    assert!(message.contains("404"), "{message}");

    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let message = failure("refused", &format!("http://{address}/data.gz"));
    assert!(message.contains("refused"), "{message}");
}

#[test]
fn the_known_files_have_whole_checksums() {
    for source in MNIST.iter().chain(&FASHION_MNIST) {
        assert!(
            source.sha256.len() == 64
                && source.sha256.bytes().all(|digit| digit.is_ascii_hexdigit())
        );
        assert!(source.url.starts_with("http://") && source.name().ends_with("-ubyte.gz"));
    }
}
