//! The storms.

#![expect(
    clippy::zombie_processes,
    reason = "whoever returns early ends the program"
)]

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::training::{REFUSED, STEPS, command, keeping, program, snapshot, snapshots, start};
use crate::{Site, Weather};

type Storm = fn(&mut Site) -> Result<Weather, String>;

pub(crate) const STORMS: [(&str, Storm); 9] = [
    ("kills", kills),
    ("limits", limits),
    ("full_disk", full_disk),
    ("read_only", read_only),
    ("vanishing", vanishing),
    ("damage", damage),
    ("two_processes", two_processes),
    ("going_back", going_back),
    ("everything", everything),
];

/// How a process ended.
#[derive(Debug)]
enum End {
    Finished,
    Killed,
    /// It has said why it cannot go on.
    Refused(String),
}

/// Waits for a process, which must not take for ever, and must not panic.
fn end(mut child: Child, site: &Site) -> Result<End, String> {
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begin.elapsed() > 20 * site.time + Duration::from_secs(60) => {
                let _ = child.kill();
                return Err("a training hangs".to_owned());
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What a killed process has said may end within a letter.
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        said = String::from_utf8_lossy(&bytes).into_owned();
    }
    match status.code() {
        Some(0) => Ok(End::Finished),
        None => Ok(End::Killed),
        Some(REFUSED) => {
            let folder = site.folder.to_string_lossy();
            let mut errors = said.lines().filter(|line| line.starts_with("refused: "));
            match errors.find(|error| !error.contains(&*folder)) {
                Some(error) => Err(format!("an error does not name the folder: {error}")),
                None => Ok(End::Refused(said)),
            }
        }
        Some(code) => Err(format!("a training ended with {code}: {said}")),
    }
}

/// Trains to the end, undisturbed, and sees that it is the right one.
fn finish(site: &Site) -> Result<(), String> {
    match end(start(&mut command(&site.folder)), site)? {
        End::Finished => site.undisturbed.is_reached(&site.folder)?,
        other => return Err(format!("undisturbed it ended so: {other:?}")),
    }
    let entries = fs::read_dir(&site.folder).map_err(|error| error.to_string())?;
    let mut names = entries.flatten().map(|entry| entry.file_name());
    match names.find(|name| name.to_string_lossy().ends_with(".part")) {
        Some(name) => Err(format!("{} was left behind", name.display())),
        None => Ok(()),
    }
}

/// That nothing was lost that was there before.
fn no_less(site: &Site, before: Option<u64>) -> Result<Option<u64>, String> {
    let now = site.undisturbed.newest(&site.folder)?;
    match now >= before {
        true => Ok(now),
        false => Err(format!("the newest snapshot was {before:?} and is {now:?}")),
    }
}

/// Killed again and again.
fn kills(site: &mut Site) -> Result<Weather, String> {
    let mut newest = None;
    for _ in 0..site.below(8) {
        let mut child = start(&mut command(&site.folder));
        site.wait();
        let _ = child.kill();
        end(child, site)?;
        newest = no_less(site, newest)?;
    }
    finish(site)?;
    Ok(Weather::Passed)
}

/// A process whose files can be so many blocks of 512 bytes long; writing more is an error, or the
/// end of the process.
#[cfg(unix)]
fn limited(folder: &Path, blocks: usize, is_error: bool) -> Child {
    let trap = if is_error { "trap '' XFSZ;" } else { "" };
    let script = format!("{trap} ulimit -c 0; ulimit -f {blocks}; exec \"$0\" train \"$1\" 2");
    start(
        Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(program())
            .arg(folder),
    )
}

/// No file can be longer than some limit.
fn limits(site: &mut Site) -> Result<Weather, String> {
    #[cfg(not(unix))]
    return Ok(Weather::Skipped("files have no limits here".to_owned()));
    #[cfg(unix)]
    {
        let mut newest = None;
        for _ in 0..3 {
            if site.below(2) == 0 {
                let mut child = start(&mut command(&site.folder));
                site.wait();
                let _ = child.kill();
                end(child, site)?;
            }
            // Up to 33 MB: somewhere in the snapshot, the best model, or the log.
            let blocks = match site.below(3) {
                0 => site.below(8),
                _ => site.below(65_000),
            };
            let is_error = site.below(2) == 0;
            let outcome = end(limited(&site.folder, blocks, is_error), site)?;
            if is_error && matches!(outcome, End::Killed) {
                return Err(format!("a limit of {blocks} blocks has killed it"));
            }
            newest = no_less(site, newest)?;
        }
        finish(site)?;
        Ok(Weather::Passed)
    }
}

