//! A depot of its own for each test, and commands against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes, so that a hang ends as a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program, with no settings of the machine's user.
pub fn terahaul(home: &Path) -> Command {
    terahaul_through(home, &[])
}

/// The program, run by another.
pub fn terahaul_through(home: &Path, through: &[String]) -> Command {
    const PROGRAM: &str = env!("CARGO_BIN_EXE_terahaul");
    let mut command = match through {
        [] => Command::new(PROGRAM),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(PROGRAM);
            command
        }
    };
    at_home(&mut command, home).stdin(Stdio::null());
    command
}

/// In this folder, and with no settings but those in it.
fn at_home<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command
        .env_remove("TERAHAUL_URL")
        .env_remove("TERAHAUL_TOKEN")
        .env_remove("TERAHAUL_LOG")
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .current_dir(home)
}

/// A running depot; killed when dropped.
pub struct Depot {
    pub home: TempDir,
    pub url: String,
    pub token: String,
    pub page: String,
    pub listen: String,
    child: Child,
    /// What runs the depot (`prlimit …`), if not this test itself.
    through: Vec<String>,
    flags: Vec<String>,
}

impl Depot {
    /// Starts one on a free port.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &[], flags)
    }

    /// Starts one with its data in `home`'s folder `depot`, by the program `through` where one is given.
    pub fn start_in(home: TempDir, through: &[&str], flags: &[&str]) -> Self {
        let [through, flags]: [Vec<String>; 2] =
            [through, flags].map(|words| words.iter().map(ToString::to_string).collect());
        let (child, ready) = launch(home.path(), "127.0.0.1:0", &through, &flags);
        let text = |name: &str| ready[name].as_str().unwrap().to_owned();
        let (url, token, page, listen) = (text("url"), text("token"), text("page"), text("listen"));
        Self { home, url, token, page, listen, child, through, flags }
    }

    /// The depot's process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would, and starts it again on the same port and data.
    pub fn crash_and_restart(&mut self) {
        self.child.kill().unwrap();
        let url = self.url.clone();
        self.restart();
        assert_eq!(url, self.url, "clients' settings still hold");
    }

    /// Ends it, has something done to its data and a folder beside that, and starts it again.
    pub fn replace_data(&mut self, act: impl FnOnce(&Path, &Path)) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        act(&self.path("depot"), &self.path("kept"));
        self.restart();
    }

    /// Starts it again, when it has ended, on the same port and data.
    pub fn restart(&mut self) {
        self.child.wait().unwrap();
        let (child, ready) = launch(self.home.path(), &self.listen, &self.through, &self.flags);
        self.child = child;
        self.url = ready["url"].as_str().unwrap().to_owned();
    }

    /// Sends a signal to the depot.
    pub fn signal(&self, signal: &str) {
        send_signal(self.child.id(), signal);
    }

    pub fn wait(&mut self) -> Option<i32> {
        wait_for(&mut self.child).code()
    }

    /// A folder of the test's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A command with this depot's settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = terahaul(self.home.path());
        command.env("TERAHAUL_URL", &self.url).env("TERAHAUL_TOKEN", &self.token).args(args);
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args))
    }

    /// Sends, and returns the link.
    pub fn send(&self, args: &[&str]) -> String {
        let ran = self.run(&[&["send"], args].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.last_line().to_owned()
    }

    /// The depot's only transfer.
    pub fn only_transfer(&self) -> Value {
        let listed = self.run(&["list", "--json"]).events();
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed[0].clone()
    }

    /// Waits until the depot keeps at least `bytes` of its only transfer.
    pub fn wait_for_durable(&self, bytes: u64) {
        wait_until(&format!("{bytes} bytes are durable"), || self.keeps(bytes));
    }

    /// Whether it does by now.
    pub fn keeps(&self, bytes: u64) -> bool {
        let listed = self.run(&["list", "--json"]).events();
        let durable = listed.first().and_then(|transfer| transfer["durable_bytes"].as_u64());
        durable.is_some_and(|durable| durable >= bytes)
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(home: &Path, listen: &str, through: &[String], flags: &[String]) -> (Child, Value) {
    let mut command = terahaul_through(home, through);
    command.args(["serve", "--json", "--data", "depot", "--listen", listen]).args(flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    // Read on, so that the depot never finds its stdout closed.
    std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    (child, serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

/// A command that ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; of a process that a signal ended, the signal's number, negative.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self::of_child(child)
    }

    /// With something on stdin.
    pub fn with_input(mut command: Command, input: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Self::of_child(child)
    }

    pub fn of_child(child: Child) -> Self {
        let (ended, watched) = std::sync::mpsc::channel::<()>();
        let process = child.id();
        let watch = std::thread::spawn(move || {
            let hangs = watched.recv_timeout(4 * PATIENCE) == Err(RecvTimeoutError::Timeout);
            if hangs {
                send_signal(process, "KILL");
            }
            hangs
        });
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        drop(ended);
        assert!(!watch.join().unwrap(), "it did not end: {}", String::from_utf8_lossy(&stderr));
        Self {
            code: status.code().unwrap_or_else(|| status.signal().map_or(-1, |signal| -signal)),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    pub fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }

    /// Every line of stdout as JSON.
    pub fn events(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The events of this name.
    pub fn events_named(&self, name: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == name).collect()
    }

    /// The only event of this name.
    pub fn event(&self, name: &str) -> Value {
        let found = self.events_named(name);
        assert_eq!(found.len(), 1, "one {name} in {}", self.stdout);
        found[0].clone()
    }
}

/// Starts a command whose output is read at its end.
pub fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn send_signal(process: u32, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A shell's command line on a terminal of its own, and what is seen there.
pub struct Terminal {
    child: Child,
    output: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    pub seen: String,
}

impl Terminal {
    pub fn start(folder: &Path, line: &str) -> Self {
        let mut command = Command::new("script");
        at_home(&mut command, folder).args(["-qec", line, "/dev/null"]).env("SHELL", "/bin/sh");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (write, output) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut some = [0; 1024];
            while let Ok(len @ 1..) = stdout.read(&mut some) {
                if write.send(some[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, output, bytes: Vec::new(), seen: String::new() }
    }

    pub fn type_in(&mut self, typed: &str) {
        self.child.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
    }

    /// Looks at what comes from now on.
    pub fn forget(&mut self) {
        self.bytes.clear();
        self.seen.clear();
    }

    pub fn read_until(&mut self, awaited: &str) {
        while !self.seen.contains(awaited) {
            assert!(self.read(awaited), "it ended without '{awaited}': {:?}", self.seen);
        }
    }

    pub fn read_to_end(mut self) -> String {
        while self.read("its end") {}
        wait_for(&mut self.child);
        std::mem::take(&mut self.seen)
    }

    /// Returns whether there was more. A terminal has no end while nobody answers.
    fn read(&mut self, awaited: &str) -> bool {
        match self.output.recv_timeout(PATIENCE) {
            Ok(some) => self.bytes.extend(some),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("waited in vain for '{awaited}': {:?}", self.seen),
        }
        // A character may come in two pieces.
        self.seen = String::from_utf8_lossy(&self.bytes).into_owned();
        true
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended where the test has not failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait_for(child: &mut Child) -> std::process::ExitStatus {
    wait_for_some("the process ends", || child.try_wait().unwrap())
}

/// Looks until there is something to see. What it waits for in vain longer than anything takes is named.
pub fn wait_for_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for_some(what, || is_so().then_some(()));
}

/// Waits until it is so, which is to be before the process ends.
pub fn wait_while_it_runs(child: &mut Child, what: &str, mut is_so: impl FnMut() -> bool) {
    wait_until(what, || {
        assert!(child.try_wait().unwrap().is_none(), "it ended before {what}");
        is_so()
    });
}

/// Writes `len` bytes that no compression and no zero-block trick can shorten.
pub fn write_random(path: &Path, len: usize, seed: u64) {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().read_exact(&mut bytes).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A small tree with a bit of everything.
pub fn write_tree(root: &Path) {
    write_random(&root.join("large.bin"), 9_000_001, 1);
    write_random(&root.join("sub/exact.bin"), 4 << 20, 2);
    for number in 0..50 {
        write_random(&root.join(format!("sub/many/{number}.bin")), 1000 + number, number as u64);
    }
    std::fs::write(root.join("zero"), "").unwrap();
    std::fs::create_dir_all(root.join("empty/folder")).unwrap();
    std::os::unix::fs::symlink("sub/exact.bin", root.join("link")).unwrap();
}

/// Fails unless both folders hold the same names, kinds, contents, link targets, modes and file times.
pub fn assert_same(a: &Path, b: &Path) {
    assert_eq!(describe(a), describe(b));
}

/// Every path below `root` with what it is.
pub fn describe(root: &Path) -> Vec<(PathBuf, String)> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let what = if meta.is_symlink() {
                format!("link {:?}", std::fs::read_link(&path).unwrap())
            } else if meta.is_dir() {
                folders.push(path.clone());
                format!("folder {:o}", meta.mode())
            } else {
                let hash = blake3::hash(&std::fs::read(&path).unwrap());
                format!("file {:o} {}.{} {hash}", meta.mode(), meta.mtime(), meta.mtime_nsec())
            };
            found.push((path.strip_prefix(root).unwrap().to_owned(), what));
        }
    }
    found.sort();
    found
}
