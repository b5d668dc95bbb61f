//! Programs under `mpiexec`: this test starts the example `worker` as many processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns an example, which cargo has built beside this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let folder = test.parent().and_then(Path::parent);
    folder.expect("a folder above").join("examples").join(name)
}

/// Returns the command that starts an example as some processes.
fn mpiexec(count: usize, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("mpiexec");
    let version = Command::new("mpiexec")
        .arg("--version")
        .output()
        .expect("an mpiexec");
    if String::from_utf8_lossy(&version.stdout).contains("Open") {
        command.arg("--oversubscribe");
        command.envs([
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ]);
    }
    command
        .args(["-n", &count.to_string()])
        .arg(example(name))
        .args(arguments);
    // The processes share the processors of one machine.
    command.env("RAYON_NUM_THREADS", "1");
    command
}

fn run(count: usize, arguments: &[&str]) -> Output {
    mpiexec(count, "worker", arguments)
        .output()
        .expect("it starts")
}

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn expect_success(output: &Output) -> String {
    let text = text(output);
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn collectives() {
    for count in 1..=4 {
        let said = expect_success(&run(count, &["collectives"]));
        assert_eq!(
            said.matches("all collectives are right").count(),
            count,
            "{said}"
        );
    }
}

/// The line that all processes print alike.
fn result(output: &Output) -> String {
    let said = expect_success(output);
    let mut lines: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("result "))
        .collect();
    lines.dedup();
    assert_eq!(lines.len(), 1, "{said}");
    lines[0].to_owned()
}

#[test]
fn bits_are_those_of_every_run() {
    for count in [2, 3] {
        let first = result(&run(count, &["train"]));
        assert_eq!(result(&run(count, &["train"])), first);
        assert_eq!(result(&run(count, &["train", "--sharded"])), first);
    }
}

#[test]
fn another_shape_is_named() {
    let began = Instant::now();
    let output = run(3, &["other-shape"]);
    assert!(!output.status.success());
    let said = text(&output);
    assert!(
        said.contains("all_reduce of [3] f32, called at") && said.contains("[4] f32"),
        "{said}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_process_that_hangs_is_named() {
    let began = Instant::now();
    let output = run(3, &["hang"]);
    assert!(!output.status.success());
    let said = text(&output);
    assert!(
        said.contains("for process 1 in all_reduce of [1] f64, called at"),
        "{said}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_error_of_one_ends_all() {
    let output = run(2, &["panic"]);
    assert!(!output.status.success());
    let said = text(&output);
    assert!(said.contains("process 1 has ended by an error"), "{said}");
}

#[test]
fn mpi_is_started_once() {
    let said = expect_success(&run(1, &["again"]));
    assert!(said.contains("it can be started once"), "{said}");
}

/// Returns the processes whose parent is this one, or one of those.
fn descendants(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("a Linux");
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parent_of = |process: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let pairs: Vec<(u32, u32)> = numbers
        .filter_map(|process| Some((process, parent_of(process)?)))
        .collect();
    let mut found = vec![parent];
    let mut at = 0;
    while at < found.len() {
        let children = pairs.iter().filter(|(_, parent)| *parent == found[at]);
        let children: Vec<u32> = children.map(|(process, _)| *process).collect();
        found.extend(children);
        at += 1;
    }
    found.split_off(1)
}

/// Waits for the end of a child, which must come soon.
fn wait_for_end(child: &mut Child, limit: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < limit {
        if child.try_wait().expect("a child").is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Kills random processes of a training, again and again, until it has come to its end: it must be the end
/// that it comes to undisturbed, with the same bits.
#[cfg(target_os = "linux")]
#[test]
fn a_storm_of_kills_loses_nothing() {
    let kills: usize =
        std::env::var("BIBUN_KILLS").map_or(5, |kills| kills.parse().expect("a number"));
    let folder = |name: &str| {
        let folder = std::env::temp_dir().join(format!("bibun-mpi-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    };
    let (calm, stormy) = (folder("calm"), folder("stormy"));
    let steps = (kills * 40).to_string();
    let arguments = |folder: &Path| {
        let folder = folder.to_str().expect("a path").to_owned();
        [
            "train".to_owned(),
            "--steps".to_owned(),
            steps.clone(),
            "--folder".to_owned(),
            folder,
        ]
    };
    let undisturbed = arguments(&calm);
    let undisturbed: Vec<&str> = undisturbed.iter().map(String::as_str).collect();
    let expected = result(&run(3, &undisturbed));
    let disturbed = arguments(&stormy);
    let mut disturbed: Vec<&str> = disturbed.iter().map(String::as_str).collect();
    // Slow enough to be hit.
    disturbed.extend(["--pause", "3"]);
    let mut random = 88172645463325252u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let (mut killed, mut finished, mut stuck) = (0, false, 0);
    while killed < kills && !finished {
        let mut command = mpiexec(3, "worker", &disturbed);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let name = |process: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
            name.is_ok_and(|name| name.trim() == "worker")
        };
        let workers =
            || -> Vec<u32> { descendants(child.id()).into_iter().filter(&name).collect() };
        let found = (0..200).find_map(|_| {
            thread::sleep(Duration::from_millis(50));
            Some(workers()).filter(|workers| !workers.is_empty())
        });
        let workers = found.expect("processes");
        // Most have begun to train by then; some die while they start.
        thread::sleep(Duration::from_millis(next(1200)));
        let victim = workers[next(workers.len() as u64) as usize];
        let status = Command::new("kill")
            .args(["-9", &victim.to_string()])
            .status();
        killed += usize::from(status.expect("kill").success());
        // Those that wait in the start of MPI for a process that died there give up after a minute.
        if !wait_for_end(&mut child, Duration::from_secs(90)) {
            stuck += 1;
            for process in descendants(child.id()) {
                let _ = Command::new("kill")
                    .args(["-9", &process.to_string()])
                    .status();
            }
            let _ = child.kill();
        }
        finished = child.wait().expect("a child").success();
    }
    assert_eq!(stuck, 0, "of {killed} times");
    assert!(
        killed >= kills.min(3),
        "the training was over after {killed} kills"
    );
    let (_, folder) = (disturbed.split_off(3), &stormy);
    disturbed.extend(["--folder", folder.to_str().expect("a path")]);
    assert_eq!(
        result(&run(3, &disturbed)),
        expected,
        "after {killed} kills"
    );
    println!("{killed} kills");
    for folder in [calm, stormy] {
        let _ = std::fs::remove_dir_all(folder);
    }
}

#[test]
fn examples() {
    let example = |name: &str, count: usize| {
        let output = mpiexec(count, name, &[]).output();
        expect_success(&output.expect("it starts"))
    };
    let said = example("model_parallel", 2);
    assert!(
        said.contains("tensor parallel: ") && said.contains("pipeline: "),
        "{said}"
    );
    assert!(example("model_parallel", 3).contains("takes 2 processes"));
    let alone = example("private_mpi", 1);
    let accuracy = |said: &str| -> f64 {
        said.trim()
            .rsplit_once(' ')
            .expect(said)
            .1
            .parse()
            .expect("a number")
    };
    assert!(accuracy(&alone) > 0.5, "{alone}");
    let together = example("private_mpi", 2);
    // What is counted is the batch of all.
    let spent = |said: &str| said.split([':', ',']).skip(1).take(2).collect::<String>();
    assert!(spent(&alone).contains("ε = "), "{alone}");
    assert_eq!(spent(&alone), spent(&together));
    assert!(
        (accuracy(&alone) - accuracy(&together)).abs() < 0.011,
        "{alone} {together}"
    );
}