/// The program again, where it can mount: `mount` is a command of the shell to which the folder is
/// `$1`. None if nobody may do that here.
fn mounted(site: &Site, mount: &str, then: &str) -> Option<Child> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let script = format!("{mount} || exit 77; {then}");
    let run = |options: &str, script: &str| {
        let mut command = Command::new("unshare");
        command
            .arg(options)
            .args(["sh", "-c", script])
            .arg(program())
            .arg(&site.folder);
        command
    };
    fs::create_dir_all(&site.folder).ok()?;
    let is_allowed = |options: &&&str| {
        let mut command = run(options, &format!("{mount} || exit 77"));
        command.output().is_ok_and(|output| output.status.success())
    };
    let options = ["-m", "-rm"];
    let options = options.iter().find(is_allowed)?;
    Some(start(&mut run(options, &script)))
}

/// A disk on which something else takes and gives back room while it trains.
fn full_disk(site: &mut Site) -> Result<Weather, String> {
    // What happens on the disk is seen from outside only at its end; the script keeps it alive.
    let size = 45 + site.below(75);
    let ballast: Vec<String> = (0..4).map(|_| site.below(size).to_string()).collect();
    let rounds = ballast.join(" ");
    let result = site.folder.with_extension("result");
    let _ = fs::remove_dir_all(&result);
    let then = format!(
        "for ballast in {rounds}; do \
           head -c ${{ballast}}000000 /dev/zero > \"$1/ballast\" 2>/dev/null; \
           \"$0\" train \"$1\" 2; code=$?; \
           case $code in 0|{REFUSED}) ;; *) exit $code;; esac; \
           rm -f \"$1/ballast\"; \
         done; \
         mkdir '{result}' && cp -r \"$1/.\" '{result}' || exit 78; exit {REFUSED}",
        result = result.display(),
    );
    let mount = format!("mount -t tmpfs -o size={size}m none \"$1\"");
    let Some(child) = mounted(site, &mount, &then) else {
        return Ok(Weather::Skipped("nobody may mount here".to_owned()));
    };
    // All that was said on the way is there; that it names the folder is seen by `end`.
    let said = match end(child, site)? {
        End::Refused(said) => said,
        other => return Err(format!("{other:?}")),
    };
    fs::remove_dir_all(&site.folder).map_err(|error| error.to_string())?;
    fs::rename(&result, &site.folder).map_err(|error| error.to_string())?;
    let newest = site.undisturbed.newest(&site.folder)?;
    // Where there was room once for a snapshot there is one.
    let smallest = ballast
        .iter()
        .map(|size| size.parse().unwrap_or(0))
        .min()
        .unwrap_or(0);
    if newest.is_none() && size >= smallest + 50 {
        return Err(format!(
            "{size} MB, {rounds} of them taken, and no snapshot: {said}"
        ));
    }
    finish(site)?;
    Ok(Weather::Passed)
}

/// A process that may not write where it is not allowed to: root may write everywhere.
#[cfg(unix)]
fn ordinary(site: &Site) -> Result<Command, String> {
    use std::os::unix::fs::{MetadataExt, chown};
    const NOBODY: u32 = 65534;
    fs::create_dir_all(&site.folder).map_err(|error| error.to_string())?;
    let owner = fs::metadata(&site.folder)
        .map_err(|error| error.to_string())?
        .uid();
    if owner != 0 && owner != NOBODY {
        return Ok(command(&site.folder));
    }
    let entries = fs::read_dir(&site.folder).into_iter().flatten().flatten();
    for path in entries
        .map(|entry| entry.path())
        .chain([site.folder.clone()])
    {
        chown(path, Some(NOBODY), Some(NOBODY)).map_err(|error| error.to_string())?;
    }
    let as_nobody = || {
        let mut command = Command::new("setpriv");
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        command.args([&*user, &*group, "--clear-groups"]);
        command
    };
    let can_run = as_nobody().args(["test", "-x"]).arg(program()).output();
    if !can_run.is_ok_and(|output| output.status.success()) {
        return Err("this is root, and no other user can run the program".to_owned());
    }
    let mut command = as_nobody();
    command
        .arg(program())
        .arg("train")
        .arg(&site.folder)
        .arg("2");
    Ok(command)
}

/// A folder that can only be read, from the beginning or from some moment on.
fn read_only(site: &mut Site) -> Result<Weather, String> {
    #[cfg(not(unix))]
    return Ok(Weather::Skipped(
        "folders have no permissions here".to_owned(),
    ));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let folder = site.folder.clone();
        let permit = |mode| {
            let set = fs::set_permissions(&folder, fs::Permissions::from_mode(mode));
            set.map_err(|error| error.to_string())
        };
        for is_before in [false, true, false] {
            let mut command = match ordinary(site) {
                Ok(command) => command,
                Err(why) => return Ok(Weather::Skipped(why)),
            };
            if is_before {
                permit(0o555)?;
            }
            let before = snapshots(&folder);
            let child = start(&mut command);
            if !is_before {
                site.wait();
                permit(0o555)?;
            }
            let outcome = end(child, site)?;
            permit(0o755)?;
            match outcome {
                End::Refused(_) if is_before && snapshots(&folder) != before => {
                    return Err("the folder has changed".to_owned());
                }
                End::Refused(_) => {}
                End::Finished if !is_before => {}
                other => return Err(format!("in a folder that can only be read: {other:?}")),
            }
            no_less(site, before.last().copied())?;
        }
        finish(site)?;
        Ok(Weather::Passed)
    }
}

/// The folder is moved away or removed while it is trained in.
fn vanishing(site: &mut Site) -> Result<Weather, String> {
    let elsewhere = site.folder.with_extension("moved");
    let _ = fs::remove_dir_all(&elsewhere);
    let child = start(&mut command(&site.folder));
    site.wait();
    let newest = site.undisturbed.newest(&site.folder)?;
    let is_moved = fs::rename(&site.folder, &elsewhere).is_ok();
    let is_another = site.below(2) == 0;
    if is_another {
        // Somebody begins anew in its place, while the first one may still be at work.
        end(start(&mut command(&site.folder)), site)?;
    }
    let outcome = end(child, site)?;
    if let End::Killed = outcome {
        return Err("killed by a folder that has gone".to_owned());
    }
    if is_another {
        finish(site)?;
    }
    if is_moved {
        let _ = fs::remove_dir_all(&site.folder);
        fs::rename(&elsewhere, &site.folder).map_err(|error| error.to_string())?;
        no_less(site, newest)?;
    }
    finish(site)?;
    Ok(Weather::Passed)
}

/// Damages a file in one of many ways.
fn damage_file(site: &mut Site, file: &Path) -> io::Result<String> {
    let length = fs::metadata(file)?.len() as usize;
    let mut opened = OpenOptions::new().read(true).write(true).open(file)?;
    // The end has the list of what is in the file; the rest is mostly numbers.
    let place = match site.below(3) {
        0 => length.saturating_sub(1 + site.below(4000)),
        1 => site.below(4000).min(length.saturating_sub(1)),
        _ => site.below(length),
    };
    let what = match site.below(6) {
        0 => {
            let length = [0, 1, place, length.saturating_sub(1), length / 2][site.below(5)];
            opened.set_len(length as u64)?;
            format!("cut to {length}")
        }
        1 => {
            opened.seek(SeekFrom::Start(place as u64))?;
            opened.write_all(&vec![0; 4096.min(length - place)])?;
            format!("zeros from {place}")
        }
        2 => {
            opened.seek(SeekFrom::End(0))?;
            opened.write_all(&vec![b'x'; 1 + site.below(70_000)])?;
            "more at the end".to_owned()
        }
        3 => {
            let number = 90 + site.below(1000) as u64;
            fs::rename(
                file,
                file.with_file_name(format!("snapshot_{number:08}.npz")),
            )?;
            format!("called {number}")
        }
        _ => {
            let mut byte = [0];
            opened.seek(SeekFrom::Start(place as u64))?;
            opened.read_exact(&mut byte)?;
            let bit = site.below(8);
            byte[0] ^= 1 << bit;
            opened.seek(SeekFrom::Start(place as u64))?;
            opened.write_all(&byte)?;
            format!("bit {bit} of byte {place}")
        }
    };
    Ok(what)
}

/// Files are damaged between two runs.
fn damage(site: &mut Site) -> Result<Weather, String> {
    for _ in 0..3 {
        let mut child = start(&mut command(&site.folder));
        site.wait();
        let _ = child.kill();
        end(child, site)?;
        let folder = site.folder.clone();
        let mut done = Vec::new();
        for step in snapshots(&folder) {
            let file = snapshot(&folder, step);
            if site.below(2) == 0 && fs::metadata(&file).is_ok_and(|file| file.len() > 0) {
                let what = damage_file(site, &file).map_err(|error| error.to_string())?;
                done.push(format!("{step}: {what}"));
            }
        }
        for file in ["log.jsonl", "best.npz", "loss.svg", ".lock"] {
            if site.below(3) == 0 && fs::write(folder.join(file), "rubbish").is_ok() {
                done.push(format!("{file}: rubbish"));
            }
        }
        site.undisturbed
            .newest(&folder)
            .map_err(|what| format!("{what}; {}", done.join(", ")))?;
    }
    finish(site)?;
    // Nothing that was damaged is gone, or counts.
    let left = snapshots(&site.folder);
    match left.last() {
        Some(&STEPS) => Ok(Weather::Passed),
        _ => Err(format!("{left:?} are left")),
    }
}

/// Several processes want the same folder, and some of them are killed.
fn two_processes(site: &mut Site) -> Result<Weather, String> {
    let mut newest = None;
    for _ in 0..2 {
        let mut children = Vec::new();
        for _ in 0..3 {
            children.push(start(&mut command(&site.folder)));
            if site.below(2) == 0 {
                std::thread::sleep(site.time.mul_f64(0.1));
            }
        }
        if site.below(2) == 0 {
            site.wait();
            let killed = site.below(children.len());
            let _ = children[killed].kill();
        }
        let mut finished = 0;
        for child in children {
            match end(child, site)? {
                End::Finished => finished += 1,
                End::Killed => {}
                End::Refused(said) => {
                    let is_told = ["trains in this folder", "snapshots of another run"];
                    if !is_told.iter().any(|told| said.contains(told)) {
                        return Err(format!("one of several: {said}"));
                    }
                }
            }
        }
        newest = no_less(site, newest)?;
        if finished > 0 {
            site.undisturbed.is_reached(&site.folder)?;
        }
    }
    finish(site)?;
    Ok(Weather::Passed)
}

/// Goes back to older snapshots, and is killed on the way.
fn going_back(site: &mut Site) -> Result<Weather, String> {
    const KEEP: usize = 6;
    let mut child = start(&mut keeping(&site.folder, KEEP));
    site.wait();
    let _ = child.kill();
    end(child, site)?;
    for _ in 0..3 {
        let before = all_snapshots(&site.folder);
        let steps = snapshots(&site.folder);
        let Some(&step) = steps.get(site.below(steps.len())) else {
            break;
        };
        let mut child = start(keeping(&site.folder, KEEP).arg(step.to_string()));
        site.wait();
        let _ = child.kill();
        end(child, site)?;
        if site.undisturbed.newest(&site.folder)?.is_none() {
            return Err(format!("went back to {step}, and no snapshot is left"));
        }
        // What is later than where it went back to is still there as often, and what it has made
        // since comes to it.
        let after = all_snapshots(&site.folder);
        let count = |all: &[u64], step| all.iter().filter(|&&other| other == step).count();
        for &later in before.iter().filter(|&&other| other > step) {
            if count(&after, later) < count(&before, later) {
                return Err(format!("went back to {step}, and {later} is gone"));
            }
        }
    }
    finish(site)?;
    Ok(Weather::Passed)
}

/// The steps of all snapshots in a folder and in what was set aside there.
fn all_snapshots(folder: &Path) -> Vec<u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let aside = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    let aside = aside.flat_map(|path| snapshots(&path));
    snapshots(folder).into_iter().chain(aside).collect()
}

/// Some of these on one folder, one after another.
fn everything(site: &mut Site) -> Result<Weather, String> {
    for _ in 0..3 {
        let choices: [Storm; 4] = [kills, limits, damage, going_back];
        choices[site.below(choices.len())](site)?;
        // Back to somewhere in the midst, so that there is something left to do.
        for step in snapshots(&site.folder) {
            if step > 1 + site.below(STEPS as usize) as u64 {
                let _ = fs::remove_file(snapshot(&site.folder, step));
            }
        }
    }
    finish(site)?;
    Ok(Weather::Passed)
}
